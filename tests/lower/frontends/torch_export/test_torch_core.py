"""Core operators of PyTorch by hand, and against what PyTorch gave; no test here needs it (specs/lower.md,
"torch.export")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay as assay_api
from assay.interp.graph import run
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export import parse_torch_export
from assay.lower.frontends.torch_export.node import AtenNode
from assay.lower.frontends.torch_export.operators import ATEN
from assay.lower.frontends.torch_export.operators.numbers import OPERATOR
from assay.semantics.dtypes import BOOL, DTYPES, dtype
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import Expr, function, let, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.verify.judge.samples import indexed
from assay.verify.oracle import Oracle

PROGRAM = Path(__file__).parent / "programs" / "core.pt2"
NAN, INF = np.nan, np.inf
Array = np.ndarray[Any, Any]


def module_of(name: str, overload: str = "default", /, **args: Any) -> tuple[Module, dict[str, Array]]:
    """A call of an operator as a module; arrays are its inputs."""
    declared = args.pop("declared", [])
    inputs = {k: v for k, v in args.items() if isinstance(v, np.ndarray)}
    params = {k: var(k, TensorType(v.shape, dtype(v.dtype))) for k, v in inputs.items()}
    builder = HloBuilder()
    found: Any = ATEN[name](AtenNode(builder, name, overload, {**args, **params}, declared))
    body: Expr = tuple_of(*found) if isinstance(found, list) and len(found) > 1 else np.ravel(found)[0]
    for known, value in reversed(builder.scope.bindings):
        body = let(known, value, body)
    names = tuple(f"y{k}" for k in range(len(found) if isinstance(found, list) else 1))
    return Module({"main": replace(function(list(params.values()), body), attrs={"outputs": names})}), inputs


def values(name: str, overload: str = "default", /, **args: Any) -> list[Any]:
    """What an operator gives, as lists."""
    module, inputs = module_of(name, overload, **args)
    return [y.tolist() for y in run(module, inputs).values()]


def f(*x: Any) -> Array:
    """Float32."""
    return np.array(x, np.float32)


def test_pytorchs_results_are_right() -> None:
    """A program of many of them, with what eager PyTorch gave; some in turn with a fault."""
    module = parse_torch_export(PROGRAM.read_bytes(), "core.pt2")
    with np.load(PROGRAM.with_suffix(".npz")) as file:
        recorded = dict(file)
    inputs = {p.name: recorded[p.name] for p in module.main.params}
    outputs = {n: recorded[n] for n in module.main.attrs["outputs"]}
    oracle = Oracle(module)
    assert oracle.judge(inputs, outputs).outcome == "right"
    for name, value in list(outputs.items())[::4]:
        assert oracle.judge(inputs, {**outputs, name: value + value.dtype.type(1)}).outcome == "wrong", name


# --- images


IMAGE = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)


@pytest.mark.parametrize(
    ("mode", "padding", "aligned", "at", "right"),
    [
        (0, 0, True, (0.5, -1), 2.5), (0, 0, False, (-1, -1), 0.25), (0, 1, False, (-3, -3), 1),
        (0, 1, True, (3, 0), 4.5), (0, 2, True, (2, -1), 2), (0, 2, False, (-2, -1), 2.0),
        (1, 0, True, (0.2, -1), 2), (1, 0, True, (-1.6, -1), 0), (1, 1, True, (-9, 9), 4), (1, 2, True, (2, 1), 5),
        (1, 2, False, (-2, -1), 2),  # -1.5 is 0.5 in the mirror, and that is even at 0: the border is -0.5
        (2, 0, True, (0, -1), 2), (2, 1, True, (0, 1), 5), (2, 2, True, (-1, 1), 4),
        (0, 1, True, (NAN, -1), 1), (0, 2, False, (INF, -1), 1), (0, 0, True, (NAN, -1), NAN),
        (1, 0, True, (NAN, NAN), 0), (1, 1, True, (NAN, 1), 4), (2, 1, True, (NAN, 0), NAN),
    ],
)  # fmt: skip
def test_images_between_their_elements(
    mode: int, padding: int, aligned: bool, at: tuple[float, float], right: float
) -> None:
    grid = f(at).reshape(1, 1, 1, 2)
    (found,) = values(
        "grid_sampler_2d", input=IMAGE, grid=grid, interpolation_mode=mode, padding_mode=padding, align_corners=aligned
    )
    np.testing.assert_allclose(np.ravel(found), [right], rtol=1e-6)


def test_windows_as_columns_and_back() -> None:
    """Each element comes back as often as a block holds it."""
    block = {"kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 1], "stride": [1, 2]}
    (columns,) = values("im2col", self=IMAGE, **block)
    assert columns == [[[0, 2], [1, 3], [0, 5], [4, 6]]]
    (back,) = values("col2im", self=f(*columns), output_size=[2, 3], **block)
    assert back == IMAGE.tolist()
    block["stride"] = [1, 1]
    (columns,) = values("im2col", self=IMAGE[0], **block)
    (back,) = values("col2im", self=f(*columns), output_size=[2, 3], **block)
    assert back == (2 * IMAGE[0]).tolist()
    places = np.array([[[0, 5]]])
    assert values("max_unpool2d", self=f([[7, 8]]), indices=places, output_size=[2, 3]) == [[[[7, 0, 0], [0, 0, 8]]]]


def test_cubic_resizing_by_hand() -> None:
    """Between two elements, half of Keys' curve; whatever keeps its size is as it was."""
    x = f([[[0, 0, 1, 0]]])
    (found,) = values("upsample_bicubic2d", self=x, output_size=[1, 7], align_corners=True)
    np.testing.assert_allclose(found[0][0][0], [0, -0.09375, 0, 0.59375, 1, 0.59375, 0], atol=1e-6)
    assert values("upsample_bicubic2d", self=x, output_size=[1, 4], align_corners=False) == [x.tolist()]


