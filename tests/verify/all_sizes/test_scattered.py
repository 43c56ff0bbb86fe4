"""Stores to places that are data: kernels that are shown to be scatter_nd, for all sizes and at some, and planted ones
that are not (specs/verify.md, "For all sizes")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.lower.legalize.kernels.common import Kernel, kernel, nest
from assay.semantics.indexed import MEANINGS
from assay.semantics.indexed.meaning import Meaning
from assay.semantics.operator import Example
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr, apply, cast, choice, select
from assay.semantics.tensor import Assert, Buffer, Stmt, seq, store, when
from assay.verify.all_sizes import prove_for_all_sizes
from assay.verify.all_sizes.small import prove_small
from assay.verify.all_sizes.symbols import SymbolicUse, symbolic_use
from assay.verify.equivalence import BIT_EXACT, UNKNOWN
from assay.verify.operator_terms.examples import prove_example
from tests.verify.operator_terms.test_proofs import proof

SCATTER = OPERATORS["scatter_nd"]


def used(**attrs: Any) -> SymbolicUse:
    return symbolic_use(SCATTER, Example((((4, 3), "float32"), ((2, 1), "int64"), ((2, 3), "float32")), attrs))


PLAIN, ADDED, LARGEST = used(), used(reduction="add"), used(reduction="max")


def scattered(
    combine: Callable[[Expr, Expr], Expr] = lambda old, new: new,
    *,
    count: Callable[[Any], Any] = lambda n: n,
    at: Callable[[Any, Expr], Expr] = lambda n, j: j,
    place: Callable[[Expr, Any], Expr] = lambda p, n: select(p < 0, p + n, p),
    inside: Callable[[Expr, Any], Expr] = lambda p, n: apply("and", p >= apply("sub", 0, n), p < n),
    column: Callable[[Any, Expr], Expr] = lambda m, k: k,
    kind: Any = "serial",
    among: Callable[[Expr], Expr] | None = None,
    of_x: bool = False,
    copies: bool = True,
) -> Kernel:
    """Rows of updates, one after another, combined with the rows of x at the places that the indices hold."""

    def body(name: str, attrs: Any, x: Buffer, indices: Buffer, updates: Buffer, out: Buffer) -> Stmt:
        n = x.shape[0]

        def update(j: Expr, k: Expr) -> Stmt:
            where, new = (
                (place(cast(indices[at(indices.shape[0], j), 0], "int64"), n), column(x.shape[1], k)),
                updates[j, k],
            )
            made = store(out, where, combine((x if of_x else out)[where], new))
            return made if among is None else when(among(j), made)

        check = nest(
            "j",
            indices.shape[:1],
            lambda j: Assert(inside(cast(indices[j, 0], "int64"), n), "outside", "out of bounds"),
        )
        copy = nest("c", x.shape, lambda *c: store(out, c, x[c]))
        rows = nest("j k", (count(updates.shape[0]), updates.shape[1]), update, kind)
        return seq(check, *([copy] if copies else []), rows)

    return kernel("x indices updates", body)


def shown(use: SymbolicUse, made: Kernel) -> str:
    func = made("kernel", use.op.check_attrs(use.attrs), use.operands, use.result)
    return prove_for_all_sizes(func, use.op, use.attrs).reason


def at_sizes(made: Kernel, **attrs: Any) -> object:
    return proof("scatter_nd", (((2, 2), "float32"), ((2, 1), "int32"), ((2, 2), "float32")), made, **attrs).notion


def narrow(made: Kernel, **attrs: Any) -> object:
    """The same of whole numbers, which have no other sums."""
    return proof("scatter_nd", (((2, 2), "int8"), ((2, 1), "int64"), ((2, 2), "int8")), made, **attrs).notion


def test_the_kernel_is_the_operator() -> None:
    assert prove_for_all_sizes(PLAIN.kernel(), SCATTER, PLAIN.attrs).reason == ""
    assert shown(PLAIN, scattered()) == ""
    assert shown(ADDED, scattered(lambda old, new: old + new)) == ""
    assert shown(LARGEST, scattered(lambda old, new: apply("max", old, new))) == ""
    small = prove_small(PLAIN, 16)
    assert small.proof.notion is BIT_EXACT and small.shown >= 10
    assert at_sizes(scattered()) is narrow(scattered(lambda old, new: old + new), reduction="add") is BIT_EXACT
    assert prove_example(SCATTER, SCATTER.examples[3]).proof.notion is BIT_EXACT


@pytest.mark.parametrize("shapes", [((0, 2), (2, 1), (2, 2)), ((2, 2), (0, 1), (0, 2)), ((2, 0), (1, 1), (1, 0))])
def test_of_nothing_both_trap_or_neither(shapes: tuple[tuple[int, ...], ...]) -> None:
    types = tuple(zip(shapes, ("float32", "int64", "float32"), strict=True))
    assert proof("scatter_nd", types, reduction="add").notion is BIT_EXACT
    assert proof("scatter_nd", types, scattered(inside=lambda p, n: p < n)).notion is not BIT_EXACT or not shapes[1][0]


def test_too_many_places_are_not_gone_through() -> None:
    found = prove_example(SCATTER, SCATTER.examples[0]).proof
    assert not found.holds and found.large and "more than 260 values" in found.reason


FAULTS: dict[str, tuple[SymbolicUse, Kernel]] = {
    "the first of two updates of a place": (PLAIN, scattered(at=lambda n, j: n - 1 - j)),
    "an update less": (PLAIN, scattered(count=lambda n: apply("max", n - 1, 0))),
    "an update less where there are several": (PLAIN, scattered(count=lambda n: n - cast(n > 1, "int64"))),
    "negative places from another end": (PLAIN, scattered(place=lambda p, n: select(p < 0, p + n - 1, p))),
    "negative places as they are": (PLAIN, scattered(place=lambda p, n: apply("max", p, 0))),
    "places asserted but for the last": (
        PLAIN, scattered(inside=lambda p, n: apply("and", p >= apply("sub", 0, n), p < n - 1))
    ),
    "places asserted from one side": (PLAIN, scattered(inside=lambda p, n: p < n)),
    "another column": (PLAIN, scattered(column=lambda m, k: apply("max", k - 1, 0))),
    "updates side by side": (PLAIN, scattered(kind="parallel")),
    "an update that is left out": (PLAIN, scattered(among=lambda j: apply("ne", j, 1))),
    "nothing copied": (PLAIN, scattered(copies=False)),
    "nothing copied that is added to": (ADDED, scattered(lambda old, new: old + new, copies=False)),
    "updates added to what was there at first": (ADDED, scattered(lambda old, new: old + new, of_x=True)),
    "the old value dropped": (ADDED, scattered()),
    "a maximum that drops NaN": (LARGEST, scattered(lambda old, new: select(old < new, new, old))),
    "a maximum of the first of two zeros": (LARGEST, scattered(lambda old, new: select(old >= new, old, new))),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_not_shown(name: str) -> None:
    use, made = FAULTS[name]
    assert shown(use, made)
    assert at_sizes(made, **use.attrs) is UNKNOWN


def test_places_that_hang_on_what_is_stored_are_not_read() -> None:
    def body(name: str, attrs: Any, x: Buffer, out: Buffer) -> Stmt:
        copy = nest("c", x.shape, lambda c: store(out, (c,), x[c]))
        return seq(copy, nest("j", x.shape, lambda j: store(out, (cast(out[j], "int64"),), x[j]), "serial"))

    use = symbolic_use(OPERATORS["negative"], Example((((5,), "int32"),)))
    made = kernel("x", body)("kernel", {}, use.operands, use.result)
    assert "hangs on what it holds" in prove_for_all_sizes(made, use.op, use.attrs).reason


@pytest.mark.parametrize(
    "wrong",
    [
        lambda u, i, j: u.x[i, j],
        lambda u, i, j: choice(i > 0, MEANINGS["scatter_nd"].element(u, i, j), u.x[i, j]),
    ],
    ids=["no update", "no update of the first row"],
)
def test_another_notation_is_not_the_definition(wrong: Callable[..., Expr], monkeypatch: pytest.MonkeyPatch) -> None:
    right = MEANINGS["scatter_nd"]
    monkeypatch.setitem(MEANINGS, "scatter_nd", Meaning(lambda u, *i: wrong_of(right, wrong, u, *i), asks=right.asks))
    assert not prove_small(PLAIN, 16).proof.holds


def wrong_of(right: Meaning, wrong: Callable[..., Expr], use: Any, *i: Expr) -> Expr:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MEANINGS, "scatter_nd", right)
        return wrong(use, *i)
