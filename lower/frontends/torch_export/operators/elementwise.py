"""Elementwise operators of ATen of one tensor (specs/lower.md, "torch.export").

PyTorch: https://docs.pytorch.org/docs/stable/torch.html#pointwise-ops. What takes several steps is computed in float32
for narrower floats, as ATen does, and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from assay.lower.frontends.stablehlo.operators.chlo import digamma, lgamma
from assay.lower.frontends.stablehlo.operators.error_function import erf_inv, erfc
from assay.lower.frontends.stablehlo.operators.functions import expm1, free, log1p, wide
from assay.lower.frontends.torch_export.node import AtenNode, AtenRule, aten_type
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.graph import Expr

Function = Callable[[AtenNode, Expr], Expr]


def floating(of: Function, steps: bool = True) -> AtenRule:
    """A rule of one operand that is computed as floats, whole numbers as float32; of several `steps`, or of one."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor("input" if "input" in node.args and "self" not in node.args else "self")
        if not aten_type(x).dtype.is_float:
            x = node.cast(x, FLOAT32)
        y = of(node, node.work(x) if steps else x)
        return node.cast(y, aten_type(x).dtype)

    return rule


def direct(op: str) -> AtenRule:
    """The operator of ours of that name, on floats."""
    return floating(lambda node, x: node.call(op, x), steps=False)


def keeps_dtype(of: Function, steps: bool = False) -> AtenRule:
    """A rule of one operand that keeps its dtype."""

    def rule(node: AtenNode) -> Expr:
        x = node.tensor()
        y = of(node, node.work(x) if steps else x)
        return node.cast(y, aten_type(x).dtype)

    return rule


def truths(of: Function) -> AtenRule:
    """A rule of one operand that gives bools."""
    return lambda node: of(node, node.tensor())


def is_float(x: Expr) -> bool:
    """Whether the elements are floats."""
    return aten_type(x).dtype.is_float


def constant_like(node: AtenNode, value: float, x: Expr) -> Expr:
    """A number in the dtype of x."""
    return node.as_tensor(value, aten_type(x).dtype)


def is_minus(node: AtenNode, x: Expr) -> Expr:
    """Whether the sign of a float is minus, that of a zero too, which its bits say."""
    of = aten_type(x).dtype
    bits = node.call("reinterpret", x, dtype=f"int{of.bits}")
    return node.call("where", node.call("equal", x, 0), node.call("less", bits, 0), node.call("less", x, 0))


# --- whole numbers and floats


def unless_whole(op: str) -> Function:
    """An operator that leaves whole numbers as they are."""
    return lambda node, x: node.call(op, x) if is_float(x) else x


def trunc(node: AtenNode, x: Expr) -> Expr:
    """Rounded towards 0."""
    if not is_float(x):
        return x
    return node.call("where", node.call("less", x, 0), node.call("ceil", x), node.call("floor", x))


def digamma_of(node: AtenNode, x: Expr) -> Expr:
    """The derivative of log(gamma(x)); of a zero an infinity of the other sign, as the documentation says."""
    pole = node.call("divide", constant_like(node, -1, x), x)
    return node.call("where", node.call("equal", x, 0), pole, digamma(node, x))


def round_(node: AtenNode) -> Expr:
    """To the nearest whole number, halves to the even one; with `decimals`, of x * 10^decimals."""
    x = node.tensor()
    places = node.whole("decimals", 0)
    if not is_float(x):
        return x
    if not places:
        return node.call("round", x)
    scale = 10.0 ** abs(places)
    first, second = ("multiply", "divide") if places > 0 else ("divide", "multiply")
    w = node.work(x)
    return node.cast(node.call(second, node.call("round", node.call(first, w, scale)), scale), aten_type(x).dtype)


def absolute(node: AtenNode, x: Expr) -> Expr:
    """The size of a number."""
    return node.call("abs", x) if aten_type(x).dtype.kind in ("int", "float") else x


