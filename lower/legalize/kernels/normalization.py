"""Kernels of the normalisations (specs/lower.md, "Kernels").

Each is a few passes over the tensor, one after another; what a pass finds for a row or a channel stands in a small
workspace that has an element for each of them.
"""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel, accumulated, allocated, divided, kernel, nest, padded
from assay.semantics.operator import Attrs
from assay.semantics.ops.sizes import product
from assay.semantics.scalar import Expr, apply, const, neutral
from assay.semantics.tensor import Allocate, Buffer, Stmt, loops, seq, store


def _softmax(log: bool) -> Kernel:
    """exp(x - max) / sum of exp(x - max), or its logarithm (x - max) - log(sum of exp(x - max))."""

    def body(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
        axis: int = attrs["axis"] % len(x.shape)
        before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        peak = Buffer("peak", (*before, *after), x.dtype)
        total = Buffer("total", (*before, *after), x.dtype)

        def row(*o: Expr) -> Stmt:
            def shift(k: Expr, *i: Expr) -> Stmt:
                less = x[(*o, k, *i)] - peak[(*o, *i)]
                return store(out, (*o, k, *i), less if log else apply("exp", less))

            def at(*i: Expr) -> tuple[Expr, ...]:
                return (*o, *i)

            def added(i: tuple[Expr, ...], k: tuple[Expr, ...]) -> Expr:
                term = out[(*o, *k, *i)]
                return apply("exp", term) if log else term

            def finish(k: Expr, *i: Expr) -> Stmt:
                at, norm = (*o, k, *i), total[(*o, *i)]
                return store(out, at, out[at] - norm if log else out[at] / norm)

            least, logarithm = neutral("max", x.dtype), (lambda sum_, i: apply("log", sum_)) if log else None
            return seq(
                *accumulated(peak, at, after, "max", least, (length,), lambda i, k: x[(*o, *k, *i)]),
                nest("k", (length, *after), shift),
                *accumulated(total, at, after, "add", const(0, x.dtype), (length,), added, logarithm),
                nest("k", (length, *after), finish),
            )

        return allocated((peak, total), nest("o", before, row))

    return kernel("x", body)


def _batch_norm(
    name: str, attrs: Attrs, x: Buffer, gamma: Buffer, beta: Buffer, mean: Buffer, var: Buffer, out: Buffer
) -> Stmt:
    """gamma * (x - mean) / deviation + beta with deviation = sqrt(var + epsilon), found once for each channel."""
    axis: int = attrs["axis"] % len(x.shape)
    deviation = Buffer("deviation", gamma.shape, x.dtype)
    epsilon = const(attrs["epsilon"], x.dtype)

    def element(*i: Expr) -> Stmt:
        c = i[axis]
        return store(out, i, gamma[c] * (x[i] - mean[c]) / deviation[c] + beta[c])

    deviations = nest("c", gamma.shape, lambda c: store(deviation, c, apply("sqrt", var[c] + epsilon)))
    return Allocate(deviation, seq(deviations, nest("i", x.shape, element)))


def _layer_norm(name: str, attrs: Attrs, x: Buffer, gamma: Buffer, *more: Buffer) -> Stmt:
    """(x - mean) / deviation * gamma + beta with deviation = sqrt(variance + epsilon), in three passes."""
    *beta, out = more
    split = len(x.shape) - len(gamma.shape)
    outer, inner = x.shape[:split], x.shape[split:]
    mean, deviation = Buffer("mean", outer, x.dtype), Buffer("deviation", outer, x.dtype)
    count, epsilon = product(x.shape[split:]), const(attrs["epsilon"], x.dtype)

    def row(*o: Expr) -> Stmt:
        def add_square(*k: Expr) -> Stmt:
            distance = x[(*o, *k)] - mean[o]
            return store(deviation, o, deviation[o] + distance * distance)

        def finish(*k: Expr) -> Stmt:
            value = (x[(*o, *k)] - mean[o]) / deviation[o] * gamma[k]
            for b in beta:
                value = value + b[k]
            return store(out, (*o, *k), value)

        return seq(
            store(mean, o, 0),
            nest("k", inner, lambda *k: store(mean, o, mean[o] + x[(*o, *k)]), "serial"),
            store(mean, o, divided(mean[o], count)),
            store(deviation, o, 0),
            nest("k", inner, add_square, "serial"),
            store(deviation, o, apply("sqrt", divided(deviation[o], count) + epsilon)),
            nest("k", inner, finish),
        )

    return allocated((mean, deviation), nest("o", outer, row))


def _lrn(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    """x / (bias + alpha / size * sum of squares) ** beta, the sum over a window of channels."""
    images, channels, *sizes = x.shape
    size: int = attrs["size"]
    before = (size - 1) // 2
    alpha, beta, bias = (const(v, x.dtype) for v in (attrs["alpha"] / size, attrs["beta"], attrs["bias"]))

    def normalise(squares: Buffer) -> Stmt:
        def channel(n: Expr, c: Expr) -> Stmt:
            def square(i: tuple[Expr, ...], k: tuple[Expr, ...]) -> Expr:
                return squares[(n, c + k[0], *i)]

            def finish(total: Expr, i: tuple[Expr, ...]) -> Expr:
                return x[(n, c, *i)] / apply("pow", bias + alpha * total, beta)

            zero = const(0, x.dtype)
            return seq(*accumulated(out, lambda *i: (n, c, *i), sizes, "add", zero, (size,), square, finish))

        return loops("n c", (images, channels), channel, "parallel")

    shape = (images, channels + size - 1, *sizes)
    offset = (0, before, *(0 for _ in sizes))
    return padded(x, offset, shape, const(0, x.dtype), normalise, lambda e: e * e)


TABLE: dict[str, Kernel] = {
    "nn.softmax": _softmax(log=False),
    "nn.log_softmax": _softmax(log=True),
    "nn.batch_norm": kernel("x gamma beta mean var", _batch_norm),
    "nn.layer_norm": kernel("x gamma beta", _layer_norm),
    "nn.lrn": kernel("x", _lrn),
}
