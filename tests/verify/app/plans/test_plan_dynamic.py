"""Plans and programs with symbolic sizes in which something is wrong: each is refuted, with the sizes that show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from assay.interp import machine
from assay.lower.liveness import find_lives
from assay.lower.pool import Memory
from assay.semantics.builder import Builder, tensor
from assay.semantics.errors import Invalid, Trap
from assay.semantics.instance import at, symbols_of
from assay.semantics.memory import Place, Pool
from assay.semantics.module import Module, Program, Step
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Expr, Var, evaluate_dim, substitute
from assay.semantics.types import TensorType
from assay.verify.app.stages import STAGES
from assay.verify.evidence import Context
from assay.verify.liveness.program import check_program
from assay.verify.pool import check_in_place, check_pool, sweep
from tests.lower.memory.dynamic_programs import inputs, lowered, planned, proof

pytestmark = pytest.mark.row("U21")

EXACT = Memory(by_bound=False)


def source(**attrs: Any) -> Module:
    """Two tensors of n floats and two of m; `a` and `c` live together, `b` and `d` as well."""
    b = Builder()
    with b.function("main", x=tensor("n"), y=tensor("m"), attrs=attrs) as f:
        a, c = b.exp(f.x), b.exp(f.y)
        p, q = b.nn.relu(a), b.nn.relu(c)
        b.result(b.tuple(b.negative(p), b.negative(q), b.add(a, p), b.add(c, q)))
    return b.module()


BOUNDED = {"tir_var_upper_bound": {"n": 40, "m": 70}, "tir_var_lower_bound": {"n": 2, "m": 3}}


def changed(made: Module, **parts: Any) -> Module:
    return made.with_(main=replace(made.program, **parts))


def moved(made: Module, places: Mapping[str, Dim]) -> Module:
    """The module with other offsets."""
    plan = made.program.plan
    assert plan is not None
    new = {n: Place(plan.places[n].pool, o) for n, o in places.items()}
    return changed(made, plan=replace(plan, places={**plan.places, **new}))


def everywhere(made: Module, change: Callable[[Dim], Dim]) -> Module:
    """The module with every offset and every size of a pool changed."""
    plan = made.program.plan
    assert plan is not None
    there = {n: Place(p.pool, change(p.offset)) for n, p in plan.places.items()}
    return changed(made, plan=replace(plan, places=there, sizes={n: change(s) for n, s in plan.sizes.items()}))


def instead(by: Mapping[Var, Dim]) -> Callable[[Dim], Dim]:
    """Offsets as they would be with something else for some symbols."""

    def change(dim: Dim) -> Dim:
        if not isinstance(dim, Expr):
            return dim
        found = substitute(dim, by)
        return evaluate_dim(found, {}) if all(isinstance(k, int) for k in by.values()) and len(by) == 2 else found

    return change


def refuted(made: Module, *said: str) -> None:
    """By z3 for some sizes, and by the sweep and the machine at those of them that they are run at."""
    evidence, _ = check_pool(made)
    assert not evidence.holds
    for words in said:
        assert words in evidence.detail, evidence.detail
    dims = evidence.data["dims"]
    assert set(dims) <= {"n", "m"}
    values = {v: dims.get(v.name, 2) for v in symbols_of(made.program)}
    there = changed(made, **vars_of(at(replace(made.program, limits=()), values)))
    assert not sweep(there.program, there.kernels).holds
    with pytest.raises(Trap):
        machine.run(there, inputs(source(), {v.name: n for v, n in values.items()}))


def vars_of(program: Program) -> dict[str, Any]:
    return {"slots": program.slots, "steps": program.steps, "sizes": program.sizes, "plan": None, "limits": ()}


def test_the_plans_without_a_fault() -> None:
    for memory in (None, EXACT, Memory(io=True, by_bound=False), Memory((Pool("fast", limit=900), Pool("slow")))):
        for attrs in ({}, BOUNDED):
            evidence = proof(planned(source(**attrs), memory))
            assert evidence.how == "proved" and "swept at" in evidence.detail
            assert ("n in 2 to 40, m in 3 to 70" if attrs else "n >= 0, m >= 0") in evidence.detail
            assert len(evidence.data["swept"]) >= 3


@pytest.mark.parametrize("attrs", [{}, BOUNDED])
def test_an_offset_off_by_an_alignment(attrs: Any) -> None:
    made = planned(source(**attrs), EXACT)
    plan = made.program.plan
    assert plan is not None
    expressions = [n for n, p in plan.places.items() if isinstance(p.offset, Expr)]
    assert expressions
    for name in expressions:
        refuted(moved(made, {name: plan.places[name].offset - 64}), "for n = ", name)
        refuted(moved(made, {name: plan.places[name].offset + 4}), "for n = ", name)


def test_an_offset_that_takes_two_symbols_for_one() -> None:
    """All is well as long as n = m."""
    made = planned(source(), EXACT)
    n, m = symbols_of(made.program)
    wrong = everywhere(made, instead({m: n}))
    refuted(wrong, "for n = 0, m = 1")
    assert sweep(at(wrong.program, {n: 33, m: 33}), made.kernels).holds


def test_a_lower_bound_taken_as_the_size() -> None:
    """apache/tvm#18663."""
    made = planned(source(tir_var_lower_bound={"n": 20, "m": 20}), EXACT)
    n, m = symbols_of(made.program)
    wrong = everywhere(made, instead({n: 20, m: 20}))
    refuted(wrong, "for n = ")
    assert sweep(at(wrong.program, {n: 20, m: 20}), made.kernels).holds