def sign(node: AtenNode, x: Expr) -> Expr:
    """-1, 0 or 1; 0 for NaN."""
    of = aten_type(x).dtype
    if of is BOOL:
        return x
    up = node.cast(node.call("greater", x, 0), of)
    return up if of.kind == "uint" else node.call("subtract", up, node.cast(node.call("less", x, 0), of))


def logical_not(node: AtenNode, x: Expr) -> Expr:
    """Whether x is 0."""
    return node.call("logical_not", x) if aten_type(x).dtype is BOOL else node.call("equal", x, 0)


def bitwise_not(node: AtenNode, x: Expr) -> Expr:
    """The complement."""
    return node.call("logical_not" if aten_type(x).dtype is BOOL else "bitwise_not", x)


def never(node: AtenNode, x: Expr) -> Expr:
    """False everywhere."""
    return node.stretched(node.constant(False, BOOL), *aten_type(x).shape)


def is_nan(node: AtenNode, x: Expr) -> Expr:
    """Whether it is NaN."""
    return node.call("not_equal", x, x) if is_float(x) else never(node, x)


def is_inf(node: AtenNode, x: Expr) -> Expr:
    """Whether it is infinite."""
    return node.call("equal", node.call("abs", x), math.inf) if is_float(x) else never(node, x)


def is_finite(node: AtenNode, x: Expr) -> Expr:
    """Whether it is neither."""
    return node.call("less", node.call("abs", x), math.inf) if is_float(x) else node.call("logical_not", never(node, x))


def nan_to_num(node: AtenNode) -> Expr:
    """Numbers in place of NaN and infinities: those that are said, else 0 and the ends of the dtype."""
    x = node.tensor()
    of = aten_type(x).dtype
    if not of.is_float:
        return x
    ends = {"nan": 0.0, "posinf": float(of.max), "neginf": float(of.min)}
    nan, up, down = (node.number(n) if node.has(n) else ends[n] for n in ends)
    y = node.call("where", is_nan(node, x), constant_like(node, nan, x), x)
    y = node.call("where", node.call("equal", x, math.inf), constant_like(node, up, x), y)
    return node.call("where", node.call("equal", x, -math.inf), constant_like(node, down, x), y)


# --- functions


def logarithm(base: float) -> Function:
    """To a base: computed in float64 where the dtype is narrower."""

    def of(node: AtenNode, x: Expr) -> Expr:
        y = node.call("divide", node.call("log", wide(node, x)), math.log(base))
        return free(node, y, x)

    return of


def softplus_of(node: AtenNode, x: Expr) -> Expr:
    """log(1 + e^x)."""
    return log1p(node, node.call("exp", x))


def softplus(node: AtenNode, x: Expr) -> Expr:
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""
    beta, threshold = float(node.number("beta", 1)), float(node.number("threshold", 20))
    scaled = node.call("multiply", x, beta)
    soft = node.call("divide", softplus_of(node, scaled), beta)
    return node.call("where", node.call("greater", scaled, threshold), x, soft)


def log_sigmoid(node: AtenNode, x: Expr) -> Expr:
    """min(x, 0) - log(1 + e^-|x|)."""
    below = log1p(node, node.call("exp", node.call("negative", node.call("abs", x))))
    return node.call("subtract", node.call("minimum", x, 0), below)


def elu(node: AtenNode, x: Expr) -> Expr:
    """scale x above 0, else scale alpha (e^(input_scale x) - 1)."""
    alpha, scale, inner = (float(node.number(n, 1)) for n in ("alpha", "scale", "input_scale"))
    return negative_part(node, x, scale, alpha * scale, inner)


def negative_part(node: AtenNode, x: Expr, scale: float, factor: float, inner: float) -> Expr:
    """scale x above 0, else factor (e^(inner x) - 1)."""
    less = node.call("subtract", node.call("exp", node.call("multiply", x, inner)), 1)
    return node.call("where", node.call("greater", x, 0), node.call("multiply", x, scale),
                     node.call("multiply", less, factor))  # fmt: skip


