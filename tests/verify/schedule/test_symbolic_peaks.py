"""Orders of calls and peaks of memory where sizes are unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from assay.interp import vector
from assay.lower.schedule import schedule
from assay.lower.schedule.rematerialise import rematerialise
from assay.semantics.builder import tensor
from assay.semantics.graph import Expr, call, function, let, match_cast, tuple_of, var
from assay.semantics.module import Module
from assay.semantics.rules import check as check_rules
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.evidence import Context
from assay.verify.kept import CLAIMS
from assay.verify.schedule import check_call_order, check_repeated, describe
from assay.verify.schedule.live import never_more, peak, sizes_by_name
from tests.lower.schedule.test_schedule import before_schedule

pytestmark = pytest.mark.row("A25")

n, m = Symbol("n"), Symbol("m")


def stages(module: Module) -> dict[str, Module]:
    made = {"import": module}
    for name, run in lowering_passes(vector.run).items():
        made[name] = module = module if name == "fuse" else run(module)
    return made


def two_wide(**limits: Any) -> Module:
    """Two wide tensors, both made before one of them is made narrow again."""
    x = var("x", tensor(n, 4))
    wide = [call("concat", *[v] * 4, axis=1) for v in (call("exp", x), call("abs", x))]
    both = call("add", wide[0], wide[1])
    narrow = [call("sum", w, axis=(1,)) for w in wide]
    first = call("add", narrow[0], narrow[1])
    return Module({"main": function([x], call("add", first, call("sum", both, axis=(1,))), **limits)})


def fixed_beside_growing(**limits: Any) -> Module:
    """A tensor that grows with n becomes half as long, then one of 4,096 numbers becomes 8. The other way round needs
    less, unless n is large."""
    x, w = var("x", tensor(n, 16)), var("w", tensor(8, 512))
    grown = call("strided_slice", call("exp", x), axes=(1,), begin=(0,), end=(8,))
    fixed = call("sum", call("exp", w), axis=(1,))
    return Module({"main": function([x, w], call("add", grown, fixed), **limits)})


def upper(most: int) -> dict[str, Any]:
    return {"tir_var_upper_bound": {"n": most}}


def test_an_order_that_is_better_at_every_size() -> None:
    x = var("x", tensor(n, 4))
    wide = [call("concat", *[v] * 4, axis=1) for v in (x, call("exp", x))]
    narrow = [call("sum", w, axis=(1,)) for w in wide]
    # read in the other order than made, so that both wide ones live at once
    made = stages(Module({"main": function([x], call("add", narrow[0], call("add", narrow[1], narrow[0])))}))
    claim = made["schedule"].main.attrs[CLAIMS]
    assert claim["sizes"] == {"n": 128}
    assert claim["after"] < claim["before"]
    found = check_call_order(made["constants"], made["schedule"])
    assert found.holds
    assert "peaks found again at n = 128, at no sizes more than before" in found.detail
    assert "at n = 128" in describe(made["constants"], made["schedule"])[0]


def test_an_order_that_is_better_at_some_sizes_says_so() -> None:
    made = stages(fixed_beside_growing())
    before, after = made["constants"], made["schedule"]
    assert after.main.attrs[CLAIMS]["after"] < after.main.attrs[CLAIMS]["before"]
    found = check_call_order(before, after)
    assert found.holds
    assert "at n = 128, at other sizes unknown" in found.detail
    large = sizes_by_name(before, {"n": 4000})
    assert peak(after, large) > peak(before, large), "the order is worse there: nothing may be claimed of all sizes"


def test_within_what_is_declared_it_is_better_at_all() -> None:
    made = stages(fixed_beside_growing(**upper(100)))
    before, after = made["constants"], made["schedule"]
    assert after.main.attrs[CLAIMS]["sizes"] == {"n": 100}
    assert "at n = 100, at no sizes more than before" in check_call_order(before, after).detail
    assert not never_more(after, before)


@pytest.mark.parametrize("source", [two_wide(), two_wide(**upper(40)), fixed_beside_growing()])
def test_every_stage_of_a_program_with_symbols_holds(source: Module) -> None:
    made = stages(source)
    before = source
    for stage in STAGES:
        if stage.name in made:
            found = stage.check(before, made[stage.name], Context())
            assert found.holds, (stage.name, found.detail)
            before = made[stage.name]


@st.composite
def failing(draw: st.DrawFn) -> Module:
    """Small calls between views and casts of computed sizes, which may fail as some calls may."""
    x, index = var("x", tensor(n, 4)), var("i", tensor(2, of="int64"))
    like = var("like", tensor(m))
    ways: list[Expr] = [x]
    for _ in range(draw(st.integers(2, 4))):  # they come wide first and narrow later, so that another order is better
        ways.append(call("concat", *[ways[draw(st.integers(0, len(ways) - 1))]] * 2, axis=1))
    names = [var(f"v{i}", v.type) for i, v in enumerate(ways)]
    placed = dict(zip(ways, names, strict=True))
    wide = [v.with_children([placed.get(c, c) for c in v.children]) for v in ways[1:]]
    narrow: list[Expr] = []
    for v in names[1:]:
        a: Expr = v
        assert isinstance(v.type, TensorType)
        for _ in range(draw(st.integers(0, 3))):
            match draw(st.sampled_from(["view", "cast", "take"])):
                case "view":
                    a = call("reshape", call("reshape", a, shape=(2 * n, v.type.shape[1] // 2)), shape=v.type.shape)
                case "cast":
                    a = match_cast(match_cast(a, tensor(2 * m, v.type.shape[1])), v.type)
                case _:
                    both = call("concat", call("take", a, index, axis=0), a, axis=0)
                    a = call("strided_slice", both, axes=(0,), begin=(0,), end=(n,))
        narrow.append(call("sum", a, axis=(1,)))
    body: Expr = tuple_of(*narrow)
    for name, value in reversed(list(zip(names, [x, *wide], strict=True))):
        body = let(name, value, body)
    return Module({"main": function([x, index, like], body)})


@settings(deadline=None, max_examples=60)
@given(failing())
def test_views_and_casts_that_may_fail_keep_their_place(source: Module) -> None:
    before = before_schedule(source)
    after = schedule(before)
    assert CLAIMS in after.main.attrs, "it is planned"
    check_rules(after)
    found = check_call_order(before, after)
    assert found.holds, found.detail


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"after": 4}, "the peak after is said to be 4 bytes"),
        ({"sizes": {"n": 127}}, "the peak before is said to be"),
        ({"sizes": {}}, "schedule.C2"),
        ({"sizes": {"m": 128}}, "schedule.C2"),
        ({"sizes": {"n": "128"}}, "schedule.C1"),
        ({"sizes": 128}, "schedule.C1"),
    ],
)
def test_a_claim_about_sizes_that_is_not_so(change: dict[str, Any], said: str) -> None:
    made = stages(fixed_beside_growing())
    main = made["schedule"].main
    wrong = replace(main, attrs={**main.attrs, CLAIMS: {**main.attrs[CLAIMS], **change}})
    found = check_call_order(made["constants"], made["schedule"].with_(main=wrong))
    assert not found.holds
    assert said in found.detail


def test_calls_are_repeated_where_that_helps_at_nominal_sizes() -> None:
    made = stages(two_wide())["constants"]
    again = rematerialise(made)
    found = check_repeated(made, again, Context())
    assert found.holds
    assert "at n = 128" in found.detail
