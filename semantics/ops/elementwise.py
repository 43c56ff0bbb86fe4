"""Elementwise operators: one scalar function at every index, operands broadcast (specs/semantics.md, "Elementwise").

Adding one is one record here and one scalar expression in `assay.lower.legalize.kernels.elementwise`. Values are
computed in the operands' dtype, one rounding for each NumPy function; constants are therefore of that dtype too.
What an operation means for integers and for zeros is taken from the one scalar table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.arrays import as_array, by_table, converted, is_plain
from assay.semantics.bits import raised
from assay.semantics.bounds import (
    Bounded,
    as_a_whole,
    difference,
    elementary,
    erf,
    rounded_literal,
    to_integer,
    unit,
    where_exact,
    whole_division,
    widen,
)
from assay.semantics.dtypes import BOOL, DTYPES, DType, dtype
from assay.semantics.operator import Attr, Attrs, Example, Operator
from assay.semantics.ops.common import broadcast_shapes, require_kind, same_dtype
from assay.semantics.scalar import ANY, NUMERIC, WHOLE, operation
from assay.semantics.types import TensorType

FLOAT = ("float",)
LOGICAL = ("bool",)

Value = Callable[..., Any]


# --- values ------------------------------------------------------------------------------------------------------


def _own(value: Value) -> Value:
    """`value` as an array, and for 4-bit integers too: NumPy computes these as int8, and the result is wrapped."""

    def run(attrs: Attrs, *operands: Any) -> Any:
        like = operands[0].dtype
        narrow = dtype(like).is_integer and dtype(like).bits < 8
        if narrow:
            wide = np.int8 if dtype(like).kind == "int" else np.uint8
            operands = tuple(x.astype(wide) for x in operands)
        result = value(attrs, *operands)
        if isinstance(result, Bounded):
            return result
        result = as_array(result)
        return result.astype(like) if narrow and result.dtype in (np.int8, np.uint8) else result

    return run


def extreme(name: str, a: Any, b: Any) -> Any:
    """The larger ("max") or smaller ("min") of two; NaN if either is NaN; -0 is below +0, which NumPy leaves open."""
    result = np.maximum(a, b) if name == "max" else np.minimum(a, b)
    if isinstance(result, Bounded) or not dtype(result.dtype).is_float:
        return result
    # NumPy's is faster, and the same where it is not 0; of other things than numbers that would be a question
    return result if is_plain(result) and not np.any(result == 0) else by_table(name, a, b)


def relu(attrs: Attrs, x: Any) -> Any:
    """max(x, 0), with +0 for zeros of either sign and NaN for NaN."""
    zero = x.dtype.type(0)
    result = np.maximum(x, zero)
    # adding +0 turns -0 into +0 and changes nothing else
    return result if isinstance(x, Bounded) or not dtype(x.dtype).is_float else result + zero


def _power(attrs: Attrs, a: Any, b: Any) -> Any:
    return raised(a, b) if is_plain(a) and is_plain(b) else np.power(a, b)


def _sigmoid(attrs: Attrs, x: Any) -> Any:
    return as_a_whole("sigmoid", _logistic, x)


def _logistic(x: Any) -> Any:
    one = x.dtype.type(1)
    e = np.exp(-np.abs(x))  # of a negative number only, so that nothing overflows
    # 1 / (1 + exp(-x)) is in use, where exp(-x) may overflow, and 1/2 + tanh(x / 2) / 2, whose error is absolute
    of = dtype(x.dtype)
    off = 1 / float(of.max) + elementary("tanh", of) / 2 + unit(of)
    return widen(np.where(x >= x.dtype.type(0), one, e) / (one + e), lambda: (), absolute=off)


def _tanh(attrs: Attrs, x: Any) -> Any:
    y = np.tanh(x)
    if not attrs["formula"] or not isinstance(y, Bounded):
        return y
    of = dtype(x.dtype)
    low, most = y.value - y.radius, np.abs(y.value) + y.radius
    # the error of e = exp(-2x) is absolute in 1 - e; e / (1 + e) is (1 - tanh x) / 2
    off = elementary("exp", of) * (1 - low) / 2 * (1 + most) + 3 * unit(of) * most
    return widen(y, lambda: (), absolute=off)


def _gelu(attrs: Attrs, x: Any) -> Any:
    half, one = x.dtype.type(0.5), x.dtype.type(1)
    return half * x * (one + erf(x * rounded_literal(x, math.sqrt(0.5))))


def gelu_tanh(x: Any, root: float = math.sqrt(2 / math.pi), cubic: float = 0.044715) -> Any:
    """GELU by its approximation: x / 2 * (1 + tanh(root * (x + cubic * x^3))), in the dtype of `x`."""
    half, one = x.dtype.type(0.5), x.dtype.type(1)
    inner = x + rounded_literal(x, cubic) * (x * x * x)
    return half * x * (one + np.tanh(rounded_literal(x, root) * inner))


def _leakyrelu(attrs: Attrs, x: Any) -> Any:
    alpha = _number(attrs["alpha"], dtype(x.dtype))
    return as_a_whole("leakyrelu", lambda x: np.where(x >= x.dtype.type(0), x, alpha * x), x, alpha=float(alpha))


def _clip(attrs: Attrs, x: Any) -> Any:
    low, high = attrs["min"], attrs["max"]
    of = dtype(x.dtype)
    # a bound that no element can cross is left out: an integer dtype may be unable to hold it
    if low is not None and (of.is_float or low > of.min):
        x = extreme("max", x, _number(low, of))
    if high is not None and (of.is_float or high < of.max):
        x = extreme("min", x, _number(high, of))
    return x


def _number(value: float, of: DType) -> Any:
    """A Python number rounded to the dtype."""
    return np.asarray(value).astype(of.numpy)[()]


def _astype(attrs: Attrs, x: Any) -> Any:
    """Where there is no such number and `open` is set, anything is right, and an array has 0."""
    to = dtype(attrs["dtype"])
    if not attrs.get("open"):
        return converted(x, to)
    of = dtype(x.dtype)
    if not of.is_float or not to.is_integer:
        return _astype({**attrs, "open": False}, x)
    if isinstance(x, Bounded):
        with np.errstate(all="ignore"):
            return to_integer(x, to, trapping=False)
    whole = np.trunc(as_array(x, np.float64))
    held = (whole >= float(to.min)) & (whole < float(to.max) + 1.0)
    return converted(np.where(held, x, np.zeros((), of.numpy)).astype(of.numpy), to)


def _whole(name: str) -> Value:
    """An integer quotient of the scalar table. By 0 it traps; where `open` is set anything is right, and an array has
    0."""

    def value(attrs: Attrs, a: Any, b: Any) -> Any:
        if isinstance(a, Bounded) or isinstance(b, Bounded):
            return whole_division(name, a, b, trapping=not attrs.get("open"))
        if not attrs.get("open"):
            return by_table(name, a, b)
        none = as_array(b) == 0
        if not none.any():
            return by_table(name, a, b)
        quotient = as_array(by_table(name, a, np.where(none, b.dtype.type(1), b)))
        return np.where(none, quotient.dtype.type(0), quotient)

    return value


# --- records -----------------------------------------------------------------------------------------------------


def _rule(name: str, kinds: Sequence[str], result: str) -> Callable[[Attrs, tuple[TensorType, ...]], TensorType]:
    def rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
        of = same_dtype(name, types)
        require_kind(name, of, kinds)
        shape = broadcast_shapes(name, [t.shape for t in types])
        return TensorType(shape, BOOL if result == "bool" else of)

    return rule


def _dtypes(kinds: Sequence[str]) -> list[str]:
    """One dtype of each of the kinds, for examples: the usual one first."""
    usual = {"float": "float32", "int": "int32", "uint": "uint8", "bool": "bool"}
    return [usual[k] for k in ("float", "int", "uint", "bool") if k in kinds]


Source: TypeAlias = "str | tuple[str, str]"
"""A text; or the operators of ONNX and of TVM that are this one."""


def _sourced(source: Source) -> dict[str, Any]:
    """The fields of a record that say where its meaning comes from."""
    if isinstance(source, str):
        return {"source": source}
    return {"source": documents(*source), "onnx": source[0], "relax": source[1]}


def unary(
    name: str, doc: str, kinds: Sequence[str], value: Value, bound: str, source: Source,
    uses: Sequence[Attrs] = ({},), plain: bool = False, **more: Any,
) -> Operator:  # fmt: skip
    """The record of an operator on one tensor of these kinds of dtypes; `plain`: `value` needs no wrapping for int4."""
    examples = [Example((((2, 3), of),), uses[0]) for of in _dtypes(kinds)]
    examples += [Example((((5,), _dtypes(kinds)[0]),), use) for use in uses[1:]]
    examples.append(Example((((), _dtypes(kinds)[0]),), uses[0]))
    more.setdefault("type_rule", _rule(name, kinds, "same"))
    return Operator(
        name,
        doc,
        ("x",),
        "elementwise",
        value=value if plain else _own(value),
        bound=bound,
        examples=tuple(examples),
        **_sourced(source),
        **more,
    )


def binary(
    name: str, doc: str, kinds: Sequence[str], value: Value, bound: str, source: Source,
    result: str = "same", plain: bool = False, **more: Any,
) -> Operator:  # fmt: skip
    """The record of an operator on two tensors of one dtype, broadcast; `result` is "same" or "bool", for its dtype."""
    # a divisor is to be free of zeros
    safe = {1: (1, 7)} if more.get("can_trap") else {}
    first = _dtypes(kinds)[0]
    examples = [Example((((2, 3), of), ((2, 3), of)), ranges=safe) for of in _dtypes(kinds)]
    examples.append(Example((((4, 1, 3), first), ((2, 1), first)), ranges=safe))
    examples.append(Example((((5,), first), ((), first)), ranges=safe))
    return Operator(
        name, doc, ("a", "b"), "elementwise", _rule(name, kinds, result), value if plain else _own(value), bound,
        tuple(examples),
        **_sourced(source), **more,
    )  # fmt: skip


def documents(name: str, relax: str) -> str:
    """The citation of an ONNX operator and of the Relax operator that mean the same."""
    return f"ONNX {name}, docs/Operators.md; TVM relax.op.{relax}"


EXACT = "exact"
ROUNDED = "one rounding, to nearest or faithful; integers exact"
ELEMENTARY = "4 ulp; 2 in types of 16 bits, 1 in types of 8"

_UNARY = (
    unary("negative", "-x; integers wrap", NUMERIC, lambda attrs, x: -x, EXACT, ("Neg", "negative"), scalar="neg"),
    unary(
        "abs", "The magnitude of x; integers wrap", NUMERIC, lambda attrs, x: np.abs(x), EXACT,
        ("Abs", "abs"), scalar="abs",
    ),
    unary("exp", "e to the power x", FLOAT, lambda attrs, x: np.exp(x), ELEMENTARY, ("Exp", "exp"), scalar="exp"),
    unary(
        "log", "The natural logarithm of x; -inf at 0, NaN below", FLOAT, lambda attrs, x: np.log(x), ELEMENTARY,
        ("Log", "log"), scalar="log",
    ),
    unary(
        "sqrt", "The square root of x; NaN below 0", FLOAT, lambda attrs, x: np.sqrt(x), ROUNDED,
        ("Sqrt", "sqrt"), scalar="sqrt",
    ),
    unary(
        "sigmoid", "1 / (1 + exp(-x))", FLOAT, _sigmoid,
        "the bound of its formula, and 6 unit roundoffs of 1 for 1/2 + tanh(x / 2) / 2", ("Sigmoid", "sigmoid"),
    ),
    unary(
        "tanh", "Hyperbolic tangent of x", FLOAT, _tanh, f"{ELEMENTARY}; with formula, also the error of that",
        ("Tanh", "tanh"), ({}, {"formula": True}),
        attrs={"formula": Attr(
            "whether it may be computed as (1 - exp(-2x)) / (1 + exp(-2x)), as recurrent operators print it", False
        )}, scalar="tanh",
    ),
    unary("erf", "The error function of x", FLOAT, lambda attrs, x: erf(x), ELEMENTARY, ("Erf", "erf"), scalar="erf"),
    unary("floor", "x rounded down", FLOAT, lambda attrs, x: np.floor(x), EXACT, ("Floor", "floor"), scalar="floor"),
    unary("ceil", "x rounded up", FLOAT, lambda attrs, x: np.ceil(x), EXACT, ("Ceil", "ceil"), scalar="ceil"),
    unary(
        "round", "The whole number nearest to x, ties to even", FLOAT, lambda attrs, x: np.rint(x), EXACT,
        ("Round", "round"), scalar="rint",
    ),
    unary(
        "reciprocal", "1 / x", FLOAT, lambda attrs, x: x.dtype.type(1) / x, ROUNDED,
        "ONNX Reciprocal, docs/Operators.md; TVM relax.op.divide of 1", onnx="Reciprocal",
    ),
    unary("nn.relu", "max(x, 0); NaN stays; -0 becomes +0", NUMERIC, relu, EXACT, ("Relu", "nn.relu")),
    unary(
        "nn.gelu", "x / 2 * (1 + erf(x / sqrt(2)))", FLOAT, _gelu,
        "the bound of its formula: 1 + erf loses what is common where x is well below 0", documents("Gelu", "nn.gelu"),
    ),
    unary(
        "nn.gelu_tanh", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))", FLOAT,
        lambda attrs, x: gelu_tanh(x),
        "the bound of its formula", documents("Gelu (approximate)", "nn.gelu_tanh"),
    ),
    unary(
        "logical_not", "Whether x is false", LOGICAL, lambda attrs, x: np.logical_not(x), EXACT,
        ("Not", "logical_not"), scalar="not",
    ),
)  # fmt: skip


def _leakyrelu_rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    require_kind("nn.leakyrelu", types[0].dtype, FLOAT)
    LEAKYRELU.require(_is_number(attrs["alpha"]), "C1", f"alpha is {attrs['alpha']!r}, not a number")
    return types[0]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


LEAKYRELU = unary(
    "nn.leakyrelu",
    "x where x >= 0, else alpha * x",
    FLOAT,
    _leakyrelu,
    ROUNDED,
    documents("LeakyRelu", "nn.leakyrelu"),
    ({}, {"alpha": 0.25}),
    type_rule=_leakyrelu_rule,
    attrs={"alpha": Attr("the slope left of zero", 0.01)},
    constraints={"C1": "alpha is a number"},
)


def _clip_rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    of = types[0].dtype
    require_kind("clip", of, NUMERIC)
    for name in ("min", "max"):
        bound = attrs[name]
        CLIP.require(bound is None or _is_number(bound), "C1", f"{name} is {bound!r}; a number or None is wanted")
        if bound is None or of.is_float:
            continue
        reachable = bound <= of.max if name == "min" else bound >= of.min
        CLIP.require(
            bound == math.floor(bound) if math.isfinite(bound) else True, "C2", f"{name} is {bound}, x is {of}"
        )
        CLIP.require(reachable, "C3", f"{name} is {bound}, but {of} is from {of.min} to {of.max}")
    return types[0]


CLIP = unary(
    "clip",
    "min(max(x, lower bound), upper bound): the upper bound where they are out of order; NaN stays",
    NUMERIC,
    _clip,
    EXACT,
    documents("Clip", "clip"),
    ({"min": 0, "max": 6}, {"min": -1}, {"max": 2}, {"min": 3, "max": 1}, {}),
    type_rule=_clip_rule,
    attrs={"min": Attr("the lower bound; None for none", None), "max": Attr("the upper bound; None for none", None)},
    constraints={
        "C1": "min and max are numbers, not NaN, or None",
        "C2": "for an integer dtype they are whole numbers or infinite",
        "C3": "for an integer dtype min is not above, and max not below, all its numbers",
    },
)


OPEN = Attr("whether an element that has no value may be anything (it is open, and 0 here), instead of a trap", False)


def _astype_rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    ASTYPE.require(
        isinstance(attrs["dtype"], str) and attrs["dtype"] in DTYPES,
        "C1",
        f"dtype is {attrs['dtype']!r}; wanted is one of {', '.join(DTYPES)}",
    )
    ASTYPE.require(isinstance(attrs["open"], bool), "C2", f"open is {attrs['open']!r}; True or False is wanted")
    return TensorType(types[0].shape, dtype(attrs["dtype"]))


ASTYPE = unary(
    "astype",
    "x converted: to a float rounded to nearest even; from a float to an integer truncated, and a trap for NaN or what"
    " is out of range; between integers wrapped; to bool x != 0; from bool 0 or 1",
    ANY,
    _astype,
    "exact where the dtype holds the value, else one rounding; an operand that is off may be truncated either way",
    documents("Cast", "astype"),
    ({"dtype": "float16"}, {"dtype": "int8"}, {"dtype": "bool"}, {"dtype": "float64"}, {"dtype": "int8", "open": True}),
    plain=True,
    type_rule=_astype_rule,
    attrs={"dtype": Attr("the name of the dtype"), "open": OPEN},
    constraints={"C1": "dtype is the name of a dtype", "C2": "open is True or False"},
    can_trap=True,
)

_BINARY = (
    binary(
        "add", "a + b; integers wrap", NUMERIC, lambda attrs, a, b: where_exact("add", a + b, a, b), ROUNDED,
        ("Add", "add"), scalar="add",
    ),
    binary(
        "subtract", "a - b; integers wrap", NUMERIC,
        lambda attrs, a, b: where_exact("subtract", difference(a, b), a, b), ROUNDED,
        ("Sub", "subtract"), scalar="sub",
    ),
    binary(
        "multiply", "a * b; integers wrap", NUMERIC,
        lambda attrs, a, b: where_exact("multiply", a * b, a, b), ROUNDED,
        ("Mul", "multiply"), scalar="mul",
    ),
    binary(
        "divide", "a / b, by the rules of IEEE 754 where b is 0", FLOAT,
        lambda attrs, a, b: where_exact("divide", a / b, a, b), ROUNDED,
        ("Div", "divide"), scalar="div",
    ),
    binary(
        "truncate_divide", "a / b rounded to zero; a trap where b is 0", WHOLE, _whole("truncdiv"), EXACT,
        "ONNX Div of integers, docs/Operators.md; TVM tir.truncdiv", can_trap=True, attrs={"open": OPEN}, onnx="Div",
    ),
    binary(
        "floor_divide", "a / b rounded down; a trap where b is 0", WHOLE, _whole("floordiv"), EXACT,
        "TVM relax.op.floor_divide; NumPy floor_divide", can_trap=True, attrs={"open": OPEN},
    ),
    binary(
        "power", "a to the power b, by the rules of C's pow", FLOAT, _power,
        "4 (1 + |b ln a|) ulp, so that exp(b * log(a)) is correct", ("Pow", "power"), scalar="pow",
    ),
    binary(
        "maximum", "The larger of a and b; NaN if either is NaN; +0 is larger than -0", NUMERIC,
        lambda attrs, a, b: extreme("max", a, b), EXACT, ("Max", "maximum"), scalar="max",
    ),
    binary(
        "minimum", "The smaller of a and b; NaN if either is NaN; -0 is smaller than +0", NUMERIC,
        lambda attrs, a, b: extreme("min", a, b), EXACT, ("Min", "minimum"), scalar="min",
    ),
)  # fmt: skip

_DECIDED = "exact; undecided where the operands' intervals overlap"


def _relation(name: str, scalar: str, onnx: str, value: Value) -> Operator:
    symbol = operation(scalar).symbol
    doc = f"Whether a {symbol} b; NaN is {'un' if name == 'not_equal' else 'not '}equal to anything"
    if name not in ("equal", "not_equal"):
        doc = f"Whether a {symbol} b; false for NaN"
    source = documents(onnx or "Not of Equal", name)
    return binary(name, doc, ANY, value, _DECIDED, source, "bool", onnx=onnx, relax=name, scalar=scalar)


_RELATIONS = (
    _relation("equal", "eq", "Equal", lambda attrs, a, b: np.equal(a, b)),
    _relation("not_equal", "ne", "", lambda attrs, a, b: np.not_equal(a, b)),
    _relation("less", "lt", "Less", lambda attrs, a, b: np.less(a, b)),
    _relation("less_equal", "le", "LessOrEqual", lambda attrs, a, b: np.less_equal(a, b)),
    _relation("greater", "gt", "Greater", lambda attrs, a, b: np.greater(a, b)),
    _relation("greater_equal", "ge", "GreaterOrEqual", lambda attrs, a, b: np.greater_equal(a, b)),
    binary(
        "logical_and", "Whether a and b are true", LOGICAL, lambda attrs, a, b: np.logical_and(a, b), EXACT,
        ("And", "logical_and"), scalar="and",
    ),
    binary(
        "logical_or", "Whether a or b is true", LOGICAL, lambda attrs, a, b: np.logical_or(a, b), EXACT,
        ("Or", "logical_or"), scalar="or",
    ),
    binary(
        "logical_xor", "Whether a and b differ", LOGICAL, lambda attrs, a, b: np.logical_xor(a, b), EXACT,
        ("Xor", "logical_xor"), scalar="ne",
    ),
)  # fmt: skip


def _where_rule(attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    condition, a, b = types
    WHERE.require(condition.dtype is BOOL, "C1", f"the condition is {condition.dtype}, not bool")
    of = same_dtype("where", (a, b))
    return TensorType(broadcast_shapes("where", [t.shape for t in types]), of)


WHERE = Operator(
    "where",
    "a where the condition holds, else b",
    ("condition", "a", "b"),
    "elementwise",
    _where_rule,
    lambda attrs, condition, a, b: np.where(condition, a, b),
    "exact; what holds both where the condition is undecided",
    (
        Example((((2, 3), "bool"), ((2, 3), "float32"), ((2, 3), "float32"))),
        Example((((4, 1, 3), "bool"), ((), "int32"), ((2, 1), "int32"))),
        Example((((), "bool"), ((5,), "bool"), ((5,), "bool"))),
    ),
    constraints={"C1": "the condition is bool"},
    source=documents("Where", "where"),
)

TABLE: tuple[Operator, ...] = (*_UNARY, LEAKYRELU, CLIP, ASTYPE, *_BINARY, *_RELATIONS, WHERE)