SELU = (1.0507009873554804934193349852946, 1.6732632423543772848170429916717)
"""Scale and alpha, as the documentation of torch.nn.SELU has them."""


def selu(node: AtenNode, x: Expr) -> Expr:
    """scale (max(0, x) + min(0, alpha (e^x - 1)))."""
    return negative_part(node, x, SELU[0], SELU[0] * SELU[1], 1.0)


def celu(node: AtenNode, x: Expr) -> Expr:
    """max(0, x) + min(0, alpha (e^(x / alpha) - 1))."""
    alpha = float(node.number("alpha", 1))
    return negative_part(node, x, 1.0, alpha, 1 / alpha)


def gelu(node: AtenNode, x: Expr) -> Expr:
    """x times the normal distribution function, or that by tanh."""
    how = node.get("approximate", "none")
    if how not in ("none", "tanh"):
        raise node.wrong(f"approximate is {how!r}; none or tanh is wanted")
    return node.call("nn.gelu" if how == "none" else "nn.gelu_tanh", x)


def six(node: AtenNode, x: Expr) -> Expr:
    """min(max(x + 3, 0), 6)."""
    return node.call("clip", node.call("add", x, 3), min=0, max=6)


def hard_sigmoid(node: AtenNode, x: Expr) -> Expr:
    """min(max(x + 3, 0), 6) / 6."""
    return node.call("divide", six(node, x), 6)


def hard_swish(node: AtenNode, x: Expr) -> Expr:
    """x min(max(x + 3, 0), 6) / 6."""
    return node.call("divide", node.call("multiply", x, six(node, x)), 6)


def silu(node: AtenNode, x: Expr) -> Expr:
    """x sigmoid(x)."""
    return node.call("multiply", x, node.call("sigmoid", x))


def mish(node: AtenNode, x: Expr) -> Expr:
    """x tanh(log(1 + e^x))."""
    return node.call("multiply", x, node.call("tanh", softplus_of(node, x)))


def leaky_relu(node: AtenNode, x: Expr) -> Expr:
    """x above 0, else the slope times x."""
    slope = float(node.number("negative_slope", 0.01))
    return node.call("where", node.call("greater", x, 0), x, node.call("multiply", x, slope))


def relu(node: AtenNode, x: Expr) -> Expr:
    """max(x, 0); NaN stays."""
    return x if aten_type(x).dtype is BOOL else node.call("nn.relu", x)


def hardtanh(node: AtenNode, x: Expr) -> Expr:
    """Between two numbers, -1 and 1; 0 and 6 for relu6."""
    least, most = (0, 6) if node.name == "relu6" else (node.number("min_val", -1), node.number("max_val", 1))
    return node.call("clip", x, min=least, max=most)


def threshold(node: AtenNode, x: Expr) -> Expr:
    """x above the threshold, else the value."""
    below = node.call("less_equal", node.work(x), node.number("threshold"))  # which is not rounded to a narrow float
    return node.call("where", below, constant_like(node, node.number("value"), x), x)


def shrink(soft: bool) -> Function:
    """0 between -lambd and lambd, a number of the operand's dtype; outside x, or x less lambd towards 0."""

    def of(node: AtenNode, x: Expr) -> Expr:
        kind = aten_type(node.tensor()).dtype.numpy if aten_type(node.tensor()).dtype.is_float else np.float32
        edge = float(np.asarray(node.number("lambd", 0.5)).astype(kind))
        up = node.call("subtract", x, edge) if soft else x
        down = node.call("add", x, edge) if soft else x
        # NaN is within, and stays
        y = node.call("where", node.call("greater", x, edge), up, node.call("multiply", x, 0))
        return node.call("where", node.call("less", x, -edge), down, y)

    return of


