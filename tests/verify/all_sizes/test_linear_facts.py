"""What is seen to follow from facts without z3 does follow (specs/verify.md, "For all sizes")."""

from __future__ import annotations

import random

import pytest
import z3

from assay.semantics.dtypes import BOOL, INT64, dtype
from assay.semantics.scalar import Expr, Load, Var, apply, const
from assay.semantics.tensor import Buffer
from assay.verify.all_sizes.space import Space
from assay.verify.proof_texts import keeping

A, J, N, M = (Var(n) for n in "ajNM")
NO = const(False, BOOL)


def seen(space: Space, facts: list[Expr], claim: Expr) -> bool:
    return space._is_linear(facts, claim)


@pytest.mark.parametrize(
    ("facts", "claim"),
    [
        ([A >= 0, A < N], N > 0),
        ([A >= 0, A < 7], apply("and", A * 3 + 2 < 21, A * 3 + 2 >= 2)),
        ([apply("not", A < J), apply("not", A > J)], A >= J),
        ([apply("eq", A, J + 2), J < N], A < N + 2),
        ([apply("eq", A, J + 2), apply("eq", J, M - 2)], apply("eq", A, M)),
        ([A * 2 >= 5], A >= 3),
        ([A * 2 <= -5], A <= -3),
        ([A >= 4, A < 4], NO),
        ([apply("eq", A, 3), apply("eq", A, 4)], NO),
        ([A >= 0, A < N, N <= 5], A < 5),
        ([A >= 0, A < 3, J >= 0, J < 4, apply("eq", N, A * 4 + J)], N < 12),
    ],
)  # fmt: skip
def test_sums_are_seen_without_z3(facts: list[Expr], claim: Expr) -> None:
    space = Space()
    assert seen(space, facts, claim)
    assert space.implies(facts, claim) and space.queries == 0
    assert space._decided(facts, claim)


@pytest.mark.parametrize(
    ("facts", "claim"),
    [
        ([A >= 0, A <= N], N > 0),
        ([A >= 0, A < 7], A * 3 + 2 < 20),
        ([apply("not", A < J)], A > J),
        ([A * 2 >= 5], A >= 4),
        ([A * 2 <= -5], A <= -4),
        ([A >= 4, A <= 4], NO),
        ([apply("or", A >= 3, J >= 3)], A >= 3),
        ([], A < A + 0),
        ([apply("ne", A, 3)], A > 3),
        ([A < N], A + 1 < N),
    ],
)  # fmt: skip
def test_what_does_not_follow_is_not_seen(facts: list[Expr], claim: Expr) -> None:
    assert not seen(Space(), facts, claim) and not Space().implies(facts, claim)


def test_what_may_wrap_is_no_sum() -> None:
    """Numbers of 32 bits, and whole numbers that are data, wrap; a factor that wraps is another one."""
    k, data = Var("k", dtype("int32")), Load(INT64, Buffer("x", (3,), INT64), (const(0),))
    large = const(1 << 62)
    for facts, claim in (
        ([k >= 0], k + 1 > 0),
        ([data >= 0], data + 1 > 0),
        ([A >= 1], A * large * 4 >= 0),
    ):
        assert not seen(Space(), facts, claim)
    assert not Space().implies([k >= 0], k + 1 > 0) and not Space().implies([data >= 0], data + 1 > 0)


def test_with_texts_z3_is_asked_everything() -> None:
    space, texts = Space(), dict[str, str]()
    with keeping(texts, "kernel"):
        assert space.implies([A >= 0, A < N], N > 0)
    assert space.queries == 1 and texts["kernel"].count("(check-sat)") == 1


def drawn(rng: random.Random) -> tuple[list[Expr], Expr]:
    def total() -> Expr:
        made: Expr = const(rng.randint(-4, 4))
        for v in rng.sample([A, J, N], rng.randint(1, 2)):
            made = made + v * rng.choice([-3, -2, -1, 1, 1, 2, 3])
        return made

    def relation() -> Expr:
        made = apply(rng.choice(["ge", "gt", "le", "lt", "eq"]), total(), total())
        return apply("not", made) if rng.random() < 0.2 and made.op != "eq" else made  # type: ignore[attr-defined]

    return [relation() for _ in range(rng.randint(1, 5))], rng.choice([relation(), relation(), NO])


def test_whatever_is_seen_z3_shows() -> None:
    rng, shown = random.Random(7), 0
    for _ in range(600):
        facts, claim = drawn(rng)
        if seen(Space(), facts, claim):
            shown += 1
            assert Space()._decided(facts, claim), (facts, claim)
    assert shown > 40, z3.get_version_string()