def test_dims_that_count_as_one() -> None:
    made = planned(source(), EXACT)
    n, m = symbols_of(made.program)
    refuted(everywhere(made, instead({n: 1, m: 1})), "for n = ")


def test_a_plan_for_the_bound_without_the_bound() -> None:
    made = planned(source(**BOUNDED))
    refuted(changed(made, limits=()), "for n = ")


def test_a_pool_that_is_too_small_for_some_sizes() -> None:
    made = planned(source(**BOUNDED), EXACT)
    plan = made.program.plan
    assert plan is not None
    refuted(
        changed(made, plan=replace(plan, sizes={"workspace": 600})), "does not lie within its 600 bytes", "for n = "
    )
    limited = changed(made, pools=(Pool("workspace", limit=600),))
    evidence, _ = check_pool(limited)
    assert not evidence.holds and "its limit is 600" in evidence.detail and evidence.data["claim"] == "limit"


def test_a_place_that_is_missing_and_one_that_is_too_many() -> None:
    made = planned(source())
    plan = made.program.plan
    assert plan is not None
    (_, place), *rest = plan.places.items()
    for places, said in ((dict(rest), "has no place"), ({**plan.places, "other": place}, "other, which is no buffer")):
        evidence, _ = check_pool(changed(made, plan=replace(plan, places=places)))
        assert not evidence.holds and said in evidence.detail


def test_a_life_that_is_cut() -> None:
    """Lives are the same at all sizes: the check of lives names the position, the sweep sizes at which bytes are
    lost."""
    made = planned(source(), EXACT)
    program = made.program
    plan = program.plan
    assert plan is not None
    slot = program.slots["exp"]
    short = replace(slot, live=((slot.start, slot.start + 1),))
    cut = changed(made, slots={**program.slots, "exp": short})
    evidence, _ = check_pool(cut)
    assert not evidence.holds and "but is between uses at position" in evidence.detail
    other = next(
        name for name, s in program.slots.items() if s.place == "workspace" and s.start == short.stop and name != "exp"
    )
    there = moved(cut, {other: plan.places["exp"].offset})
    found = sweep(there.program, there.kernels)
    assert not found.holds and found.detail.startswith("for n = ") and "overwritten" in found.detail
    with pytest.raises(Trap):
        machine.run(there, inputs(source(), {"n": 3, "m": 3}))


def test_bytes_taken_in_place_at_symbolic_sizes() -> None:
    """Nothing shows that a kernel may do that for all sizes, so it is no permission."""
    made = planned(source(), EXACT)
    plan = made.program.plan
    assert plan is not None
    steps = [replace(s, in_place=((0, 0),)) if s.reads == ("exp",) else s for s in made.program.calls]
    (taken,) = [s.writes[0] for s in steps if s.in_place]
    wrong = moved(changed(made, steps=tuple(steps)), {taken: plan.places["exp"].offset})
    assert check_in_place(wrong).holds
    refuted(wrong, "for n = ", "exp")


# --- the program beside the graph function ---------------------------------------------------------------------------


def scaled() -> Module:
    """A tensor of 2 n elements, of which the size is a scalar of its kernel."""
    b = Builder()
    with b.function("main", x=tensor("n"), y=tensor("m")) as f:
        assert isinstance(f.x.type, TensorType)
        b.result(b.full(shape=(f.x.type.shape[0] * 2,), fill_value=1.0))
    return lowered(b.module())


def with_kernel(lives: Module, kernel: str, change: Callable[[Step], Step]) -> Module:
    """The module with the steps that run a kernel changed."""
    steps = tuple(change(s) if isinstance(s, Step) and s.kernel == kernel else s for s in lives.program.steps)
    assert steps != lives.program.steps
    return changed(lives, steps=steps)


