"""Programs of steps against the graph function they come from (specs/verify.md, "liveness").

Values are numbered slot by slot, from the steps alone: what the planner thought is not read. Behind a branch a slot
holds a choice between what its arms have left in it; what only one arm has written may not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from assay.semantics.devices import ANYWHERE
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import show_head
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.graph.limits import declared_limits
from assay.semantics.instance import measured_of, replaced, shape_in
from assay.semantics.module import Module, Program
from assay.semantics.ops.sizes import same_size
from assay.semantics.scalar import Dim, Var, show, variables
from assay.semantics.size_facts import facts_at
from assay.semantics.steps import (
    Assertion,
    Branch,
    Continue,
    Item,
    Loop,
    Measure,
    PrintValues,
    Require,
    Step,
    flow,
    title,
)
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type
from assay.verify.evidence import Evidence, plural, proved, refuted
from assay.verify.liveness.events import Numbers, TrapEvents, carried_size, choice, chosen_size
from assay.verify.liveness.source_values import Carried, Computed, computed, copied, there
from assay.verify.memory.symbolic import shown_bounds
from assay.verify.value_numbering import step_results
from assay.verify.value_numbering.nesting import UndecidedNumbering
from assay.verify.value_numbering.terms import Table, dim_text, type_text


def describe_step(step: Item, index: int) -> str:
    """A step for a message: its kernel, its place, its number."""
    place = f" at {step.span}" if step.span and isinstance(step, Step | Assertion | Require | PrintValues) else ""
    return f"step {index} ({title(step)}{place})"


def check_program(source: Module, target: Module) -> Evidence:
    """Whether the program computes what the graph function does, slot by slot: a proof by numbering."""
    table = Table()
    program = target.program
    try:
        graph = computed(source.main, source, table, [_carried(program, i) for i, _ in _loops(program)])
    except UndecidedNumbering as reason:
        return refuted("proved", str(reason))
    steps = _Steps(source, target, graph, table)
    for what, i in flow(program.steps):
        step = program.steps[i]
        wrong: str | None = None
        if steps.gone and what not in ("else", "end", "leave"):
            return refuted("proved", f"{describe_step(step, i)} comes where a loop has begun anew")
        match step:
            case Branch():
                wrong = steps.branch(what, i, step)
            case Assertion():
                wrong = steps.assertion(i, step)
            case Measure():
                wrong = steps.measure(i, step)
            case Require() | PrintValues():
                wrong = steps.effect(i, step)
            case Loop():
                wrong = steps.loop(what, i, step)
            case Continue():
                wrong = steps.again(i, step)
            case Step():
                wrong = steps.step(i, step)
        if wrong is not None:
            return refuted("proved", wrong)
    for name, number in zip(program.outputs, graph.result, strict=True):
        if steps.holds.get(name) != number:
            lost = next((n for n, made in graph.calls if not steps.made & set(made)), None)
            why = f": {show_head(lost)} at {lost.span} is never computed" if lost is not None else ""
            return refuted("proved", f"output {name} does not get its value{why}")
    if steps.events.leave() != graph.events:
        return refuted("proved", "a step that can trap, an assertion or a print is dropped, added, changed or moved")
    wrong = _interface(source, program, table, graph, steps.sizes)
    said = f"every output gets its value for every input; {len(program.calls)} steps{_choices(program)}"
    return refuted("proved", wrong) if wrong else proved(said)


def _loops(program: Program) -> Iterator[tuple[int, Loop]]:
    return ((i, s) for i, s in enumerate(program.steps) if isinstance(s, Loop))


def _carried(program: Program, index: int) -> Carried:
    """What a loop says of its variables."""
    loop = program.steps[index]
    assert isinstance(loop, Loop)
    return Carried(loop.carried, {place for places in _changed(program, index).values() for place in places})


def _changed(program: Program, index: int) -> dict[Var, list[tuple[int, int]]]:
    """The sizes that a loop carries and changes, and where they stand: the number of the variable, and the axis."""
    loop = program.steps[index]
    assert isinstance(loop, Loop)
    inner = {v for s in program.steps[index + 1 : loop.end] if isinstance(s, Measure) for v in s.symbols}
    found: dict[Var, list[tuple[int, int]]] = {}
    for k, name in enumerate(loop.carried):
        for axis, d in enumerate(program.slots[name].type.shape if name else ()):
            if isinstance(d, Var) and d in inner:
                found.setdefault(d, []).append((k, axis))
    return found


def _choices(program: Program) -> str:
    choices, loops, assertions = (sum(isinstance(s, kind) for s in program.steps) for kind in (Branch, Loop, Assertion))
    measured = measured_of(program)
    limits = ", ".join(f"{v.name} up to {show(measured[v])}" for v, _, _ in program.limits if v in measured)
    said = f", {plural(choices, 'choice')}" if choices else ""
    said += f", {plural(loops, 'loop')}" if loops else ""
    said += f", {plural(len(measured), 'measured size')}" if measured else ""
    said += f" (room for {limits})" if limits else ""
    said += f", {plural(assertions, 'assertion')} on sizes" if assertions else ""
    asked, told = (sum(isinstance(s, kind) for s in program.steps) for kind in (Require, PrintValues))
    said += f", {plural(asked, 'assertion')} on values" if asked else ""
    return said + (f", {plural(told, 'print')}" if told else "")


def _interface(source: Module, program: Program, table: Table, graph: Computed, sizes: Mapping[Var, Dim]) -> str | None:
    """What is wrong with the inputs and outputs, and with the limits of sizes, if anything. `sizes` is what stands for
    the measured ones at the end."""

    def text(of: Type) -> str:
        return type_text(of, lambda d: dim_text(d, lambda s: f"@{table.symbol(s)}"), table)

    for p in source.main.params:
        if p.name in program.inputs and program.slots[p.name].device != p.device:
            return f"input {p.name} is on {program.slots[p.name].device}, the parameter on {p.device}"
    for c in program.placed("constant"):
        said = source.info(c.name).device
        if c.device != said:
            return f"constant {c.name} is on {c.device}, in the table on {said}"
    params = [(p.name, text(p.type)) for p in source.main.params]
    if params != [(n, text(program.slots[n].type)) for n in program.inputs]:
        return "the program's inputs are not the function's parameters"
    given = (program.slots[n].type for n in program.outputs)
    made = [TensorType(tuple(replaced(d, sizes) for d in t.shape), t.dtype) for t in given]
    if [text(t) for t in graph.types] != [text(t) for t in made]:
        return "the program's outputs do not have the types of the function's results"
    try:
        declared = declared_limits(source.main)
    except Invalid as wrong:
        return str(wrong)
    measured = measured_of(program)
    limits = tuple(one for one in program.limits if one[0] not in measured)
    if declared != limits:
        both = [
            ", ".join(shown_bounds(v, (low, high)) for v, low, high in found) or "none" for found in (declared, limits)
        ]
        return f"the limits of the program's sizes are {both[1]}, those declared are {both[0]}"
    for name, slot in zip(source.main.attrs.get("outputs", ()), program.outputs, strict=False):
        if slot != name and not slot.startswith(f"{name}_"):
            return f"output {name} is written to {slot}"
    return None


class _Steps:
    """What every slot holds, step after step. Each method says what is wrong, or None."""

    def __init__(self, source: Module, target: Module, graph: Computed, table: Table) -> None:
        self.source, self.target, self.graph, self.table = source, target, graph, table
        self.events = TrapEvents(table)
        self.made: set[int] = set()
        self.facts = facts_at(target.program.steps)
        program = target.program
        self.holds: dict[str, int] = {name: table.number("parameter", i) for i, name in enumerate(program.inputs)}
        for name, array in target.constants.items():
            self.holds[name] = there(table, table.constant(array), target.info(name).device)
        self.before: list[dict[str, int | None]] = []
        """For each arm around here what slots held where it began, of those that it has changed."""
        self.arms: list[tuple[int, dict[str, int | None], Numbers, dict[Var, Dim]]] = []
        """For each branch of which the second arm is being read: the condition, and what the first has left."""
        self.left: dict[Var, Dim] = {}
        """The sizes at the end of the arm that was left last."""
        self.gone = False
        """Whether no way leads here: a loop has begun anew instead."""
        self.ended: list[bool] = []
        """For each branch around: whether no way leads out of its first arm, once that is read."""
        self.loops: list[tuple[int, Loop, Numbers, list[Dim], list[Var]]] = []
        """The loops around: the number of each, what its variables are before, and the sizes that it changes, before
        and as symbols."""
        self.count = 0
        self.measured = measured_of(program)
        self.sizes: dict[Var, Dim] = {}
        """What stands for the sizes that were measured on the way to here."""
        self.outer: list[dict[Var, Dim]] = []
        """For each arm around the sizes that were measured before it."""

    def put(self, name: str, number: int | None) -> None:
        """A slot holds something else from now on; None: nothing that could be read."""
        if self.before:
            self.before[-1].setdefault(name, self.holds.get(name))
        if number is None:
            self.holds.pop(name, None)
        else:
            self.holds[name] = number

    def step(self, i: int, step: Step) -> str | None:
        program, table = self.target.program, self.table
        kernel = self.target.kernel(step.kernel)
        for name in step.reads:
            if name not in self.holds:
                return f"{describe_step(step, i)} reads {name}, which nothing has written"
        wanted = [TensorType(shape_in(step, kernel, b), b.dtype) for b in kernel.params]
        for of, name in zip(wanted, (*step.reads, *step.writes), strict=True):
            t = program.slots[name].type
            if t.dtype is not of.dtype or not self.facts[i].same_size(t.shape, of.shape):
                return f"{describe_step(step, i)} takes {of} where slot {name} is {t}"
        used = (
            *step.scalars,
            *(d for _, d in step.dims),
            *(d for n in step.scratch for d in program.slots[n].type.shape),
        )
        if wrong := self.unmeasured(i, step, used):
            return wrong
        if self.sizes:
            wanted = [TensorType(tuple(replaced(d, self.sizes) for d in t.shape), t.dtype) for t in wanted]
        reads = [self.holds[n] for n in step.reads]
        results = copied(kernel, reads, step.device, table) or step_results(
            kernel, reads, table, self.target, wanted, [replaced(d, self.sizes) for d in step.scalars]
        )
        if kernel_can_trap(kernel):
            self.events.add(results[0])
        if step.kernel in self.source.definitions and step.device not in self.graph.devices.get(
            results[0], {step.device}
        ):
            return f"{describe_step(step, i)} runs on {step.device}, which no call of that value names"
        self.made.update(results)
        for name, number in zip(step.writes, results, strict=True):
            self.put(name, number)
        for name in step.scratch:
            self.put(name, None)
        return self.misplaced(i, step, kernel)

    def unmeasured(self, i: int, step: Item, dims: Iterable[Dim]) -> str | None:
        """Whether a step uses a size that no step on the way to it has measured."""
        missing = next((v for d in dims for v in variables(d) if v in self.measured and v not in self.sizes), None)
        return None if missing is None else f"{describe_step(step, i)} uses {missing.name} before that is measured"

    def measure(self, i: int, step: Measure) -> str | None:
        """Sizes get their values, the elements of what a slot holds, or dims."""
        if not step.slot:
            if wrong := self.unmeasured(i, step, step.values):
                return wrong
            self.sizes.update([(v, replaced(d, self.sizes)) for v, d in zip(step.symbols, step.values, strict=True)])
            return None
        of = self.target.program.slots[step.slot].type
        if step.slot not in self.holds:
            return f"{describe_step(step, i)} reads {step.slot}, which nothing has written"
        if (
            of.dtype is not INT64
            or not same_size(of.shape, (len(step.symbols),))
            or len(step.most) != len(step.symbols)
        ):
            return f"{describe_step(step, i)} reads {step.slot}, which is {of}"
        self.sizes.update(zip(step.symbols, self.events.measure(self.holds[step.slot], len(step.symbols)), strict=True))
        return None

    def effect(self, i: int, step: Require | PrintValues) -> str | None:
        """A condition has to hold, or values are printed."""
        missing = next((n for n in step.reads if n not in self.holds), None)
        if missing is not None:
            return f"{describe_step(step, i)} reads {missing}, which nothing has written"
        condition = self.holds[step.condition] if isinstance(step, Require) else None
        self.events.effect(condition, tuple(self.holds[n] for n in step.shown), step.format)
        return None

    def assertion(self, i: int, step: Assertion) -> str | None:
        """Sizes have to be equal."""
        if wrong := self.unmeasured(i, step, (d for pair in step.sizes for d in pair)):
            return wrong
        self.events.assert_sizes([(replaced(a, self.sizes), replaced(b, self.sizes)) for a, b in step.sizes])
        return None

    def misplaced(self, i: int, step: Step, kernel: PrimFunc) -> str | None:
        """What a step writes is where it runs, and what it allocates there too, in the scope that the kernel says."""
        slots, here = self.target.program.slots, step.device
        for name in step.writes:
            if not slots[name].device.covers(here):
                return f"{describe_step(step, i)} runs on {here} and writes {name}, which is on {slots[name].device}"
        for name, buffer in zip(step.scratch, kernel.allocations, strict=True):
            own = ANYWHERE if here.place == ANYWHERE else replace(here, scope=buffer.scope)
            if slots[name].device != own:
                return (
                    f"{describe_step(step, i)} allocates {buffer.name} on {own}, and {name} is on {slots[name].device}"
                )
        return None

    def branch(self, what: str, i: int, step: Branch) -> str | None:
        """A branch is entered, its second arm begins, or it ends."""
        match what:
            case "if":
                if step.condition not in self.holds:
                    return f"{describe_step(step, i)} reads {step.condition}, which nothing has written"
                self.arms.append((self.holds[step.condition], {}, (), {}))
                self.enter()
            case "else":
                self.arms[-1] = (self.arms[-1][0], *self.leave(), self.left)
                self.enter()
                self.ended.append(self.gone)
                self.gone = False
            case _:
                other, events = self.leave()
                condition, first, before, sizes = self.arms.pop()
                self.events.choose(condition, before, events)
                ended = self.ended.pop()
                both = {v: (sizes[v], self.left[v]) for v in sizes if v in self.left}
                self.sizes = {v: chosen_size(self.table, condition, *arms) for v, arms in both.items()}
                if ended or self.gone:  # what one goes on with is what the other arm has left
                    for name, number in (other if ended else first).items():
                        self.put(name, number)
                    self.sizes = self.left if ended else sizes
                    self.gone = self.gone and ended
                    return None
                for name in {**first, **other}:
                    here = self.holds.get(name)
                    a, b = first.get(name, here), other.get(name, here)
                    chosen = None if a is None or b is None else choice(self.table, condition, a, b)
                    if chosen != here:
                        self.put(name, chosen)
        return None

    def loop(self, what: str, i: int, step: Loop) -> str | None:
        """A loop begins, or it is left. What is known where it begins holds in every iteration: what its variables are
        has a number of its own, and what it writes otherwise is not there."""
        if what == "leave":
            number, _, initial, sizes, _ = self.loops.pop()
            if self.gone:
                return f"{describe_step(step, i)} is never left"
            self.events.loop(number, initial, sizes)
            return None
        missing = next((n for n in step.carried if n and n not in self.holds), None)
        if missing is not None:
            return f"{describe_step(step, i)} carries {missing}, which nothing has written"
        initial = tuple(self.holds[n] for n in step.carried if n)
        changed = _changed(self.target.program, i)
        if wrong := self.unmeasured(i, step, changed):
            return wrong
        self.loops.append((self.count, step, initial, [self.sizes[v] for v in changed], list(changed)))
        self.count += 1
        for inner in self.target.program.steps[i + 1 : step.end]:
            for name in (*inner.writes, *inner.scratch):
                self.put(name, None)
            for v in inner.symbols if isinstance(inner, Measure) else ():
                self.sizes.pop(v, None)
        self.sizes.update((v, carried_size(self.table, self.loops[-1][0], *at[0])) for v, at in changed.items())
        for k, name in enumerate(step.carried):
            if name:
                self.put(name, self.table.number("carried", self.loops[-1][0], k))
        self.events.enter()
        return None

    def again(self, i: int, step: Continue) -> str | None:
        """A loop begins anew, with what its variables' slots hold."""
        number, loop, _, _, changed = self.loops[-1]
        missing = next((n for n in loop.carried if n and n not in self.holds), None)
        if missing is not None:
            return f"{describe_step(step, i)} carries {missing}, which nothing has written in this iteration"
        if wrong := self.unmeasured(i, step, changed):
            return wrong
        self.events.again(number, tuple(self.holds[n] for n in loop.carried if n), [self.sizes[v] for v in changed])
        self.gone = True
        return None

    def enter(self) -> None:
        self.before.append({})
        self.outer.append(dict(self.sizes))
        self.events.enter()

    def leave(self) -> tuple[dict[str, int | None], Numbers]:
        """Back to where the arm began; what it has left in the slots that it has changed, and its events."""
        changed = self.before.pop()
        self.left, self.sizes = self.sizes, self.outer.pop()
        left = {name: self.holds.get(name) for name in changed}
        for name, number in changed.items():
            if number is None:
                self.holds.pop(name, None)
            else:
                self.holds[name] = number
        return left, self.events.leave()
