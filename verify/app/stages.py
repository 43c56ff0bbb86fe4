"""The stages of `assay check`: what each does, and how it is checked (specs/verify.md, "Stages").

The checks take modules only, so they run alike on a lowering that was just made and on one read from a certificate.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from assay.lower.devices import default_config, plan_devices
from assay.lower.simplify.dead_code import remove_unreachable
from assay.semantics.accounting import account
from assay.semantics.analyses.variables import reachable
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, CallTIR, Function, Let
from assay.semantics.instance import is_symbolic, symbols_of
from assay.semantics.memory import BufferInfo, lower_bound
from assay.semantics.module import GROUP, Definition, Module, Program, Slot, Step
from assay.semantics.operator import Operator
from assay.semantics.paths import join
from assay.semantics.rules import check as check_rules
from assay.semantics.store import ArrayWriter, encode
from assay.semantics.tensor import AllocateConst, PrimFunc
from assay.semantics.walk import post_order, rewrite
from assay.verify.anf import check_anf
from assay.verify.constants import check_constants
from assay.verify.devices import check_devices as check_device_plan, copies
from assay.verify.evidence import Evidence, checked, listed, plural, refuted, size
from assay.verify.fuse import check_fuse
from assay.verify.legalize import check_claim, check_legalize
from assay.verify.liveness.devices import check_devices
from assay.verify.liveness.lives import check_lives
from assay.verify.liveness.program import check_program
from assay.verify.pool import as_problem, check_pool
from assay.verify.schedule import ATTRIBUTE, check_schedule, claim_of
from assay.verify.value_numbering import attrs_key, constant_key


@dataclass
class Context:
    """What the checks of one run share: the seed, progress, the texts that were given to z3, and which devices there
    are, as far as somebody said."""

    seed: int = 0
    progress: Callable[[int, int], None] = lambda done, total: None
    queries: dict[str, str] = field(default_factory=dict)
    config: CompilationConfig | None = None


Did = tuple[str, dict[str, int]]
"""What a stage did: for people, and as numbers."""


@dataclass(frozen=True)
class Stage:
    """One line of the table. `describe` says what the stage did, `check` whether it was right."""

    name: str
    describe: Callable[[Module, Module], Did]
    check: Callable[[Module, Module, Context], Evidence]


def _import(before: Module, after: Module) -> Did:
    calls = [n.op.name for n in post_order(after.main) if isinstance(n, Call) and isinstance(n.op, Operator)]
    kinds = len(set(calls))
    reached = set(reachable(after))
    left = [n for n, d in after.definitions.items() if isinstance(d, (Function, PrimFunc)) and n not in reached]
    beside = f"; not lowered, for main does not reach it: {listed(left)}" if left else ""
    said = f"{plural(len(calls), 'node')} of {plural(kinds, 'operator')}{beside}"
    return said, {"nodes": len(calls), "operators": kinds, **({"unreached": len(left)} if left else {})}


def _devices(before: Module, after: Module) -> Did:
    graphs = [d for d in after.definitions.values() if isinstance(d, Function)]
    places = {n.device.place for d in graphs for n in post_order(d)} - {ANYWHERE}
    if not places:
        return "one device", {"devices": 1, "copies": 0}
    count = copies(after)
    return f"{plural(len(places), 'device')}, {count} {'copy' if count == 1 else 'copies'}", {
        "devices": len(places),
        "copies": count,
    }


def _anf(before: Module, after: Module) -> Did:
    count = sum(isinstance(n, Let) for n in post_order(after.main))
    return plural(count, "binding"), {"bindings": count}


def _legalize(before: Module, after: Module) -> Did:
    calls, kernels = _calls(after), len(after.kernels)
    return f"{plural(calls, 'call')} of {plural(kernels, 'kernel')}", {"calls": calls, "kernels": kernels}


def _fuse(before: Module, after: Module) -> Did:
    old, new = _calls(before), _calls(after)
    return f"{old} to {plural(new, 'call')}", {"calls_before": old, "calls": new}


def _constants(before: Module, after: Module) -> Did:
    old, new, count = _calls(before), _calls(after), len(after.constants)
    total = account(after).total
    data = {"calls_before": old, "calls": new, "constants": count, "constant_bytes": total}
    return f"{old} to {plural(new, 'call')}; {plural(count, 'constant')}, {size(total)}", data


def _calls(module: Module) -> int:
    return sum(isinstance(n, CallTIR) for n in post_order(module.main))


def _schedule(before: Module, after: Module) -> Did:
    claim = claim_of(after.main)
    if claim is None:
        return "not planned", {}
    data = {"peak_before": claim.before, "peak": claim.after, "peak_bound": claim.bound}
    peak = f"peak {size(claim.before)}" + (f" to {size(claim.after)}" if claim.after < claim.before else "")
    return peak + (", optimal" if claim.optimal else f", at least {size(claim.bound)}"), data


def _liveness(before: Module, after: Module) -> Did:
    steps, work = len(after.program.steps), after.program.placed("workspace")
    if is_symbolic(after.program):
        said = f"{plural(steps, 'step')}; {plural(len(work), 'buffer')}, sizes over {_symbols(after.program)}"
        return said, {"steps": steps, "buffers": len(work)}
    total = sum(s.nbytes for s in work)
    data = {"steps": steps, "buffers": len(work), "buffer_bytes": total}
    return f"{plural(steps, 'step')}; {plural(len(work), 'buffer')}, {size(total)}", data


def _symbols(program: Program) -> str:
    return ", ".join(v.name for v in symbols_of(program)) or "no symbols"


def _pool(before: Module, after: Module) -> Did:
    program = after.program
    if program.plan is not None:
        sizes, count = program.plan.sizes, len(program.plan.places)
        numbers = {name: n for name, n in sizes.items() if isinstance(n, int)}
        said = [
            f"{name}, {numbers[name]} bytes" if name in numbers else f"{name}, bytes by {_symbols(program)}"
            for name in sizes
        ]
        return f"{plural(count, 'buffer')} in {'; '.join(said)}", {"buffers": count, **numbers}
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


def _check_import(before: Module, after: Module, context: Context) -> Evidence:
    """Invalid: the module is not well-formed. That refutes no step of ours: there is no program that one could take."""
    check_rules(after)
    return checked("well-formed, every type derived anew")


def _check_device_plan(before: Module, after: Module, context: Context) -> Evidence:
    return check_device_plan(before, after, context.config or default_config(before), plan_devices)


Check = Callable[[Module, Module, Context], Evidence]


def _rules_then(check: Check) -> Check:
    """The static rules first: a stage's own check may rely on them."""

    def both(before: Module, after: Module, context: Context) -> Evidence:
        try:
            check_rules(after)
        except Invalid as wrong:
            return refuted("checked", str(wrong))
        old, new = before.definitions["main"], after.definitions["main"]
        if isinstance(old, Function) and isinstance(new, Function) and _interface(old) != _interface(new):
            return refuted("checked", "the parameters, results or attributes of main have changed")
        return check(before, after, context)

    return both