# --- bags


ROWS = f([1, -1], [2, NAN], [4, 8], [-INF, 5])
BAG = {"weight": ROWS, "indices": np.array([0, 2, 2, 0, 3]), "offsets": np.array([0, 2, 2, 4])}


def test_bags_of_rows() -> None:
    def bags(**more: Any) -> Any:
        return values("_embedding_bag", **{**BAG, **more})[0]

    assert bags(mode=0) == [[5, 7], [0, 0], [5, 7], [-INF, 5]]
    assert bags(mode=1) == [[2.5, 3.5], [0, 0], [2.5, 3.5], [-INF, 5]]
    assert bags(mode=2) == [[4, 8], [0, 0], [4, 8], [-INF, 5]]
    assert bags(mode=1, padding_idx=2) == [[1, -1], [0, 0], [1, -1], [-INF, 5]]
    assert bags(mode=2, padding_idx=3)[3] == [0, 0]
    assert bags(mode=0, include_last_offset=True) == [[5, 7], [0, 0], [5, 7]]  # what is behind is in no bag
    assert bags(mode=0, per_sample_weights=f(2, 1, 0, 1, 1))[:3] == [[6, 6], [0, 0], [1, -1]]
    named = values("embedding_bag", "padding_idx", **BAG, mode=0, padding_idx=-1)[0]  # the last row
    assert named[3] == [0, 0]
    nan = bags(mode=2, indices=np.array([0, 1, 1, 0, 1]))  # NaN stays where it is first
    assert nan[0] == [2, -1] and np.isnan(nan[2][1]) and nan[2][0] == 2
    with pytest.raises(Invalid, match="per_sample_weights"):
        bags(mode=1, per_sample_weights=f(2, 1, 0, 1, 1))


# --- distances


