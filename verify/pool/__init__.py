"""Memory plans of programs: the sweep that defines a good one, and the proof (specs/verify.md, "pool").

A plan is good if every byte that is read, on every path and at every phase, was last written by the buffer that is
read. `sweep` runs the steps on bytes that know this, and looks at nothing else. `check_pool` has z3 prove the same in
another way (`assay.verify.memory`): no two buffers that are live at one position share a byte, and lives are long
enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from assay.semantics.errors import Invalid, Trap
from assay.semantics.instance import at, is_symbolic, place_of, run_bounds, run_dims, symbols_of
from assay.semantics.live_positions import Intervals, union
from assay.semantics.memory import BufferInfo, Interval, Plan, Problem, lower_bound, overlap, range_of
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar import Dim, Var, same
from assay.semantics.scalar.structure import Interner
from assay.semantics.steps import Assertion, Branch, Continue, Item, Loop, Measure, PrintValues, Require, Step, flow
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import size_of
from assay.semantics.tensor.phases import phases
from assay.verify.constants.places import check_constant_places
from assay.verify.evidence import Context, Did, Evidence, checked, refuted
from assay.verify.in_place import check_in_place_kernel
from assay.verify.liveness import named_symbols
from assay.verify.liveness.devices import check_pools, check_steps
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import describe_step as shown_step
from assay.verify.memory import prove_plan
from assay.verify.memory.arranged import each_arrangement
from assay.verify.pool.ratio import told_plan

Array: TypeAlias = np.ndarray[Any, Any]

Memory: TypeAlias = tuple[str, str]
Left: TypeAlias = Mapping[Memory, tuple[int, Array]]
"""For each memory that an arm has changed, a range around all that it changed: where it begins, and its owners."""

NOBODY, DIFFERS = -1, -2
"""Owners of bytes that nothing has written, and of those that depend on the path."""


@dataclass
class _Owners:
    """Who wrote each cell of each pool last; what an arm has changed can be taken back."""

    owner: Mapping[Memory, Array]
    changes: list[list[tuple[Memory, slice, Array]]] = field(default_factory=list)

    def set(self, memory: Memory, where: slice, owners: int | Array) -> None:
        if self.changes:
            self.changes[-1].append((memory, where, self.owner[memory][where].copy()))
        self.owner[memory][where] = owners

    def leave(self) -> Left:
        """Back to where the arm began; what it has left."""
        changed = self.changes.pop()
        left = {}
        for memory in dict.fromkeys(m for m, _, _ in changed):
            ranges = [w for m, w, _ in changed if m == memory]
            first, last = min(w.start for w in ranges), max(w.stop for w in ranges)
            left[memory] = first, self.owner[memory][first:last].copy()
        for memory, where, before in reversed(changed):
            self.owner[memory][where] = before
        return left

    def take(self, arm: Left) -> None:
        """Only this arm goes on: what it has left."""
        for memory, (first, owners) in arm.items():
            self.set(memory, slice(first, first + len(owners)), owners)

    def join(self, then: Left, otherwise: Left) -> None:
        """Both arms have been left: where their owners differ, a byte has none any more."""
        for memory in {**then, **otherwise}:
            arms = [arm[memory] for arm in (then, otherwise) if memory in arm]
            first, last = min(at for at, _ in arms), max(at + len(owners) for at, owners in arms)
            ends = []
            for arm in (then, otherwise):
                end = self.owner[memory][first:last].copy()
                if memory in arm:
                    at, owners = arm[memory]
                    end[at - first : at - first + len(owners)] = owners
                ends.append(end)
            self.set(memory, slice(first, last), np.where(ends[0] == ends[1], ends[0], DIFFERS))


class _Sweep:
    """The steps, run on the owners of cells. A cell is the bytes between two places at which some slot begins or ends,
    so that all its bytes have one owner at all times. `bytewise`: each byte is a cell, which is the definition.
    """

    def __init__(self, program: Program, kernels: Mapping[str, PrimFunc], *, bytewise: bool = False) -> None:
        self.program, self.kernels = program, kernels
        spans: dict[str, tuple[int, Memory, int, int]] = {}
        for i, s in enumerate((*program.pooled, *program.placed("output"))):
            if s.is_pooled:
                assert s.offset is not None
                spans[s.name] = i, ("pool", program.pool_of(s).name), s.offset, s.offset + s.nbytes
            else:  # an output of the caller has memory of its own, of which one byte stands for all
                spans[s.name] = i, ("own", s.name), 0, min(s.nbytes, 1)
        ends: dict[Memory, set[int]] = {}
        for _, memory, start, stop in spans.values():
            ends.setdefault(memory, set()).update(range(start, stop + 1) if bytewise else (start, stop))
        self.cuts = {memory: sorted(found) for memory, found in ends.items()}
        """For each memory the bytes at which its cells begin, and the end of the last one."""
        rank = {memory: {byte: k for k, byte in enumerate(cuts)} for memory, cuts in self.cuts.items()}
        self.places = {n: (i, m, slice(rank[m][start], rank[m][stop])) for n, (i, m, start, stop) in spans.items()}
        self.names = {number: name for name, (number, _, _) in self.places.items()}
        self.owners = _Owners({memory: np.full(len(cuts) - 1, NOBODY, np.int32) for memory, cuts in self.cuts.items()})
        self.arms: list[Left] = []
        self.gone = False
        """Whether no way leads here: a loop has begun anew instead."""
        self.ended: list[bool] = []
        """For each branch around of which the second arm is being read: whether no way leads out of the first."""
        self.loops: list[list[str]] = []
        """For each loop around, the slots that are whole and live where it begins."""

    def run(self) -> str | None:
        """What is wrong, if anything."""
        program = self.program
        for name in (*(s.name for s in program.placed("constant")), *program.inputs):
            self.write(name)
        for what, i in flow(program.steps):
            step = program.steps[i]
            wrong = None  # an assertion on sizes touches no memory
            match step:
                case Step():
                    wrong = self.step(step, i)
                case Measure() | Require() | PrintValues():
                    odd = (o for name in step.reads if (o := self.wrong(name)) is not None)
                    wrong = next((f"{o} when {shown_step(step, i)} reads it" for o in odd), None)
                case Branch():
                    wrong = self.branch(what, step, i)
                case Loop():
                    self.loop(what, step, i)
                case Continue():
                    wrong = self.again(step, i)
            if wrong is not None:
                return wrong
        for name in program.outputs:
            if (wrong := self.wrong(name)) is not None:
                return f"{wrong} at the exit, where it is an output"
        return None

    def branch(self, what: str, step: Branch, index: int) -> str | None:
        if what == "if":
            if (wrong := self.wrong(step.condition)) is not None:
                return f"{wrong} when {shown_step(step, index)} reads it"
            self.owners.changes.append([])
        elif what == "else":
            self.ended.append(self.gone)
            self.gone = False
            self.arms.append(self.owners.leave())
            self.owners.changes.append([])
        else:
            first, second = self.arms.pop(), self.owners.leave()
            ended = self.ended.pop()
            if ended or self.gone:
                self.owners.take(second if ended else first)
            else:
                self.owners.join(first, second)
            self.gone = ended and self.gone
        return None

    def loop(self, what: str, step: Loop, index: int) -> None:
        """Where a loop begins, only that is there which is whole and live: each iteration has to leave it so."""
        if what == "leave":
            self.loops.pop()
            return
        position = self.program.positions[index]
        kept = [n for n, s in self.program.slots.items() if s.is_live(position) and self.wrong(n) is None]
        numbers = [self.places[n][0] for n in kept if n in self.places]
        for memory, owner in self.owners.owner.items():
            self.owners.set(memory, slice(0, len(owner)), np.where(np.isin(owner, numbers), owner, NOBODY))
        self.loops.append(kept)

    def again(self, step: Continue, index: int) -> str | None:
        """A loop begins anew: what was whole and live where it began has to be so again."""
        self.gone = True
        for name in self.loops[-1]:
            if (wrong := self.wrong(name)) is not None:
                return f"{wrong} when {shown_step(step, index)} begins, in which it is live"
        return None

    def step(self, step: Step, index: int) -> str | None:
        """A step writes all that it writes in a phase while it reads; what it uses there must be whole then."""
        for name in step.reads:
            if (wrong := self.wrong(name)) is not None:
                return f"{wrong} when {shown_step(step, index)} reads it"
        live, after = self.uses(step)
        for read, by in in_place(self.program, step).items():  # from where it is written, its bytes are that one's
            begin = min(start for start, _ in live[by])
            live[read] = tuple((start, min(stop, begin)) for start, stop in live[read] if start < begin)
        made = (*step.scratch, *step.writes)
        for name in made:
            for other in live:
                byte = self.shared(other, name) if name != other and overlap(live[name], live[other]) else None
                if byte is not None:
                    at = shown_step(step, index)
                    return f"byte {byte} of buffer {other} is overwritten by {name} while {at} uses it"
        for name in made:
            self.write(name)
        for name in made:  # a slot is not whole behind the step if another was written over it after it was
            if any(overlap(live[name], after[other]) for other in step.writes if other != name):
                self.write(name)
        return None

    def uses(self, step: Step) -> tuple[dict[str, Intervals], dict[str, Intervals]]:
        """The phases of a step at which each of its slots must be whole, and those at which something may be in it.

        What is read has to be whole wherever it may be read yet.
        """
        names = (*step.reads, *step.writes, *step.scratch)
        if step.phases == 1:
            return dict.fromkeys(names, ((0, 1),)), dict.fromkeys(names, ((0, 1),))
        kernel = self.kernels[step.kernel]
        inside = phases(kernel)
        live: dict[str, Intervals] = {}
        after: dict[str, Intervals] = {}
        for k, (buffer, name) in enumerate(zip((*kernel.params, *kernel.allocations), names, strict=True)):
            own = inside.uses.get(buffer, ())
            live[name] = union([*live.get(name, ()), *(inside.before.get(buffer, own) if k < len(step.reads) else own)])
            after[name] = inside.after.get(buffer, own)
        return live, after

    def shared(self, one: str, other: str) -> int | None:
        """The first byte of a slot that another has too."""
        if one not in self.places or other not in self.places:
            return None
        (_, memory, a), (_, beside, b) = self.places[one], self.places[other]
        first = max(a.start, b.start)
        shares = memory == beside and first < min(a.stop, b.stop)
        return self.cuts[memory][first] - self.cuts[memory][a.start] if shares else None

    def write(self, name: str) -> None:
        if name in self.places:
            number, memory, where = self.places[name]
            self.owners.set(memory, where, number)

    def wrong(self, name: str) -> str | None:
        """The first byte of a slot that is not its own, in words."""
        if name not in self.places:
            return None
        number, memory, where = self.places[name]
        owners = self.owners.owner[memory][where]
        odd = np.flatnonzero(owners != number)
        if not odd.size:
            return None
        by = int(owners[odd[0]])
        what = {NOBODY: "unwritten", DIFFERS: "not written by it on every path"}.get(
            by
        ) or f"overwritten by {self.names[by]}"
        byte = self.cuts[memory][where.start + int(odd[0])] - self.cuts[memory][where.start]
        return f"byte {byte} of buffer {name} is {what}"


def sweep(program: Program, kernels: Mapping[str, PrimFunc] | None = None) -> Evidence:
    """Run the steps, on all paths at once, on bytes that know who wrote them last: every read finds its own bytes.

    Bytes between two places at which slots begin or end are one: what this takes grows with slots, not with bytes.

    Bytes of which the last writer depends on the path have no owner. `kernels` are asked for steps that have phases. A
    program with symbols runs at some sizes, which the evidence names.
    """
    if is_symbolic(program):
        return _sweep_sizes(program, kernels)
    for slot in program.pooled:
        pool = program.pool_of(slot)
        size = program.sizes.get(pool.name, 0)
        if slot.offset is None or slot.offset < 0 or slot.offset + slot.nbytes > size:
            what = f"does not lie within the {size} bytes of the pool {pool.name}"
            return refuted("checked", f"buffer {slot.name} ({slot.producer}) {what}")
        if slot.alignment <= 0 or slot.alignment % slot.type.dtype.itemsize:
            return refuted(
                "checked", f"buffer {slot.name} has the alignment {slot.alignment}, which its elements do not fit"
            )
        if slot.offset % slot.alignment:
            return refuted("checked", f"buffer {slot.name} at offset {slot.offset} is not aligned to {slot.alignment}")
    wrong = _Sweep(program, kernels or {}).run()
    return checked("every byte read was last written by its own buffer") if wrong is None else refuted("checked", wrong)


def _sweep_sizes(program: Program, kernels: Mapping[str, PrimFunc] | None) -> Evidence:
    """The sweep of a program with symbols, at sizes at which it can run."""
    done = []
    for sizes in _some_sizes(program):
        said = ", ".join(f"{v.name} = {n}" for v, n in sizes.items())
        try:
            numbers = at(program, sizes)
        except (Invalid, Trap):
            continue  # no run has these sizes
        evidence = sweep(numbers, kernels)
        if not evidence.holds:
            return replace(evidence, detail=f"for {said}: {evidence.detail}")
        done.append(said)
    if not done:
        return refuted("checked", "no sizes are found at which the program can run")
    return checked(f"every byte read was last written by its own buffer, at {'; '.join(done)}", swept=done)


def _some_sizes(program: Program) -> Iterator[dict[Var, int]]:
    """Values of the symbols: the least, the least that make no tensor empty, and larger ones, no two of which are
    alike. The greatest too where all have one."""
    symbols, bounds = symbols_of(program), run_bounds(program)
    low = {v: range_of(bounds, v)[0] for v in symbols}
    high = {v: range_of(bounds, v)[1] for v in symbols}
    tries = [low, {v: max(n, 1) for v, n in low.items()}]
    for order in (symbols, symbols[::-1]):
        tries.append({v: low[v] + 17 + 14 * order.index(v) for v in symbols})
    top = {v: n for v, n in high.items() if n is not None}
    if symbols and len(top) == len(symbols):
        tries.append(top)
    seen: list[dict[Var, int]] = []
    for sizes in tries:
        sizes = {v: n if (most := high[v]) is None else min(n, most) for v, n in sizes.items()}
        if sizes not in seen:
            seen.append(sizes)
            yield sizes


def in_place(program: Program, step: Step) -> dict[str, str]:
    """The slots that a step reads whose bytes one that it writes takes, by permission; and which one that is."""
    found = {}
    for k, j in step.in_place:
        made, read = program.slots[step.writes[k]], program.slots[step.reads[j]]
        here, there = place_of(program, made), place_of(program, read)
        if here is not None and there is not None and here.pool == there.pool and same(here.offset, there.offset):
            if made.type.is_static and read.type.is_static and made.nbytes == read.nbytes:
                found[read.name] = made.name
    return found


def check_in_place(module: Module) -> Evidence:
    """Whether every kernel that computes an output in the bytes of an input may do that."""
    program = module.program
    seen: set[tuple[str, int, int]] = set()
    for i, step in enumerate(program.steps):
        for k, j in step.in_place if isinstance(step, Step) and in_place(program, step) else ():
            assert isinstance(step, Step)
            for n in (n for n, name in enumerate(step.reads) if name == step.reads[j]):
                if (step.kernel, k, n) not in seen:
                    seen.add((step.kernel, k, n))
                    evidence = check_in_place_kernel(module.kernel(step.kernel), k, n)
                    if not evidence.holds:
                        return refuted("proved", f"{shown_step(step, i)}: {evidence.detail}")
    return checked(f"{len(seen)} outputs in place")


def _without_last_step(program: Program) -> dict[str, tuple[Interval, ...]]:
    """The lives of slots whose bytes are taken in place, up to where that happens: from there on the bytes are those of
    the slot that takes them, which is live there, and which lies in exactly the same. Not of those that live on."""
    found: dict[str, tuple[Interval, ...]] = {}
    for step, first in zip(program.steps, program.positions, strict=False):
        last = first + step.phases
        for read, by in in_place(program, step).items() if isinstance(step, Step) else ():
            life = found.get(read, program.slots[read].live)
            if all(j <= last for _, j in life):
                begin = min((max(i, first) for i, j in program.slots[by].live if i < last and j > first), default=last)
                found[read] = tuple((i, min(j, begin)) for i, j in life if i < begin)
    return found


def as_problem(program: Program) -> tuple[Problem, Plan]:
    """The buffers in the pools of a program, and where they lie."""
    buffers, places = [], {}
    lives = _without_last_step(program)
    for s in program.pooled:
        kind: Literal["workspace", "constant"] = "constant" if s.place == "constant" else "workspace"
        place = place_of(program, s)
        pool = program.pool_of(s).name if place is None else place.pool
        size = size_of(s.type.shape) * s.type.dtype.itemsize if s.room is None else s.room
        buffers.append(
            BufferInfo(s.name, size, lives.get(s.name, s.live), s.alignment, kind, (pool,), producer=s.producer)
        )
        if place is not None:
            places[s.name] = place
    sizes: Mapping[str, Dim] = {p.name: program.sizes.get(p.name, 0) for p in program.pools}
    if program.plan is not None:
        sizes = {**sizes, **program.plan.sizes}
        places |= {n: place for n, place in program.plan.places.items() if n not in program.slots}
    number = Interner()
    dims = {number(d): d for d in run_dims(program)}
    return Problem(tuple(buffers), program.pools, program.bounds, tuple(dims.values())), Plan(places, sizes)


def _as_planned(item: Item, number: Interner) -> object:
    """What of an item a plan must keep; dims by their structure."""
    match item:
        case Assertion():
            return item.span, tuple((number(a), number(b)) for a, b in item.sizes)
        case Measure():
            return item.span, item.slot, item.symbols, *(tuple(map(number, dims)) for dims in (item.most, item.values))
        case Step():
            dims = tuple(map(number, item.scalars)), tuple((v, number(d)) for v, d in item.dims)
            return replace(item, in_place=(), scalars=(), dims=()), dims
        case _:
            return item


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether the plan is good, and is one of the very steps and lives that the stage before has shown right."""
    old, new = before.program, after.program
    if {n: _but_place(s) for n, s in old.slots.items()} != {n: _but_place(s) for n, s in new.slots.items()}:
        return refuted("checked", "the plan changes more of a buffer than its offset")
    number = Interner()
    ones, others = ([_as_planned(s, number) for s in p.steps] for p in (old, new))
    if (ones, old.inputs, old.outputs, old.limits, old.host) != (
        others,
        new.inputs,
        new.outputs,
        new.limits,
        new.host,
    ):
        return refuted("checked", "the plan has other steps, another host, or other limits of sizes, than the program")
    evidence, queries = check_places(after)
    context.queries.update(queries)
    return evidence


