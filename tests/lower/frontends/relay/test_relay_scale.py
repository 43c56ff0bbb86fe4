"""Relay texts of any length and depth are read, in time that grows with their length (row R26)."""

from __future__ import annotations

import time

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.relay import parse_relay
from assay.semantics.module import Module
from tests.scale import FEW, MANY

pytestmark = pytest.mark.row("R26")


def chain(form: str, count: int) -> str:
    """A text of `count` additions, one on another."""
    match form:
        case "let":
            lines = [f"let %v{i + 1} = add(%v{i}, 1f);" for i in range(count)]
            return "def @main(%v0: float32) {\n" + "\n".join(lines) + f"\n%v{count}\n}}"
        case "graph":
            lines = [f"%{i + 1} = add(%{i}, 1f);" for i in range(count)]
            return "def @main(%x: float32) {\n%0 = %x;\n" + "\n".join(lines) + f"\n%{count}\n}}"
        case "nested":
            return "def @main(%x: float32) {" + "add(1f, " * count + "%x" + ")" * count + "}"
        case "binary":
            return "def @main(%x: float32) { %x" + " + 1f" * count + "}"
        case "if":
            return "def @main(%x: float32) {" + "if (True) { 1f + " * count + "%x" + "} else { %x }" * count + "}"
        case "functions":
            return "def @main(%x: float32) {" + "(fn (%y) { %y + 1f })(" * count + "%x" + ")" * count + "}"
        case _:
            return (
                "def @main(%x: float32) { cast(@sum("
                + "Cons(1, " * count
                + "Nil"
                + ")" * count
                + '), dtype="float32") + %x }'
            )


FORMS = ["let", "graph", "nested", "binary", "if", "functions", "list"]


@pytest.mark.parametrize("form", FORMS)
def test_depth_needs_no_recursion(form: str) -> None:
    count = 1200  # Python would stop at 1000
    results = run(parse_relay(chain(form, count)), {"x" if form != "let" else "v0": np.float32(1)})
    assert results["output_0"] == count + 1


def read(form: str, count: int) -> tuple[Module, float]:
    text = chain(form, count)
    start = time.process_time()
    module = parse_relay(text)
    return module, time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("form", ["let", "graph", "nested"])
def test_many_lines_are_read(form: str) -> None:
    module, _ = read(form, MANY if form == "graph" else FEW)
    assert module.main.type is not None


@pytest.mark.bench
@pytest.mark.parametrize("form", FORMS)
def test_time_grows_with_the_length(form: str) -> None:
    small, large = (min(read(form, count)[1] for _ in range(3)) for count in (1_000, 8_000))
    assert large < 8 * 3 * small
