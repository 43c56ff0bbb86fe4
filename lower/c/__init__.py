"""The planned program as C99: one .c and one .h (specs/lower.md, "c").

    source = emit(module, "lenet")
    source.write(Path("out"))           # lenet.h, lenet.c and, for large constants, lenet.weights

The C allocates nothing, has no state, and takes its workspace from the caller; every name starts with the model's.
Compiled as the header says, its results are those of the tensor interpreters, bit for bit (rule M10), but for
transcendental functions, which agree bit for bit where NAME_REPRODUCIBLE is defined. What the interpreters report and
C does not: reads of unwritten bytes and races. The plan is taken as it is; `assay.verify` proves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assay.lower.c.constants import Constants, attribute_macros, place as place_constants, pool_text, table_text
from assay.lower.c.convention import find_devices
from assay.lower.c.effects import prints
from assay.lower.c.entry import definitions, entry
from assay.lower.c.header import header, prologue
from assay.lower.c.helpers import Library
from assay.lower.c.kernel import write_kernel
from assay.lower.c.layout import Argument, EntryLayout, Workspace, workspace_names
from assay.lower.c.loader import loader
from assay.lower.c.names import ScopeNames, identifier
from assay.lower.c.outlining import noinline
from assay.lower.c.packed import runtime, wrappers
from assay.lower.c.packed_abi import SpecNames
from assay.lower.c.signature import CKernel, KernelStyle
from assay.lower.c.sizes import EntrySizes
from assay.lower.c.source import CSource
from assay.lower.c.tables import STORAGE, Array, blob, needs_math
from assay.lower.interfaces import Interface
from assay.semantics.arrangements import in_one
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.instance import is_symbolic, measured_of, place_of
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.rules import check_program
from assay.semantics.scalar import Dim
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, program_order

__all__ = ["CSource", "Interface", "emit"]

_LOCALS = ("workspace", "weights", "base", "table", "status", "buffers", "active", "handle", "state", "all")
_PACKED_LOCALS = (
    "args",
    "arguments",
    "count",
    "result",
    "functions",
    "given",
    "pointers",
    "tensors",
    "values",
    "dims",
    "handed",
    "extents",
)
"""Names of the entry that no argument may have; those in the packed conventions alone."""


def emit(
    module: Module,
    name: str,
    *,
    inline_limit: int = 1 << 20,
    digest: str = "",
    interface: Interface = Interface.UNPACKED,
    device: str = "",
    externs: Mapping[str, str] | None = None,
) -> CSource:
    """The C of the planned program `main`, every symbol starting with `name` (made an identifier where it is none).

    Constants of at most `inline_limit` bytes together are tables in the source; above that all of them are one blob
    that the caller hands in. `digest` identifies the module in the header. `interface` is how the entry and the
    kernels are called. Steps that name no device run on `device`, whose hooks are called; empty: they have none.
    `externs` gives the C functions for extern functions by name; others are NAME_extern_..., as the header says.
    Where sizes are symbols they are arguments of the entry, first of all. Invalid where the plan is missing or does not
    fit itself; Unsupported for dtypes without C (4-bit integers, float8), and for symbols that no input tells.
    """
    return _Emitter(module, name, inline_limit, digest, interface, device, externs or {}).run()


@dataclass(eq=False)
class _Emitter:
    """Writes the C of one program; the fields are what `emit` is given."""

    module: Module
    name: str
    inline_limit: int
    digest: str
    interface: Interface
    device: str
    externs: Mapping[str, str]

    def __post_init__(self) -> None:
        self.program: Program = _in_one(self.module.program)
        self.prefix = identifier(self.name)
        self.macro = self.prefix.upper()
        self.library = Library(self.prefix, self.macro, externs=self.externs)
        module, self.module = self.module, self.module.resolved()
        check_program(self.program, module)
        _check_plan(self.program)
        self.is_symbolic = is_symbolic(self.program) or bool(measured_of(self.program))
        if self.is_symbolic:
            self.require_plain()
        taken = _LOCALS if self.interface is Interface.UNPACKED else (*_LOCALS, *_PACKED_LOCALS)
        taken = (*taken, *(("plan", "found") if self.is_symbolic else ()))
        taken = (*taken, *(n for w in self.workspaces() for n in (w.name, w.base)))
        names = ScopeNames(taken, (f"{self.prefix}_", f"{self.macro}_"))
        self.sizes = EntrySizes(self.program, self.prefix, self.macro, self.library, names)
        self.devices = find_devices(self.program, self.device)

    def run(self) -> CSource:
        program = self.program
        packed = self.interface is not Interface.UNPACKED
        style = KernelStyle(handle=bool(self.devices.all) and not packed, messages=packed)
        constants = self.constants()
        self.library.constants.update({n: c for n, c in constants.names.items() if c != "NULL"})
        self.library.outside.update(constants.blob)
        kernels: dict[str, CKernel] = {}
        for step in program.calls:
            if step.kernel not in kernels:
                kernel, c = self.module.kernel(step.kernel), self.library.top("k", step.kernel)
                symbols, shared = self.sizes.symbols(kernel), _in_place(program, step.kernel, kernel)
                kernels[step.kernel] = write_kernel(kernel, c, self.macro, self.library, style, symbols, shared)
        layout = self.layout(kernels, constants.only(self.used(kernels)))
        # what needs helpers and headers first, then those
        main = [*runtime(layout), *self.tables(layout), *definitions(layout, kernels)]
        main += [*wrappers(layout, kernels), *entry(layout, kernels, self.library)]
        alone = [noinline(self.macro)] if any(f"{self.macro}_APART " in text for text in main) else []
        body = [*prologue(layout, self.library.uses_math), *alone, *self.library.text(), *main]
        return CSource(
            self.prefix,
            "".join(header(layout, kernels, self.digest)),
            "".join(body),
            layout.blob,
            layout.blob.digest if layout.blob else "",
            layout.workspaces,
            self.macro,
            layout.inputs,
            layout.outputs,
            self.interface,
            self.device,
            self.devices.all,
            tuple(e.c for e in self.library.externs.found.values()),
            loader(layout),
            self.sizes.arguments,
            self.sizes.returned,
            prints(layout),
        )

    def require_plain(self) -> None:
        """Unsupported (c.C6) for what takes no symbols."""
        placed = [s.name for s in self.program.pooled if s.place in ("input", "output")]
        if placed:
            raise Unsupported(
                f"C with sizes as arguments takes inputs and outputs by pointer, and {placed[0]} lies in a pool",
                label="c.C6",
            )

    def constants(self) -> Constants:
        """Where each constant stands."""
        for slot in self.program.placed("constant"):
            array = self.module.constants.get(slot.name)
            if array is None or array.nbytes != slot.nbytes:
                raise Invalid(f"no constant of {slot.nbytes} bytes for slot {slot.name!r}", label="c.C7")
        if self.interface is Interface.UNPACKED:  # a kernel is handed what it holds
            return place_constants(self.module, self.inline_limit, self.library.top, ())
        called = [self.module.kernel(name) for name in dict.fromkeys(s.kernel for s in self.program.calls)]
        inner = {s.index for k in called for s in program_order(k.body) if isinstance(s, AllocateConst)}
        return place_constants(self.module, self.inline_limit, self.library.top, inner)

    def workspaces(self) -> tuple[Workspace, ...]:
        """The pools that the entry is handed, whether or not something lies there."""
        program = self.program
        pools = [p for p in program.pools if p.kind == "workspace"]
        names = workspace_names([p.name for p in pools])
        sizes: Mapping[str, Dim] = program.sizes if program.plan is None else program.plan.sizes
        return tuple(
            Workspace(p.name, c, macro, sizes.get(p.name, 0), p.alignment)
            for p, (c, macro) in zip(pools, names, strict=True)
        )

    def arguments(self, workspaces: tuple[Workspace, ...]) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
        """Inputs and outputs with their C names; an output that is no memory of its own gets a fresh one."""
        program = self.program
        names, macros = self.sizes.names, ScopeNames()

        def argument(slot: Slot, place: str) -> Argument:
            macro = macros.fresh(slot.name, upper=True)
            c = names.fresh(slot.name)
            ctype = STORAGE[slot.type.dtype.name]
            if not slot.is_pooled or slot.place != place:
                return Argument(slot.name, c, macro, slot.type, ctype, room=slot.room)
            pool = program.pool_of(slot).name
            workspace = next(w.name for w in workspaces if w.pool == pool)
            return Argument(slot.name, c, macro, slot.type, ctype, workspace, slot.offset or 0, slot.room)

        inputs = tuple(argument(program.slots[n], "input") for n in program.inputs)
        macros = ScopeNames()
        outputs = tuple(argument(program.slots[n], "output") for n in program.outputs)
        return inputs, outputs

    def layout(self, kernels: dict[str, CKernel], constants: Constants) -> EntryLayout:
        """Where every slot lies: what the entry and the header print."""
        program, workspaces = self.program, self.workspaces()
        _ = self.sizes.arguments, self.sizes.returned  # they have their names first
        inputs, outputs = self.arguments(workspaces)
        places = constants.blob
        pieces: list[tuple[str, int, Array]] = [(n, at, self.module.constants[n]) for n, at in places.items()]
        alignments = [
            program.alignment,
            *(program.slots[n].alignment for n in places),
            *(p.alignment for p, _ in constants.in_blob),
        ]
        weights = blob(pieces, max(alignments)) if places else None
        macros, external = ScopeNames(), ScopeNames()
        return EntryLayout(
            name=self.prefix,
            macro=self.macro,
            program=program,
            module=self.module,
            inputs=inputs,
            outputs=outputs,
            offsets={s.name: macros.fresh(s.name, upper=True) for s in program.pooled if s.place != "constant"},
            blob=weights,
            constants=constants,
            workspaces=workspaces,
            interface=self.interface,
            default_device=self.device,
            devices=self.devices,
            external={n: f"{self.macro}_EXTERNAL_{external.fresh(n, upper=True)}" for n in kernels},
            packed={n: self.library.top("p", n) for n in kernels},
            specs={n: self.spec_names(n) for n in kernels},
            entry_specs=self.spec_names("run"),
            externs=self.library.externs,
            sizes=self.sizes,
        )

    def spec_names(self, name: str) -> SpecNames:
        return SpecNames(self.library.top("s", name), self.library.top("d", name))

    def used(self, kernels: Mapping[str, CKernel]) -> set[str]:
        """The constants that some kernel reads, that choose, or that are results."""
        used = {
            *self.program.outputs,
            *(n for s in self.program.steps if not isinstance(s, Step) for n in s.reads),
        }
        for step in self.program.calls:
            used.update(step.reads[p.index] for p in kernels[step.kernel].parameters if p.role == "input")
            used.update(step.reads if self.interface is not Interface.UNPACKED else ())
        return used | self.library.used_constants

    def tables(self, layout: EntryLayout) -> Iterator[str]:
        """The constants that stand in the source: of those by themselves, only those that are read."""
        yield from attribute_macros(layout.constants, self.macro)
        data, types = self.module.constants, {n: s.type.dtype for n, s in self.program.slots.items()}
        for table in layout.constants.tables:
            self.library.uses_math |= needs_math(data[table.slot.name], types[table.slot.name])
            yield from table_text(table, data[table.slot.name], self.macro)
        for pool in layout.constants.pools:
            self.library.uses_math |= any(needs_math(data[n], types[n]) for n in pool.members)
            yield from pool_text(pool, data, self.prefix, self.macro)


def _in_place(program: Program, name: str, kernel: PrimFunc) -> set[Buffer]:
    """The parameters of a kernel that at some step lie in the bytes of another one."""
    found: set[Buffer] = set()
    for step in program.calls:
        if step.kernel == name:
            slots = {n for k, j in step.in_place for n in (step.writes[k], step.reads[j])}
            found.update(b for n, b in zip((*step.reads, *step.writes), kernel.params, strict=True) if n in slots)
    return found


def _in_one(program: Program) -> Program:
    """The program with one place for each slot, be it one that chooses by the sizes of a run."""
    return program if program.plan is None else replace(program, plan=in_one(program.plan))


def _check_plan(program: Program) -> None:
    """Every slot inside its place, aligned, and of a place that its uses agree with."""
    if not program.sizes and program.plan is None:
        raise Invalid("the program has no plan: no pool has a size; run the stage pool", label="c.C9")
    for pool in program.pools:
        size = program.sizes.get(pool.name, 0)
        if pool.limit is not None and size > pool.limit:
            raise Invalid(f"pool {pool.name!r} has {size} bytes, its limit is {pool.limit}", label="c.C10")
    for s in program.pooled:
        if place_of(program, s) is None:
            raise Invalid(f"slot {s.name!r} has no offset; run the stage pool", label="c.C9")
        if s.offset is None:
            continue  # an expression: what is shown of the plan says that it fits
        pool = program.pool_of(s)
        size = program.sizes.get(pool.name, 0)
        if (pool.kind == "constant") != (s.place == "constant"):
            raise Invalid(f"slot {s.name!r} is an {s.place}, the pool {pool.name!r} is for {pool.kind}s", label="c.C17")
        if s.offset < 0 or s.offset + s.nbytes > size:
            raise Invalid(
                f"slot {s.name!r} lies at bytes {s.offset} to {s.offset + s.nbytes},"
                f" outside the {size} bytes of the pool {pool.name!r}",
                label="c.C10",
            )
        if s.offset % s.alignment or pool.alignment % s.alignment:
            raise Invalid(
                f"slot {s.name!r} at offset {s.offset} is not aligned to {s.alignment}"
                f" in the pool {pool.name!r}, which is aligned to {pool.alignment}",
                label="c.C11",
            )
    for place, names in (("input", program.inputs), ("output", program.outputs)):
        for s in program.placed(place):
            if s.name not in names:
                raise Invalid(f"slot {s.name!r} is an {place}, but the program does not list it", label="c.C12")
    if len(set(program.inputs)) != len(program.inputs) or any(
        program.slots[n].place != "input" for n in program.inputs
    ):
        raise Invalid("the inputs of the program are not distinct slots of place 'input'", label="c.C12")
