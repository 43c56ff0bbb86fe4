"""Kernels of determinants and Fourier transforms (specs/lower.md, "Kernels")."""

from __future__ import annotations

import math

from assay.lower.legalize.kernels.common import Kernel, allocated, divided, kernel, nest
from assay.semantics.dtypes import FLOAT64, INT64
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Expr, apply, cast, const, select
from assay.semantics.scalar.intrinsics import INTRINSICS
from assay.semantics.tensor import Buffer, Stmt, seq, store


def _det(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    """Elimination in a copy, which is left in triangular form; the result takes one pivot after another."""
    size = x.shape[-1]
    batch = x.shape[:-2]
    left = Buffer("left", x.shape, x.dtype)
    best, kept = Buffer("best", (*batch, 1), INT64), Buffer("kept", (*batch, 1), x.dtype)
    zero, one = const(0, x.dtype), const(1, x.dtype)

    def matrix(*b: Expr) -> Stmt:
        def column(k: Expr) -> Stmt:
            def look(i: Expr) -> Stmt:
                size_of, top = apply("abs", left[(*b, i, k)]), apply("abs", left[(*b, best[(*b, 0)], k)])
                # NaN stays where it was found first
                larger = apply("or", size_of > top, apply("and", apply("ne", size_of, size_of), apply("eq", top, top)))
                return store(best, (*b, 0), select(apply("and", i > k, larger), i, best[(*b, 0)]))

            def swap(j: Expr) -> Stmt:
                at = (*b, best[(*b, 0)], j)
                return seq(
                    store(kept, (*b, 0), left[(*b, k, j)]),
                    store(left, (*b, k, j), left[at]),
                    store(left, at, kept[(*b, 0)]),
                )

            def row(i: Expr) -> Stmt:
                pivot = left[(*b, k, k)]
                none = apply("eq", pivot, zero)
                factor = select(none, zero, left[(*b, i, k)] / select(none, one, pivot))

                def element(j: Expr) -> Stmt:
                    changed = left[(*b, i, j)] - kept[(*b, 0)] * left[(*b, k, j)]
                    inside = apply("and", i > k, j > k)
                    return store(left, (*b, i, j), select(inside, changed, left[(*b, i, j)]))

                return seq(store(kept, (*b, 0), factor), nest("j", (size,), element, "serial"))

            pivot = left[(*b, k, k)]
            signed = select(apply("eq", best[(*b, 0)], k), pivot, apply("neg", pivot))
            return seq(
                store(best, (*b, 0), k),
                nest("i", (size,), look, "serial"),
                nest("j", (size,), swap, "serial"),
                store(out, b, out[b] * signed),
                nest("i", (size,), row, "serial"),
            )

        return seq(store(out, b, one), nest("k", (size,), column, "serial"))

    copy = nest("c", x.shape, lambda *c: store(left, c, x[c]))
    return allocated((kept, best, left), seq(copy, nest("b", batch, matrix) if batch else matrix()))


def _dft(name: str, attrs: Attrs, x: Buffer, out: Buffer) -> Stmt:
    """The sums as they are written, with a table of the sines and cosines."""
    length, inverse, onesided = attrs["length"], attrs["inverse"], attrs["onesided"]
    *batch, before, given = x.shape
    after = out.shape[-2]
    parts = range(1 if inverse and onesided else 2)
    cos, sin = Buffer("cosines", (length,), x.dtype), Buffer("sines", (length,), x.dtype)

    def angle(t: Expr) -> Stmt:
        turn = cast(t, FLOAT64) * const(2 * math.pi / length, FLOAT64)
        return seq(*(store(b, t, cast(INTRINSICS[f]([turn]), x.dtype)) for f, b in (("cos", cos), ("sin", sin))))

    def element(*at: Expr) -> Stmt:
        *b, k = at

        def add(j: Expr) -> Stmt:
            turn = (j * k) % length
            c, s = cos[turn], sin[turn] if inverse else apply("neg", sin[turn])
            real = x[(*b, j, 0)]
            terms = [real * c, real * s]
            if given == 2:
                imaginary = x[(*b, j, 1)]
                terms = [terms[0] - imaginary * s, terms[1] + imaginary * c]
            if inverse and onesided:
                alone = apply("or", apply("eq", j, 0), apply("eq", j * 2, length))
                terms[0] = select(alone, terms[0], terms[0] + terms[0])
            return seq(*(store(out, (*at, p), out[(*at, p)] + terms[p]) for p in parts))

        steps: list[Stmt] = [store(out, (*at, p), const(0, x.dtype)) for p in parts]
        steps.append(nest("j", (before,), add, "serial"))
        if inverse:
            steps += [store(out, (*at, p), divided(out[(*at, p)], length)) for p in parts]
        return seq(*steps)

    return allocated((cos, sin), seq(nest("t", (length,), angle), nest("b", (*batch, after), element)))


TABLE: dict[str, Kernel] = {"det": kernel("x", _det), "dft": kernel("x", _dft)}