def test_distances_of_rows() -> None:
    a, b = f([0, 0], [3, 4]), f([0, 0], [3, 0], [-3, 4])
    for p, right in ((0, [0, 1, 2]), (1, [0, 3, 7]), (2, [0, 3, 5]), (INF, [0, 3, 4]), (0.5, [0, 3, 13.928203])):
        for mode in (1, 2) if p == 2 else (None,):
            (found,) = values("_cdist_forward", x1=a, x2=b, p=p, compute_mode=mode)
            np.testing.assert_allclose(found[0], right, atol=1e-6)
        (found,) = values("_pdist_forward", self=b, p=p)
        np.testing.assert_allclose(found[:2], right[1:], atol=1e-6)
    assert values("_cdist_forward", x1=a[:, :0], x2=b[:, :0], p=INF, compute_mode=None) == [[[0] * 3] * 2]
    assert values("_pdist_forward", self=b[:1]) == [[]]
    with pytest.raises(Invalid, match="at least 0"):
        values("_pdist_forward", self=a, p=-1.0)


def test_distances_by_products_are_as_wide_as_what_cancels() -> None:
    """Of more than 25 rows PyTorch multiplies: of a row from itself it gives no 0, and both are right."""
    x = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    module, inputs = module_of("cdist", x1=x, x2=x.copy(), p=2.0)
    exact = np.sqrt(((x[:, None].astype(np.float64) - x) ** 2).sum(-1)).astype(np.float32)
    for on in (0.0, 3e-4):
        found = exact + np.float32(on) * np.eye(30, dtype=np.float32)
        assert Oracle(module).judge(inputs, {"y0": found}).outcome in ("right", "undecided")
    assert Oracle(module).judge(inputs, {"y0": exact + np.float32(0.1)}).outcome == "wrong"


# --- orders


def test_the_largest_so_far() -> None:
    """Of equal ones the last; NaN is beyond every number, and the last NaN counts."""
    x = f(1, 3, 3, 2, NAN, 5, NAN, 9)
    top, at = values("cummax", self=x, dim=0)
    assert at == [0, 1, 2, 2, 4, 4, 6, 6] and top[:4] == [1, 3, 3, 3] and np.isnan(top[4:]).all()
    low, at = values("cummin", self=np.array([[2, 1, 1, 3]]), dim=-1)
    assert (low, at) == ([[2, 1, 1, 1]], [[0, 1, 2, 2]])
    assert values("cummax", self=np.array([True, False, True]), dim=0) == [[True] * 3, [0, 0, 2]]
    assert values("cummax", self=np.array(7, np.float32), dim=0) == [7, 0]


def test_medians() -> None:
    """The lower one of two; NaN where one is, or over them."""
    x = f([4, 1, 3, 2], [5, NAN, 1, 7], [NAN] * 4)
    value, at = values("median", "dim", self=x, dim=1)
    assert value[0] == 2 and at == [3, 1, 0] and np.isnan(value[1:]).all()
    value, at = values("nanmedian", "dim", self=x, dim=1, keepdim=True)
    assert value[:2] == [[2], [5]] and at == [[3], [0], [0]] and np.isnan(value[2][0])
    assert values("median", self=f(4, 1, 3, 2)) == [2] and np.isnan(values("median", self=x)[0])
    assert values("nanmedian", self=x) == [3] and np.isnan(values("median", self=f())[0])
    value, at = values("kthvalue", self=x, k=3)
    assert value[:2] == [3, 7] and at[:2] == [2, 3] and np.isnan(value[2])
    with pytest.raises(Invalid, match="k is 5 for 4"):
        values("kthvalue", self=x, k=5)


def test_of_equal_elements_any_place_is_right() -> None:
    """And no other, whether the axis stays or goes."""
    for keep in (True, False):
        module, inputs = module_of("median", "dim", self=f([1, 2, 3, 2, 1]), dim=1, keepdim=keep)
        oracle, shape = Oracle(module), (1, 1) if keep else (1,)
        for place in range(-1, 6):
            given = {"y0": np.full(shape, 2, np.float32), "y1": np.full(shape, place)}
            found = oracle.judge(inputs, given).outcome
            assert found in ("right", "open") if place in (1, 3) else found == "wrong"
            assert oracle.judge(inputs, {**given, "y0": given["y0"] + 1}).outcome == "wrong"


# --- the others


