"""Models with loops through the command line: ONNX's Loop, Scan's kin of the recurrent operators, and local functions
that call themselves; and C that loops otherwise than the program does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from assay.lower.c import CSource, emit
from assay.semantics.module import Module
from tests.verify.app.test_check import failed, run
from tests.verify.app.test_cli import assay

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
COUNTED = """counted (float[3,4] x, float[3,4] w, int64 n) => (float[3,4] y, float[3,4] z) {
    yes = Constant <value: tensor = bool {1}> ()
    y, z = Loop <body: graph = body (int64 i, bool go, float[3,4] v, float[3,4] u) => (bool go_on, float[3,4] p, \
float[3,4] q) {
        go_on = Identity(go)
        p = Identity(u)
        q = Add(v, x) }> (n, yes, x, w) }"""
NESTED = """nested (float[3] x, int64 n, int64 m) => (float[3] y) {
    yes = Constant <value: tensor = bool {1}> ()
    y = Loop <body: graph = body (int64 i, bool go, float[3] v) => (bool go_on, float[3] r) {
        go_on = Identity(go)
        u = Loop <body: graph = body2 (int64 j, bool go2, float[3] a) => (bool go_on2, float[3] b) {
            go_on2 = Identity(go2)
            h = Constant <value_float: float = 0.5> ()
            c = Mul(a, h)
            b = Add(c, v) }> (m, yes, v)
        r = Add(u, x) }> (n, yes, x) }"""
UNTIL = """until (int64[rows] x) => (int64[rows] y, int64 k) {
    most = Constant <value: tensor = int64 {9223372036854775807}> ()
    yes = Constant <value: tensor = bool {1}> ()
    zero = Constant <value: tensor = int64 {0}> ()
    y, k = Loop <body: graph = body (int64 i, bool go, int64[rows] v, int64 c) => (bool go_on, int64[rows] t, int64 d) {
        two = Constant <value: tensor = int64 {2}> ()
        one = Constant <value: tensor = int64 {1}> ()
        t = Div(v, two)
        d = Add(c, one)
        all = Abs(t)
        s = ReduceSum <keepdims: int = 0> (all)
        go_on = Greater(s, zero) }> (most, yes, x, zero) }"""
ROWS = """rows (float[n,4] x) => (float[4] y) {
    s = Shape <start: int = 0, end: int = 1> (x)
    z = Constant <value_ints: ints = [0]> ()
    t = Squeeze (s, z)
    yes = Constant <value: tensor = bool {1}> ()
    f = Constant <value_floats: floats = [1.0, 2.0, 3.0, 4.0]> ()
    y = Loop <body: graph = body (int64 i, bool go, float[4] v) => (bool go_on, float[4] r) {
        go_on = Identity(go)
        row = Gather <axis: int = 0> (x, i)
        r = Add(v, row) }> (t, yes, f) }"""
RECURRENT = """recurrent (float[time,2,2] x) => (float[time,1,2,3] y, float[1,2,3] last) {
    w = ConstantOfShape <value: tensor = float {0.25}> (ws)
    r = ConstantOfShape <value: tensor = float {-0.5}> (rs)
    y, last = GRU <hidden_size: int = 3> (x, w, r) }"""

SCANNED = """scanned (float[steps,2] x, float[2] start) => (float[2] last, float[steps,2] all, float[steps,2] back) {
    last, all, back = Scan <num_scan_inputs: int = 1, scan_output_directions: ints = [0, 1],
        body: graph = body (float[2] state, float[2] row) => (float[2] next, float[2] out, float[2] other) {
            next = Add (state, row)
            out = Identity (next)
            other = Sub (next, state) }> (start, x) }"""

ALL_ROWS = """all_rows (float[steps,3] x) => (float[3] y, float[k,3] all) {
    s = Shape <start: int = 0, end: int = 1> (x)
    zero = Constant <value_ints: ints = [0]> ()
    t = Squeeze (s, zero)
    yes = Constant <value: tensor = bool {1}> ()
    start = Constant <value_floats: floats = [0.0, 1.0, 2.0]> ()
    y, all = Loop <body: graph = body (int64 i, bool go, float[3] v) => (bool go_on, float[3] r, float[3] e) {
        go_on = Identity (go)
        row = Gather <axis: int = 0> (x, i)
        r = Add(v, row)
        e = Mul(r, v) }> (t, yes, start) }"""
"""As many elements are collected as there are rows."""


def write(path: Path, text: str, **constants: list[int]) -> Path:
    proto = parser.parse_model(HEAD + text)
    for name, value in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, np.int64), name))
    onnx.save(proto, path)
    return path


def held(capsys: pytest.CaptureFixture[str]) -> str:
    """The table in one line."""
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.row("R16", "J17")
@pytest.mark.parametrize(
    ("n", "m"), [(0, 3), (4, 2), *(pytest.param(1, m, marks=pytest.mark.campaign) for m in (0, 1))]
)
def test_loops_inside_one_another_go_through(
    n: int, m: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "nested.onnx", NESTED)
    np.savez(tmp_path / "in.npz", x=np.array([1, -2, 3], np.float32), n=np.int64(n), m=np.int64(m))
    assert assay(monkeypatch, "check", path, "--inputs", tmp_path / "in.npz", "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "2 loops" in table and "every arm taken" in table, table


@pytest.mark.parametrize("text", [ROWS, UNTIL], ids=["rows", "until"])
def test_loops_over_unknown_sizes_go_through(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "model.onnx", text)
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "1 loop" in table and " = 0, 1, 2, 7" in table, table


@pytest.mark.parametrize(("text", "outputs"), [(SCANNED, 3), (ALL_ROWS, 2)], ids=["scan", "loop"])
def test_what_is_collected_has_its_place_from_the_start(
    text: str, outputs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "model.onnx", text)
    assert assay(monkeypatch, "check", path, "--bound", "steps=1..9", "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "1 loop" in table and f"{outputs} outputs inside" in table and "for all steps in 1 to 9" in table, table


def test_what_may_be_collected_less_often_has_room_for_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "model.onnx", ALL_ROWS.replace("go_on = Identity (go)", "go_on = Not (go)"))
    assert assay(monkeypatch, "check", path, "--backend", "onnxruntime") == 0
    table = held(capsys)
    assert "1 loop, 1 measured size" in table and "2 outputs" in table, table


def test_what_is_collected_without_a_greatest_count_has_room_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More may come than can be kept from the start."""
    text = ALL_ROWS.replace("go_on = Identity (go)", "go_on = Not (go)")
    text = text.replace("t = Squeeze (s, zero)", "t = Constant <value: tensor = int64 {9223372036854775807}> ()")
    assert assay(monkeypatch, "check", write(tmp_path / "model.onnx", text)) == 0
    assert "room for loop.n up to 1024" in held(capsys)


def test_what_is_built_of_a_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "gru.onnx", RECURRENT, ws=[1, 9, 2], rs=[1, 9, 3])
    assert assay(monkeypatch, "build", path, "-o", tmp_path / "built") == 0
    capsys.readouterr()
    text = (tmp_path / "built" / "gru.c").read_text()
    assert "do {" in text and "} while (status == GRU_OK && again[0] != 0u);" in text
    assert assay(monkeypatch, "verify", tmp_path / "built") == 0


@pytest.mark.parametrize("fault", ["again[0] = 1u", "again[0] = 0u"])
def test_c_that_loops_otherwise_is_seen(fault: str) -> None:
    """One that runs once, and one that never ends."""

    def faulty(module: Module, name: str) -> CSource:
        source = emit(module, name)
        assert fault in source.source
        other = fault.replace("1u", "0u") if "1u" in fault else fault.replace("0u", "1u")
        return replace(source, source=source.source.replace(fault, other))

    proto = parser.parse_model(HEAD + COUNTED)
    line = failed(run(proto, emitter=faulty, given={"n": np.int64(3)}))
    assert line.stage == "compare" and ("takes step" in line.evidence.detail or "has ended" in line.evidence.detail)