def logit(node: AtenNode, x: Expr) -> Expr:
    """log(x / (1 - x)), x first brought within eps and 1 - eps."""
    if node.has("eps"):
        if aten_type(x).dtype.bits < 32:  # rounded before or behind the subtraction: 1 - eps is close to 1
            raise node.unsupported(f"eps in {aten_type(x).dtype}")
        eps = float(node.number("eps"))
        x = node.call("clip", x, min=eps, max=1 - eps)
    rest = node.call("subtract", constant_like(node, 1, x), x)
    return node.call("log", node.call("divide", x, rest))


def clone(node: AtenNode) -> Expr:
    """The same value; where it lies and how says nothing of it."""
    x = node.tensor("input" if "input" in node.args else "self")
    return node.cast(x, node.args["dtype"]) if node.has("dtype") else x


def dropout(node: AtenNode) -> Expr:
    """The operand: what is exported for inference drops nothing."""
    if node.flag("train", node.flag("training")) and node.number("p", 1) != 0:
        raise node.unsupported("train = True, which draws random numbers,")
    return node.tensor("input" if "input" in node.args else "self")


DIRECT = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "sigmoid", "sin",
          "sinh", "sqrt", "tan", "tanh", "reciprocal")  # fmt: skip
RENAMED = {"arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
           "arctanh": "atanh", "special_expit": "sigmoid", "special_erf": "erf"}  # fmt: skip

TABLE: dict[str, AtenRule] = {
    **{name: direct(name) for name in DIRECT},
    **{name: direct(op) for name, op in RENAMED.items()},
    "abs": keeps_dtype(absolute),
    "bitwise_not": keeps_dtype(bitwise_not),
    "ceil": keeps_dtype(unless_whole("ceil")),
    "celu": floating(celu),
    "clone": clone,
    "deg2rad": floating(lambda node, x: node.call("multiply", x, math.pi / 180)),
    "digamma": floating(digamma_of),
    "elu": floating(elu),
    "erfc": floating(erfc),
    "erfinv": floating(erf_inv),
    "exp2": floating(lambda node, x: node.call("power", constant_like(node, 2, x), x)),
    "expm1": floating(expm1),
    "fix": keeps_dtype(trunc),
    "floor": keeps_dtype(unless_whole("floor")),
    "frac": keeps_dtype(lambda node, x: node.call("subtract", x, trunc(node, x))),
    "gelu": floating(gelu, steps=False),
    "hardshrink": floating(shrink(soft=False)),
    "hardsigmoid": floating(hard_sigmoid),
    "hardswish": floating(hard_swish),
    "hardtanh": keeps_dtype(hardtanh),
    "isfinite": truths(is_finite),
    "isinf": truths(is_inf),
    "isnan": truths(is_nan),
    "leaky_relu": floating(leaky_relu),
    "lgamma": floating(lgamma),
    "lift_fresh_copy": clone,
    "log10": floating(logarithm(10)),
    "log1p": floating(log1p),
    "log2": floating(logarithm(2)),
    "log_sigmoid": floating(log_sigmoid),
    "logical_not": truths(logical_not),
    "logit": floating(logit, steps=False),
    "mish": floating(mish),
    "nan_to_num": nan_to_num,
    "native_dropout": dropout,
    "neg": keeps_dtype(lambda node, x: node.call("negative", x)),
    "rad2deg": floating(lambda node, x: node.call("multiply", x, 180 / math.pi)),
    "relu": keeps_dtype(relu),
    "relu6": keeps_dtype(hardtanh),
    "round": round_,
    "rsqrt": floating(lambda node, x: node.call("reciprocal", node.call("sqrt", x))),
    "selu": floating(selu),
    "sgn": keeps_dtype(sign),
    "sign": keeps_dtype(sign),
    "signbit": truths(lambda node, x: is_minus(node, x) if is_float(x) else node.call("less", x, 0)),
    "silu": floating(silu),
    "softplus": floating(softplus),
    "softshrink": floating(shrink(soft=True)),
    "special_erfinv": floating(erf_inv),
    "square": keeps_dtype(lambda node, x: node.call("multiply", x, x)),
    "threshold": keeps_dtype(threshold),
    "trunc": keeps_dtype(trunc),
}
