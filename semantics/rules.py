"""Static rules: what a module must be before anything runs (rule M1, Invalid; specs/semantics.md, "Well-formed").

`check(module)` raises Invalid with the label of the first broken rule, the place, and what would be right. It derives
every type anew and compares: an annotation is checked, never believed (rule M4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.semantics.bytecode import Bytecode
from assay.semantics.bytecode.structure import broken_bytecode
from assay.semantics.constant_rules import broken_table, check_constants
from assay.semantics.dtypes import BOOL, INT64
from assay.semantics.errors import Invalid
from assay.semantics.graph import Function
from assay.semantics.graph.rules import broken_rules, check_data
from assay.semantics.instance import measured_of, shape_in
from assay.semantics.linked import linked
from assay.semantics.module import GROUP, Module, Program
from assay.semantics.ops.sizes import same_size
from assay.semantics.scalar import Dim, Var, provably_equal
from assay.semantics.size_facts import SizeFacts, facts_at
from assay.semantics.steps import Branch, Continue, Loop, Measure, PrintValues, Require, Step
from assay.semantics.tensor import PrimFunc
from assay.semantics.tensor.calls import activation, callee, calls_of
from assay.semantics.tensor.copying import check_copy
from assay.semantics.tensor.phases import phases
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.types import DataDef


def check(module: Module) -> None:
    """Raise Invalid unless every definition of the module is well-formed."""
    for wrong in broken(module):
        raise wrong


def broken(module: Module) -> Iterator[Invalid]:
    """What is ill-formed about the module: one Invalid for each broken rule and place."""
    yield from broken_table(module)
    for name, d in module.definitions.items():
        try:
            match d:
                case Function():
                    for wrong in broken_rules(d, module):
                        yield Invalid(wrong.message, where=wrong.where or name, label=wrong.label)
                case PrimFunc():
                    _check_claims(d)
                    check_prim_func(d)
                    check_copy(d)
                    for call in calls_of(d):
                        if not call.extern:
                            activation(call, callee(call, module.kernels))
                    check_constants(d, module)
                case Program():
                    check_program(d, module)
                case DataDef():
                    check_data(d, module)
                case Bytecode():
                    yield from broken_bytecode(d, module)
        except Invalid as wrong:
            yield Invalid(wrong.message, where=wrong.where or name, label=wrong.label)


CLAIMS: dict[str, tuple[type, str]] = {
    "operator": (str, "the name of an operator"),
    "attrs": (Mapping, "the attributes of the operator, by name"),
    GROUP: (str, "the name of a graph function"),
}
"""What a tensor function may say of itself, and the form of that."""


def _check_claims(func: PrimFunc) -> None:
    """Invalid where a claim in a tensor function's attributes does not have its form (claims.C1, link.C2)."""
    for name, (form, want) in CLAIMS.items():
        said = func.attrs.get(name)
        is_read = isinstance(said, form) and (not isinstance(said, Mapping) or all(isinstance(k, str) for k in said))
        if name in func.attrs and not is_read:
            raise Invalid(f"the attribute {name} of {func.name} is {said!r}, and must be {want}", label="claims.C1")
    linked(func)


# --- planned programs --------------------------------------------------------------------------------------------


def check_program(program: Program, module: Module) -> None:
    """Every step calls a known tensor function on known slots of the right dtype and size; choices, loops nest."""
    _check_nesting(program)
    _check_pools(program)
    for name in (*program.inputs, *program.outputs):
        if name not in program.slots:
            raise Invalid(f"no slot {name}", label="program.C1")
    facts = facts_at(program.steps)
    for i, step in enumerate(program.steps):
        if isinstance(step, Step):
            kernel = module.kernel(step.kernel)
            check_copy(kernel)
            try:
                _check_step(i, step, kernel, program, facts[i])
            except Invalid as wrong:
                raise wrong.at(step.span) from None


def _check_step(i: int, step: Step, kernel: PrimFunc, program: Program, facts: SizeFacts) -> None:
    """Invalid, without a place, where a step does not fit the tensor function that it calls or the slots."""
    name, count = f"step {i} ({step.kernel})", phases(kernel).count
    if step.phases not in (1, count):
        raise Invalid(f"{name} has {step.phases} phases, its kernel {count}", label="program.C9")
    for k, j in step.in_place:
        if not (0 <= k < len(step.writes) and 0 <= j < len(step.reads)):
            raise Invalid(f"{name} has no output {k} or no input {j}", label="program.C10")
    wanted = [*kernel.params, *kernel.allocations]
    made = [*step.writes, *step.scratch]
    given = [*step.reads, *made]
    if len(step.reads) != len(kernel.inputs) or len(wanted) != len(given):
        raise Invalid(f"step {i} gives {step.kernel} {len(given)} slots, it takes {len(wanted)}", label="program.C2")
    if len(step.scalars) != len(kernel.scalars):
        what = f"gives {step.kernel} {len(step.scalars)} scalars, it takes {len(kernel.scalars)}"
        raise Invalid(f"step {i} {what}", label="program.C2")
    if len(set(made)) != len(made) or set(made) & set(step.reads):
        raise Invalid(f"{name} uses one slot twice", label="program.C5")
    for buffer, slot_name in zip(wanted, given, strict=True):
        slot = program.slots.get(slot_name)
        if slot is None:
            raise Invalid(f"step {i} uses an unknown slot {slot_name}", label="program.C1")
        if slot.type.dtype is not buffer.dtype or not facts.same_size(slot.type.shape, shape_in(step, kernel, buffer)):
            raise Invalid(f"step {i}: {buffer} is given slot {slot_name}: {slot.type}", label="program.C3")
        if slot_name in step.writes and slot.place in ("input", "constant"):
            raise Invalid(f"step {i} writes {slot.place} {slot_name}", label="program.C4")
        if slot_name in step.scratch and slot.place != "workspace":
            raise Invalid(f"step {i} uses {slot.place} {slot_name} as scratch", label="program.C4")


