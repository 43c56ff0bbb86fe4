"""Every operator's two definitions against each other: its kernel must hit the bound of its value (rule M9)."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from assay.interp.vector import run
from assay.lower.legalize.kernels import KERNELS, build
from assay.semantics.bounds import Bounded, contains
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.operator import Example, Operator
from assay.semantics.ops import OPERATORS
from assay.semantics.tensor import If, PrimFunc, While, program_order
from assay.semantics.types import TensorType
from tests.lower.legalize.kernel_check import Array, data

EXAMPLES = [(op, k) for op in OPERATORS.values() if not op.view for k in range(len(op.examples))]
IDS = [f"{op.name}-{k}" for op, k in EXAMPLES]
FLOAT_FAMILIES = ("elementwise", "contraction", "reduction", "stepwise", "pooling", "normalization")


def operands(op: Operator, example: Example, seed: int, of: str | None = None) -> list[Array]:
    """Arrays for an example, floats in `of` if given; positive for odd seeds, so that log and pow say something."""
    arrays: list[Array] = []
    for k, (shape, name) in enumerate(example.operands):
        if of is not None and dtype(name).is_float:
            name = of
        if k in example.ranges:
            low, high = example.ranges[k]
            arrays.append(np.random.default_rng(seed).integers(low, high, shape).astype(dtype(name).numpy))
            continue
        array = data(shape, name, 10 * seed + k)
        if (seed % 2 and dtype(name).is_float) or (op.can_trap and op.family == "elementwise" and k == 1):
            array = (np.abs(array) + array.dtype.type(1)).astype(array.dtype)
        arrays.append(array)
    return arrays


def made(op: Operator, name: str, example: Example, arrays: Sequence[Array], **more: Any) -> PrimFunc:
    """The kernel called `name` at the types of an example of `op`."""
    types = tuple(TensorType(a.shape, dtype(a.dtype)) for a in arrays)
    attrs = op.check_attrs({**example.attrs, **more})
    known = {k: v for k, v in attrs.items() if k in OPERATORS[name].attrs}
    return build(name, known, types, op.type_rule(attrs, types), "kernel")


def verdicts(op: Operator, example: Example, arrays: Sequence[Array], got: Sequence[Array]) -> Iterator[Array]:
    """For each result, element by element, whether `got` is within the bound of the operator's value."""
    attrs = op.check_attrs(example.attrs)
    bounds = op.value(attrs, *(Bounded.exact(a) for a in arrays))
    for b, g in zip(bounds if isinstance(bounds, tuple) else (bounds,), got, strict=True):
        # what is computed from shapes alone comes without an interval
        yield contains(b if isinstance(b, Bounded) else Bounded.exact(b), g)


@pytest.mark.parametrize(("op", "k"), EXAMPLES, ids=IDS)
def test_kernel_is_within_the_bound_of_the_value(op: Operator, k: int) -> None:
    example = op.examples[k]
    for seed in (0, 1):
        arrays = operands(op, example, seed)
        got = run(made(op, op.name, example, arrays), arrays)
        assert all(np.all(v) for v in verdicts(op, example, arrays, got))
        with np.errstate(all="ignore"):
            value = op.value(op.check_attrs(example.attrs), *arrays)
        for v, g in zip(value if isinstance(value, tuple) else (value,), got, strict=True):
            assert v.shape == g.shape and v.dtype == g.dtype
            if not dtype(g.dtype).is_float:
                assert np.array_equal(v, g)


