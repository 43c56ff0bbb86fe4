"""Programs of torch.export through commands, against what PyTorch gave for them; and what is wrong with a file.

The files were written by PyTorch 2.14; each has beside it inputs and the results of eager PyTorch. Reading and judging
them needs no PyTorch.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay as assay_api
from assay.interp.graph import run
from assay.lower.export_walk import ExportWalk
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export import parse_torch_export, plain_program, with_buffers
from assay.lower.frontends.torch_export.node import AtenNode
from assay.lower.frontends.torch_export.operators import ATEN, UNREAD, rule_of
from assay.lower.frontends.torch_export.promotion import promoted
from assay.lower.frontends.torch_export.sizes import Sizes
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import AssayError, Invalid, Trap, Unsupported
from assay.semantics.graph import AssertOp, Expr, function, let, var
from assay.semantics.module import Module
from assay.semantics.types import TensorType
from assay.verify.api.programs import archive_of
from assay.verify.backends.ours import Numpy
from assay.verify.backends.protocol import Prepared, Subject
from assay.verify.oracle import Oracle
from tests.verify.app.test_cli import assay

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(p.stem for p in PROGRAMS.glob("*.pt2"))
Change = Callable[[dict[str, Any]], None]


@pytest.mark.parametrize("name", ["mlp", "dyn", "cache", "cond", "unset"])
def test_pytorchs_results_are_right(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network with a dynamic batch, sizes that are computed, a cache that is written, a branch, memory that is not
    set but written to, or asked for its shape."""
    given = PROGRAMS / f"{name}.npz"
    code = assay(monkeypatch, "judge", PROGRAMS / f"{name}.pt2", "--recorded", given)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["scan_long", "while", "nonzero", "where", "multiple", "quantized", "views", "guards", "slices"]
)
def test_loops_and_sizes_that_a_run_finds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loops, sizes that only a run knows, whole numbers that ties decide, writes by views: values are compared."""
    with np.load(PROGRAMS / f"{name}.npz") as file:
        recorded = dict(file)
    module = parse_torch_export((PROGRAMS / f"{name}.pt2").read_bytes(), name)
    inputs = {p.name: recorded[p.name] for p in module.main.params}
    np.savez(tmp_path / "in.npz", **inputs)
    out = tmp_path / "out.npz"
    arguments = ("run", PROGRAMS / f"{name}.pt2", "--inputs", tmp_path / "in.npz", "--output", out)
    assert assay(monkeypatch, *arguments) == 0, capsys.readouterr()
    with np.load(out) as file:
        for output in module.main.attrs["outputs"]:
            np.testing.assert_allclose(file[output], recorded[output], rtol=1e-5)


def test_a_wrong_result_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planted fault: one of PyTorch's results, off by a little."""
    with np.load(PROGRAMS / "cond.npz") as file:
        recorded = dict(file)
    recorded["getitem"] = recorded["getitem"] * np.float32(1.001)
    np.savez(tmp_path / "out.npz", **recorded)
    code = assay(monkeypatch, "judge", PROGRAMS / "cond.pt2", "--recorded", tmp_path / "out.npz")
    assert code == 1 and "wrong" in capsys.readouterr().out


def test_a_program_to_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert assay(monkeypatch, "check", PROGRAMS / "cond.pt2") == 0, capsys.readouterr().out


class OriginalSeen:
    """A backend that keeps what it is given of a program of torch.export, and runs our module."""

    name = "seen"

    def __init__(self) -> None:
        self.archives: list[bytes] = []

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """As the graph interpreter."""
        self.archives.append(subject.original)
        return Numpy("numpy").prepare(subject, wanted)


@pytest.mark.parametrize("name", ["mlp", "dyn", "cond"])
def test_check_and_judge_give_a_backend_the_program_itself(name: str) -> None:
    """Not what our module would be as another program: the archive, at each choice of sizes."""
    path, check, judge = PROGRAMS / f"{name}.pt2", OriginalSeen(), OriginalSeen()
    assert assay_api.check(path, backends=[check], stop_after="import").verdicts["seen"] == "right"
    assert assay_api.judge(path, [judge], kinds="random").verdicts[0].outcome == "right"
    _, plain = plain_program(path.read_bytes())
    assert check.archives and set(check.archives) == set(judge.archives) == {plain}


