"""Statements of a group, merged (rules F6 to F9; specs/lower.md, "fuse"): what is, what must not be, and the same
bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from assay.lower.fuse.nests import merge_nests, touched
from assay.semantics.dtypes import DTYPES, INT64
from assay.semantics.scalar import Expr, Var as Symbol, cast, const, show
from assay.semantics.tensor import Buffer, For, If, LetStmt, LoopKind, Seq, Stmt, Store, While, loops, seq, store, when
from tests.lower.fuse.fuse_nests import F, Maker, run

pytestmark = pytest.mark.row("R23")


def test_random_groups_compute_the_same_bits() -> None:
    smaller = 0
    for seed in range(300):
        maker = Maker(Random(seed))
        statements, internal, out = maker.group(2 + seed % 3)
        merged = merge_nests(list(statements), internal, {out})
        assert run(merged, internal, out) == run(statements, internal, out), seed
        smaller += len(merged) < len(statements)
    assert smaller > 80, "many of them must have something to merge"


# --- one by one ---------------------------------------------------------------------------------------------------

A, M = Buffer("a", (3,), F), Buffer("m", (2, 3), F)
OUT, WIDE = Buffer("out", (3,), F), Buffer("out", (2, 3), F)
T = Buffer("t", (3,), F)
N = Symbol("n", INT64)


def each(to: Buffer, value: Callable[..., Expr], kind: LoopKind = "serial") -> Stmt:
    """Every element of a buffer, from its indices."""
    return loops("i j"[: 2 * len(to.shape) - 1], to.shape, lambda *v: store(to, v, value(*v)), kind)


def text(*statements: Stmt, between: Sequence[Buffer] = (T,), result: Buffer = OUT) -> list[str]:
    """The merged statements as lines; what is in one loop stands in braces behind it."""
    return [line(s) for s in merge_nests(list(statements), between, {result})]


def line(stmt: Stmt) -> str:
    match stmt:
        case Seq():
            return "; ".join(map(line, stmt.body))
        case For():
            kind = "" if stmt.kind == "serial" else f" {stmt.kind}"
            return f"{stmt.var.name}{kind} {{{line(stmt.body)}}}"
        case LetStmt():
            return f"{stmt.var.name} = {brief(stmt.value)}; {line(stmt.body)}"
        case If():
            return f"if {brief(stmt.condition)} {{{line(stmt.then)}}}"
        case Store():
            return f"{stmt.buffer.name}[{', '.join(map(brief, stmt.indices))}] = {brief(stmt.value)}"
        case _:
            return type(stmt).__name__


def brief(value: Expr) -> str:
    return show(value).replace("T.float32(", "(").replace("(1.0)", "1").replace("(2.0)", "2").replace("(3.0)", "3")


ONE, TWO = each(T, lambda i: A[i] + 1.0), each(OUT, lambda i: T[i] * 2.0)
SQUARE, LIKE, RESULT = Buffer("sq", (3, 3), F), Buffer("b", (3, 3), F), Buffer("out", (3, 3), F)
ROW = Buffer("t", (1, 3), F)


def test_what_is_computed_no_more_often_is_computed_where_it_is_read() -> None:
    assert text(ONE, TWO) == ["i {out[i] = ((a[i] + 1) * 2)}"]
    assert text(ONE, each(OUT, lambda i: T[i] * T[i])) == ["i {out[i] = ((a[i] + 1) * (a[i] + 1))}"]
    assert text(ONE, each(OUT, lambda i: T[0] + A[i])) == ["i {out[i] = ((a[0] + 1) + a[i])}"]
    single = Buffer("out", (1, 3), F)
    assert text(ONE, each(single, lambda i, j: T[j] * 2.0), result=single) == ["i {j {out[i, j] = ((a[j] + 1) * 2)}}"]
    turned = loops("i j", (3, 3), lambda i, j: store(SQUARE, (j, i), LIKE[i, j] + 1.0))
    assert text(turned, each(RESULT, lambda i, j: SQUARE[j, i]), between=[SQUARE], result=RESULT) == [
        "i {j {out[i, j] = (b[i, j] + 1)}}"
    ]
    assert text(turned, each(RESULT, lambda i, j: SQUARE[j, i] * SQUARE[j, i]), between=[SQUARE], result=RESULT) == [
        "i {j {out[i, j] = ((b[i, j] + 1) * (b[i, j] + 1))}}"
    ]
    tall = Buffer("out", (3, 1), F)
    row = loops("j", (3,), lambda j: store(ROW, (0, j), A[j] + 1.0))
    twice = loops("j i", (3, 1), lambda j, i: store(tall, (j, i), ROW[0, j] * ROW[i, j]))
    assert text(row, twice, between=[ROW], result=tall) == ["j {i {out[j, i] = ((a[j] + 1) * (a[j] + 1))}}"], (
        "one row: one element"
    )
    some = loops("i", (2,), lambda i: store(OUT, i, T[i] * 2.0))
    assert text(ONE, some, store(OUT, 2, A[2])) == ["i {out[i] = ((a[i] + 1) * 2)}", "out[2] = a[2]"]


def test_what_would_be_computed_more_often_is_not() -> None:
    """Two elements in one store, two stores, or one element for every row."""
    assert text(ONE, each(OUT, lambda i: T[i] * T[2 - i])) == [
        "i {t[i] = (a[i] + 1)}",
        "i {out[i] = (t[i] * t[(2 - i)])}",
    ]
    assert text(ONE, each(OUT, lambda i: T[2 - i]), each(OUT, lambda i: OUT[i] + T[i])) == [
        "i {t[i] = (a[i] + 1)}", "i {out[i] = t[(2 - i)]}", "i {out[i] = (out[i] + t[i])}",
    ]  # fmt: skip
    assert text(ONE, each(WIDE, lambda i, j: T[j] + M[i, j]), result=WIDE) == [
        "i {t[i] = (a[i] + 1)}", "i {j {out[i, j] = (t[j] + m[i, j])}}",
    ]  # fmt: skip
    row = loops("j", (3,), lambda j: store(ROW, (0, j), A[j] + 1.0))
    assert text(row, each(WIDE, lambda i, j: ROW[0, j]), between=[ROW], result=WIDE) == [
        "j {t[0, j] = (a[j] + 1)}", "i {j {out[i, j] = t[0, j]}}",
    ]  # fmt: skip


def test_what_only_moves_elements_is_done_where_they_are_read() -> None:
    moved = each(T, lambda i: A[2 - i])
    assert text(moved, each(OUT, lambda i: T[i] * T[2 - i])) == ["i {out[i] = (a[(2 - i)] * a[(2 - (2 - i))])}"]
    row = loops("j", (3,), lambda j: store(ROW, (0, j), A[j]))
    assert text(row, each(WIDE, lambda i, j: ROW[i - i, j]), between=[ROW], result=WIDE) == ["i {j {out[i, j] = a[j]}}"]


def test_sizes_that_are_no_numbers() -> None:
    """One element for each iteration of the loops around; else it stays."""
    a, t, out = (Buffer(n, (N,), F) for n in ("a", "t", "out"))
    one = each(t, lambda i: a[i] + 1.0)
    assert text(one, each(out, lambda i: t[i] * 2.0), between=[t], result=out) == ["i {out[i] = ((a[i] + 1) * 2)}"]
    assert text(one, each(out, lambda i: t[0] * 2.0), between=[t], result=out)[0] == "i {t[i] = (a[i] + 1)}"
    three = loops("i", (3,), lambda i: store(out, i, t[i] * 2.0))
    assert text(one, three, between=[t], result=out) == ["i {out[i] = ((a[i] + 1) * 2)}"]
    wide = Buffer("out", (2, N), F)
    assert text(one, each(wide, lambda i, j: t[j] * 2.0), between=[t], result=wide)[0] == "i {t[i] = (a[i] + 1)}"
    half = loops("i", (N,), lambda i: store(out, i, t[i // 2] * 2.0))
    assert text(one, half, between=[t], result=out)[0] == "i {t[i] = (a[i] + 1)}"
    twice = [each(out, lambda i: t[i] * 2.0), each(out, lambda i: out[i] + t[i])]
    assert "t[i] = (a[i] + 1)" in text(one, *twice, between=[t], result=out)[0]
    other = loops("i", (Symbol("k", INT64),), lambda i: store(t, i, a[i] + 1.0))
    assert len(text(other, each(out, lambda i: t[i] * 2.0), between=[t], result=out)) == 2, (
        "not all of it, as far as is known"
    )


def test_only_a_plain_nest_that_makes_all_of_a_value_is_put_elsewhere() -> None:
    first = loops("i", (2,), lambda i: store(T, i, A[i] + 1.0))
    assert text(first, TWO) == ["i {out[i] = (a[i] + 1)}", "i {out[i] = (out[i] * 2)}"]
    assert text(first, store(T, 2, A[2]), TWO) == [
        "i {out[i] = (a[i] + 1)}",
        "out[2] = a[2]",
        "i {out[i] = (out[i] * 2)}",
    ]
    again = loops("i k", (3, 2), lambda i, k: store(T, i, A[i] + 1.0))
    assert text(again, TWO) == ["i {k {out[i] = (a[i] + 1)}; out[i] = (out[i] * 2)}"]
    late = For(Symbol("i", INT64), const(3), store(T, 0, A[0]), start=const(0))
    assert len(text(late, TWO)) == 2
    diagonal = loops("i", (3,), lambda i: store(SQUARE, (i, i), A[i] + 1.0))
    whole = each(RESULT, lambda i, j: SQUARE[i, j])
    assert text(diagonal, whole, between=[SQUARE], result=RESULT) == [
        "i {out[i, i] = (a[i] + 1); j {out[i, j] = out[i, j]}}"
    ]
    own = each(T, lambda i: T[i] * 2.0)
    assert text(each(T, lambda i: A[i]), own, TWO) == ["i {out[i] = a[i]}", "i {out[i] = ((out[i] * 2) * 2)}"]


def test_a_value_stays_before_what_changes_its_operands() -> None:
    u = Buffer("u", (3,), F)
    found = text(
        each(u, lambda i: A[i] + 1.0),
        each(T, lambda i: u[2 - i] + 1.0),
        each(u, lambda i: A[i]),
        each(OUT, lambda i: T[i] + u[i]),
    )
    assert found[0] == "i {u[i] = (a[i] + 1)}" and "u[(2 - i)]" in found[1] and "u[i] = a[i]" in found[2]


def test_conditions_and_places_read_what_was_stored() -> None:
    """Values of stores are rewritten, conditions and the indices of stores are not."""
    asked = loops("i", (3,), lambda i: when(T[i] < 2.0, store(OUT, i, A[i])))
    assert text(ONE, asked) == ["i {t[i] = (a[i] + 1); if (t[i] < 2) {out[i] = a[i]}}"]
    moved = each(T, lambda i: A[i])
    scattered = loops("i", (3,), lambda i: store(OUT, cast(T[i], INT64), A[i]))
    assert text(moved, scattered) == ['i {t[i] = a[i]; out[T.Cast("int64", t[i])] = a[i]}']
    gathered = each(OUT, lambda i: A[cast(T[i], INT64)])
    assert text(moved, gathered) == ['i {out[i] = a[T.Cast("int64", a[i])]}']


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("serial", "serial", ""), ("parallel", "parallel", " parallel"), ("vectorized", "vectorized", " vectorized"),
        ("parallel", "vectorized", " parallel"), ("vectorized", "parallel", " parallel"),
        ("serial", "parallel", ""), ("serial", "vectorized", ""), ("parallel", "serial", ""),
            ("vectorized", "serial", ""),
    ],
)  # fmt: skip
def test_two_loops_as_one_promise_what_both_did(first: LoopKind, second: LoopKind, both: str) -> None:
    one, last = each(T, lambda i: A[i] + 1.0, first), each(OUT, lambda i: OUT[i] + T[i])
    found = text(one, each(OUT, lambda i: T[i] + T[i], second), last)
    assert found == [f"i{both} {{t[i] = (a[i] + 1); out[i] = (t[i] + t[i])}}", "i {out[i] = (out[i] + t[i])}"]


def test_two_loops_are_one_inside_too() -> None:
    u, out = Buffer("u", (2, 3), F), Buffer("out", (2, 3), F)
    first = loops(
        "i", (2,), lambda i: seq(store(T, i, A[i]), loops("j", (3,), lambda j: store(u, (i, j), M[i, j] + 1.0)))
    )
    second = loops(
        "i", (2,), lambda i: seq(loops("j", (3,), lambda j: store(out, (i, j), u[i, j] + u[i, 0])), store(T, i, A[2]))
    )
    assert text(first, second, between=[u], result=out) == [
        "i {t[i] = a[i]; j {u[i, j] = (m[i, j] + 1)}; j {out[i, j] = (u[i, j] + u[i, 0])}; t[i] = a[2]}"
    ]
    own = loops(
        "i", (2,), lambda i: seq(loops("j", (3,), lambda j: store(out, (i, j), u[i, j] + u[i, j])), store(T, i, A[2]))
    )
    found = text(first, own, loops("i", (2,), lambda i: store(out, (i, 0), u[i, 2])), between=[u], result=out)
    assert found[0] == "i {t[i] = a[i]; j {u[i, j] = (m[i, j] + 1); out[i, j] = (u[i, j] + u[i, j])}; t[i] = a[2]}"


def test_loops_of_one_iteration_meet_nobody() -> None:
    one, out = Buffer("t", (1,), F), Buffer("out", (1,), F)
    first, second = (
        loops("i", (1,), lambda i: store(one, 0, A[i])),
        loops("j", (1,), lambda j: store(out, j, one[0] + one[j])),
    )
    assert (
        text(seq(first), second, each(out, lambda i: out[i] + one[0]), between=[one], result=out)[-1]
        == "i {out[i] = (out[i] + t[0])}"
    )


def test_what_stands_between_may_not_care() -> None:
    """The second loop moves up past what it does not touch, or the first one down; else they stay two."""
    u, sides = Buffer("u", (3,), F), Buffer("s", (3,), F)
    last = each(OUT, lambda i: OUT[i] + T[i] + T[2 - i])
    use = each(OUT, lambda i: T[i] * T[i] + u[i])
    apart = each(sides, lambda i: M[0, i])
    assert text(ONE, apart, use, last) == [
        "i {t[i] = (a[i] + 1); out[i] = ((t[i] * t[i]) + u[i])}",
        "i {s[i] = m[0, i]}",
        line(last),
    ]
    before = each(u, lambda i: A[2 - i])
    assert text(ONE, before, use, last) == [
        line(before),
        "i {t[i] = (a[i] + 1); out[i] = ((t[i] * t[i]) + u[i])}",
        line(last),
    ]
    both = seq(each(u, lambda i: T[2 - i]), each(sides, lambda i: A[i]))
    assert len(text(ONE, both, use, last)) == 4, "what is between reads the first and is read by the second"


def test_an_element_that_was_just_stored_is_used_itself() -> None:
    u = Buffer("u", (3,), F)
    double = each(u, lambda i: T[i] * 2.0)
    assert text(ONE, double, each(OUT, lambda i: T[i] + u[i]), between=[T, u]) == [
        "i {out[i] = ((a[i] + 1) + ((a[i] + 1) * 2))}"
    ]
    again = each(OUT, lambda i: OUT[i] * u[i])
    assert text(ONE, double, each(OUT, lambda i: T[i] + u[i]), again, between=[T, u]) == [
        "i {t_value = (a[i] + 1); u[i] = (t_value * 2); out[i] = (t_value + u[i])}", "i {out[i] = (out[i] * u[i])}",
    ]  # fmt: skip
    late = each(OUT, lambda i: OUT[i] * u[i] + T[2 - i])
    assert (
        text(ONE, double, each(OUT, lambda i: T[i] + u[i]), late, between=[T, u])[0]
        == "i {t[i] = (a[i] + 1); u[i] = (t[i] * 2); out[i] = (t[i] + u[i])}"
    ), "it is read later, too"


def test_an_element_is_not_used_after_its_operands_have_changed() -> None:
    u = Buffer("u", (3,), F)

    def around(*between: Callable[[Symbol], Stmt]) -> list[str]:
        def body(i: Symbol) -> Stmt:
            return seq(store(u, i, A[i]), store(T, i, u[i] + 1.0), *(s(i) for s in between))

        return text(loops("i", (3,), body))

    changed = around(lambda i: store(u, i, A[i] * 3.0), lambda i: store(OUT, i, T[i] * u[i]))
    assert changed == ["i {u[i] = a[i]; out[i] = (u[i] + 1); u[i] = (a[i] * 3); out[i] = (out[i] * u[i])}"]
    last = around(lambda i: store(OUT, i, A[i]), lambda i: store(u, i, T[i] * 3.0))
    assert last == ["i {u[i] = a[i]; out[i] = a[i]; u[i] = ((u[i] + 1) * 3)}"]


def in_place(*statements: Stmt, value: Buffer = T, result: Buffer = OUT) -> bool:
    """Whether the value lies in the result's memory."""
    found = merge_nests(list(statements), [value], {result})
    return not any(value in some for s in found for some in touched(s))