@pytest.mark.parametrize("of", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("op", [o for o in OPERATORS.values() if o.family in FLOAT_FAMILIES], ids=lambda o: o.name)
def test_other_float_dtypes_too(op: Operator, of: str) -> None:
    for k, example in enumerate(op.examples):
        if not any(dtype(name).is_float for _, name in example.operands):
            continue
        arrays = operands(op, example, k, of)
        got = run(made(op, op.name, example, arrays), arrays)
        assert all(np.all(v) for v in verdicts(op, example, arrays, got))


def random_windows(seed: int) -> tuple[str, list[Array], dict[str, Any]]:
    """A convolution or a pooling with attributes from everywhere; some are Invalid."""
    rnd = random.Random(seed)
    rank = rnd.choice([1, 2, 2, 3])

    def sizes(count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(rnd.randint(low, high) for _ in range(count))

    of = rnd.choice(["float16", "bfloat16", "float32", "float64"])
    x = data((rnd.randint(1, 2), rnd.choice([2, 4]), *sizes(rank, 1, 8 - rank)), of, seed)
    if seed % 4 == 0:
        x.reshape(-1)[rnd.randrange(x.size)] = rnd.choice([math.nan, math.inf, -math.inf, -0.0])
    attrs: dict[str, Any] = {"strides": sizes(rank, 1, 4), "dilation": sizes(rank, 1, 3)}
    attrs["padding"] = sizes(2 * rank, 0, 3)
    kind = rnd.choice(["conv", "max_pool", "avg_pool"])
    if kind == "conv":
        groups = rnd.choice([1, 2, x.shape[1]])
        features = groups * rnd.randint(1, 3)
        w = data((features, x.shape[1] // groups, *sizes(rank, 1, 3)), of, seed + 1)
        return f"nn.conv{rank}d", [x, w, data((features,), of)][: rnd.choice([2, 3])], {**attrs, "groups": groups}
    attrs |= {"pool_size": sizes(rank, 1, 4), "ceil_mode": rnd.random() < 0.5}
    if kind == "avg_pool":
        attrs["count_include_pad"] = rnd.random() < 0.5
    return f"nn.{kind}{rank}d", [x], attrs


def test_random_windows() -> None:
    ran = 0
    for seed in range(120):
        name, arrays, attrs = random_windows(seed)
        op, example = OPERATORS[name], Example((), attrs)
        try:
            func = made(op, name, example, arrays)
        except Invalid:
            continue
        ran += 1
        got = run(func, arrays)
        assert all(np.all(v) for v in verdicts(op, example, arrays, got)), (name, attrs)
    assert ran > 50


SPECIALS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45, -1e-40, 3e38, -1.0, 1.0, 0.5, -88.8]


@pytest.mark.parametrize("op", [o for o in OPERATORS.values() if o.family == "elementwise"], ids=lambda o: o.name)
def test_specials(op: Operator) -> None:
    """NaN, infinities, both zeros, subnormals and the largest magnitudes, in every combination of operands."""
    attrs = op.examples[0].attrs
    floats = [k for k, (_, name) in enumerate(op.examples[0].operands) if dtype(name).is_float]
    if not floats or (op.name == "astype" and not dtype(attrs["dtype"]).is_float):
        return
    lines = np.meshgrid(*[np.array(SPECIALS, np.float32)] * len(floats), indexing="ij")
    arrays = [data(lines[0].shape, name, k) for k, (_, name) in enumerate(op.examples[0].operands)]
    for k, line in zip(floats, lines, strict=True):
        arrays[k] = line
    example = Example((), attrs)
    got = run(made(op, op.name, example, arrays), arrays)
    assert all(np.all(v) for v in verdicts(op, example, arrays, got))


# --- that the comparison can fail ---------------------------------------------------------------------------------

WRONG = [
    ("add", "subtract"), ("subtract", "add"), ("multiply", "subtract"), ("maximum", "minimum"), ("less", "less_equal"),
    ("greater_equal", "greater"), ("equal", "not_equal"), ("logical_and", "logical_or"), ("logical_or", "logical_xor"),
    ("floor", "ceil"), ("ceil", "round"), ("exp", "log"), ("tanh", "erf"), ("sigmoid", "tanh"), ("negative", "abs"),
    ("nn.relu", "abs"), ("nn.gelu", "nn.gelu_tanh"), ("floor_divide", "truncate_divide"),
    ("sum", "prod"), ("mean", "sum"), ("max", "min"), ("prod", "sum"), ("nn.softmax", "nn.log_softmax"),
    ("nn.avg_pool2d", "nn.max_pool2d"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_a_planted_wrong_kernel_is_refuted(name: str, wrong: str) -> None:
    op = OPERATORS[name]
    refuted = False
    for example in op.examples:
        for seed in (0, 1):
            arrays = operands(op, example, seed)
            got = run(made(op, wrong, example, arrays), arrays)
            refuted |= not all(np.all(v) for v in verdicts(op, example, arrays, got))
    assert refuted


FAULTS: dict[str, dict[str, Any]] = {
    "nn.batch_norm": {"epsilon": 0.1},
    "nn.layer_norm": {"epsilon": 0.1},
    "nn.lrn": {"beta": 0.8},
    "nn.leakyrelu": {"alpha": 0.011},
    "nn.avg_pool2d": {"count_include_pad": True},
    "clip": {"max": 0},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_wrong_attribute_is_refuted(name: str) -> None:
    op = OPERATORS[name]
    verdict = []
    for example in op.examples:
        arrays = operands(op, example, 0)
        got = run(made(op, name, example, arrays, **FAULTS[name]), arrays)
        verdict += [bool(np.all(v)) for v in verdicts(op, example, arrays, got)]
    assert not all(verdict)


# --- totality -----------------------------------------------------------------------------------------------------


def gaps(operators: Mapping[str, Operator], kernels: Collection[str]) -> list[str]:
    """Operators that miss a kernel, and kernels that belong to no operator with code."""
    code = {name for name, op in operators.items() if not op.view}
    return [f"{n} has no kernel" for n in sorted(code - set(kernels))] + [
        f"the kernel {n} has no operator" for n in sorted(set(kernels) - code)
    ]


def test_every_operator_but_the_views_has_a_kernel() -> None:
    assert gaps(OPERATORS, KERNELS) == []
    assert {n for n, op in OPERATORS.items() if op.view} == {"reshape", "squeeze", "expand_dims"}


def test_planted_gaps_are_found() -> None:
    assert gaps(OPERATORS, set(KERNELS) - {"add"}) == ["add has no kernel"]
    assert gaps(OPERATORS, {*KERNELS, "reshape"}) == ["the kernel reshape has no operator"]


GREEDY = {"unique", "suppress"}
"""What they do with an element depends on the elements before it."""


@pytest.mark.parametrize(("op", "k"), [e for e in EXAMPLES if e[0].name not in GREEDY])
def test_kernels_have_no_control_that_depends_on_data(op: Operator, k: int) -> None:
    """So that the interpreter of lanes never falls back to one element at a time."""
    func = made(op, op.name, op.examples[k], operands(op, op.examples[k], 0))
    assert not [s for s in program_order(func.body) if isinstance(s, (If, While))]
