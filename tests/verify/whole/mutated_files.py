"""Files of every format, damaged, through the commands that read them (specs/verify.md, "Damaged files").

    python -m tests.verify.whole.mutated_files --count 10000 --state DIR      # in process, many
    python -m tests.verify.whole.mutated_files --count 500 --commands --state DIR

Case n of a seed is always the same. A command may hold, refute, refuse, be undecided or out of room; it may not fail by
a fault of ours, hang, or open a file that it was not given. What is found is kept in DIR, and the next run goes on
there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from assay.semantics.text.constants_text import section
from assay.verify.app import certificate, cli, onnx_run, showing  # noqa: F401  loaded once, before the forks
from tests.models import model, small_cnn
from tests.verify.whole.damage import NUMBERS, TEXTS, damage_bytes, damage_model, damage_text

Run: TypeAlias = Callable[[list[str]], tuple[int, str]]
ALLOWED = {0, 1, 2, 4, 5, 6}
SECONDS = 30
STARTED = 20
"""Of so many commands one is started with an interpreter of its own, the others in a child of this process."""
FORBIDDEN = ("/etc/passwd", "/etc/hostname", "outside.txt")

PLACES = ["out.npz", "", ".", "missing/out.npz", "m.py/out.npz", "é\udcff", "x" * 300, "-"]
"""Where outputs go: names of the case's own directory alone, for what is written is really written."""

PY = """
@R.function
def main(x: R.Tensor((2, "n"), "float32"), y: R.Tensor(("n", 3), "float32")) -> R.Tensor((4, 3), "float32"):
    z = R.matmul(x, y)
    w = R.nn.softmax(R.add(z, R.const([[1, 2, 3]], "float32")), axis=-1)
    return R.reshape(R.concat((w, z), axis=0), (4, 3))
"""
KERNEL = """
@T.prim_func
def double(x: T.Buffer((4, 8), "float32"), out: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi, vj] * T.float32(2) + T.Cast("float32", vi // 2)
"""
RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) -> Tensor[(2, 4), float32] {
  %0 = nn.dense(%x, %w, units=4);
  let %y = nn.relu(%0);
  if (True) { add(%y, 1f) } else { %y }
}
"""
PY_STORED = f"""{section([np.array([1, 2, 3], np.float32)])}
@R.function
def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    return R.add(x, metadata["ir.GenericConst"][0])
"""
STORED = re.findall('"ffi.Tensor", "data": "(.*)"', PY_STORED)[0]
RELAY_STORED = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {
  on_device(add(%x, meta[relay.Constant][0]), virtual_device=meta[VirtualDevice][0])
}
#[metadata]
{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": ["VirtualDevice", "relay.Constant"], "data": [2, \
5]},
 {"type_key": "Array", "data": [3]},
 {"type_key": "VirtualDevice", "attrs": {"device_type_int": "1", "virtual_device_id": "0", "target": "0", \
"memory_scope": "4"}},
 {"type_key": "runtime.String", "repr_str": ""}, {"type_key": "Array", "data": [6]},
 {"type_key": "relay.Constant", "attrs": {"data": "0"}}], "b64ndarrays": ["STORED"]}
""".replace("STORED", STORED)
CSV = "id,lower,upper,size,alignment\na,0,3,64,16\nb,1,4,128,32\nc,3,6,32,1\nd,0,6,8,4\n"

FAILURE = """{"target": "values", "kind": "wrong", "where": "exact", "culprit": "add", "detail": "[0]", "operators": \
["add"],
 "seed": 0, "number": 3, "picks": [1, 2, 0], "recipe": {"operators": ["add"], "size": 2, "switches": []}}"""
CAMPAIGN = """{"target": "values", "seed": 0, "recipe": {"operators": ["add"], "size": 2, "switches": []}, "next": 4, \
"open": [2],
 "examples": 3, "kinds": {"right": 3}, "operators": {"add": 2}, "constructs": {"if": 1}, "layers": {"exact": 3}}"""


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    f = np.float32
    yield "cnn", small_cnn()
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Resize", ["m", "", "s"], ["r"]),
        helper.make_node("TopK", ["r", "k"], ["y", "i"]),
    ]
    stored = {"w": np.ones((4, 3), f), "s": np.array([1, 2], f), "k": np.array([2])}
    yield "dense", model(nodes, {"x": (f, ["n", 4])}, {"y": (f, None), "i": (np.int64, None)}, stored)
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "one"], ["b"]), helper.make_node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []),
            helper.make_tensor_value_info("a", 1, [2])],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("b", 1, [2])],
        [helper.make_tensor("one", 1, [2], [1.0, 2.0])],
    )  # fmt: skip
    loop = [
        helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body),
        helper.make_node("If", ["go"], ["z"], then_branch=_constant(1.0), else_branch=_constant(2.0)),
    ]
    yield (
        "loop",
        model(loop, {"x": (f, [2])}, {"y": (f, [2]), "z": (f, [1])}, {"trips": np.array(3), "go": np.array(True)}),
    )


