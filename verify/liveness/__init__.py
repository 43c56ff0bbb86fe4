"""Whether a program of steps is the graph function it comes from, and its lives are long enough (specs/verify.md,
"liveness")."""

from __future__ import annotations

from assay.semantics.instance import at, is_symbolic, symbols_of
from assay.semantics.live_positions import union
from assay.semantics.memory import BufferInfo, lower_bound
from assay.semantics.module import Module, Program
from assay.verify.evidence import Context, Did, Evidence, plural, refuted, size
from assay.verify.liveness.devices import check_steps
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.measured import check_measured
from assay.verify.liveness.program import check_program
from assay.verify.schedule import claim_of


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether the steps are the calls, lives are long enough, and steps stay in their memories; and the peak that the
    schedule claims is that of the lives."""
    same = check_program(before, after)
    if not same.holds:
        return same
    for evidence in (
        check_lives(after.program, after.kernels),
        check_steps(after.program, after.kernels),
        check_measured(after.program, after.kernels),
    ):
        if not evidence.holds:
            return evidence
    claim = claim_of(before.main)
    if claim is not None:
        sizes = {v: claim.sizes[v.name] for v in symbols_of(after.program) if v.name in claim.sizes}
        needed = _peak_of_steps(at(after.program, sizes) if sizes else after.program)
        if claim.after != needed:
            said = f"the schedule claims a peak of {claim.after} bytes, the lives have one of {needed}"
            return refuted("checked", said)
    return same


def _peak_of_steps(program: Program) -> int:
    """The most bytes that are live at any time of one step: the schedule does not look into steps."""
    step_at = [i for i, s in enumerate(program.steps) for _ in range(s.phases)]
    work = program.placed("workspace")
    lives = [union((step_at[start], step_at[stop - 1] + 1) for start, stop in s.live) for s in work]
    return lower_bound(BufferInfo(s.name, s.nbytes, live) for s, live in zip(work, lives, strict=True))


def describe(before: Module, after: Module) -> Did:
    """How many steps and buffers there are."""
    steps, work = len(after.program.steps), after.program.placed("workspace")
    if is_symbolic(after.program):
        said = f"{plural(steps, 'step')}; {plural(len(work), 'buffer')}, sizes over {named_symbols(after.program)}"
        return said, {"steps": steps, "buffers": len(work)}
    total = sum(s.nbytes for s in work)
    data = {"steps": steps, "buffers": len(work), "buffer_bytes": total}
    return f"{plural(steps, 'step')}; {plural(len(work), 'buffer')}, {size(total)}", data


def named_symbols(program: Program) -> str:
    """The symbols that sizes of a program are over."""
    return ", ".join(v.name for v in symbols_of(program)) or "no symbols"
