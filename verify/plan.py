"""Memory plans: the sweep that defines a good one, and the z3 proof (specs/verify.md, "pool").

A plan is good if, at every step, no two live slots share a byte, each is aligned, and each lies inside the pool.
`sweep` checks it over the executed steps, byte by byte, with the last writer of every byte. `query` states it as one
SMT-LIB text over neighbours: slots live at one time, sorted by offset, can only overlap if two adjacent ones do, so
only adjacent pairs need a goal. z3 (5 or newer) decides it; the text is kept so that another solver can.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import z3

from assay.semantics.errors import Crash
from assay.semantics.module import Module, Program, Slot
from assay.verify.evidence import Evidence, checked, proved, refuted
from assay.verify.program_check import describe

RLIMIT = 2_000_000_000
"""z3's resource limit for one query: deterministic, unlike a time limit. Reaching it is "unknown", never a pass."""


def lives(program: Program) -> dict[str, tuple[int, int]]:
    """First and last use of each slot, recomputed from the steps; inputs from entry, outputs to exit."""
    found: dict[str, tuple[int, int]] = {}
    for i, step in enumerate(program.steps):
        for name in (*step.reads, *step.writes, *step.scratch):
            first, _ = found.get(name, (i, i))
            found[name] = first, i + 1
    end = len(program.steps)
    for name in program.inputs:
        found[name] = 0, end
    for name in program.outputs:
        found[name] = found.get(name, (0, 0))[0], end
    return found


def check_lives(program: Program) -> Evidence:
    """Whether each slot's declared life is around every step that touches it."""
    for name, (first, last) in lives(program).items():
        slot = program.slots[name]
        if slot.start > first or slot.stop < last:
            return refuted(
                "checked",
                f"buffer {name} ({slot.producer}) is live in [{slot.start}, {slot.stop}),"
                f" but used in [{first}, {last})",
            )
    return checked("every use lies within its buffer's life")


def sweep(program: Program) -> Evidence:
    """Run the steps on bytes that know who wrote them last: every read finds its own bytes, during and after the step.

    A step writes while it reads, so a slot that it reads must still be whole when it has written all it writes.
    """
    size = program.workspace_bytes
    owner = np.full(size, -1, np.int32)
    work = {s.name: (i, s) for i, s in enumerate(program.placed("workspace"))}
    names = list(work)

    def check_bytes(name: str, index: int, when: str) -> str | None:
        if name not in work:
            return None
        i, slot = work[name]
        bytes_ = owner[_range(slot)]
        wrong = np.flatnonzero(bytes_ != i)
        if not wrong.size:
            return None
        by = int(bytes_[wrong[0]])
        what = f"overwritten by {names[by]}" if by >= 0 else "unwritten"
        step = program.steps[index]
        return f"byte {wrong[0]} of buffer {name} is {what} {when} {describe(step, index)} reads it"

    for name, (_, slot) in work.items():
        if slot.offset is None or slot.offset < 0 or slot.offset + slot.nbytes > size:
            return refuted("checked", f"buffer {name} ({slot.producer}) does not lie within the pool of {size} bytes")
        if slot.alignment <= 0 or slot.alignment % slot.type.dtype.itemsize:
            return refuted("checked", f"buffer {name} has the alignment {slot.alignment}, which its elements do not fit")
        if slot.offset % slot.alignment:
            return refuted("checked", f"buffer {name} at offset {slot.offset} is not aligned to {slot.alignment}")
    for index, step in enumerate(program.steps):
        for name in step.reads:
            if wrong := check_bytes(name, index, "when"):
                return refuted("checked", wrong)
        for name in (*step.scratch, *step.writes):
            if name in work:
                owner[_range(work[name][1])] = work[name][0]
        for name in (*step.reads, *step.scratch, *step.writes):
            if wrong := check_bytes(name, index, "while"):
                return refuted("checked", wrong)
    return checked("every byte read was last written by its own buffer")


def _range(slot: Slot) -> slice:
    assert slot.offset is not None
    return slice(slot.offset, slot.offset + slot.nbytes)