def test_masked_scatter() -> None:
    """In order; a run with too few elements traps."""
    mask = np.array([True, False, True])
    both = {"self": f([1, 2, 3], [4, 5, 6]), "mask": mask}
    assert values("masked_scatter", **both, source=f(7, 8, 9, 10, 11)) == [[[7, 2, 8], [9, 5, 10]]]
    with pytest.raises(Trap):
        values("masked_scatter", **both, source=f(7, 8, 9))
    with pytest.raises(Unsupported, match="without elements"):
        values("masked_scatter", **both, source=f())


def test_heaviside() -> None:
    x = f(-2, -0.0, 0, 3, NAN, INF)
    assert values("heaviside", self=x, values=f(5, 6, NAN, 8, 9, 10)[[0, 1, 1, 3, 4, 5]]) == [[0, 6, 6, 1, 0, 1]]
    assert values("heaviside", self=np.array([True, False]), values=np.array([False, False])) == [[True, False]]


@pytest.mark.slow
def test_the_program_to_c() -> None:
    assert assay_api.check(PROGRAM).holds


def test_any_and_all_of_nothing() -> None:
    """Of no elements none is true, and all are; of several axes, with and without them, and of a size that a run
    tells."""
    of = [TensorType((3,), BOOL)]
    for name, right in (("any", False), ("all", True)):
        none = np.zeros((0, 3), np.int32)
        assert values(name, self=none, dim=0, declared=of) == [[right] * 3]
        assert values(name, self=none, dim=[0, 1], keepdim=True, declared=of) == [[[right]]]
        assert values(name, self=none, declared=of) == [right]
        symbolic = var("x", TensorType((Symbol("n"), 3), BOOL))
        builder = HloBuilder()
        body = ATEN[name](AtenNode(builder, name, "dim", {"self": symbolic, "dim": 0}, of))
        assert isinstance(body, Expr)
        for known, value in reversed(builder.scope.bindings):
            body = let(known, value, body)
        module = Module({"main": replace(function([symbolic], body), attrs={"outputs": ("y",)})})
        for x in ([], [[1, 0, 1]], [[1, 0, 0], [1, 1, 0]]):
            rows = np.array(x, bool).reshape(-1, 3)
            assert run(module, {"x": rows})["y"].tolist() == getattr(rows, name)(0).tolist()


NO_PLACES = [[[-1, 0, 0]], [[4, 0, 0]]]


@pytest.mark.parametrize("places", NO_PLACES, ids=str)
def test_a_place_before_the_first_is_none(places: list[list[int]]) -> None:
    """PyTorch counts from the end where it indexes and fills, and nowhere else."""
    x, index = np.arange(12, dtype=np.float32).reshape(4, 3), np.array(places)
    flat, source = index[0], np.ones((3, 3), np.float32)
    for name, args in {
        "gather": {"self": x, "dim": 0, "index": index},
        "index_select": {"self": x, "dim": 0, "index": flat},
        "embedding": {"weight": x, "indices": index},
        "scatter": {"self": x, "dim": 0, "index": index, "value": 9.0},
        "scatter_add": {"self": x, "dim": 0, "index": index, "src": source},
        "index_add": {"self": x, "dim": 0, "index": flat, "source": source},
        "index_copy": {"self": x, "dim": 0, "index": flat, "source": source},
    }.items():
        with pytest.raises(Trap):
            values(name, **args)
            pytest.fail(name)
    module, _ = module_of("embedding", weight=x, indices=index)
    assert indexed(module) == {"indices": 4}, "inputs that are drawn are places of the table"
    if places[0][0] < 0:
        assert values("index_fill", self=x, dim=0, index=flat, value=9.0)[0][3] == [9] * 3
        assert values("take", self=x, index=flat) == [[11, 0, 0]]