def test_what_onnx_has_no_words_for_is_a_line_of_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that takes the program is asked; another one refuses it. Its assertions are taken for what ONNX has no
    word for."""

    def refused(walk: ExportWalk[Any, Any], node: AssertOp, values: Any) -> None:
        raise walk.no_word(node)

    monkeypatch.setattr(ExportWalk, "asserted", refused)
    who = OriginalSeen()
    found = assay_api.check(PROGRAMS / "nonzero.pt2", backends=[who, "reference"], stop_after="import")
    assert found.verdicts == {"seen": "right", "reference": "refused"} and all(who.archives)


def test_a_loop_is_given_no_number_that_it_would_count_for_ever() -> None:
    """Special values of whole numbers are the ends of their range: none that a loop needs 2^63 steps for."""
    found = assay_api.judge(PROGRAMS / "while.pt2", [OriginalSeen()], kinds=["specials", "large"])
    assert found.verdicts[0].outcome in ("right", "undecided", "open")


def test_another_value_for_a_buffer_reaches_the_program() -> None:
    """What --inputs gives for a buffer that is written is in the archive that PyTorch runs: with the old one, PyTorch
    would be called wrong."""
    path = PROGRAMS / "cache.pt2"
    module = parse_torch_export(path.read_bytes())
    (name, old), *_ = module.constants.items()
    given = {name: old + np.ones((), old.dtype)}
    for ask in (assay_api.judge, partial(assay_api.check, stop_after="import")):
        who = OriginalSeen()
        ask(path, backends=[who], inputs=given)
        for archive in who.archives:
            np.testing.assert_array_equal(parse_torch_export(archive).constants[name], given[name])
    with pytest.raises(Unsupported, match="0 tensors of the program") as refused:
        with_buffers(path.read_bytes(), {"nothing": old})
    assert refused.value.label == "torch_export.C7"


def test_what_is_declared_of_sizes_stands_in_the_module() -> None:
    main = parse_torch_export((PROGRAMS / "dyn.pt2").read_bytes()).main
    assert main.attrs["tir_var_upper_bound"] and main.attrs["tir_var_lower_bound"]
    (x, y) = (p.type for p in main.params)
    assert isinstance(x, TensorType) and isinstance(y, TensorType)
    assert str(y.shape[0]) == str(Sizes({}).dim("Mul(Integer(2), Symbol('s77'))")) and str(x.shape[0]) == "s77"


def test_a_plain_program_is_the_same_program() -> None:
    """What PyTorch is given of a file has no pickle, no code and no notes, and means the same."""
    for name in NAMES:
        module, plain = plain_program((PROGRAMS / f"{name}.pt2").read_bytes())
        unguarded = parse_torch_export(changed(lambda said: said.update(guards_code=[]), name))
        assert repr(parse_torch_export(plain)) == repr(unguarded)
        assert [str(p.type) for p in module.main.params] == [str(p.type) for p in unguarded.main.params]
        with zipfile.ZipFile(io.BytesIO(plain)) as file:
            assert not any("sample_inputs" in n for n in file.namelist())


# --- what is wrong ------------------------------------------------------------------------------------------------


def changed(change: Change, name: str = "cond", weights: Change | None = None) -> bytes:
    """A file whose JSON is changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(PROGRAMS / f"{name}.pt2") as old, zipfile.ZipFile(out, "w") as new:
        for n in old.namelist():
            data = old.read(n)
            if n.endswith("models/model.json") or (weights is not None and n.endswith("weights_config.json")):
                said = json.loads(data)
                (change if n.endswith("model.json") else weights or change)(said)
                data = json.dumps(said).encode()
            new.writestr(n, data)
    return out.getvalue()