def _constant(value: float) -> onnx.GraphProto:
    node = helper.make_node("Constant", [], ["v"], value=helper.make_tensor("v", 1, [1], [value]))
    return helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("v", 1, [1])])


# --- cases ----------------------------------------------------------------------------------------------------------


class Seeds:
    """Valid files of every format, in a directory; made once, with `run`."""

    def __init__(self, directory: Path, run: Run | None = None) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.models = dict(models())
        onnx.save(
            self.models["dense"],
            directory / "external.onnx",
            save_as_external_data=True,
            location="external.data",
            size_threshold=0,
        )
        self.models["external"] = onnx.load(directory / "external.onnx", load_external_data=False)
        self.built = directory / "built"
        (directory / "m.py").write_text(PY.replace('"n"', "4"))
        code, said = (run or run_inside)(["build", str(directory / "m.py"), "-o", str(self.built)])
        assert code == 0, said
        np.savez(directory / "in.npz", x=np.ones((2, 4), np.float32), y=np.zeros((4, 3), np.float32))


@dataclass(frozen=True)
class Case:
    """A command on files that it finds in its working directory."""

    kind: str
    words: tuple[str, ...]


def make(seeds: Seeds, rng: random.Random, to: Path) -> Case:
    """The files of a case, in `to`, and the command."""
    kind = rng.choice(list(KINDS))
    return Case(kind, tuple(KINDS[kind](seeds, rng, to)))


