"""StableHLO programs through the commands: what JAX printed, comparisons that fail, and bytecode."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.stablehlo import parse_stablehlo
from assay.semantics.bounds import Bounded
from assay.semantics.errors import Invalid, Trap
from assay.semantics.text.module_text import show
from assay.verify.border.mlir_bytecode import MAGIC
from tests.verify.app.test_cli import assay

PROGRAMS = Path(__file__).parent / "programs"


def arrays(path: Path) -> dict[str, Any]:
    """The arrays in a file."""
    with np.load(path) as file:
        return dict(file)


# --- what JAX printed -------------------------------------------------------------------------------------------------


PRINTED = ["attention", "cnn", "embed_grad", "linalg", "linalg_singular", "mlp", "scan", "sorting"]


@pytest.mark.parametrize("name", PRINTED)
def test_a_run_gives_what_jax_gave(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = arrays(PROGRAMS / f"{name}.npz")
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, **{k: stored[k] for k in stored if k.startswith("arg")})
    assert assay(monkeypatch, "run", PROGRAMS / f"{name}.mlir", "--inputs", given, "--output", out) == 0
    found = arrays(out)
    wanted = [stored[k] for k in stored if k.startswith("o")]
    assert len(found) == len(wanted)
    for file, want in zip(found, wanted, strict=True):
        assert (found[file].dtype, found[file].shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(found[file], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("side = 76", "side = 82"),
        ("uplo = 76", "uplo = 85"),
        ("diag = 85", "diag = 78"),
        ("trans_x = 84", "trans_x = 78"),
    ],
)
def test_every_flag_of_a_routine_of_lapack_counts(old: str, new: str) -> None:
    text, stored = (PROGRAMS / "linalg.mlir").read_text(), arrays(PROGRAMS / "linalg.npz")
    assert old in text
    inputs = {k: stored[k] for k in ("arg0", "arg1")}
    with contextlib.suppress(Invalid):
        found = list(run(parse_stablehlo(text.replace(old, new)), inputs).values())
        assert not all(np.allclose(a, stored[f"o{k}"], atol=1e-6, equal_nan=True) for k, a in enumerate(found))


SHARDED = """module @jit_f attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2], device_ids=[1, 0]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}]}}
  func.func public @main(%x: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<2x3xf32>) {
    %0 = stablehlo.add %x, %x : tensor<2x3xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x", ?}]> : tensor<2x3xf32>
    %2 = "sdy.reshard"(%1) <{sharding = #sdy.sharding<@mesh, [{}, {}]>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %2 : tensor<2x3xf32>
  }
}"""
GENERIC = SHARDED.replace(
    'sdy.mesh @mesh = <["x"=2], device_ids=[1, 0]>', '"sdy.mesh"() <{sym_name = "mesh"}>'
).replace("}]}}\n", "}]}} : () -> ()\n")


@pytest.mark.parametrize("text", [SHARDED, GENERIC])
def test_where_parts_live_changes_no_element(text: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(next(iter(run(parse_stablehlo(text), {"x": x}).values())), x * 2)


def test_a_size_that_is_not_written_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, out = arrays(PROGRAMS / "mlp.npz"), tmp_path / "out.npz"
    np.savez(tmp_path / "in.npz", arg0=stored["arg0"])
    path = PROGRAMS / "mlp_dynamic.mlir"
    assert assay(monkeypatch, "run", path, "--inputs", tmp_path / "in.npz", "--output", out) == 0
    np.testing.assert_allclose(arrays(out)["output_0"], stored["o0"], rtol=1e-5)
    assert assay(monkeypatch, "run", path, "--dim", "arg0_0=0") == 1  # the assertion that JAX has written
    assert "Expected value >= 1" in capsys.readouterr().err


def test_a_backend_is_judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert assay(monkeypatch, "judge", PROGRAMS / "mlp.mlir", "--backend", "onnxruntime") == 0
    assert "onnxruntime is right on" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "cnn", "mlp_dynamic", "scan"])
def test_every_stage_of_the_lowering_is_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert assay(monkeypatch, "check", PROGRAMS / f"{name}.mlir") == 0


# --- comparisons ------------------------------------------------------------------------------------------------------


def compared(check: str, a: str, b: str, of: str = "tensor<f32>") -> str:
    """A module that compares two constants."""
    return f"""func.func @main() {{
  %a = stablehlo.constant dense<{a}> : {of}
  %b = stablehlo.constant dense<{b}> : {of}
  {check} : {of}, {of}
  return
}}"""


HOLD = [
    ("check.expect_eq %a, %b", "0.0", "-0.0"),
    ("check.expect_almost_eq %a, %b", "1.0", "1.0000999"),
    ("check.expect_almost_eq %a, %b", "0x7FC00000", "0xFFC00001"),
    ("check.expect_almost_eq %a, %b", "0x7F800000", "0x7F800000"),
    ("check.expect_almost_eq %a, %b, tolerance = 0.1", "5.0", "5.09"),
    ("check.expect_close %a, %b", "1.0", "0x3F800003"),
    ("check.expect_close %a, %b", "0x80000001", "0x00000002"),
    ("check.expect_close %a, %b", "0x7FC00000", "0x7F800001"),
    ("check.expect_close %a, %b, max_ulp_difference = 5", "1.0", "0x3F800005"),
]
FAIL = [
    ("check.expect_eq %a, %b", "1.0", "0x3F800001"),
    ("check.expect_eq %a, %b", "0x7FC00000", "0x7FC00000"),
    ("check.expect_almost_eq %a, %b", "1.0", "1.00012"),
    ("check.expect_almost_eq %a, %b", "0.00001", "-0.00001"),
    ("check.expect_almost_eq %a, %b", "0x7F800000", "3.4e38"),
    ("check.expect_almost_eq %a, %b", "0x7FC00000", "0.0"),
    ("check.expect_close %a, %b", "1.0", "0x3F800004"),
    ("check.expect_close %a, %b", "0x80000002", "0x00000002"),
    ("check.expect_close %a, %b", "0x7F800000", "0x7F7FFFFF"),
    ("check.expect_close %a, %b, min_ulp_difference = 1", "1.0", "1.0"),
]


@pytest.mark.parametrize(("check", "a", "b"), HOLD)
def test_a_comparison_holds(check: str, a: str, b: str) -> None:
    assert run(parse_stablehlo(compared(check, a, b)), {}) == {}


@pytest.mark.parametrize(("check", "a", "b"), FAIL)
def test_a_comparison_that_does_not_hold_traps(check: str, a: str, b: str) -> None:
    with pytest.raises(Trap, match=f"{check.split()[0]} does not hold in line 4"):
        run(parse_stablehlo(compared(check, a, b)), {})


def test_the_custom_calls_compare_as_well() -> None:
    text = compared("stablehlo.custom_call @check.eq(%a, %b)", "1.0", "VALUE").replace(
        ", tensor<f32>\n", ", tensor<f32>) -> tensor<i1>\n"
    )
    text = text.replace("stablehlo.custom", "%0 = stablehlo.custom").replace(") : t", ") : (t")
    assert run(parse_stablehlo(text.replace("VALUE", "1.0")), {}) == {}
    with pytest.raises(Trap):
        run(parse_stablehlo(text.replace("VALUE", "1.1")), {})


# --- conform ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A file that is as expected, one that compares nothing, and one that is not handled."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "good.mlir").write_text(compared("check.expect_eq %a, %b", "1.0", "1.0"))
    plain = "func.func @main(%n: tensor<i64>, %x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    (folder / "plain.mlir").write_text(plain)
    (folder / "complex.mlir").write_text("func.func @main(%x: tensor<complex<f32>>) { return }")
    return folder


def test_the_files_of_a_directory_are_run(
    three: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "conform", three) == 5
    told = capsys.readouterr().out
    assert "not handled  suite/complex.mlir: complex numbers: not handled [stablehlo.C4]" in told
    assert "passes 2 of 3 files: 1 meet their own comparisons, 1 compare nothing" in told
    assert assay(monkeypatch, "conform", three / "good.mlir", three / "plain.mlir") == 0
    capsys.readouterr()
    assert assay(monkeypatch, "conform", three, "--only", "nothing") == 2
    assert assay(monkeypatch, "conform", three, "--backend", "onnxruntime") == 2


def test_a_planted_fault_is_told(
    three: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (three / "bad.mlir").write_text(compared("check.expect_eq %a, %b", "1.0", "1.5"))
    report = tmp_path / "report.xml"
    assert assay(monkeypatch, "conform", three, "--json", "--junit", report) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["counts"] == {"as expected": 1, "runs": 1, "not handled": 1, "wrong": 1}
    (bad,) = [f for f in answer["files"] if f["outcome"] == "wrong"]
    assert bad["file"] == "suite/bad.mlir" and "check.expect_eq does not hold in line 4" in bad["reasons"][0]
    assert 'failures="1"' in report.read_text()


# --- numbers ----------------------------------------------------------------------------------------------------------

FREE = ("stablehlo.cbrt", "stablehlo.exponential_minus_one", "stablehlo.log_plus_one", "stablehlo.rsqrt",
        "chlo.bessel_i1e", "chlo.digamma", "chlo.erf_inv", "chlo.erfc", "chlo.lgamma")  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_a_composed_function_leaves_the_freedom_of_an_elementary_one(name: str) -> None:
    of = "tensor<3xf32>"
    types = f"{of} -> {of}" if name.startswith("chlo") else of
    text = f"func.func @main(%x: {of}) -> {of} {{ %0 = {name} %x : {types}\n return %0 : {of} }}"
    found = run(parse_stablehlo(text), {"x": np.array([0.3, 0.7, 1e-4], np.float32)}, bounds=True)["output_0"]
    assert isinstance(found, Bounded)
    steps = found.radius / np.spacing(np.abs(found.value).astype(np.float32))
    assert np.all(steps >= (2 if name == "stablehlo.rsqrt" else 4)) and np.all(np.isfinite(steps))


ROOT = 1.4616321449683622
"""Where digamma is 0."""
TRUE = {
    "erfc": [(0.3, 0.6713732405408726), (0.7, 0.3221988061625816), (-2.0, 1.9953222650189528),
             (5.0, 1.5374597944280349e-12), (26.0, 5.663192408856143e-296), (np.inf, 0.0), (-np.inf, 2.0)],
    "erf_inv": [(0.3, 0.27246271472675443), (1e-300, 8.862269254527581e-301), (-0.49, -0.46586860023505733),
                (1 - 2.0**-53, 5.863584748755167), (1.0, np.inf), (1.5, np.nan)],
    "lgamma": [(0.3, 1.0957979948180756), (1.0, 0.0), (2.0, 0.0), (-2.5, -0.056243716497674054),
               (1e200, 4.59517018598809e202), (-3.0, np.inf)],
    "digamma": [(0.3, -3.502524222200133), (ROOT, 0.0), (-2.5, 1.103156640645243), (1e200, 460.51701859880916)],
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_a_composed_function_of_float64_is_what_40_digits_give(name: str) -> None:
    of = f"tensor<{len(TRUE[name])}xf64>"
    text = f"func.func @main(%x: {of}) -> {of} {{ %0 = chlo.{name} %x : {of} -> {of}\n return %0 : {of} }}"
    x, wanted = np.array(TRUE[name]).T
    found = next(iter(run(parse_stablehlo(text), {"x": x}).values()))
    unit = np.finfo(np.float64).eps
    np.testing.assert_allclose(found, wanted, rtol=4 * unit, atol=40 * unit * name.endswith("gamma"))


def test_a_reduce_of_unknown_size_by_a_region_of_its_own() -> None:
    text = """func.func @main(%x: tensor<?xi32>) -> tensor<i32> {
  %c = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = "stablehlo.reduce"(%x, %x, %c, %c) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %p: tensor<i32>, %q: tensor<i32>):
    %s = stablehlo.subtract %a, %p : tensor<i32>
    %m = stablehlo.maximum %b, %q : tensor<i32>
    stablehlo.return %s, %m : tensor<i32>, tensor<i32>
  }) {dimensions = array<i64: 0>} : (tensor<?xi32>, tensor<?xi32>, tensor<i32>, tensor<i32>)
    -> (tensor<i32>, tensor<i32>)
  %0 = stablehlo.add %r#0, %r#1 : tensor<i32>
  return %0 : tensor<i32>
}"""
    found = run(parse_stablehlo(text), {"x": np.array([5, 2, 9], np.int32)})
    assert found["output_0"] == (1 - 5 - 2 - 9) + 9


@pytest.mark.parametrize("name", ["add", "multiply"])
@pytest.mark.parametrize("init", [0, 1, 5])
@pytest.mark.parametrize(
    ("size", "stride", "low", "high"),
    [(6, 1, 5, 0), (6, 1, 0, 5), (6, 1, 5, 5), (6, 2, 5, 0), (5, 1, 5, 0), (5, 1, 4, 0), (6, 1, 4, 1), (7, 1, 6, 0)],
)
def test_a_window_that_grows_is_a_running_sum_and_others_are_not(
    name: str, init: int, size: int, stride: int, low: int, high: int
) -> None:
    x = np.array([[2, 3, -1, 4, 1, 5], [1, 2, 3, -4, 5, 6]], np.int32)
    padded = np.pad(x, ((0, 0), (low, high)), constant_values=init)
    f = np.add if name == "add" else np.multiply
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)[:, ::stride]
    wanted = f.reduce(windows, axis=2, initial=init)
    of = f"tensor<2x{wanted.shape[1]}xi32>"
    text = f"""func.func @main(%x: tensor<2x6xi32>) -> {of} {{
  %c = stablehlo.constant dense<{init}> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 1, {size}>,
    window_strides = array<i64: 1, {stride}>, padding = dense<[[0, 0], [{low}, {high}]]> : tensor<2x2xi64>}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.{name} %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }}) : (tensor<2x6xi32>, tensor<i32>) -> {of}
  return %0 : {of}
}}"""
    module = parse_stablehlo(text)
    np.testing.assert_array_equal(next(iter(run(module, {"x": x}).values())), wanted)
    grows = size == 6 and stride == 1 and {low, high} == {0, 5} and init == (0 if name == "add" else 1)
    assert ("cumsum" in show(module) or "cumprod" in show(module)) == grows


# --- bytecode ---------------------------------------------------------------------------------------------------------


def test_bytecode_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.mlirbc"
    path.write_bytes(MAGIC + b"\r nothing")
    assert assay(monkeypatch, "run", path) == 2
    told = capsys.readouterr().err
    installed = importlib.util.find_spec("jaxlib") is not None
    assert ("jaxlib cannot read the bytecode" if installed else "install assay[jax]") in told
    assert "[stablehlo.C9]" in told


def test_bytecode_is_read_as_its_text(tmp_path: Path) -> None:
    pytest.importorskip("jaxlib")
    from jaxlib.mlir.dialects import stablehlo

    from assay.verify.app.text_run import load_text

    text = (PROGRAMS / "mlp.mlir").read_text()
    data = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())
    path = tmp_path / "made.mlirbc"
    path.write_bytes(data)
    assert show(load_text(path)) == show(parse_stablehlo(text))