def test_float8_has_a_largest_number() -> None:
    """Since PyTorch 2.14: float8_e4m3fn, and no other."""
    x = f(448, 463, 1e6, INF, -INF, NAN)
    (y,) = values("to", "dtype", self=x, dtype=DTYPES["float8_e4m3fn"])
    np.testing.assert_array_equal(np.float32(y), f(448, 448, 448, 448, -448, NAN))
    (y,) = values("to", "dtype", self=x, dtype=DTYPES["float8_e5m2"])
    np.testing.assert_array_equal(np.float32(y), f(448, 448, INF, INF, -INF, NAN))
    (y,) = values("to", "dtype", self=f(448, -INF).astype(DTYPES["float8_e5m2"].numpy), dtype=DTYPES["float8_e4m3fn"])
    assert np.float32(y).tolist() == [448, -448]


def test_statistics_are_of_the_dtype_that_the_program_says() -> None:
    half = TensorType((2, 1), DTYPES["float16"])
    x = np.array([[1, 3], [2, 2]], np.float16)
    args = {"input": x, "normalized_shape": [2], "weight": None, "bias": None, "eps": 0.0}
    module, inputs = module_of("native_layer_norm", **args, declared=[TensorType((2, 2), half.dtype), half, half])
    y, mean, root = run(module, inputs).values()
    assert (mean.dtype, root.dtype) == (np.float16, np.float16)
    assert mean.tolist() == [[2], [2]] and root.tolist() == [[1], [INF]] and y[0].tolist() == [-1, 1]


def test_shifts_by_their_other_names() -> None:
    x = np.array([5, -7, 0], np.int32)
    assert values("__lshift__", "Scalar", self=x, other=1) == [[10, -14, 0]]
    assert values("__rshift__", "Scalar", self=x, other=1) == [[2, -4, 0]]
    assert values("__lshift__", "Scalar", self=x, other=32) == [[0, 0, 0]]


def test_padding_of_whole_numbers() -> None:
    """A number loses its fraction; one that is none of the dtype is refused, as PyTorch raises."""
    assert values("pad", self=np.array([1, 2]), pad=[1, 0], value=-2.7) == [[-2, 1, 2]]
    for value in (-1.0, 300.0, NAN, INF):
        with pytest.raises(Invalid, match="no number of uint8"):
            values("pad", self=np.array([1, 2], np.uint8), pad=[1, 0], value=value)


def test_a_letter_twice_is_a_diagonal() -> None:
    x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    module, inputs = einsum_of("ii->i", x)
    assert [y.tolist() for y in run(module, inputs).values()] == [[1, 5, 9]]
    module, inputs = einsum_of("ii", x)
    assert [y.tolist() for y in run(module, inputs).values()] == [15]
    module, inputs = einsum_of("iij,j->i", np.stack([x, x], 2), f(1, 10))
    assert [y.tolist() for y in run(module, inputs).values()] == [[11, 55, 99]]
    module, inputs = einsum_of("iii->i", np.arange(8, dtype=np.float32).reshape(2, 2, 2))
    assert [y.tolist() for y in run(module, inputs).values()] == [[0, 7]]


def test_an_equation_with_dots_and_one_that_stretches() -> None:
    """Axes that no letter names are those of all operands; a size of 1 becomes that of the other."""
    a, b = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(40, dtype=np.float32).reshape(2, 4, 5)
    for equation, *given in (
        ("...ij,...jk->...ik", a, b), ("...ij,jk", a, b[0]), ("b...,b...->...", a, a), ("aij,ajk->ik", a[:1], b),
        ("...ii->...i", b[:, :, :4]),
    ):  # fmt: skip
        module, inputs = einsum_of(equation, *given)
        (found,) = run(module, inputs).values()
        np.testing.assert_array_equal(found, np.einsum(equation, *given))
    module, inputs = einsum_of("ii->i", -np.zeros((2, 2), np.float32))
    assert all(np.signbit(y).all() for y in run(module, inputs).values())


def einsum_of(equation: str, *arrays: Array) -> tuple[Module, dict[str, Array]]:
    """An einsum of operands."""
    params = [var(f"x{k}", TensorType(a.shape, dtype(a.dtype))) for k, a in enumerate(arrays)]
    builder = HloBuilder()
    body = ATEN["einsum"](AtenNode(builder, "einsum", "default", {"equation": equation, "tensors": params}))
    assert isinstance(body, Expr)
    for known, value in reversed(builder.scope.bindings):
        body = let(known, value, body)
    module = Module({"main": replace(function(params, body), attrs={"outputs": ("y",)})})
    return module, {p.name: a for p, a in zip(params, arrays, strict=True)}


