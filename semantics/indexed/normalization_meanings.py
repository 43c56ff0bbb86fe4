"""Normalisations in index notation (specs/semantics.md, "Index notation")."""

from __future__ import annotations

from assay.semantics.indexed.fold import folded, summed
from assay.semantics.indexed.meaning import Meaning, Use, all_of
from assay.semantics.indexed.sum_meanings import over_count
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Expr, apply, choice, const


def _softmax(use: Use, *i: Expr) -> Expr:
    """exp(x - max) / sum of exp(x - max)."""
    shifted, total = _shifted(use, i)
    return apply("exp", shifted) / total


def _log_softmax(use: Use, *i: Expr) -> Expr:
    """(x - max) - log(sum of exp(x - max))."""
    shifted, total = _shifted(use, i)
    return shifted - apply("log", total)


def _shifted(use: Use, i: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    """x - max, and the sum of its exp, along the axis."""
    x, axis = use.x, use.attrs["axis"] % len(i)

    def at(k: Expr) -> Expr:
        return x[(*i[:axis], k, *i[axis + 1 :])]

    peak = folded("max", "k", [x.shape[axis]], at, x.dtype)
    return x[i] - peak, summed("k", [x.shape[axis]], lambda k: apply("exp", at(k) - peak), x.dtype)


def _batch_norm(use: Use, *i: Expr) -> Expr:
    x, gamma, beta, mean, var = use.operands
    c = i[use.attrs["axis"] % len(i)]
    deviation = apply("sqrt", var[c] + const(use.attrs["epsilon"], x.dtype))
    return gamma[c] * (x[i] - mean[c]) / deviation + beta[c]


def _layer_norm(use: Use, *i: Expr) -> Expr:
    x, gamma, *beta = use.operands
    split = len(x.shape) - len(gamma.shape)
    outer, own, inner = i[:split], i[split:], x.shape[split:]
    count, epsilon = product(inner), const(use.attrs["epsilon"], x.dtype)
    mean = over_count(summed("k", inner, lambda *k: x[(*outer, *k)], x.dtype), count)

    def square(*k: Expr) -> Expr:
        distance = x[(*outer, *k)] - mean
        return distance * distance

    variance = over_count(summed("k", inner, square, x.dtype), count)
    made = (x[i] - mean) / apply("sqrt", variance + epsilon) * gamma[own]
    return made + beta[0][own] if beta else made


def _lrn(use: Use, n: Expr, c: Expr, *i: Expr) -> Expr:
    """x / (bias + alpha / size * sum of squares) ** beta, the sum over a window of channels."""
    x, attrs = use.x, use.attrs
    size: int = attrs["size"]
    alpha, beta, bias = (const(v, x.dtype) for v in (attrs["alpha"] / size, attrs["beta"], attrs["bias"]))

    def square(k: Expr) -> Expr:
        at = c + k - (size - 1) // 2
        here = x[(n, at, *i)]
        return choice(all_of(at >= 0, at < x.shape[1]), here * here, const(0, x.dtype))

    return x[(n, c, *i)] / apply("pow", bias + alpha * summed("k", [size], square, x.dtype), beta)


TABLE: dict[str, Meaning] = {
    "nn.softmax": Meaning(_softmax),
    "nn.log_softmax": Meaning(_log_softmax),
    "nn.batch_norm": Meaning(_batch_norm),
    "nn.layer_norm": Meaning(_layer_norm),
    "nn.lrn": Meaning(_lrn),
}
