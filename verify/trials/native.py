"""The compiled C beside the meaning of its steps, each handed operands of its own (specs/verify.md, "Trials").

Before every step what it reads is overwritten, in the memory of the running C, by special values, ties or extremes; and
before every choice its condition, so that each arm runs, whatever the data would choose. What the step leaves must be,
bit for bit, what its tensor function gives on these operands. So a fault shows in the step that has it, and no step
hides from values that those before it never make. Inputs and constants are not overwritten: inputs are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.semantics.dtypes import DType
from assay.semantics.errors import Trap
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.module import Module, Program
from assay.semantics.scalar import Var
from assay.semantics.steps import Branch, Require, Step
from assay.semantics.tensor import program_order
from assay.verify.c.compiled import Compiled, Look, SeenEnough
from assay.verify.c.tools import SizesRefused
from assay.verify.evidence import listed, plural
from assay.verify.liveness.program import describe_step
from assay.verify.trials.batch import stores
from assay.verify.trials.data import (
    KINDS,
    Kind,
    constants_of,
    distinct_numbers,
    draw,
    meeting,
    ordinary,
    telling_numbers,
)
from assay.verify.trials.kernels import SMALL, different, kernel_outcome
from assay.verify.trials.paths import TrialPath
from assay.verify.trials.planned import symbols_left
from assay.verify.trials.sides import Sides, conditions_of

Array = np.ndarray[Any, Any]

LARGE = 1 << 20
"""Stores of a step from which on it is not tried."""
BUDGET = 1 << 23
"""Stores of all steps of one run that are tried."""
RUNS = 16
"""Runs at most, so that every arm is taken."""
EVENTS = 64
"""Steps that are looked at in the runs of a small program that go through the special values."""
ENDS = 4
"""Steps that are run on operands on which they trap, each in a run of its own."""


@dataclass
class NativeTrials:
    """What was tried, for the line."""

    runs: int = 0
    kinds: dict[str, None] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    traps: int = 0
    cut: int = 0
    untaken: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)


class Trials:
    """The steps of a program in the C that was compiled with `trace`."""

    def __init__(
        self,
        planned: Module,
        compiled: Compiled,
        inputs: Mapping[str, Array],
        seed: int,
        measured: Mapping[Var, int] | None = None,
    ) -> None:
        self.module = planned.resolved()
        self.measured = measured or {}
        """What each run is to measure."""
        self.program: Program = planned.program
        self.compiled, self.inputs, self.seed = compiled, inputs, seed
        self.positions = self.program.positions
        self.tried = NativeTrials()
        self.taken: Counter[tuple[int, bool]] = Counter()
        self.sizes: dict[str, int] = {}
        self.constants: dict[str, list[Any]] = {}
        self.traps: dict[str, bool] = {}
        self.sides: dict[str, Sides] = {}
        self.numbers: dict[tuple[str, DType], Array] = {}
        self.unwatched: list[str] = []
        self.beside: dict[str, dict[str, None]] = {}
        """By input what the steps that read it read too."""
        self.compared: dict[str, list[Any]] = {}
        """By input the numbers in the tensor functions that read it, and those of the constants beside it."""
        self.open = {
            i
            for i, s in enumerate(self.program.steps)
            if isinstance(s, Step) and symbols_left(self.module.kernel(s.kernel))
        }
        """The steps whose sizes a run changes as it goes: they run as they are."""
        steps = self.program.steps
        self.loose = {i for i in self.open if kernel_can_trap(self.module.kernel(steps[i].kernel))}  # type: ignore[union-attr]
        """Those of them at which a run may end."""
        closed = [s for i, s in enumerate(self.program.steps) if isinstance(s, Step) and i not in self.open]
        for step in closed:
            if step.kernel not in self.sizes:
                kernel = self.module.kernel(step.kernel)
                self.sizes[step.kernel] = stores(kernel)
                self.constants[step.kernel] = constants_of(kernel)
                self.traps[step.kernel] = kernel_can_trap(kernel)
                if self.sizes[step.kernel] <= SMALL:
                    self.sides[step.kernel] = Sides.of(kernel)
                elif any(conditions_of(s) for s in program_order(kernel.body)):
                    self.unwatched.append(step.kernel)
        for step in closed:
            numbers = [*self.constants[step.kernel], *self.numbers_beside(step)]
            for name in step.reads:
                if self.program.slots[name].place == "input":
                    self.beside.setdefault(name, {}).update(dict.fromkeys(n for n in step.reads if n != name))
                    self.compared.setdefault(name, []).extend(numbers)
        self.skipped = self.left_out()

    def numbers_beside(self, step: Step) -> list[Any]:
        """Some of the numbers in the constants that a step reads."""
        held = [
            np.asarray(self.module.constants[n]).reshape(-1)
            for n in step.reads
            if self.program.slots[n].place == "constant"
        ]
        return [
            x.item() if x.dtype.kind in "iu" else float(x)
            for c in held
            if c.dtype != np.bool_
            for x in distinct_numbers(c[:256])[:8]
        ]

    def left_out(self) -> set[int]:
        """The steps that are too large to be tried: the smallest ones are, as far as the budget goes."""
        found = set(self.open)
        total = 0
        steps = enumerate(self.program.steps)
        calls = [(self.sizes[s.kernel], i, s) for i, s in steps if isinstance(s, Step) and i not in self.open]
        for size, i, step in sorted(calls, key=lambda c: c[:2]):
            total += size
            if (size > LARGE or total > BUDGET) and not self.traps[step.kernel]:
                found.add(i)
                self.tried.large.append(step.kernel)
        return found

    def run(self) -> str | None:
        """Where a step of the C differs from its tensor function, if one does."""
        total = sum(self.sizes.get(s.kernel, 0) for s in self.program.calls)
        kinds: Sequence[Kind] = (
            KINDS if total <= SMALL else ("specials", "ties") if total <= BUDGET // 8 else ("specials",)
        )
        ends: dict[int, list[Array]] = {}
        turns = len(kinds) if total > SMALL else max(len(kinds), EVENTS // max(1, len(self.program.calls)))
        for turn in range(max(turns, RUNS)):
            kind = kinds[turn] if turn < len(kinds) else "specials"
            run = _Run(self, turn, kind)
            if turn >= turns and not run.is_new:
                break
            wrong = run.go()
            if wrong:
                return f"on {kind}, handed to each step: {wrong}"
            self.tried.cut += run.is_cut
            if not run.is_cut:  # what comes behind has not run
                self.taken.update(run.way.arms)
            self.tried.kinds[kind] = None
            for step, operands in run.trapping.items():
                ends.setdefault(step, operands)
        for step, operands in list(ends.items())[:ENDS]:
            run = _Run(self, 0, kinds[0], end=(step, operands))
            if step in run.path and not self.reads_inputs(step):
                wrong = run.go()
                if wrong:
                    return f"on operands that trap: {wrong}"
        for i, step_ in enumerate(self.program.steps):
            if isinstance(step_, Require):
                run = _Run(self, 0, kinds[0], refuse=i)
                if run.way.ends != i:
                    self.tried.untaken.append(f"what comes of {describe_step(step_, i)}, which nothing makes false")
                elif wrong := run.go():
                    return f"where {describe_step(step_, i)} does not hold: {wrong}"
            if isinstance(step_, Branch):
                for arm in (True, False):
                    if not self.taken[i, arm]:
                        self.tried.untaken.append(
                            f"the {'first' if arm else 'second'} arm of {describe_branch(step_, i)}"
                        )
        return None

    def telling(self, kernel: str, of: DType) -> Array:
        """The numbers of a dtype that tell something of a tensor function; "" for an input."""
        if (kernel, of) not in self.numbers:
            self.numbers[kernel, of] = telling_numbers(of, self.constants.get(kernel, ()))
        return self.numbers[kernel, of]

    def held(self, names: Iterable[str]) -> list[Array]:
        """The constants among slots."""
        return [np.asarray(self.module.constants[n]) for n in names if self.program.slots[n].place == "constant"]

    def reads_inputs(self, index: int) -> bool:
        """Whether a step reads an input of the program."""
        step = self.program.steps[index]
        return (
            index not in self.open
            and isinstance(step, Step)
            and any(self.program.slots[n].place == "input" for n in step.reads)
        )

    def __str__(self) -> str:
        t = self.tried
        said = (
            f"{plural(len(t.steps), 'step')} of the C bit for bit their tensor functions on {', '.join(t.kinds)} handed"
            " to each"
        )
        if t.traps:
            said += f", traps alike ({t.traps})"
        branches = sum(isinstance(s, Branch) for s in self.program.steps)
        if branches and not t.untaken:
            said += ", every arm taken"
        never = [text for sides in self.sides.values() for text in sides.never()]
        if never:
            said += f"; one way only: {listed(never)}"
        elif any(len(sides.conditions) > len(sides.ties) for sides in self.sides.values()):
            said += ", every condition in them both ways"
        untied = [text for sides in self.sides.values() for text in sides.untied()]
        if untied:
            said += f"; never with equal sides: {listed(untied)}"
        if self.unwatched:
            said += f"; conditions in {listed(self.unwatched)} not watched"
        if t.untaken:
            said += f"; not taken: {listed(t.untaken, 8)}"
        if self.open:
            names = dict.fromkeys(
                s.kernel for i, s in enumerate(self.program.steps) if isinstance(s, Step) and i in self.open
            )
            said += f"; not {listed(list(names))}, whose sizes the run changes"
            said += f", where {plural(t.cut, 'run')} ended" if t.cut else ""
        if t.large:
            said += f"; not {listed(list(dict.fromkeys(t.large)))}, too large for that"
        return said


def describe_branch(step: Branch, index: int) -> str:
    """A branch of the program for a message."""
    at = f" at {step.span}" if step.span else ""
    return f"the choice by {step.condition} (step {index}{at})"


class _Run:
    """One run: which arms, which inputs, and what each step is handed."""

    def __init__(
        self,
        trials: Trials,
        turn: int,
        kind: Kind,
        end: tuple[int, list[Array]] | None = None,
        refuse: int | None = None,
    ) -> None:
        self.trials, self.turn, self.kind, self.end = trials, turn, kind, end
        self.program = trials.program
        self.way = TrialPath(self.program, trials.module.constants, trials.taken, trials.measured, refuse)
        self.trapping: dict[int, list[Array]] = {}
        self.path, self.conditions, self.own = self.way.steps, self.way.conditions, self.way.own
        self.is_new = any(not trials.taken[a] for a in self.way.arms)
        self.inputs = self.make_inputs()
        self.wrong: str | None = None
        self.wanted: Sequence[Array] | None = None
        self.expected: Trap | None = None
        self.reached = 0
        """The place of the path to which the C has come."""
        self.is_cut = False
        """Whether the C ended before its end, where nothing was handed to a step, or sizes were asked that the run
        changes."""

    # --- operands ------------------------------------------------------------------------------------------------

    def rng(self, what: int, attempt: int) -> np.random.Generator:
        return np.random.default_rng([self.trials.seed, 13, self.turn, what, attempt])

    def make_inputs(self) -> dict[str, Array]:
        """Inputs of the kind on which no step that reads them must trap; integers, which may be indices, are plain
        then, and in the end all are those that the check was given."""
        found: dict[str, Array] = {}
        for attempt in range(3):
            for k, name in enumerate(self.program.inputs):
                slot = self.program.slots[name]
                given = self.trials.inputs[name]
                rng = self.rng(1_000_000 + k, attempt)
                if name in self.own:
                    found[name] = self.own[name]
                elif attempt == 2 or (attempt == 1 and not slot.type.dtype.is_float):
                    found[name] = given
                elif self.turn >= len(KINDS):
                    found[name] = self.next_of(slot.type.dtype, slot.type.static_shape, k)
                else:
                    drawn = draw(
                        slot.type.dtype, slot.type.static_shape, rng, self.kind, self.trials.compared.get(name, ())
                    )
                    others = [found[n] for n in self.trials.beside.get(name, ()) if n in found]
                    found[name] = self.met(
                        np.asarray(drawn), [*others, *self.trials.held(self.trials.beside.get(name, ()))], rng
                    )
            self.inputs = found
            risky = [
                place
                for place, i in enumerate(self.path)
                if self.trials.reads_inputs(i) and self.trials.traps[self.step(i).kernel]
            ]
            if not any(isinstance(self.try_step(place)[1], Trap) for place in risky):
                break
        return found

    def met(self, x: Array, others: Sequence[Array], rng: np.random.Generator) -> Array:
        """What is drawn, with elements of what stands beside it: each in its turn is the one that is surely there."""
        if self.kind not in ("ties", "constants") or not others:
            return x
        first = self.turn % len(others)
        return meeting(x, [*others[first:], *others[:first]], rng, self.kind == "ties")

    def step(self, index: int) -> Step:
        step = self.program.steps[index]
        assert isinstance(step, Step)
        return step

    def operands(self, place: int, attempt: int) -> list[Array]:
        """What the step at a place of the path is handed: as it is where it cannot be changed."""
        index, trials = self.path[place], self.trials
        step = self.step(index)
        kernel = trials.module.kernel(step.kernel)
        known = self.conditions.get(place, {})
        before = self.path[:place].count(index)
        rng = self.rng(index + before * len(self.program.steps), attempt)
        found: list[Array] = []
        drawn: dict[str, Array] = {}
        numbers = [*trials.constants[step.kernel], *trials.numbers_beside(step)]
        there = [*(np.asarray(self.inputs[n]) for n in step.reads if n in self.inputs), *trials.held(step.reads)]
        for name, b in zip(step.reads, kernel.inputs, strict=True):
            slot = self.program.slots[name]
            if slot.place == "constant":
                x = np.asarray(trials.module.constants[name])
            elif slot.place == "input":
                x = np.asarray(self.inputs[name])
            elif name in known:
                x = np.asarray(known[name])
            elif name in drawn:
                x = drawn[name]
            elif attempt == 2:
                x = (
                    ordinary(b.dtype, b.static_shape, rng)
                    if b.dtype.is_float
                    else np.ones(b.static_shape, b.dtype.numpy)
                )
            elif attempt == 1 and not b.dtype.is_float:
                x = rng.integers(0, 2, b.static_shape).astype(b.dtype.numpy)
            elif self.turn >= len(KINDS):
                x = self.next_of(b.dtype, b.static_shape, len(drawn), step.kernel)
            else:
                x = self.met(
                    np.asarray(draw(b.dtype, b.static_shape, rng, self.kind, numbers)), [*drawn.values(), *there], rng
                )
            drawn[name] = x
            found.append(np.ascontiguousarray(x).reshape(b.static_shape))
        return found

    def next_of(self, of: DType, shape: tuple[int, ...], place: int, kernel: str = "") -> Array:
        """The numbers that tell something, one after another through all turns: for the second operand each stays while
        the first goes through all of its own, and so on."""
        some = self.trials.telling(kernel, of)
        size = int(np.prod(shape))
        order = np.arange(size) + (self.turn - len(KINDS)) * size
        return np.asarray(some[order // len(some) ** min(place, 3) % len(some)].reshape(shape))

    def try_step(self, place: int) -> tuple[list[Array], Any]:
        """Operands for the step at a place of the path on which it does not trap, if there are any, and its results; or
        its trap."""
        index = self.path[place]
        kernel = self.trials.module.kernel(self.step(index).kernel)
        if self.end is not None and self.end[0] == index:
            return self.end[1], kernel_outcome(kernel, self.end[1])
        operands: list[Array] = []
        result: Any = None
        for attempt in range(3):
            operands = self.operands(place, attempt)
            result = kernel_outcome(kernel, operands)
            if not isinstance(result, Trap):
                if self.step(index).kernel in self.trials.sides:
                    self.trials.sides[self.step(index).kernel].see(operands)
                break
            self.trapping.setdefault(index, operands)
        return operands, result

    # --- running -------------------------------------------------------------------------------------------------

    def go(self) -> str | None:
        """Run the C. What is wrong, if anything."""
        places = iter(range(len(self.path)))

        def put(place: int, look: Look) -> None:
            """Overwrite what is read next."""
            for name, value in self.conditions.get(place, {}).items():
                look(self.program.slots[name])[:] = value.reshape(-1).view(np.uint8)
            if place == len(self.path) or self.path[place] in self.trials.skipped:
                self.wanted, self.expected = None, self.refused if place == len(self.path) else None
                return
            operands, result = self.try_step(place)
            for name, x in zip(self.step(self.path[place]).reads, operands, strict=True):
                if self.program.slots[name].place not in ("constant", "input"):
                    look(self.program.slots[name])[: x.nbytes] = x.reshape(-1).view(np.uint8)
            if isinstance(result, Trap):
                self.expected = result
            else:
                self.wanted = result

        def compare(index: int, look: Look) -> None:
            place = next(places, None)
            self.wrong = self.difference(index, place, look)
            if self.wrong or place is None:
                raise SeenEnough  # the C may go on as it likes
            self.reached = place + 1
            put(place + 1, look)

        self.begin()
        try:
            self.trials.compiled.run(self.inputs, on_step=compare)
        except SeenEnough:
            return self.wrong
        except SizesRefused as refused:
            self.is_cut = self.reached in self.way.loose
            return self.wrong or (None if self.is_cut else f"the C program does not run: {refused}")
        except Trap as trap:
            here = self.path[self.reached] if self.reached < len(self.path) else None
            if self.wrong is None and self.expected is None and here in self.trials.loose:
                self.is_cut = True
            elif self.wrong is None and (self.expected is None or self.expected.kind != trap.kind):
                expected = f", not {self.expected}" if self.expected is not None else ""
                self.wrong = f"the C program does not run: {trap}{expected}"
            elif self.wrong is None:
                self.trials.tried.traps += 1
            return self.wrong
        if self.wrong is None and self.expected is not None:
            self.wrong = f"the C program runs where a step of it traps: {self.expected}"
        if self.wrong is None and (left := next(places, None)) is not None:
            due = self.path[left]
            self.wrong = f"C has ended where the program takes {describe_step(self.step(due), due)}"
        self.trials.tried.runs += 1
        return self.wrong

    @property
    def refused(self) -> Trap | None:
        """The trap with which the run ends behind the last step of the path, if it does."""
        if self.way.ends is None:
            return None
        return Trap("assertion", f"{describe_step(self.program.steps[self.way.ends], self.way.ends)} does not hold")

    def difference(self, index: int, place: int | None, look: Look) -> str | None:
        """Where the C differs behind a step that it has taken, at a place of the path (None: behind its end)."""
        step = self.step(index)
        if place is None or index != self.path[place]:
            there = "has ended"
            if place is not None:
                there = f"takes {describe_step(self.step(self.path[place]), self.path[place])}"
            return f"C takes {describe_step(step, index)} where the program {there}"
        if self.expected is not None:
            return f"{describe_step(step, index)} gives a value where its tensor function traps: {self.expected}"
        if self.wanted is None:
            return None
        self.trials.tried.steps.add(index)
        for name, wanted in zip(step.writes, self.wanted, strict=True):
            slot = self.program.slots[name]
            if not slot.is_live(self.trials.positions[index + 1] - 1):
                continue
            got = look(slot)[: wanted.nbytes]
            if wanted.dtype == np.bool_ and got.size and got.max() > 1:
                return f"{describe_step(step, index)} leaves a byte in {name} that is no bool"
            odd = different(np.ascontiguousarray(wanted).reshape(-1), got.copy().view(wanted.dtype).reshape(-1))
            if odd:
                by = describe_step(step, index)
                return f"C differs from the machine in buffer {name}, written by {by}: {odd}"
        return None

    def begin(self) -> None:
        """What the first step is handed: it reads inputs and constants only, which nothing overwrites."""
        if not self.path or self.path[0] in self.trials.skipped:
            self.expected = None if self.path else self.refused
            return
        _, result = self.try_step(0)
        if isinstance(result, Trap):
            self.expected = result
        else:
            self.wanted = result