def test_rows_of_boundaries() -> None:
    """Each row of numbers has its own; NaN is above all of them."""
    edges, x = f([1, 1, 2], [0, 3, 3]), f([1, 2, NAN], [3, 0, 9])
    declared = [TensorType((2, 3), DTYPES["int64"])]
    args = {"sorted_sequence": edges, "self": x, "declared": declared}
    assert values("searchsorted", "Tensor", **args) == [[[0, 2, 3], [1, 0, 3]]]
    assert values("searchsorted", "Tensor", **args, right=True) == [[[2, 3, 3], [3, 1, 3]]]


@pytest.mark.parametrize("edges", [[2, 1], [[0, 1], [1, 0]], [0, NAN, 2]])
def test_searches_in_what_does_not_ascend(edges: Any) -> None:
    """PyTorch leaves undefined what it gives then."""
    x = np.zeros((2, 3), np.float32)
    of = {"sorted_sequence": f(*edges), "self": x, "declared": [TensorType((2, 3), DTYPES["int64"])]}
    with pytest.raises(Trap, match="the boundaries do not ascend"):
        values("searchsorted", "Tensor", **of)


def test_means_of_what_meets() -> None:
    """Of whole numbers rounded down; a place that nothing meets keeps what is there."""
    index, of = np.array([0, 0, 1]), {"dim": 0, "reduce": "mean"}
    for own, right in ((True, [2, -3, 7]), (False, [1, -6, 7])):
        for kind in (np.float32, np.int64):
            given = {"self": np.array([4, 0, 7], kind), "src": np.array([-1, 3, -6], kind), "index": index}
            assert values("scatter_reduce", **given, **of, include_self=own) == [right]
    odd = {"self": np.array([0]), "src": np.array([-3]), "index": np.array([0])}
    assert values("scatter_reduce", **odd, **of, include_self=True) == [[-2]]


def test_the_product_of_bytes() -> None:
    a, b = np.full((2, 300), -128, np.int8), np.full((300, 1), 127, np.int8)
    assert values("_int_mm", self=a, mat2=b) == [[[-128 * 127 * 300]] * 2]


def test_powers_of_known_numbers() -> None:
    """A float, a whole number that a size can be, or a refusal: no number of any length, and none that is not real."""
    power = OPERATOR["pow"]
    for a, b, right in ((3, 2, 9), (4, 0.5, 2.0), (4, -0.5, 0.5), (1, 10**9, 1), (-2, 3, -8), (0, 5, 0)):
        assert power(AtenNode(HloBuilder(), "pow", "", {"a": a, "b": b})) == right
    for a, b in ((10, 10**9), (-(10**30), 9)):
        with pytest.raises(Unsupported, match="to the power"):
            power(AtenNode(HloBuilder(), "pow", "", {"a": a, "b": b}))
    for a, b in ((0, -1), (-8, 0.5), (1e300, 2)):
        with pytest.raises(Invalid, match="to the power"):
            power(AtenNode(HloBuilder(), "pow", "", {"a": a, "b": b}))


def test_statistics_that_are_written_are_refused() -> None:
    """instance_norm says nothing of it in its name: what it writes would be lost."""
    running = {"running_mean": f(0, 0), "running_var": f(1, 1)}
    args = {"input": np.ones((1, 2, 3), np.float32), "weight": None, "bias": None, "eps": 1e-5}
    with pytest.raises(Unsupported, match="training = True"):
        values("instance_norm", **args, **running, use_input_stats=True)
    assert values("instance_norm", **args, use_input_stats=True) == [[[[0] * 3] * 2]]
    assert np.allclose(values("instance_norm", **args, **running, use_input_stats=False)[0], 1, rtol=1e-4)
