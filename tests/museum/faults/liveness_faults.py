"""Faults of liveness that others have had or could have, each as a wrong variant of the pass, with a program that shows
it.

The sources are those of the project's facts: what was found in TVM's and Relax's planners, by issue or pull request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower import liveness
from assay.lower.liveness import find_lives, slots
from assay.semantics import live_positions
from assay.semantics.dtypes import UINT8
from assay.semantics.graph import Expr, Var, call, call_tir, function, if_, let, match_cast, tuple_of, var
from assay.semantics.module import Branch, Module, Program, Slot
from assay.semantics.scalar import const
from assay.semantics.tensor import Alias, Buffer, PrimFunc, Stmt, View, phases as reading, seq
from tests.lower.liveness.liveness_programs import F4, B, buffer, dense, fill, kernel, lowered, of_size, rows, within
from tests.museum.judges import lives, spare, steps
from tests.museum.planted import Patch, PlantedFault

Pass = Callable[[Module], Module]


def fault(
    name: str,
    program: Callable[[], Module],
    wrong: Pass,
    plant: Callable[[Patch], None] | None = None,
    lasting: bool = True,
) -> PlantedFault:
    """`wrong` is the pass with the fault, which may have to be planted; `program` makes a module that shows it.

    `lasting` says whether the lives are at fault; else what is computed is.
    """
    sees, silent = (lives, steps) if lasting else (steps, lives)
    said = "is between uses at position" if lasting else "which nothing has written"
    layer = "lives" if lasting else "steps: values"
    return PlantedFault(name, layer, (sees,), program, wrong, tight, said, plant, silent=(silent,))


def tight(source: Module) -> Module:
    """The right pass, whose lives are not longer than needed either."""
    made = find_lives(source)
    assert spare(source, made) is None
    return made


X, Y, C = var("x", F4), var("y", F4), var("c", B)


def named(*bound: Expr) -> Expr:
    *pairs, body = bound
    for v, value in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
        assert isinstance(v, Var)
        body = let(v, value, body)
    return body


def module(body: Expr, *params: Var) -> Module:
    return lowered(Module({"main": function(params, body)}))


def one_call(func: PrimFunc) -> Module:
    """A program of one call, in which all parameters are the caller's."""
    params = [var(b.name, of_size(b.static_shape[0])) for b in func.inputs]
    out = var("out", of_size(func.outputs[0].static_shape[0]))
    return Module({"main": function(params, let(out, call_tir(func.name, params, out.type), out)), func.name: func})


# --- programs --------------------------------------------------------------------------------------------------------


def row() -> Module:
    return module(call("add", call("exp", call("tanh", call("exp", X))), X), X)


def used_again() -> Module:
    a, b = var("a", F4), var("b", F4)
    return module(named(a, call("exp", X), b, call("tanh", call("tanh", a)), call("add", a, b)), X)


def two_results() -> Module:
    """An output is written first, an input is read last."""
    a, b = var("a", F4), var("b", F4)
    return module(named(a, call("exp", X), b, call("tanh", call("tanh", Y)), tuple_of(a, call("add", b, b))), X, Y)


def choice() -> Module:
    a, r = var("a", F4), var("r", F4)
    return module(named(a, call("exp", X), r, if_(C, call("tanh", X), call("exp", Y)), call("add", a, r)), C, X, Y)


def carried() -> Module:
    """A sum that is kept over the iterations of an outer loop, touched in an inner one; beside it something
    short-lived."""
    total, short = buffer("total", 4), buffer("short", 4)

    def body(x: Buffer, out: Buffer) -> Stmt:
        inner = rows(seq(fill(total, total, x), fill(out, total)))
        outer = rows(seq(inner, within(short, body=seq(fill(short, x), fill(out, short)))))
        return within(total, body=seq(fill(total, x), outer))

    return one_call(kernel("carried", (4, 4), body))


