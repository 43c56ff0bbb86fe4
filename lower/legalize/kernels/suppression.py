"""The kernel of greedy choice (specs/lower.md, "Kernels"): a pass over the boxes for each box that is chosen."""

from __future__ import annotations

from assay.lower.legalize.kernels.common import Kernel, allocated, kernel, nest
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.operator import Attrs
from assay.semantics.scalar import Expr, apply, cast, const
from assay.semantics.tensor import Buffer, Stmt, seq, store, when


def _suppress(
    name: str, attrs: Attrs, scores: Buffer, allowed: Buffer, overlaps: Buffer, most: Buffer, out: Buffer, count: Buffer
) -> Stmt:
    batches, classes, boxes = scores.shape
    left, best, taken = Buffer("left", (boxes,), BOOL), Buffer("best", (1,), INT64), Buffer("taken", (1,), INT64)

    def line(b: Expr, c: Expr) -> Stmt:
        def start(n: Expr) -> Stmt:
            score = scores[b, c, n]
            return store(left, n, apply("and", allowed[b, c, n], apply("eq", score, score)))

        def compare(n: Expr) -> Stmt:
            none = best[0] < 0
            better = seq(
                when(none, store(best, 0, n), when(scores[b, c, best[0]] < scores[b, c, n], store(best, 0, n)))
            )
            return when(left[n], better)

        def strike(n: Expr) -> Stmt:
            return when(
                apply("or", overlaps[b, n, best[0]], apply("eq", n, best[0])), store(left, n, const(False, BOOL))
            )

        def choose(_: Expr) -> Stmt:
            row = [store(out, (count[0], k), v) for k, v in enumerate((b, c, best[0]))]
            chosen = seq(
                *row,
                store(count, 0, count[0] + 1),
                store(taken, 0, taken[0] + 1),
                nest("n", (boxes,), strike),
            )
            found = seq(store(best, 0, -1), nest("n", (boxes,), compare, "serial"), when(best[0] >= 0, chosen))
            return when(taken[0] < cast(most[0], INT64), found)

        return seq(store(taken, 0, 0), nest("n", (boxes,), start), nest("m", (boxes,), choose, "serial"))

    fill = nest("f", out.shape, lambda *f: store(out, f, 0))
    body = seq(fill, store(count, 0, 0), nest("b c", (batches, classes), line, "serial"))
    return allocated((taken, best, left), body)


TABLE: dict[str, Kernel] = {"suppress": kernel("scores allowed overlaps most", _suppress)}