def test_scalars_that_are_others() -> None:
    calls = scaled()
    lives = find_lives(calls)
    assert check_program(calls, lives).holds
    n, m = symbols_of(lives.program)
    for wrong in (m, n * 2, n + 1, 6):
        made = with_kernel(lives, "full", lambda s: replace(s, scalars=(wrong,)))  # noqa: B023
        assert not check_program(calls, made).holds
        with pytest.raises(Invalid) as caught:
            check(made)
        assert caught.value.label == "program.C3"


def test_a_kernel_that_sees_other_dims() -> None:
    """n by 4 and 4 by n are as many elements: the value is another one."""
    b = Builder()
    with b.function("main", x=tensor("n", "m")) as f:
        b.result(b.sum(f.x, axis=(1,)))
    calls = lowered(b.module())
    lives = find_lives(calls)
    assert check_program(calls, lives).holds
    n, m = symbols_of(lives.program)
    turned = with_kernel(lives, "sum", lambda s: replace(s, dims=tuple((v, m if d is n else n) for v, d in s.dims)))
    assert "where slot" in check_program(calls, turned).detail
    equal = with_kernel(lives, "sum", lambda s: replace(s, dims=tuple((v, n) for v, _ in s.dims)))
    assert "where slot x is Tensor((n, m), float32)" in check_program(calls, equal).detail


def test_a_view_that_turns_rows_into_columns() -> None:
    """The sizes of a step fit its slots, and it computes something else: the dims of the call are part of the value."""
    b = Builder()
    with b.function("main", x=tensor("n", 4)) as f:
        assert isinstance(f.x.type, TensorType)
        n = f.x.type.shape[0]
        b.result(b.permute_dims(b.reshape(f.x, shape=(4, n)), axes=(1, 0)))
    source = b.module()
    calls = lowered(source)
    lives = find_lives(calls)
    assert check_program(calls, lives).holds
    with b.function("other", x=tensor("n", "m")) as g:
        b.result(b.permute_dims(g.x, axes=(1, 0)))
    general = lowered(b.module().with_(main=b.module().definitions["other"])).kernels["permute_dims"]
    (step,) = lives.program.calls
    k, h = general.inputs[0].shape
    assert isinstance(k, Var) and isinstance(h, Var)
    for dims, holds in (((4, n), True), ((n, 4), False)):
        made = changed(lives, steps=(replace(step, dims=tuple(zip((k, h), dims, strict=True))),)).with_(
            permute_dims=general
        )
        check(made)
        assert check_program(calls, made).holds == holds


def test_limits_that_nobody_declared() -> None:
    """A program that refuses sizes which the function takes, or takes some that it does not."""
    calls = lowered(source(**BOUNDED))
    lives = find_lives(calls)
    assert check_program(calls, lives).holds
    (n, low, _), second = lives.program.limits
    for limits in ((), (second,), ((n, low, 41), second), ((n, low + 1, 40), second), ((n, low, None), second)):
        found = check_program(calls, changed(lives, limits=limits))
        assert not found.holds and "those declared are n in 2 to 40, m in 3 to 70" in found.detail


def test_symbols_of_one_name_are_not_one() -> None:
    """The interface is compared by symbol, not by what it is called."""
    calls = lowered(source())
    lives = find_lives(calls)
    slots = {**lives.program.slots, "y": replace(lives.program.slots["y"], type=tensor(Var("m")))}
    assert not check_program(calls, changed(lives, slots=slots)).holds


def test_the_stages_say_what_is_known_of_sizes() -> None:
    stages = {s.name: s for s in STAGES}
    calls = lowered(source(**BOUNDED))
    lives = find_lives(calls)
    assert stages["liveness"].describe(calls, lives)[0].endswith("sizes over n, m")
    assert stages["liveness"].check(calls, lives, Context()).holds
    for memory, said in ((None, "buffers in workspace, 984 bytes"), (EXACT, "buffers in workspace, bytes by n, m")):
        made = planned(source(**BOUNDED), memory)
        before = changed(made, plan=None, steps=tuple(replace(s, in_place=()) for s in made.program.calls))
        assert stages["pool"].describe(before, made)[0].split("; ")[0].endswith(said)
        context = Context()
        assert stages["pool"].check(before, made, context).holds and "pool" in context.queries
        narrow = changed(made, limits=made.program.limits[:1])
        assert "other limits" in stages["pool"].check(before, narrow, Context()).detail
