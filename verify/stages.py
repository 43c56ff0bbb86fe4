"""The stages of `assay check`: what each does, and how it is checked (specs/verify.md, "Stages").

The checks take modules only, so they run alike on a lowering that was just made and on one read from a certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from assay.lower.pool import lower_bound
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, CallTIR, Let
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check as check_rules
from assay.semantics.walk import post_order
from assay.verify.anf_check import check_anf
from assay.verify.constants_check import check_constants, table_slots
from assay.verify.evidence import Evidence, checked, plural, refuted, size
from assay.verify.legalize_check import check_claim, check_legalize
from assay.verify.plan import check_lives, check_pool
from assay.verify.program_check import check_program


@dataclass
class Context:
    """What the checks of one run share: the seed, progress, and the texts that were given to z3."""

    seed: int = 0
    progress: Callable[[int, int], None] = lambda done, total: None
    queries: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """One line of the table. `describe` says what the stage did, `check` whether it was right."""

    name: str
    describe: Callable[[Module, Module], str]
    check: Callable[[Module, Module, Context], Evidence]


def operator_counts(module: Module) -> Counter[str]:
    """How many nodes of each operator `main` has."""
    return Counter(
        n.op.name for n in post_order(module.main) if isinstance(n, Call) and isinstance(n.op, Operator)
    )


def _import(before: Module, after: Module) -> str:
    counts = operator_counts(after)
    return f"{plural(counts.total(), 'node')} of {plural(len(counts), 'operator')}"


def _check_import(before: Module, after: Module, context: Context) -> Evidence:
    try:
        check_rules(after)
    except Invalid as wrong:
        return refuted("checked", str(wrong))
    return checked("well-formed, every type derived anew")


def _anf(before: Module, after: Module) -> str:
    return plural(sum(isinstance(n, Let) for n in post_order(after.main)), "binding")


def _legalize(before: Module, after: Module) -> str:
    calls = sum(isinstance(n, CallTIR) for n in post_order(after.main))
    return f"{plural(calls, 'call')} of {plural(len(after.kernels), 'kernel')}"


def _constants(before: Module, after: Module) -> str:
    calls = [sum(isinstance(n, CallTIR) for n in post_order(m.main)) for m in (before, after)]
    _, total = table_slots(after)
    return f"{calls[0]} to {plural(calls[1], 'call')}; {plural(len(after.constants), 'constant')}, {size(total)}"


def _liveness(before: Module, after: Module) -> str:
    work = after.program.placed("workspace")
    return f"{plural(len(after.program.steps), 'step')}; {plural(len(work), 'buffer')}, {size(sum(s.nbytes for s in work))}"


def _pool(before: Module, after: Module) -> str:
    program = after.program
    work = program.placed("workspace")
    total, bound = program.workspace_bytes or 0, lower_bound(work)
    ratio = total / bound if bound else 1.0
    return f"{sum(s.nbytes for s in work)} to {total} bytes; bound {bound}, ratio {ratio:.3f}"


Check = Callable[[Module, Module, Context], Evidence]


def _rules_then(check: Check) -> Check:
    """The static rules first: a stage's own check may rely on them."""

    def both(before: Module, after: Module, context: Context) -> Evidence:
        wrong = _check_import(before, after, context)
        return check(before, after, context) if wrong.holds else wrong

    return both


def _kernels_then(check: Check) -> Check:
    """A stage after legalize leaves tensor functions as they are; one that it adds must do what it claims."""

    def both(before: Module, after: Module, context: Context) -> Evidence:
        old = before.kernels
        for name, kernel in after.kernels.items():
            if name not in old:
                wrong = check_claim(kernel, context.seed)
                if not wrong.holds:
                    return wrong
            elif repr(kernel) != repr(old[name]):
                return refuted("checked", f"tensor function {name} has changed")
        return check(before, after, context)

    return _rules_then(both)


def _check_constants(before: Module, after: Module, context: Context) -> Evidence:
    evidence, context.queries["constants"] = check_constants(before, after)
    return evidence


def _check_liveness(before: Module, after: Module, context: Context) -> Evidence:
    lives = check_lives(after.program)
    return check_program(before, after) if lives.holds else lives


def _check_pool(before: Module, after: Module, context: Context) -> Evidence:
    old, new = before.program, after.program
    if (old.steps, old.inputs, old.outputs) != (new.steps, new.inputs, new.outputs):
        return refuted("checked", "the plan has other steps than the program")
    evidence, context.queries["pool"] = check_pool(after)
    return evidence


STAGES: tuple[Stage, ...] = (
    Stage("import", _import, _check_import),
    Stage("anf", _anf, _rules_then(lambda b, a, c: check_anf(b, a))),
    Stage("legalize", _legalize, _rules_then(lambda b, a, c: check_legalize(b, a, c.seed, c.progress))),
    Stage("constants", _constants, _kernels_then(_check_constants)),
    Stage("liveness", _liveness, _kernels_then(_check_liveness)),
    Stage("pool", _pool, _kernels_then(_check_pool)),
)
