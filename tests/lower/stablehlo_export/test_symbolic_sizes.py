"""Sizes that are symbols, in StableHLO: written as `?`, measured, asserted, read again; and what must be noticed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from assay.interp import graph
from assay.lower.frontends.stablehlo import parse_stablehlo
from assay.lower.stablehlo_export import UNSAID, export_stablehlo
from assay.lower.stablehlo_export.sizes import HloSizes
from assay.lower.stablehlo_export.use import HloUse
from assay.semantics.builder import Builder, tensor
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, INT64
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import GlobalVar, call, constant, function, if_, match_cast, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.operator import Example
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.types import ShapeType, TensorType
from assay.verify.coming_back import came_back
from tests.lower.frontends.onnx.test_onnx_export import used
from tests.lower.stablehlo_export.test_stablehlo_export import GOOD, outcome

N, M = Symbol("N"), Symbol("M")


def with_symbol(name: str, example: Example) -> Iterator[Module]:
    """An operator on its example, with a symbol for one number that sizes are, where its type rule allows it."""
    for size in sorted({d for shape, _ in example.operands for d in shape}):
        params = [
            var(f"x{k}", TensorType(tuple(N if d == size else d for d in shape), DTYPES[of]))
            for k, (shape, of) in enumerate(example.operands)
        ]
        try:
            yield Module({"main": function(params, call(name, *params, **example.attrs))})
        except Invalid:
            continue


REFUSED = {
    *UNSAID, "topk", "unique",
    *(f"nn.{pool}_pool{rank}d" for pool in ("avg", "max") for rank in (1, 2, 3)),
}  # fmt: skip
"""What is not said of some symbol: an axis that is sorted, rows, a window that is cut off at the end."""


def _all_hold(most: int) -> None:
    """So many examples of each operator, so many numbers of each."""
    for name in OPERATORS:
        for example in OPERATORS[name].examples[:most]:
            for module in islice(with_symbol(name, example), most):
                try:
                    assert outcome(module, used(OPERATORS[name], example)[1]) in GOOD, (name, example)
                except Unsupported as wrong:
                    assert name in REFUSED, (name, wrong.message)
                    assert name in UNSAID or "say sizes with --dim" in wrong.message


def test_the_first_example_of_every_operator() -> None:
    _all_hold(1)


@pytest.mark.campaign
def test_all_examples_of_every_operator() -> None:
    _all_hold(1000)


# --- programs ---------------------------------------------------------------------------------------------------------


def attention() -> Module:
    """A head of attention and a norm, of symbolic batch and length."""
    b = Builder()
    with b.function("main", x=tensor(N, M, 8), w=tensor(8, 8), g=tensor(8)) as f:
        q = b.permute_dims(b.reshape(b.matmul(f.x, f.w), shape=(N, M, 2, 4)), axes=(0, 2, 1, 3))
        p = b.nn.softmax(b.matmul(q, b.permute_dims(q, axes=(0, 1, 3, 2))), axis=-1)
        y = b.reshape(b.permute_dims(b.matmul(p, q), axes=(0, 2, 1, 3)), shape=(N, M, 8))
        b.result(b.nn.layer_norm(b.add(y, f.x), f.g, axes=(-1,)))
    return b.module()


def perceptron() -> Module:
    """Layers, the sum over a symbolic batch, and every second row from the end."""
    b = Builder()
    with b.function("main", x=tensor(N, 3), w=tensor(3, 4), c=tensor(4)) as f:
        y = b.nn.softmax(b.nn.relu(b.add(b.matmul(f.x, f.w), f.c)), axis=-1)
        ends = b.strided_slice(y, axes=(0,), begin=(-1,), end=(-(2**63),), strides=(-2,))
        b.result((b.sum(y, axis=(0,)), ends))
    return b.module()


def _one(op: str, *shapes: tuple[Dim, ...], **attrs: Any) -> Module:
    params = [var(f"x{k}", TensorType(s, FLOAT32)) for k, s in enumerate(shapes)]
    return Module({"main": function(params, call(op, *params, **attrs))})


def back_of(module: Module) -> Module:
    """A module exported and read again."""
    return parse_stablehlo(export_stablehlo(module))


@pytest.mark.parametrize("made", [attention, perceptron])
def test_a_program_comes_back_at_several_sizes(made: Callable[[], Module]) -> None:
    found = came_back(made(), back_of(made()))
    assert found.holds and found.how == "tested"
    sizes = [int(n) for n in re.findall(r"N=(\d+)", found.detail)]
    assert {0, 1, 2} <= set(sizes) and len(sizes) >= 4


@pytest.mark.parametrize("op", ["take", "gather_nd"])
def test_nothing_is_taken_from_nothing(op: str) -> None:
    """A slice of gather is one long, which does not fit into an axis of size 0. Planted: a text without room for it is
    told with the sizes; where the program itself fails is said."""
    x, i = var("x", TensorType((N, 3), FLOAT32)), var("i", TensorType((M, 1), INT64))
    module = Module({"main": function([x, i], call(op, x, i, **({"axis": 0} if op == "take" else {})))})
    found = came_back(module, back_of(module))
    assert found.holds and "N=0 M=0" in found.detail and "at N=0 M=3 the program itself gives nothing" in found.detail
    narrow = re.sub(r'= "stablehlo.pad"\(%(\d+), .*', r'= "stablehlo.optimization_barrier"(%\1) : (tensor<?x3xf32>) ->'
                    " tensor<?x3xf32>", export_stablehlo(module))  # fmt: skip
    assert "optimization_barrier" in narrow
    failed = came_back(module, parse_stablehlo(narrow))
    assert failed.holds is False and "at N=0 M=0 it fails, where the program does not" in failed.detail


def test_what_is_the_same_for_all_sizes_is_proved() -> None:
    for module in (_one("add", (N, 3), (N, 3)), _one("concat", (N, M, 2), (N, 5, 2), axis=1), _one("exp", (N, N * 2))):
        found = came_back(module, back_of(module))
        assert found.holds and found.how == "proved", found.detail


def test_a_type_that_has_no_words_is_asserted() -> None:
    """Two sizes that are one symbol, and one that is twice another."""
    module = _one("multiply", (N, N * 2), (N, 1))
    text = export_stablehlo(module)
    assert text.count("@main(%0: tensor<?x?xf32>") == 1
    assert text.count("shape_assertion") == 2 and text.count("get_dimension_size") == 3
    assert 'error_message = "axis 1 of parameter x0 has {0} elements, not {1}"' in text
    back = parse_stablehlo(text)
    fits = np.ones((2, 4), np.float32), np.ones((2, 1), np.float32)
    assert next(iter(graph.run(back, dict(zip(("x0", "x1"), fits, strict=True))).values())).shape == (2, 4)
    for shapes, said in (((2, 5), (2, 1)), "axis 1 of parameter x0 has 5 elements, not 4"), (
        ((2, 4), (1, 1)), "axis 0 of parameter x1 has 1 elements, not 2",
    ):  # fmt: skip
        with pytest.raises(Trap, match=said):
            graph.run(back, {f"x{k}": np.ones(s, np.float32) for k, s in enumerate(shapes)})


def test_sizes_are_known_in_branches_and_functions() -> None:
    """What a branch needs first is written around it, for the other one needs it too; a function has the sizes of each
    call."""
    a = var("a", TensorType((N,), FLOAT32))
    helper = function([a], call("add", call("mean", a, axis=(0,), keepdims=True), a))
    x, y, c = var("x", TensorType((N,), FLOAT32)), var("y", TensorType((M,), FLOAT32)), var("c", TensorType((), BOOL))

    def ones(n: Dim) -> Any:
        return call("full", shape=(n,), fill_value=1, dtype="float32")

    def called(v: Any) -> Any:
        return call(GlobalVar(helper.type, "helper"), v)

    chosen = if_(c, call("add", called(x), ones(N)), call("subtract", x, ones(N)))
    module = Module({"main": function([x, y, c], tuple_of(chosen, called(y), ones(N + M))), "helper": helper})
    text = export_stablehlo(module)
    assert text.count('"stablehlo.get_dimension_size"') == 2 and "func.func private" not in text
    assert text.index("get_dimension_size") < text.index('"stablehlo.if"')
    assert came_back(module, parse_stablehlo(text)).holds


def test_a_cast_is_asserted() -> None:
    x, w = var("x", TensorType((N, 2), FLOAT32)), constant(np.ones((3, 2), np.float32))
    module = Module({"main": function([x], call("add", match_cast(x, TensorType((3, 2), FLOAT32)), w))})
    text = export_stablehlo(module)
    assert '"stablehlo.convert"(%0) : (tensor<?x2xf32>) -> tensor<3x2xf32>' in text and "shape_assertion" in text
    found = came_back(module, parse_stablehlo(text))
    assert found.holds and "N=3" in found.detail


def test_tensors_without_elements_show_nothing() -> None:
    """Only sizes of 0 pass this cast, and there is nothing to compare then."""
    x = var("x", TensorType((N, 2), FLOAT32))
    y = call("nn.relu", match_cast(x, TensorType((N * 2, 2), FLOAT32)))
    module = Module({"main": function([x], y)})
    assert came_back(module, back_of(module)).holds is None


# --- faults -----------------------------------------------------------------------------------------------------------


def _other_axis(self: HloSizes, value: Any, axis: int) -> Any:
    return SIZE_OF(self, value, value.rank - 1 - axis)


def _one_more(self: HloSizes, sizes: Any) -> Any:
    return VECTOR(self, [d if isinstance(d, int) else d + 1 for d in sizes])


def _rounded_up(self: HloSizes, d: Dim) -> Any:
    """2 * (n // 2) of a number of elements."""
    return SCALAR(self, d if isinstance(d, int) else d // 2 * 2)


def _other_way(self: HloSizes, a: Dim, b: Dim, message: str) -> None:
    HOLDS(self, a, b + 1, message)


SIZE_OF, VECTOR, SCALAR, HOLDS = HloSizes._size_of, HloSizes.vector, HloSizes.scalar, HloSizes.holds


def _mean() -> Module:
    return _one("mean", (N, 3), axis=(0,))


@pytest.mark.parametrize(
    ("of", "name", "wrong", "made"),
    [
        (HloSizes, "_size_of", _other_axis, perceptron),
        (HloSizes, "_size_of", _other_axis, _mean),
        (HloSizes, "vector", _one_more, attention),
        (HloSizes, "vector", _one_more, perceptron),
        (HloSizes, "scalar", _rounded_up, _mean),
        (HloSizes, "holds", _other_way, lambda: _one("add", (N, 3), (N, 3))),
        (HloUse, "turned", lambda use, x, axis: x, perceptron),
    ],
)
def test_a_wrong_size_does_not_come_back(
    of: type, name: str, wrong: Any, made: Callable[[], Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = made()
    assert came_back(module, back_of(module)).holds
    with monkeypatch.context() as planted:
        planted.setattr(of, name, wrong)
        text = export_stablehlo(module)
    try:
        assert came_back(module, parse_stablehlo(text)).holds is False
    except Invalid as told:  # sizes that cannot be equal are seen when it is read
        assert told.label == "match_cast.C1"


# --- what is refused --------------------------------------------------------------------------------------------------


def _elements() -> Module:
    v = var("v", TensorType((1,), DTYPES["int64"]))
    return Module({"main": function([v], match_cast(v, ShapeType((Symbol("k"),))))})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: _one("exp", (N * 2, 3)), "the size N stands alone in no type"),
        (lambda: _one("topk", (2, N), k=1), "topk: the axis that is sorted is N"),
        (_elements, "elements of a tensor are only known in a run"),
    ],
)
def test_what_is_not_said_of_symbols(made: Callable[[], Module], said: str) -> None:
    with pytest.raises(Unsupported, match=said) as caught:
        export_stablehlo(made())
    assert caught.value.label == "stablehlo_export.C3"


# --- XLA --------------------------------------------------------------------------------------------------------------


def at_sizes(text: str, shapes: list[tuple[int, ...]]) -> str:
    """A text whose main takes tensors of these sizes, of which its own parameters are made."""
    found = re.search(r"@main\((.*?)\) -> .* \{\n", text)
    assert found is not None
    params, casts = list[str](), list[str]()
    for k, (name, of) in enumerate(re.findall(r"(%\d+): (tensor<[^>]*>)", found[1])):
        sized = f"tensor<{''.join(f'{d}x' for d in shapes[k])}{re.split('x', of)[-1]}"
        params.append(f"%p{k}: {sized}")
        casts.append(f'{name} = "stablehlo.convert"(%p{k}) : ({sized}) -> {of}\n')
    head = found[0].replace(found[1], ", ".join(params))
    return text[: found.start()] + head + "".join(casts) + text[found.end() :]


@pytest.mark.peer
@pytest.mark.parametrize("made", [attention, perceptron])
def test_xla_refines_the_text_to_sizes_and_runs_it(made: Callable[[], Module]) -> None:
    jaxlib = pytest.importorskip("jaxlib._jax")
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import stablehlo

    from assay.verify.backends.xla import Client

    module = made()
    client = Client.of_process()
    for size in (0, 1, 2, 5):
        rng = np.random.default_rng(size)
        shapes = [
            tuple(d if isinstance(d, int) else size + 2 * (d is M) for d in p.type.shape)
            for p in module.main.params
            if isinstance(p.type, TensorType)
        ]
        inputs = {
            p.name: rng.normal(size=s).astype(np.float32) for p, s in zip(module.main.params, shapes, strict=True)
        }
        wanted = list(graph.run(module, inputs).values())
        with ir.Context() as context:
            registry = ir.DialectRegistry()
            _jax_mlir_ext.register_dialects(registry)
            context.append_dialect_registry(registry)
            stablehlo.register_dialect(context)
            code = io.BytesIO()
            ir.Module.parse(at_sizes(export_stablehlo(module), shapes)).operation.write_bytecode(code)
            refined = jaxlib.mlir.refine_polymorphic_shapes(code.getvalue(), True, True, False)
            text = str(ir.Module.parse(refined))
        made_by = client.run(client.compile(text), list(inputs.values()))
        for a, b in zip(wanted, made_by, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5)