def _but_place(slot: Slot) -> tuple[object, ...]:
    """All that a slot is, but for its pool and offset there; types are compared as text."""
    return (
        slot.name,
        str(slot.type),
        slot.place,
        slot.live,
        slot.alignment,
        slot.producer,
        slot.device,
        str(slot.room),
    )


def describe(before: Module, after: Module) -> Did:
    """How many bytes the pools take, and how far from the least that is."""
    program = after.program
    if program.plan is not None:
        return told_plan(program.plan, program, as_problem(program)[0], named_symbols(program))
    work = [b for b in as_problem(program)[0].buffers if b.kind == "workspace"]
    pool = sum(program.sizes.get(p.name, 0) for p in program.pools if p.kind == "workspace")
    total, bound = sum(program.slots[b.name].nbytes for b in work), lower_bound(work)
    ratio = pool / bound if bound else 1.0
    data = {"buffer_bytes": total, "pool_bytes": pool, "lower_bound": bound}
    if len(program.sizes) > 1:
        each = ", ".join(f"{name} {n}" for name, n in program.sizes.items())
        return f"{total} to {pool} bytes: {each}; at most {bound} are live at once", {**data, **program.sizes}
    most = max((b.alignment for b in work if b.alignment > program.slots[b.name].type.dtype.itemsize), default=0)
    at = f", at multiples of {most}" if most else ""  # which the bound knows nothing of
    return f"{total} to {pool} bytes{at}; bound {bound}, ratio {ratio:.3f}", data