def in_a_loop() -> Module:
    """What one iteration leaves for the next, in a loop alone."""
    left, short = buffer("left", 4), buffer("short", 4)

    def body(x: Buffer, out: Buffer) -> Stmt:
        around = rows(seq(fill(out, left), fill(left, x), within(short, body=seq(fill(short, x), fill(out, short)))))
        return within(left, body=seq(fill(left, x), around))

    return one_call(kernel("loop", (4, 4), body))


def side_by_side() -> Module:
    """Two short-lived buffers of one iteration: another iteration may be at the second while one is at the first."""
    a, b = buffer("a", 4), buffer("b", 4)

    def body(x: Buffer, out: Buffer) -> Stmt:
        return rows(
            seq(within(a, body=seq(fill(a, x), fill(out, a))), within(b, body=seq(fill(b, x), fill(out, b)))),
            "parallel",
        )

    return one_call(kernel("side_by_side", (4, 4), body))


def through_a_view() -> Module:
    a, b = buffer("a", 4), buffer("b", 4)
    seen = Buffer("seen", (4,), UINT8)

    def body(x: Buffer, out: Buffer) -> Stmt:
        last = Alias(View(seen, a, const(0), (const(1),)), fill(out, seen, b))
        return within(a, b, body=seq(fill(a, x), fill(b, x), last))

    return one_call(kernel("view", (4, 4), body))


def many_calls() -> Module:
    func = kernel("dense", (4, 4), dense())
    a, b, c, x = (var(n, of_size(4)) for n in "abcx")
    first, second, third = (call_tir("dense", (v,), x.type) for v in (x, a, b))
    return Module({"main": function([x], named(a, first, b, second, c, third, c)), "dense": func})


def other_name(alias: Callable[[Expr], Expr] | None) -> Module:
    """A value that is used last under another name; without one, what is left when that use is not seen."""
    a, n, t = var("a", F4), var("n", F4), var("t", F4)
    last = call("add", n, t) if alias is not None else call("add", X, t)
    return module(
        named(a, call("exp", X), n, alias(a) if alias is not None else X, t, call("tanh", call("tanh", X)), last), X
    )


# --- wrong variants --------------------------------------------------------------------------------------------------


def changed(change: Callable[[Program, Slot], Slot]) -> Pass:
    """The pass, and then each slot as `change` says."""

    def wrong(source: Module) -> Module:
        made = find_lives(source)
        program = made.program
        return made.with_(main=replace(program, slots={n: change(program, s) for n, s in program.slots.items()}))

    return wrong


def last_use_is_not_one(program: Program, s: Slot) -> Slot:
    return replace(s, live=((s.start, max(s.start + 1, s.stop - 1)),)) if s.place == "workspace" else s


def only_the_first_use(program: Program, s: Slot) -> Slot:
    return replace(s, live=((s.start, s.start + 1),)) if s.place == "workspace" else s


def inputs_end_with_their_last_use(program: Program, s: Slot) -> Slot:
    if s.place != "input":
        return s
    return replace(s, live=((0, 1 + max(i for i, step in enumerate(program.steps) if s.name in step.reads)),))


def outputs_end_with_their_last_write(program: Program, s: Slot) -> Slot:
    return replace(s, live=((s.start, s.start + 1),)) if s.place == "output" else s


def alias_is_not_followed(source: Module) -> Module:
    """The lives that the program has if uses under the other name are not seen."""
    made, blind = find_lives(source), find_lives(other_name(None)).program
    slots = {n: replace(s, live=blind.slots[n].live) if n in blind.slots else s for n, s in made.program.slots.items()}
    return made.with_(main=replace(made.program, slots=slots))


def one_life_for_all_calls(source: Module) -> Module:
    """The buffers of a kernel are those of its first call."""
    made = find_lives(source)
    first: dict[str, tuple[str, ...]] = {}
    steps = []
    for s in made.program.steps:
        assert not isinstance(s, Branch)
        steps.append(replace(s, scratch=first.setdefault(s.kernel, s.scratch)))
    kept = {n for s in steps for n in s.scratch}
    slots = {n: s for n, s in made.program.slots.items() if "." not in n or n in kept}
    return made.with_(main=replace(made.program, steps=tuple(steps), slots=slots))