def _kernels_then(check: Check) -> Check:
    """A stage after legalize leaves tensor functions as they are; one that it adds must do what it claims."""

    def both(before: Module, after: Module, context: Context) -> Evidence:
        old = before.resolved().kernels
        for name, kernel in after.resolved().kernels.items():
            if name not in old:
                if GROUP in kernel.attrs:
                    return refuted("checked", f"tensor function {name} is a group that is not fuse's")
                wrong = check_claim(kernel, context.seed)
                if not wrong.holds:
                    return wrong
            elif kernel is not old[name] and _stored(_nameless(kernel)) != _stored(_nameless(old[name])):
                return refuted("checked", f"tensor function {name} has changed")
        return check(before, after, context)

    return _rules_then(both)


def _interface(main: Function) -> tuple[str, ...]:
    """What a caller relies on: names and types of parameters, the type of the result, attributes. What the schedule
    claims is none of that."""
    attrs = {k: v for k, v in main.attrs.items() if k != ATTRIBUTE}
    return (*(f"{p.name}: {p.type}" for p in main.params), str(main.result_type), attrs_key(attrs))


def _nameless(kernel: PrimFunc) -> PrimFunc:
    """A tensor function whose constants do not say what they are called in the table; that it has what they name there
    is a static rule."""
    body = rewrite(
        kernel.body, lambda s: replace(s, index="") if isinstance(s, AllocateConst) and s.data is not None else s
    )
    return kernel if body is kernel.body else replace(kernel, body=body)


def _stored(definition: Definition) -> tuple[str, bytes]:
    """A definition as it would be stored: all of it, data and attributes too."""
    data = io.BytesIO()
    return encode(Module({"it": definition}), ArrayWriter(data)), data.getvalue()


