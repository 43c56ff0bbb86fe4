"""Numbers of which every sum is exact: the layer "integers" (specs/verify.md, "Verdict").

A float tensor whose elements are multiples of one power of two, `step`, is added and multiplied without rounding while
the sum of the magnitudes of all terms stays below step * 2**p, p the bits of the dtype's significand. Then every order,
every contraction and every folding of factors gives the same bits, and outputs are compared bit for bit.

`ScaledIntegers` is such a tensor. The interpreter carries it through a program by its hook for other kinds of values:
beside the values it computes the same program on the magnitudes. Where a result may round, `lost` says why, and what
comes of it is not judged by this layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.interp import graph
from assay.interp.values import Value
from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import Call, CallTIR
from assay.semantics.module import Module
from assay.semantics.operator import Operator, Reasons
from assay.semantics.ops import operator
from assay.semantics.ops.functions import BITS, TRIGONOMETRY
from assay.verify.oracle.claims import meant

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]
NOTHING = 2.0**60
"""The step of a tensor of zeros, which are multiples of anything."""
SAMPLE = 512
MOVES = ("movement", "selection", "creation")
"""Families of operators that place or choose elements."""


@dataclass(frozen=True, eq=False)
class ScaledIntegers:
    """A float tensor, or a bool or integer one that comes of floats that are not known. `value` is what one correct
    implementation gives; it is what all give unless `lost`."""

    value: Array
    magnitude: Array
    """The same program on the magnitudes of what came in, in float64: what no partial sum exceeds."""
    step: float
    lost: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        """The rank of the tensor."""
        return self.value.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the tensor."""
        of: np.dtype[Any] = self.value.dtype
        return of

    def __bool__(self) -> bool:
        raise Unpredictable("a condition on numbers that may be rounded", label="bounds.C1")

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise Unpredictable("a size or a place from numbers that may be rounded", label="bounds.C4")


def scaled_integers(array: Array) -> ScaledIntegers:
    """A float array as it is; lost where it is not finite, or no small multiple of a step."""
    array = np.asarray(array)
    if not _may_be_whole(array):
        return ScaledIntegers(array, np.zeros(()), 1.0, "the data are no small multiples of a power of two")
    size = np.abs(array.astype(np.float64))
    if not np.isfinite(size).all():
        return ScaledIntegers(array, size, 1.0, "the data are not finite")
    return _kept(array, size, step_of(size))