def no_loops(patch: Patch) -> None:
    patch.setattr(reading._Reading, "open_loop", lambda self, start, parallel: None)
    patch.setattr(reading._Reading, "close_loop", lambda self: None)


def half_loops(patch: Patch) -> None:
    """A use lives from the start of the outermost loop, but only to the end of the innermost."""

    class Half:
        def __init__(self, outer: reading._Loop, inner: reading._Loop) -> None:
            self.outer, self.inner = outer, inner
            self.start, self.arm = outer.start, outer.arm

        @property
        def stop(self) -> int:
            return self.inner.stop

    right = reading._Reading.touch

    def touch(self: reading._Reading, buffer: Buffer) -> None:
        before = {b: [len(x) for x in parts] for b, parts in self.touches.items()}
        right(self, buffer)
        for b, parts in self.touches.items():
            for k, part in enumerate(parts):
                if len(part) > before[b][k] and part[-1].loop is not None:
                    part[-1].loop = Half(part[-1].loop, self.loops[-1])  # type: ignore[assignment]

    patch.setattr(reading._Reading, "touch", touch)


def views_of_nothing(patch: Patch) -> None:
    right = reading._Reading.touch

    def touch(self: reading._Reading, buffer: Buffer) -> None:
        self.memory.clear()
        right(self, buffer)

    patch.setattr(reading._Reading, "touch", touch)


def parallel_is_serial(patch: Patch) -> None:
    patch.setattr(reading, "INDEPENDENT", ())


def arms_are_never_passed_through(patch: Patch) -> None:
    """What a choice does not read itself is taken for dead in its arms."""
    right = live_positions._reached

    def reached(
        uses: list[tuple[int, int, int, object]], choices: list[live_positions.BranchRange], within: tuple[int, int]
    ) -> live_positions.Intervals:
        whole = right(uses, choices, within)  # type: ignore[arg-type]
        touched = {u[2] for u in uses}
        holes = [(c.start, c.stop) for k, c in enumerate(choices) if not touched & {2 * k, 2 * k + 1}]
        return tuple(i for w in whole for i in live_positions.minus(w, sorted(holes)))

    patch.setattr(live_positions, "_reached", reached)


def one_branch_makes_it_for_both(patch: Patch) -> None:
    """Apache TVM 20191: storage that one branch fills is read behind the other one too."""
    right = slots.Homes.settle

    def settle(self: slots.Homes, origin: object, name: str, choice: object, side: int) -> None:
        if side == 0:
            right(self, origin, name, choice, side)  # type: ignore[arg-type]

    patch.setattr(slots.Homes, "settle", settle)


def run(source: Module) -> Module:
    return liveness.find_lives(source)


FAULTS: tuple[PlantedFault, ...] = (
    fault("the last use is not counted", used_again, changed(last_use_is_not_one)),
    fault("the first use is taken for the last", row, changed(only_the_first_use)),
    fault("inputs end before the exit", two_results, changed(inputs_end_with_their_last_use)),
    fault("outputs end with their last write", two_results, changed(outputs_end_with_their_last_write)),
    fault("loops do not extend lives", in_a_loop, run, no_loops),
    fault("lives go to the end of the inner loop only", carried, run, half_loops),
    fault("iterations side by side share a buffer", side_by_side, run, parallel_is_serial),
    fault("views are not followed", through_a_view, run, views_of_nothing),
    fault("a choice that does not read a value kills it", choice, run, arms_are_never_passed_through),
    fault(
        "storage of one branch is used in the other (20191)", choice, run, one_branch_makes_it_for_both, lasting=False
    ),
    fault(
        "match-cast does not carry the alias (20190)",
        lambda: other_name(lambda v: match_cast(v, F4)),
        alias_is_not_followed,
    ),
    fault(
        "a lowered reshape does not carry the alias (17145, 20134)",
        lambda: other_name(lambda v: call("reshape", call("reshape", v, shape=(2, 2)), shape=(4,))),
        alias_is_not_followed,
    ),
    fault("one life for a kernel that is called many times", many_calls, one_life_for_all_calls),
)