def neighbours(slots: Iterable[Slot]) -> Iterator[tuple[Slot, Slot]]:
    """Pairs of slots that are adjacent by offset at some time when both are live. Slots without bytes have none.

    If two live slots share a byte then, at that time, two adjacent ones do: any slot whose offset lies between theirs
    shares a byte with the first.
    """
    events: list[tuple[int, bool, int, Slot]] = []
    for i, s in enumerate(slots):
        if s.nbytes and s.start < s.stop:
            events += [(s.start, True, i, s), (s.stop, False, i, s)]
    events.sort(key=lambda e: e[:3])  # a slot that ends at a step makes room for one that starts there
    live: list[tuple[int, int]] = []
    by_index: dict[int, Slot] = {}
    seen: set[tuple[int, int]] = set()
    for _, starts, i, s in events:
        key = (s.offset if s.offset is not None else -1, i)
        if not starts:
            at = bisect_left(live, key)
            del live[at]
            adjacent = [live[at - 1 : at + 1]] if 0 < at < len(live) else []
        else:
            at = bisect_left(live, key)
            live.insert(at, key)
            by_index[i] = s
            adjacent = [live[max(at - 1, 0) : at + 1], live[at : at + 2]]
        for pair in adjacent:
            if len(pair) == 2 and (ids := (pair[0][1], pair[1][1])) not in seen:
                seen.add(ids)
                yield by_index[ids[0]], by_index[ids[1]]


def query(slots: Sequence[Slot], size: int, about: str) -> str:
    """SMT-LIB text that is satisfiable exactly if some slot is misplaced or two neighbours share a byte.

    Constants: `o<i>` is slot i's offset, `n<i>` its bytes; `bad` numbers the broken claim, `byte` is a shared byte.
    """
    index = {s.name: i for i, s in enumerate(slots)}
    lines = [f"; {about}: {len(slots)} buffers in {size} bytes; unsat means that the plan is good", "(set-logic QF_LIA)"]
    for name, i in index.items():
        s = slots[i]
        lines.append(f"; {i}: {_comment(name)}, {s.nbytes} bytes, live in [{s.start}, {s.stop})")
        lines.append(f"(define-fun o{i} () Int {_int(s.offset if s.offset is not None else -1)})")
        lines.append(f"(define-fun n{i} () Int {s.nbytes})")
    lines += [f"(define-fun size () Int {size})", "(declare-const bad Int)", "(declare-const byte Int)", "(assert (or"]
    claims = 0
    for s in slots:
        i = index[s.name]
        lines.append(
            f"  (and (= bad {claims}) (= byte o{i})"
            f" (or (< o{i} 0) (> (+ o{i} n{i}) size) (not (= (mod o{i} {s.alignment}) 0))))"
        )
        claims += 1
    for a, b in neighbours(slots):
        i, j = index[a.name], index[b.name]
        lines.append(
            f"  (and (= bad {claims}) (= byte (ite (< o{i} o{j}) o{j} o{i})) (< o{j} (+ o{i} n{i})) (< o{i} (+ o{j} n{j})))"
        )
        claims += 1
    lines += ["  false))", "(check-sat)", ""]
    return "\n".join(lines)


def _comment(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def _int(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def prove(slots: Sequence[Slot], size: int, about: str) -> tuple[Evidence, str]:
    """z3's verdict on a plan, and the text it was asked. A refutation names the buffers and a byte they share."""
    text = query(slots, size, about)
    solver = z3.Solver()
    solver.set("rlimit", RLIMIT)
    solver.from_string(text)
    answer = solver.check()
    if answer == z3.unsat:
        pairs = sum(1 for _ in neighbours(slots))
        return proved(f"z3: no two of {len(slots)} live buffers share a byte; {pairs} goals", goals=pairs), text
    if answer == z3.unknown:
        return refuted("proved", f"z3 does not know: {solver.reason_unknown()}"), text
    model = solver.model()
    bad = model.eval(z3.Int("bad"), model_completion=True).as_long()
    byte = model.eval(z3.Int("byte"), model_completion=True).as_long()
    if bad < len(slots):
        s = slots[bad]
        return refuted(
            "proved",
            f"buffer {s.name} ({s.producer}) at offset {s.offset} is misaligned or outside the {size} bytes",
        ), text
    found = list(neighbours(slots))
    if not 0 <= bad - len(slots) < len(found):
        raise Crash(f"z3's model names claim {bad}, which is not in the query")
    a, b = found[bad - len(slots)]
    return refuted(
        "proved",
        f"buffers {a.name} ({a.producer}) and {b.name} ({b.producer}) share byte {byte} while both are live,"
        f" in steps [{max(a.start, b.start)}, {min(a.stop, b.stop)})",
    ), text


def check_pool(module: Module) -> tuple[Evidence, str]:
    """The whole verdict on the workspace plan of `main`: lives, sweep, z3. The first that does not hold is given."""
    program = module.program
    for evidence in (check_lives(program), sweep(program)):
        if not evidence.holds:
            return evidence, ""
    return prove(program.placed("workspace"), program.workspace_bytes, "workspace")