def _check_pools(program: Program) -> None:
    """Pools have names of their own, and one is for the workspace; every slot lies in one that is there."""
    names = [p.name for p in program.pools]
    if len(set(names)) < len(names) or all(p.kind == "constant" for p in program.pools):
        what = f"the pools are {', '.join(names) or 'none'}: there must be one for the workspace, and no two of a name"
        raise Invalid(what, label="program.C8")
    for slot in program.slots.values():
        program.pool_of(slot)
    for name, size in program.sizes.items():
        if name not in names:
            raise Invalid(f"a size is given to {name}, which is no pool of the program", label="program.C8")
        if size < 0:
            raise Invalid(f"the pool {name} has {size} bytes: a size is not negative", label="program.C8")


def _check_nesting(program: Program) -> None:
    """Each arm and each loop lies within what is around it, each condition is one boolean, what a loop carries is in
    slots of their own, and a step that goes back is the last that its loop runs."""
    open_: list[tuple[int, int, bool]] = [(len(program.steps), len(program.steps), False)]
    """Of what is around: where it ends, where one goes on then, and whether it is a loop."""
    measured = measured_of(program)
    for i, step in enumerate(program.steps):
        while i >= open_[-1][0]:
            open_.pop()
        within = open_[-1][0]
        match step:
            case Branch():
                if not i < step.then <= step.end <= within:
                    raise Invalid(
                        f"step {i} chooses between steps up to {step.then} and up to {step.end}, inside an arm or a"
                        f" loop that ends at {within}",
                        where=step.span,
                        label="program.C7",
                    )
                _check_condition(i, step, "chooses by", program)
                open_ += [(step.end, step.end, False), (step.then, step.end, False)]
            case Measure():
                _check_measure(i, step, program, measured)
            case Require():
                _check_condition(i, step, "requires", program)
                _check_shown(i, step, program)
            case PrintValues():
                _check_shown(i, step, program)
            case Loop():
                if not i < step.end <= within:
                    raise Invalid(
                        f"step {i} is a loop up to step {step.end}, inside an arm or a loop that ends at {within}",
                        where=step.span,
                        label="program.C11",
                    )
                _check_carried(i, step, program)
                open_.append((step.end, step.end, True))
            case Continue():
                behind = i + 1
                for end, on, is_loop in reversed(open_):
                    if behind != end or is_loop:
                        break
                    behind = on
                if behind != end or not is_loop:
                    raise Invalid(
                        f"step {i} goes back to where a loop begins, and is not the last that one runs",
                        where=step.span,
                        label="program.C12",
                    )


def _check_carried(i: int, step: Loop, program: Program) -> None:
    """The slots of a loop's variables are there, and no two of those that are written are one."""
    written = {name for s in program.steps[i + 1 : step.end] for name in s.writes}
    for k, name in enumerate(step.carried):
        if name and name not in program.slots:
            raise Invalid(f"step {i} carries {name}, which is no slot", where=step.span, label="program.C1")
        if name in written and name in step.carried[:k]:
            raise Invalid(f"step {i} carries two variables in {name}", where=step.span, label="program.C11")


def _check_measure(i: int, step: Measure, program: Program, most: Mapping[Var, Dim]) -> None:
    """What tells sizes is a vector of as many whole numbers, or as many dims; each has a greatest one, the same at all
    places."""
    slot = program.slots.get(step.slot)
    if not step.slot:
        if len(step.values) != len(step.symbols):
            what = f"step {i} gives {len(step.symbols)} sizes {len(step.values)} values"
            raise Invalid(what, where=step.span, label="program.C13")
    elif slot is None or slot.type.dtype is not INT64 or not same_size(slot.type.shape, (len(step.symbols),)):
        what = f"step {i} measures {len(step.symbols)} sizes by {step.slot}, which is no tensor of so many int64"
        raise Invalid(what, where=step.span, label="program.C13")
    if len(step.most) != len(step.symbols):
        what = f"step {i} measures {len(step.symbols)} sizes, and says of {len(step.most)} how great they can be"
        raise Invalid(what, where=step.span, label="program.C13")
    odd = next((v for v, n in zip(step.symbols, step.most, strict=True) if not provably_equal(n, most[v])), None)
    if odd is not None:
        what = f"step {i} says that {odd.name} is at most another number than another step says"
        raise Invalid(what, where=step.span, label="program.C13")


def _check_shown(i: int, step: Require | PrintValues, program: Program) -> None:
    """What is shown are slots."""
    odd = next((n for n in step.shown if n not in program.slots), None)
    if odd is not None:
        raise Invalid(f"step {i} shows {odd}, which is no slot", where=step.span, label="program.C1")


def _check_condition(i: int, step: Branch | Require, does: str, program: Program) -> None:
    """A condition is one boolean."""
    slot = program.slots.get(step.condition)
    if slot is None or slot.type.dtype is not BOOL or slot.type.shape != ():
        raise Invalid(
            f"step {i} {does} {step.condition}, which is no slot of one boolean",
            where=step.span,
            label="program.C7",
        )