def graph_of(program: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = program["graph_module"]["graph"]
    return found


def code_in_a_size(program: dict[str, Any]) -> None:
    """What PyTorch reads by running it: a file that runs a command when it is loaded."""
    said = graph_of(program)["tensor_values"]["x"]
    said["sizes"][0] = {"as_expr": {"expr_str": "__import__('os').system('true')", "hint": None}}


def another_operator(program: dict[str, Any]) -> None:
    graph_of(program)["nodes"][0]["target"] = "torch.ops.aten.rand.default"


def another_function(program: dict[str, Any]) -> None:
    """A function that reads a file of pickles."""
    graph_of(program)["nodes"][0]["target"] = "torch.load"


def another_type(program: dict[str, Any]) -> None:
    name = graph_of(program)["nodes"][0]["outputs"][0]["as_tensor"]["name"]
    graph_of(program)["tensor_values"][name]["dtype"] = 8


def complex_input(program: dict[str, Any]) -> None:
    graph_of(program)["tensor_values"]["x"]["dtype"] = 10


def no_nodes(program: dict[str, Any]) -> None:
    del graph_of(program)["nodes"]


def unknown_name(program: dict[str, Any]) -> None:
    graph_of(program)["nodes"][0]["inputs"][0]["arg"] = {"as_tensor": {"name": "nothing"}}


def other_argument(program: dict[str, Any]) -> None:
    graph_of(program)["nodes"][0]["inputs"][0]["arg"] = {"as_int": 3}


def a_root(program: dict[str, Any]) -> None:
    said = graph_of(program)["tensor_values"]["x"]
    said["sizes"][0] = {"as_expr": {"expr_str": "OpaqueUnaryFn_sqrt(Symbol('s0'))", "hint": None}}


def old_schema(program: dict[str, Any]) -> None:
    program["schema_version"] = {"major": 7, "minor": 0}


def object_argument(program: dict[str, Any]) -> None:
    graph_of(program)["nodes"][0]["inputs"][0]["arg"] = {"as_custom_obj": {"name": "o", "class_fqn": "os.system"}}


CASES = [
    (code_in_a_size, "torch_export.C1", "an expression of sizes is"),
    (no_nodes, "torch_export.C1", "nodes of a graph"),
    (unknown_name, "torch_export.C1", "nothing is used and is not defined"),
    (old_schema, "torch_export.C2", "8 is read"),
    (complex_input, "torch_export.C3", "complex64"),
    (another_operator, "torch_export.C4", "random numbers"),
    (another_function, "torch_export.C4", "torch.load is not handled"),
    (other_argument, "torch_export.C5", "a tensor is wanted"),
    (a_root, "torch_export.C6", "is not handled"),
    (object_argument, "torch_export.C7", "custom_obj"),
    (another_type, "torch_export.C8", "the program says"),
]


@pytest.mark.parametrize(("change", "label", "said"), CASES, ids=[c.__name__ for c, _, _ in CASES])
def test_what_is_wrong_is_said(
    change: Change, label: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "file.pt2"
    path.write_bytes(changed(change))
    assert assay(monkeypatch, "run", path) in (2, 5)
    found = capsys.readouterr().err
    assert label in found.replace("\n", " ") and said in " ".join(found.split()), found


@pytest.mark.parametrize("through", ["empty", "mul"])
def test_what_was_in_memory_is_no_result(through: str) -> None:
    """Nor what is computed of it; where nothing hangs on it, it is read."""

    def given_out(said: dict[str, Any]) -> None:
        said["graph_module"]["graph"]["outputs"][0]["as_tensor"]["name"] = through
        said["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = through

    with pytest.raises(Unsupported, match="a result hangs on its elements, which are whatever was in memory") as wrong:
        parse_torch_export(changed(given_out, "unset"))
    assert wrong.value.label == "torch_export.C4" and "empty" in str(wrong.value.where)


@pytest.mark.parametrize("write", ["copy__2", "fill__1", "copy__4", "fill__2"])
def test_memory_of_which_a_part_is_not_written_is_not_set(write: str) -> None:
    def left_out(said: dict[str, Any]) -> None:
        nodes = said["graph_module"]["graph"]["nodes"]
        (node,) = [n for n in nodes if n["outputs"] and n["outputs"][0].get("as_tensor", {}).get("name") == write]
        nodes.remove(node)

    with pytest.raises(Unsupported, match="as far as is known, a result hangs on its elements"):
        parse_torch_export(changed(left_out, "unset"))


def test_weights_that_are_pickles_are_not_read() -> None:
    def pickled(config: dict[str, Any]) -> None:
        for said in config["config"].values():
            said["use_pickle"] = True

    def unsaid(config: dict[str, Any]) -> None:
        for said in config["config"].values():
            said.update(use_pickle=True, tensor_meta={})

    for change in (pickled, unsaid):
        with pytest.raises(Unsupported, match="pickle") as refused:
            parse_torch_export(changed(lambda program: None, "mlp", change))
        assert refused.value.label == "torch_export.C2"


@pytest.mark.parametrize("name", ["cond", "mlp"])
def test_a_damaged_file_is_no_crash(name: str) -> None:
    """Bytes of a file changed or left out: a program, or one clear message."""
    data = (PROGRAMS / f"{name}.pt2").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            broken[at] = int(rng.integers(256))
        try:
            parse_torch_export(bytes(broken[: int(rng.integers(1, len(data) + 1))] if rng.random() < 0.2 else broken))
        except AssayError as wrong:
            assert wrong.label


def test_an_object_that_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pretender:
        graph_signature = None

        def run_decompositions(self) -> None:
            """Nothing."""

    with pytest.raises(Invalid) as wrong:
        assay_api.load(Pretender())
    assert wrong.value.label == "torch_export.C9"


def test_a_size_that_is_no_multiple_traps() -> None:
    """Of a size 2 * h each even number is one."""
    module = assay_api.load(PROGRAMS / "multiple.pt2")
    y = np.zeros(3, np.float32)
    assert assay_api.run(module, {"x": np.ones((4, 3), np.float32), "y": y})["add"].tolist() == [[2, 2, 2]] * 2
    with pytest.raises(Trap, match="axis 0 of the value is 5"):
        assay_api.run(module, {"x": np.ones((5, 3), np.float32), "y": y})


def test_what_pytorch_cannot_save_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no words for the named tuple of a topk."""

    class Saves:
        class export:
            @staticmethod
            def save(program: Any, to: Any) -> None:
                raise NotImplementedError("No registered serialization name\nfor it")

    monkeypatch.setitem(sys.modules, "torch", Saves)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match=r"No registered serialization name .*tuple\(torch.topk") as wrong:
        archive_of(object())
    assert wrong.value.label == "torch_export.C2"


def test_what_other_operators_may_stand_for_is_said() -> None:
    for name, hint in (
        ("quantile.default", True),
        ("no_such.default", True),
        ("rand.default", False),
        ("linalg_inv.default", False),
    ):
        with pytest.raises(Unsupported) as wrong:
            rule_of(f"torch.ops.aten.{name}")
        assert ("run_decompositions()" in wrong.value.message) is hint


def resized(align: bool, to: int, of: str = "float32", factor: float | None = None) -> Module:
    """Three elements resized by ATen's upsample_linear1d."""
    x, builder = var("x", TensorType((1, 1, 3), DTYPES[of])), HloBuilder()
    args = {"self": x, "output_size": [to], "align_corners": align, "scales": factor}
    body = ATEN["upsample_linear1d"](AtenNode(builder, "upsample_linear1d", "default", args))
    assert isinstance(body, Expr)
    for name, value in reversed(builder.scope.bindings):
        body = let(name, value, body)
    return Module({"main": replace(function([x], body), attrs={"outputs": ("y",)})})


def test_linear_resizing_by_hand() -> None:
    """Coordinates (i + 1/2) 3/5 - 1/2, or i/2 where the ends meet; a factor that is given counts; an axis that keeps
    its size is added to no part of itself. The planted fault is the other alignment."""
    x = np.array([[[1, 3, 2]]], np.float32)
    edges, ends = np.float32([[[1, 1.8, 3, 2.4, 2]]]), np.float32([[[1, 2, 3, 2.5, 2]]])
    for align, right, wrong in ((False, edges, ends), (True, ends, edges)):
        oracle = Oracle(resized(align, 5))
        assert oracle.judge({"x": x}, {"y": right}).outcome == "right"
        assert oracle.judge({"x": x}, {"y": wrong}).outcome == "wrong"
    by_two = np.float32([[[1, 1.5, 2.5, 2.75, 2.25]]])
    assert Oracle(resized(False, 5, factor=2.0)).judge({"x": x}, {"y": by_two}).outcome == "right"
    (same,) = run(resized(False, 3), {"x": np.array([[[1, np.inf, 2]]], np.float32)}).values()
    assert np.isnan(same[0, 0, 1]) and same[0, 0, [0, 2]].tolist() == [1, 2]  # as ATen: inf + 0 inf
    with pytest.raises(Unsupported, match="weights in float16"):
        resized(False, 5, "float16")


@pytest.mark.parametrize("train", [False, True])
def test_a_dropout_in_place_writes_nothing_in_inference(train: bool) -> None:
    def dropped(program: dict[str, Any], name: str) -> None:
        (node,) = (n for n in graph_of(program)["nodes"] if n["target"] == "torch.ops.aten.gelu.default")
        node["target"] = f"torch.ops.aten.{name}.default"
        node["inputs"] = node["inputs"][:1]
        if name == "dropout_":
            node["inputs"] += [
                {"name": "p", "arg": {"as_float": 0.5}, "kind": 1},
                {"name": "train", "arg": {"as_bool": train}, "kind": 1},
            ]

    data = changed(partial(dropped, name="dropout_"), "mlp")
    if train:
        with pytest.raises(Unsupported, match="draws random numbers"):
            parse_torch_export(data)
        return
    assert repr(parse_torch_export(data)) == repr(parse_torch_export(changed(partial(dropped, name="alias"), "mlp")))


def test_containers_that_somebody_has_told_pytorch_of_are_tuples_in_a_plain_program() -> None:
    """A process that has not imported a library does not know what its models give."""

    def told(program: dict[str, Any]) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        version, tree = json.loads(signature["out_spec"])
        tree.update(type="a.library.Output", context='["first"]')
        signature["out_spec"] = json.dumps([version, tree])

    def spec(data: bytes) -> Any:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            (name,) = (n for n in file.namelist() if n.endswith("models/model.json"))
            signature = json.loads(file.read(name))["graph_module"]["module_call_graph"][0]["signature"]
            return json.loads(signature["in_spec"]), json.loads(signature["out_spec"])

    data = changed(told, "dyn")
    _, plain = plain_program(data)
    assert spec(plain) == spec(changed(lambda program: None, "dyn")) != spec(data)


# --- tables -------------------------------------------------------------------------------------------------------


def test_an_operator_is_read_or_has_a_reason() -> None:
    """The core operators that PyTorch lists, each in one of the two tables."""
    core = (Path(__file__).parent / "core_aten.txt").read_text().split()
    reasons = {name for names in UNREAD for name in names}
    missing = [c for c in core if c not in ATEN and c not in reasons and not is_copy(c)]
    assert not missing
    assert not reasons & set(ATEN)


def is_copy(name: str) -> bool:
    try:
        rule_of(f"torch.ops.aten.{name}.default")
    except Unsupported:
        return False
    return True


def test_promotion_is_pytorchs() -> None:
    """Some of the table of torch.result_type."""

    def of(dtype: str, *shape: int) -> Expr:
        return var("x", TensorType(shape, DTYPES[dtype]))

    def typed(x: Expr) -> TensorType:
        assert isinstance(x.type, TensorType)
        return x.type

    cases: list[tuple[list[Any], str]] = [
        ([of("int32", 2), of("float16")], "float16"),
        ([of("int32", 2), of("int64")], "int32"),
        ([of("uint8", 2), of("int8", 2)], "int16"),
        ([of("float16", 2), of("bfloat16", 2)], "float32"),
        ([of("bool", 2), 3], "int64"),
        ([of("bool", 2), 3.0], "float32"),
        ([of("int8", 2), 3.0], "float32"),
        ([of("bfloat16", 2), 3.0], "bfloat16"),
        ([of("bfloat16", 2), of("float64")], "bfloat16"),
        ([of("int8", 2), of("float64")], "float64"),
        ([of("int8"), 300], "int8"),
    ]
    for operands, wanted in cases:
        assert promoted(operands, typed) is DTYPES[wanted]