def check_pool(module: Module) -> tuple[Evidence, dict[str, str]]:
    """The whole verdict on the plan of `main`: lives, sweep, z3. The first that does not hold is given; and the texts
    that z3 was asked."""
    program = module.program
    for evidence in (check_lives(program, module.kernels), check_steps(program, module.kernels)):
        if not evidence.holds:
            return evidence, {}
    return check_places(module)


def check_places(module: Module) -> tuple[Evidence, dict[str, str]]:
    """The verdict on the places of a program whose lives and steps are right, in each arrangement of its plan: the
    first part that does not hold; and the texts that z3 was asked, `pool` about the first pool, `pool1` about the next,
    ...

    Lives are the same at all sizes, and z3's proof is about all of them; the sweep is at those that the evidence names.
    """
    program = module.program
    if program.plan is None:
        return _check_arrangement(module)
    return each_arrangement(program.plan, lambda one: _check_arrangement(module.with_(main=replace(program, plan=one))))


def _check_arrangement(module: Module) -> tuple[Evidence, dict[str, str]]:
    """The verdict on places of which there is one for each slot."""
    program = module.program
    swept = sweep(program, module.kernels) if not is_symbolic(program) else None
    for evidence in (swept, check_in_place(module), check_pools(program), check_constant_places(module)):
        if evidence is not None and not evidence.holds:
            return evidence, {}
    proof = prove_plan(*as_problem(program))
    found = proof.evidence
    if found.holds and swept is None:
        swept = sweep(program, module.kernels)
        more = {**found.data, **swept.data}
        found = (
            replace(found, detail=f"{found.detail}; swept at {'; '.join(more['swept'])}", data=more)
            if swept.holds
            else swept
        )
    return found, {"pool" if name == "pool0" else name: text for name, text in proof.queries.items()}