def _onnx(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
    name = rng.choice(list(seeds.models))
    (to / "m.onnx").write_bytes(damage_model(seeds.models[name], rng))
    if name == "external":
        shutil.copy(seeds.directory / "external.data", to / "external.data")
    dims = ["--dim", "n=2"] if name in ("dense", "external") else []
    if name == "loop":  # a valid program may take two million turns; it is to end when its time is up
        dims = ["--timeout", str(SECONDS * 2 // 3)]
    return [
        *rng.choices([["run", "m.onnx", "-o", "out.npz"], ["check", "m.onnx"], ["prove", "m.onnx"]], [20, 1, 1])[0],
        *dims,
    ]


def _text(seed: str, name: str) -> Callable[[Seeds, random.Random, Path], list[str]]:
    def case(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
        (to / name).write_bytes(damage_text(seed, rng))
        return rng.choices(
            [["run", name], ["run", name, "--text"], ["check", name, "--dim", "n=2"], ["prove", name]], [10, 5, 1, 1]
        )[0]

    return case


def _npz(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
    shutil.copy(seeds.directory / "m.py", to / "m.py")
    if rng.random() < 0.5:
        (to / "in.npz").write_bytes(damage_bytes((seeds.directory / "in.npz").read_bytes(), rng))
    else:
        import zipfile

        header = io.BytesIO()
        np.save(header, np.ones((2, 4), np.float32))
        with zipfile.ZipFile(to / "in.npz", "w") as file, contextlib.suppress(UnicodeError, ValueError):
            for name in rng.sample(
                ["x.npy", "x", "y.npy", "x:bfloat16.npy", "../x.npy", "x.0.npy", "y:strings.npy", "a\0.npy", "é.npy"], 3
            ):
                file.writestr(name, damage_bytes(header.getvalue(), rng) if rng.random() < 0.6 else header.getvalue())
    return ["run", "m.py", "--inputs", "in.npz"]


def _csv(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
    (to / "b.csv").write_bytes(damage_text(CSV, rng))
    return ["plan", "b.csv", "--time-limit", "2", *rng.choice([[], ["--pools", "a=100,b"], ["--planner", "first-fit"]])]


def _certificate(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
    shutil.copytree(seeds.built, to / "d")
    files = sorted(p for p in (to / "d").rglob("*") if p.is_file())
    path = rng.choice(files)
    data = path.read_bytes()
    changed = (
        damage_text(data.decode(), rng) if path.suffix in (".json", ".smt2", ".c", ".h") else damage_bytes(data, rng)
    )
    path.write_bytes(changed)
    manifest = to / "d" / "certificate" / "manifest.json"
    if path != manifest and rng.random() < 0.9:  # as a forger would
        listed = json.loads(manifest.read_text())
        listed["files"][str(path.relative_to(to / "d"))] = hashlib.sha256(changed).hexdigest()
        manifest.write_text(json.dumps(listed, indent=1) + "\n")
    return ["verify", "d"]


def _corpus(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
    """A failure that is judged again, or how far a campaign is."""
    (to / "c").mkdir()
    files = {
        "a.json": FAILURE.encode(),
        "a.py": (seeds.directory / "m.py").read_bytes(),
        "a.npz": (seeds.directory / "in.npz").read_bytes(),
        "campaign-values.json": CAMPAIGN.encode(),
    }
    damaged = rng.choice(["a.json", "a.json", "a.py", "a.npz", "campaign-values.json"])
    for name, data in files.items():
        changed = damage_bytes(data, rng) if name.endswith(".npz") else damage_text(data.decode(), rng)
        (to / "c" / name).write_bytes(changed if name == damaged else data)
    again = ["--operators", "add", "--features", "", "--size", "2", "--examples", "0", "--jobs", "1"]
    return [
        "fuzz",
        "--backend",
        "values",
        "--corpus",
        "c",
        *(again if damaged.startswith("campaign") else ["--replay"]),
    ]


def _options(seeds: Seeds, rng: random.Random, to: Path) -> list[str]:
    (to / "m.py").write_text(PY)
    (to / "b.csv").write_text(CSV)
    number = rng.choice([n for n in NUMBERS if "\0" not in n])
    text = rng.choice([t for t in TEXTS if "\0" not in t])
    return rng.choice([
        ["run", "m.py", "--dim", f"n={number}"], ["run", "m.py", "--dim", f"{text}=2"],
            ["plan", "b.csv", "--pools", f"a={number}"],
        ["plan", "b.csv", "--pools", text], ["plan", "b.csv", "--capacity", number],
            ["plan", "b.csv", "--alignment", number],
        ["run", "m.py", "--function", text], ["run", text], ["verify", text], ["run", "m.py", "--seed", number],
            ["check", "m.py", "--on", text],
        ["prove", "m.py", "--bound", f"n={number}.."], ["check", "m.py", "--constant-pools", f"a@b={number}"],
            ["run", "m.py", "--module", text],
        ["plan", "b.csv", "--time-limit", number], ["check", "m.py", "--backend", text],
            ["run", "m.py", "--inputs", text], ["run", "m.py", "-o", rng.choice(PLACES)],
        ["fuzz", "--backend", "values", "--examples", "0", "--jobs", "1",
            rng.choice(["--seconds", "--patience", "--size"]), number],
    ])  # fmt: skip


KINDS: dict[str, Callable[[Seeds, random.Random, Path], list[str]]] = {
    "onnx": _onnx, "py": _text(PY, "m.py"), "kernel": _text(KERNEL, "k.py"), "relay": _text(RELAY, "m.relay"),
        "npz": _npz,
    "py stored": _text(PY_STORED, "m.py"), "relay stored": _text(RELAY_STORED, "m.relay"), "corpus": _corpus,
    "csv": _csv, "certificate": _certificate, "options": _options,
}  # fmt: skip


# --- running --------------------------------------------------------------------------------------------------------


class Hang(BaseException):
    """A case took too long."""


_opened: list[str] | None = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    """Keep the names of opened files; nothing outside of the directory for temporary files may be written."""
    if _opened is None or event not in ("open", "os.rename") or not isinstance(args[0], (str, bytes)):
        return
    if event == "open":
        _opened.append(os.fsdecode(args[0]))
    written = event == "os.rename" or bool(args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    path = os.path.realpath(os.fsdecode(args[1] if event == "os.rename" else args[0]))
    if written and not path.startswith((os.path.realpath(tempfile.gettempdir()) + os.sep, "/dev/")):
        raise PermissionError(f"a trial may not write {path}")


def watch() -> None:
    """From now on, and for good, files that a trial opens are known."""
    sys.addaudithook(_hook)


def run_inside(words: list[str]) -> tuple[int, str]:
    """Exit code and standard error of a command in this process; Hang after SECONDS."""
    global _opened

    def late(*_: object) -> None:
        raise Hang

    out, err = io.StringIO(), io.StringIO()
    before, argv = signal.signal(signal.SIGALRM, late), sys.argv
    sys.argv = ["assay", *words]
    code: Any = 0
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as end:
                code = end.code or 0
            except Hang:
                return -1, f"no end after {SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.argv = argv
    return int(code), err.getvalue()


def run_command(words: list[str]) -> tuple[int, str]:
    """The same in a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "assay", *words], capture_output=True, timeout=4 * SECONDS, check=False, env=env
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end after {4 * SECONDS} s"
    return done.returncode, done.stderr.decode("utf-8", "replace")


def run_forked(words: list[str]) -> tuple[int, str]:
    """The same in a child of this process: all of a command but the start of an interpreter, which is nearly all of its
    time. Nothing here may have used z3, whose threads no child has."""
    said = Path.cwd().parent / "said"
    child = get_context("fork").Process(target=_command, args=(words, said))
    child.start()
    child.join(4 * SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        return -1, f"no end after {4 * SECONDS} s"
    return child.exitcode or 0, said.read_text("utf-8", "replace")


def _command(words: list[str], said: Path) -> None:
    for number, path in ((1, os.devnull), (2, said)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))
    sys.argv = ["assay", *words]
    cli.main()


def trial(seeds: Seeds, seed: int, number: int, to: Path, run: Run = run_inside) -> tuple[Case, int, str]:
    """One case: what it was, its exit code, and what is wrong with that; "" if nothing is."""
    global _opened
    case = make(seeds, random.Random(f"{seed} {number}"), to)
    (to.parent / "outside.txt").write_text("secret")
    here = Path.cwd()
    os.chdir(to)
    _opened = []
    try:
        code, err = run(list(case.words))
        opened = [n for n in _opened if n.endswith(FORBIDDEN) and n not in case.words]
    except (ValueError, UnicodeError) as cannot:  # a word that no process can be given
        return case, 2, "" if "null" in str(cannot) or "surrogates" in str(cannot) else repr(cannot)
    finally:
        _opened = None
        os.chdir(here)
    wrong = "" if code in ALLOWED else f"exit {code}"
    if "Traceback" in err or "fault in Assay" in err or "Aborted" in err:
        wrong = wrong or "a traceback"
    if opened:
        wrong = f"opened {opened[0]}"
    if len(err) > 20_000:
        wrong = wrong or f"{len(err)} characters of error"
    return case, code, f"{wrong}: {err.strip()[-400:]}" if wrong else ""


def campaign(state: Path, count: int, seed: int, commands: bool) -> dict[str, list[int]]:
    """Go on with `count` more cases; what is wrong, by what is said, with the numbers of the cases."""
    state = state.resolve()
    state.mkdir(parents=True, exist_ok=True)
    kept = state / f"{'commands' if commands else 'inside'}-{seed}.json"
    data: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"next": 0, "codes": {}, "found": {}}
    watch()
    with tempfile.TemporaryDirectory() as place:
        seeds = Seeds(Path(place) / "seeds", run_command if commands else run_inside)
        for number in range(data["next"], data["next"] + count):
            with tempfile.TemporaryDirectory(dir=place) as folder:
                to = Path(folder) / "case"
                to.mkdir()
                run = run_inside if not commands else run_command if number % STARTED == 0 else run_forked
                case, code, wrong = trial(seeds, seed, number, to, run)
            codes = Counter(data["codes"])
            codes[f"{case.kind} {code}"] += 1
            data["codes"], data["next"] = dict(sorted(codes.items())), number + 1
            if wrong:
                key = re.sub(r"\d+", "0", wrong)[:300]
                data["found"].setdefault(key, []).append(number)
                print(f"{number} {case.kind} {[w[:60] for w in case.words]}: {wrong[:500]!r}", flush=True)
            kept.write_text(json.dumps(data, indent=1))
    return dict(data["found"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--commands", action="store_true")
    given = parser.parse_args()
    found = campaign(given.state, given.count, given.seed, given.commands)
    print(f"{len(found)} kinds of faults")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
