"""A real browser for tests: Chromium without a window, told what to do over a pipe (its DevTools protocol).

with opened(tmp_path) as browser:
    browser.visit("http://127.0.0.1:8000/")
    assert browser.ask("document.title") == "Assay"
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = next((b for name in ("chromium", "chromium-browser", "google-chrome") if (b := shutil.which(name))), None)
MISSING = "no browser here: needs chromium (Debian: apt install chromium)"
PATIENCE = 120.0
"""Seconds that one thing may take; a shared machine is slow at times."""


class Chromium:
    """One page of a browser that runs. What its scripts throw, and what it was refused, is in `wrong`."""

    def __init__(self, to: int, answers: int) -> None:
        self.to, self.answers, self.kept, self.count = to, answers, b"", 0
        self.session = ""
        self.wrong: list[str] = []
        self.loaded = 0
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self.tell(f"{part}.enable")

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and wait for its answer."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self.count:
                assert "error" not in heard, (method, heard["error"])
                result: dict[str, Any] = heard["result"]
                return result

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self.kept:
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has ended"
            self.kept += more
        message, _, self.kept = self.kept.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        told = heard.get("params", {})
        if heard.get("method") == "Page.loadEventFired":
            self.loaded += 1
        elif heard.get("method") == "Runtime.exceptionThrown":
            thrown = told["exceptionDetails"]
            self.wrong.append(thrown.get("exception", {}).get("description", thrown["text"]))
        elif heard.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
            if told["entry"].get("url", "").endswith("/favicon.ico"):  # which it asks for by itself
                return heard
            self.wrong.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        return heard

    def visit(self, address: str) -> None:
        """Open an address, and wait until all of it is there."""
        for goal in ("about:blank", address):  # else another anchor of one page would load nothing
            before = self.loaded
            self.tell("Page.navigate", url=goal)
            while self.loaded == before:
                self._hear()

    def ask(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        given = self.tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in given, given["exceptionDetails"]
        return given["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.ask(script)):
            assert time.monotonic() < end, f"never came to be: {script}"
            time.sleep(0.1)
        return value

    def size(self, width: int, height: int, phone: bool = False) -> None:
        """How large the window is."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def media(self, kind: str = "", scheme: str = "light") -> None:
        """What it shows on: `print`, or a screen; and the colours that its owner likes."""
        self.tell(
            "Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def keys(self, *names: str) -> None:
        """Press keys, one after another."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for name in names:
            about = {"key": name, "code": name, "windowsVirtualKeyCode": codes.get(name, 0)}
            if len(name) == 1:
                about |= {"text": name}
            elif name == "Enter":
                about |= {"text": "\r"}
            self.tell("Input.dispatchKeyEvent", type="keyDown", **about)
            self.tell("Input.dispatchKeyEvent", type="keyUp", key=name)

    def picture(self, path: Path) -> None:
        """Write what is shown now as a PNG."""
        path.write_bytes(base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def opened(folder: Path) -> Iterator[Chromium]:
    """A browser with a profile of its own in a folder."""
    assert BROWSER is not None, MISSING
    (its_in, to), (answers, its_out) = os.pipe(), os.pipe()
    arguments = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    arguments += [f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe", "about:blank"]
    # it reads from 3 and writes to 4
    script = f'exec 3<&{its_in} 4>&{its_out}; exec "$@"'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *arguments], pass_fds=(its_in, its_out),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its_in)
    os.close(its_out)
    try:
        yield Chromium(to, answers)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to)
        os.close(answers)