def _constants_then(check: Check) -> Check:
    """A stage after constants leaves the table as it is."""

    def both(before: Module, after: Module, context: Context) -> Evidence:
        old, new = before.constants, after.constants
        same = list(old) == list(new) and before.offsets == after.offsets
        if not same or any(old[n] is not new[n] and constant_key(old[n]) != constant_key(new[n]) for n in old):
            return refuted("checked", "the table of constants has changed")
        entry = after.definitions["main"]
        for slot in entry.placed("constant") if isinstance(entry, Program) else ():
            if not slot.is_pooled and slot.offset != after.offsets.get(slot.name):
                return refuted("checked", f"constant {slot.name} is sought at another offset")
        return check(before, after, context)

    return _kernels_then(both)


def _check_fuse(before: Module, after: Module, context: Context) -> Evidence:
    old, new = before.definitions, after.definitions
    for name, d in old.items():
        open_ = isinstance(d, Function) and not {"primitive", "compiler"} & set(d.attrs)
        if name not in new or (not open_ and new[name] is not d and _stored(new[name]) != _stored(d)):
            return refuted("checked", f"definition {name} has changed")
        if isinstance(d, Function) and not (
            isinstance(kept := new[name], Function) and _interface(d) == _interface(kept)
        ):
            return refuted("checked", f"the parameters, results or attributes of {name} have changed")
    return check_fuse(before, after, context.seed, context.progress)


def _check_constants(before: Module, after: Module, context: Context) -> Evidence:
    evidence, context.queries["constants"] = check_constants(before, after)
    return evidence


def _check_schedule(before: Module, after: Module, context: Context) -> Evidence:
    old, new = before.definitions, after.definitions
    others = [n for n, d in old.items() if n != "main" and not isinstance(d, PrimFunc)]
    if list(old) != list(new) or any(old[n] is not new[n] and _stored(old[n]) != _stored(new[n]) for n in others):
        return refuted("checked", "a definition other than main has changed")
    return check_schedule(before, after)


def _check_liveness(before: Module, after: Module, context: Context) -> Evidence:
    same = check_program(before, after)
    if not same.holds:
        return same
    for evidence in (check_lives(after.program, after.kernels), check_devices(after.program, after.kernels)):
        if not evidence.holds:
            return evidence
    claim = claim_of(before.main)
    if claim is not None and claim.after != (needed := _peak_of_steps(after.program)):
        return refuted("checked", f"the schedule claims a peak of {claim.after} bytes, the lives have one of {needed}")
    return same


def _peak_of_steps(program: Program) -> int:
    """The most bytes that are live at any time of one step: the schedule does not look into steps."""
    step_at = [i for i, s in enumerate(program.steps) for _ in range(s.phases)]
    work = program.placed("workspace")
    lives = [join((step_at[start], step_at[stop - 1] + 1) for start, stop in s.live) for s in work]
    return lower_bound(BufferInfo(s.name, s.nbytes, live) for s, live in zip(work, lives, strict=True))


def _but_place(slot: Slot) -> tuple[object, ...]:
    """All that a slot is, but for its pool and offset there; types are compared as text."""
    return (slot.name, str(slot.type), slot.place, slot.live, slot.alignment, slot.producer, slot.device)


def _check_pool(before: Module, after: Module, context: Context) -> Evidence:
    old, new = before.program, after.program
    if {n: _but_place(s) for n, s in old.slots.items()} != {n: _but_place(s) for n, s in new.slots.items()}:
        return refuted("checked", "the plan changes more of a buffer than its offset")
    steps = tuple(replace(s, in_place=()) if isinstance(s, Step) else s for s in new.steps)
    if (old.steps, old.inputs, old.outputs, old.limits, old.host) != (
        steps,
        new.inputs,
        new.outputs,
        new.limits,
        new.host,
    ):
        return refuted("checked", "the plan has other steps, another host, or other limits of sizes, than the program")
    evidence, queries = check_pool(after)
    context.queries.update(queries)
    return evidence


STAGES: tuple[Stage, ...] = (
    Stage("import", _import, _check_import),
    Stage("devices", _devices, _rules_then(_check_device_plan)),
    Stage("anf", _anf, _rules_then(lambda b, a, c: check_anf(remove_unreachable(b), remove_unreachable(a)))),
    Stage(
        "legalize", _legalize, _rules_then(lambda b, a, c: check_legalize(remove_unreachable(b), a, c.seed, c.progress))
    ),
    Stage("fuse", _fuse, _rules_then(_check_fuse)),
    Stage("constants", _constants, _kernels_then(_check_constants)),
    Stage("schedule", _schedule, _constants_then(_check_schedule)),
    Stage("liveness", _liveness, _constants_then(_check_liveness)),
    Stage("pool", _pool, _constants_then(_check_pool)),
)