ZERO, SUM = each(T, lambda i: A[i] - A[i]), loops("k i", (2, 3), lambda k, i: store(T, i, T[i] + M[k, i]))


def test_a_result_takes_the_place_of_what_it_is_made_of() -> None:
    assert text(ZERO, SUM, TWO) == [
        "i {out[i] = (a[i] - a[i])}",
        "k {i {out[i] = (out[i] + m[k, i])}}",
        "i {out[i] = (out[i] * 2)}",
    ]
    single = loops("k i", (1, 3), lambda k, i: store(OUT, i, T[i] * 2.0))
    assert in_place(ZERO, SUM, single)
    sides = Buffer("s", (3,), F)
    assert in_place(ZERO, SUM, loops("i", (3,), lambda i: when(A[i] < 2.0, store(sides, i, A[i]))), TWO)


@pytest.mark.parametrize(
    "last",
    [
        each(OUT, lambda i: T[2 - i] * 2.0),
        each(OUT, lambda i: T[i] * T[0]),
        loops("k i", (2, 3), lambda k, i: store(OUT, i, T[i] * 2.0)),
        loops("i", (3,), lambda i: when(A[i] < 2.0, store(OUT, i, T[i] * 2.0))),
        loops("i", (3,), lambda i: While(OUT[0] < 2.0, store(OUT, i, T[i] * 2.0))),
        seq(each(OUT, lambda i: T[i] * 2.0), each(T, lambda i: A[i])),
        seq(each(OUT, lambda i: A[i]), each(OUT, lambda i: T[i] * 2.0)),
        seq(each(Buffer("s", (3,), F), lambda i: OUT[i]), each(OUT, lambda i: T[i] * 2.0)),
        each(Buffer("s", (3,), F), lambda i: T[i] * 2.0),
    ],
    ids=["elsewhere", "two", "again", "if", "while", "stored later", "stored before", "read before", "nobody's"],
)
def test_a_result_does_not_take_the_place_of_what_is_still_needed(last: Stmt) -> None:
    assert not in_place(ZERO, SUM, *(last.body if isinstance(last, Seq) else [last]))


def test_a_result_takes_no_place_in_other_memory() -> None:
    """Another dtype, scope or shape."""
    whole = Buffer("out", (3,), DTYPES["int32"])
    assert not in_place(ZERO, SUM, each(whole, lambda i: cast(T[i], whole.dtype)), result=whole)
    near = Buffer("out", (3,), F, "shared")
    assert not in_place(ZERO, SUM, each(near, lambda i: T[i] * 2.0), result=near)
    for shape in ((3, 1), (4,)):
        other = Buffer("out", shape, F)
        last = loops("i", (3,), lambda i, to=other: store(to, (i, 0)[: len(to.shape)], T[i] * 2.0))
        assert not in_place(ZERO, SUM, last, result=other)