def _may_be_whole(array: Array) -> bool:
    """Whether some of the elements are small multiples of a power of two: a quick look that refuses most data."""
    some = np.abs(array.reshape(-1)[:: max(1, array.size // SAMPLE)].astype(np.float64))
    return bool(np.isfinite(some).all() and (some < 2.0**16 * step_of(some)).all())


def step_of(size: Array) -> float:
    """The largest power of two of which all magnitudes, float64 and finite, are multiples."""
    some = size[(size > 0) & np.isfinite(size)]
    if not some.size:
        return NOTHING
    fraction, exponent = np.frexp(some)
    digits = (fraction * 2.0**53).astype(np.int64)
    low = (digits & -digits).astype(np.float64)
    return float(np.min(low * np.exp2(exponent.astype(np.float64) - 53)))


def _kept(value: Array, magnitude: Array, step: float) -> ScaledIntegers:
    """A result that is exact if its sums are; else lost."""
    of = dtype(value.dtype)
    top = float(np.max(magnitude, initial=0.0)) * (1 + 1e-9)
    if not np.isfinite(top) or top > float(of.max):
        return ScaledIntegers(value, magnitude, step, "a sum may overflow")
    if 0 < step < of.smallest_normal or top > step / of.unit_roundoff:
        return ScaledIntegers(value, magnitude, step, f"sums are too large to be exact in {of}")
    return ScaledIntegers(value, magnitude, step)


# --- rules: what an operator makes of the step and of the magnitudes ------------------------------------------------

Result = Any
Rule = Callable[[Operator, Attrs, Sequence[Any]], Result]


def _value(x: Any) -> Any:
    return x.value if isinstance(x, ScaledIntegers) else x


def _wide(x: Any) -> Any:
    return x.value.astype(np.float64) if isinstance(x, ScaledIntegers) else x


def _size(x: Any) -> Any:
    return x.magnitude if isinstance(x, ScaledIntegers) else x


def _steps(args: Sequence[Any]) -> list[float]:
    return [x.step for x in args if isinstance(x, ScaledIntegers)]


def _of(args: Sequence[Any]) -> DType:
    return dtype(next(x for x in args if isinstance(x, ScaledIntegers)).dtype)


def _exact(
    op: Operator, attrs: Attrs, args: Sequence[Any], step: float, sizes: Operator | None = None
) -> ScaledIntegers:
    """The operator in float64, which is exact where the sums fit; the magnitudes by `sizes`."""
    value = np.asarray(op.value(attrs, *map(_wide, args)), np.float64)
    magnitude = np.asarray((sizes or op).value(attrs, *map(_size, args)), np.float64)
    return _kept(value.astype(_of(args).numpy), magnitude, step)


def _sum(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    return _exact(op, attrs, args, min(_steps(args)))


def _subtract(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    return _exact(op, attrs, args, min(_steps(args)), operator("add"))


def _product(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    first, second, *bias = _steps(args)
    return _exact(op, attrs, args, min([min(first * second, NOTHING), *bias]))


def _count(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    """A sum divided by a count, which keeps a step only if it is a power of two."""
    (x,) = args
    if op.name == "mean":
        axes = range(x.ndim) if attrs["axis"] is None else attrs["axis"]
        count = int(np.prod([x.shape[a] for a in axes]))
        even = True
    else:
        count = int(np.prod(attrs["pool_size"]))
        even = not any(attrs["padding"]) and not attrs["ceil_mode"]
    if not even or count < 1 or count & (count - 1):
        return _lost(op, attrs, args, f"a division by {count}, or by what differs, rounds")
    return _exact(op, attrs, args, x.step / count)


def _divide(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    a, b = args
    divisor = np.abs(_wide(b))
    fraction, _ = np.frexp(divisor)
    if not bool(np.all(fraction == 0.5)):
        return _lost(op, attrs, args, "a division by no power of two rounds")
    by = ScaledIntegers(b.value, divisor, b.step)
    return _exact(op, attrs, [a, by], a.step / float(np.max(divisor, initial=1.0)))


def _same(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    """What moves, chooses or rounds elements: the step of the operands and of what else stands in the result."""
    values = op.value(attrs, *map(_value, args))
    sizes = op.value(attrs, *map(_size, args)) if op.family in MOVES or op.name in CHOOSES else None
    several = isinstance(values, tuple)
    out: list[Any] = []
    for i, value in enumerate(values if several else (values,)):
        value = np.asarray(value)
        if not dtype(value.dtype).is_float:
            out.append(value)
            continue
        wide = np.abs(value.astype(np.float64))
        if not np.isfinite(wide).all():
            out.append(ScaledIntegers(value, wide, 1.0, "the result is not finite"))
            continue
        given = (sizes[i] if several else sizes) if sizes is not None else None
        if given is None:
            given = args[0].magnitude if args[0].shape == value.shape else 0.0
        given = np.maximum(wide, np.abs(np.asarray(given, np.float64)))
        out.append(_kept(value, given, min([*_steps(args), step_of(wide)])))
    return tuple(out) if several else out[0]


def _convert(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    (x,) = args
    value = np.asarray(op.value(attrs, _value(x)))
    if not dtype(value.dtype).is_float:
        return value
    if not isinstance(x, ScaledIntegers):
        return scaled_integers(value)
    if not np.array_equal(value.astype(np.float64), _wide(x)):
        return _lost(op, attrs, args, "a conversion rounds")
    return _kept(value, x.magnitude, x.step)


def _compare(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    return np.asarray(op.value(attrs, *map(_value, args)))


def _lost(op: Operator, attrs: Attrs, args: Sequence[Any], why: str) -> Result:
    return given_up(lambda *a: op.value(attrs, *a), args, why)


def given_up(ordinary: Callable[..., Any], args: Sequence[Any], why: str) -> Result:
    """Results that may differ between correct implementations: one of them, marked as lost."""
    values = ordinary(*map(_value, args))
    several = isinstance(values, tuple)
    made = tuple(ScaledIntegers(np.asarray(v), np.zeros(()), 1.0, why) for v in (values if several else (values,)))
    return made if several else made[0]


CHOOSES = frozenset({
    "maximum", "nn.relu", "max", "where", *(f"nn.max_pool{r}d" for r in (1, 2, 3)), "negative", "abs",
})  # fmt: skip
"""Of which the magnitude is that of the same operator on magnitudes, or more."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "sum", "cumsum"), _sum),
    "subtract": _subtract,
    **dict.fromkeys(("multiply", "matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d"), _product),
    **dict.fromkeys(("mean", *(f"nn.avg_pool{r}d" for r in (1, 2, 3))), _count),
    "divide": _divide,
    **dict.fromkeys(CHOOSES, _same),
    **dict.fromkeys(("minimum", "min", "clip", "floor", "ceil", "round", "topk"), _same),
    "astype": _convert,
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _compare),
}

ROUNDING: Reasons = {
    ("exp", "log", "sqrt", "sigmoid", "tanh", "erf", "reciprocal", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "power",
     *TRIGONOMETRY, "det", "dft", "normalization"): "it rounds",
    ("truncate_divide", "floor_divide", "logical_not", "logical_and", "logical_or", "logical_xor", *BITS):
        "it takes no floats",
    ("fmod", "reinterpret", "prod", "cumprod"): "how large and how fine the result is is not followed",
    MOVES: "it moves elements",
}  # fmt: skip
"""The other operators, and why they have no rule."""


def exact_result(op: Operator, attrs: Attrs, operands: Sequence[Array]) -> Result | None:
    """The result on arrays: a whole tensor, or a tuple of them, or None if implementations may differ in it."""
    if op.name not in RULES and op.family not in MOVES:
        return None
    for a in operands:
        if dtype(a.dtype).is_float and not _may_be_whole(a):
            return None
    return exactly(op, attrs, operands)


def exactly(op: Operator, attrs: Attrs, args: Sequence[Any]) -> Result:
    """The operator on whole tensors; float arrays among the operands are taken as they are."""
    args = [scaled_integers(a) if isinstance(a, np.ndarray) and dtype(a.dtype).is_float else a for a in args]
    wholes = [a for a in args if isinstance(a, ScaledIntegers)]
    why = next((a.lost for a in wholes if a.lost), "")
    if why:
        return _lost(op, attrs, args, why)
    rule = RULES.get(op.name) or (_same if op.family in MOVES and op.name != "suppress" else None)
    if op.name == "scatter_nd" and attrs["reduction"] not in ("none", "add", "max", "min"):
        rule = None
    if op.name == "take" and (attrs.get("near") or attrs.get("either")):
        return _lost(op, attrs, args, "the places that it takes are rounded")
    if not wholes and op.name != "astype":
        return op.value(attrs, *args)
    if rule is None:
        return _lost(op, attrs, args, f"{op.name} rounds")
    return rule(op, attrs, args)


def run_scaled_integers(module: Module, inputs: Mapping[str, Array]) -> dict[str, Value] | str:
    """The outputs of main as whole tensors, or why there are none: a decision depends on numbers that may be
    rounded."""

    floats = [x for x in inputs.values() if isinstance(x, np.ndarray) and dtype(x.dtype).is_float]
    if floats and not any(map(_may_be_whole, floats)):
        return "no input is a small multiple of a power of two"

    def apply(node: Call | CallTIR, attrs: Attrs, args: Sequence[Value], ordinary: Callable[..., Value]) -> Value:
        found = meant(node, attrs, module)
        if found is None:
            if any(isinstance(a, ScaledIntegers) for a in args):
                return given_up(ordinary, args, "a tensor function that claims no operator")
            return ordinary(*args)
        op, given = found
        return exactly(op, given, args)

    try:
        return graph.run(module, inputs, apply=apply)
    except (Trap, Unpredictable) as why:
        return str(why)
