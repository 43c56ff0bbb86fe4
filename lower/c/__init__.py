"""The planned program as C99: one .c and one .h (specs/lower.md, "c").

    source = emit(module, "lenet")
    source.write(Path("out"))           # lenet.h, lenet.c and, for large constants, lenet.weights

The C allocates nothing, has no state, and takes its workspace from the caller; every name starts with the model's.
Compiled as the header says, its results are those of the tensor interpreters, bit for bit (rule M10), but for
transcendental functions, which agree bit for bit where NAME_REPRODUCIBLE is defined. What the interpreters report and
C does not: reads of unwritten bytes and races. The plan is taken as it is; `assay.verify` proves it.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.lower.c.convention import Interface, find_devices
from assay.lower.c.entry import definitions, entry
from assay.lower.c.header import Argument, Layout, header, prologue
from assay.lower.c.helpers import Library
from assay.lower.c.kernel import CKernel, KernelStyle, write_kernel
from assay.lower.c.names import Names, identifier
from assay.lower.c.packed import runtime, wrappers
from assay.lower.c.packed_abi import SpecNames
from assay.lower.c.source import CSource
from assay.lower.c.tables import Array, blob, needs_math, static_table, storage
from assay.semantics.errors import Invalid
from assay.semantics.module import Module, Program, Slot
from assay.semantics.rules import check_program

__all__ = ["CSource", "Interface", "emit"]

_LOCALS = ("workspace", "weights", "base", "table", "status", "buffers", "active", "handle")
_PACKED_LOCALS = ("args", "arguments", "count", "result", "functions", "given", "pointers", "tensors", "values")
"""Names of the entry that no argument may have; those in the packed conventions alone."""


def emit(
    module: Module,
    name: str,
    *,
    inline_limit: int = 1 << 20,
    digest: str = "",
    interface: Interface = Interface.UNPACKED,
    device: str = "",
) -> CSource:
    """The C of the planned program `main`, every symbol starting with `name` (made an identifier where it is none).

    Constants of at most `inline_limit` bytes together are tables in the source; above that all of them are one blob
    that the caller hands in. `digest` identifies the module in the header. `interface` is how the entry and the
    kernels are called. Steps that name no device run on `device`, whose hooks are called; empty: they have none.
    Invalid where the plan is missing or does not fit itself; Unsupported for dtypes without C (4-bit integers,
    float8) and symbolic sizes.
    """
    return _Emitter(module, name, inline_limit, digest, interface, device).run()


class _Emitter:
    def __init__(
        self, module: Module, name: str, inline_limit: int, digest: str, interface: Interface, device: str
    ) -> None:
        self.module = module
        self.program: Program = module.program
        self.prefix = identifier(name)
        self.macro = self.prefix.upper()
        self.library = Library(self.prefix, self.macro)
        self.inline_limit = inline_limit
        self.digest = digest
        self.interface = interface
        self.device = device
        check_program(self.program, module)
        _check_plan(self.program)
        self.devices = find_devices(self.program, device)

    def run(self) -> CSource:
        program = self.program
        packed = self.interface is not Interface.UNPACKED
        style = KernelStyle(handle=bool(self.devices.all) and not packed, messages=packed)
        kernels: dict[str, CKernel] = {}
        for step in program.calls:
            if step.kernel not in kernels:
                kernel, c = self.module.kernel(step.kernel), self.library.top("k", step.kernel)
                kernels[step.kernel] = write_kernel(kernel, c, self.macro, self.library, style)
        inputs, outputs = self.arguments()
        layout = self.layout(kernels, inputs, outputs)
        # what needs helpers and headers first, then those
        main = [*runtime(layout), *self.tables(layout, kernels), *definitions(layout, kernels)]
        main += [*wrappers(layout, kernels), *entry(layout, kernels, self.library)]
        body = [*prologue(layout, self.library.uses_math), *self.library.text(), *main]
        return CSource(
            self.prefix,
            "".join(header(layout, kernels, self.digest)),
            "".join(body),
            layout.blob,
            layout.blob.digest if layout.blob else "",
            layout.workspace_bytes,
            program.alignment,
            self.macro,
            inputs,
            outputs,
            self.interface,
            self.device,
            self.devices.all,
        )

    def arguments(self) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
        """Inputs and outputs with their C names; an output that is no memory of its own gets a fresh one."""
        program = self.program
        taken = _LOCALS if self.interface is Interface.UNPACKED else (*_LOCALS, *_PACKED_LOCALS)
        names = Names(taken, (f"{self.prefix}_", f"{self.macro}_"))
        macros = Names()

        def argument(slot: Slot, place: str) -> Argument:
            macro = macros.fresh(slot.name, upper=True)
            c = names.fresh(slot.name)
            return Argument(slot.name, c, macro, slot.type, storage(slot.type.dtype, f"{place} {slot.name!r}"))

        inputs = tuple(argument(program.slots[n], "input") for n in program.inputs)
        macros = Names()
        outputs = tuple(argument(program.slots[n], "output") for n in program.outputs)
        return inputs, outputs

    def layout(
        self, kernels: dict[str, CKernel], inputs: tuple[Argument, ...], outputs: tuple[Argument, ...]
    ) -> Layout:
        """Where every slot lies: what the entry and the header print."""
        program = self.program
        constants = {s.name: s for s in program.placed("constant")}
        for slot in constants.values():
            array = self.module.constants.get(slot.name)
            if array is None or array.nbytes != slot.nbytes:
                raise Invalid(f"no constant of {slot.nbytes} bytes for slot {slot.name!r}", label="c.C7")
        large = sum(s.nbytes for s in constants.values()) > self.inline_limit
        pieces: list[tuple[str, int, Array]] = []
        for slot in constants.values() if large else ():
            if slot.offset is None:
                raise Invalid(f"constant {slot.name!r} has no offset in the table; run the stage constants", label="c.C8")
            pieces.append((slot.name, slot.offset, self.module.constants[slot.name]))
        weights = blob(pieces, max([program.alignment, *(s.alignment for s in constants.values())])) if large else None
        macros, external = Names(), Names()
        return Layout(
            name=self.prefix,
            macro=self.macro,
            program=program,
            module=self.module,
            inputs=inputs,
            outputs=outputs,
            offsets={s.name: macros.fresh(s.name, upper=True) for s in program.placed("workspace")},
            tables={} if large else {n: self.library.top("c", n) for n in constants},
            blob=weights,
            workspace_bytes=program.workspace_bytes,
            interface=self.interface,
            default_device=self.device,
            devices=self.devices,
            external={n: f"{self.macro}_EXTERNAL_{external.fresh(n, upper=True)}" for n in kernels},
            packed={n: self.library.top("p", n) for n in kernels},
            specs={n: self.spec_names(n) for n in kernels},
            entry_specs=self.spec_names("run"),
        )

    def spec_names(self, name: str) -> SpecNames:
        return SpecNames(self.library.top("s", name), self.library.top("d", name))

    def tables(self, layout: Layout, kernels: dict[str, CKernel]) -> Iterator[str]:
        """The constants that stand in the source, only those that some kernel reads or that are results."""
        used = set(self.program.outputs)
        for step in self.program.calls:
            used.update(step.reads[p.index] for p in kernels[step.kernel].parameters if p.role == "input")
            used.update(step.reads if self.interface is not Interface.UNPACKED else ())
        for name, c in layout.tables.items():
            if name in used:
                array, of = self.module.constants[name], self.program.slots[name].type.dtype
                self.library.uses_math |= needs_math(array, of)
                yield "\n"
                yield from static_table(c, array, of)


def _check_plan(program: Program) -> None:
    """Every slot inside its place, aligned, and of a place that its uses agree with."""
    if not program.sizes:
        raise Invalid("the program has no plan: no pool has a size; run the stage pool", label="c.C9")
    for s in program.slots.values():
        if s.place != "workspace":
            continue
        if s.offset is None:
            raise Invalid(f"slot {s.name!r} has no offset; run the stage pool", label="c.C9")
        if s.offset < 0 or s.offset + s.nbytes > program.workspace_bytes:
            raise Invalid(
                f"slot {s.name!r} lies at bytes {s.offset} to {s.offset + s.nbytes},"
                f" outside the workspace of {program.workspace_bytes}",
                label="c.C10",
            )
        if s.offset % s.alignment or program.alignment % s.alignment:
            raise Invalid(
                f"slot {s.name!r} at offset {s.offset} is not aligned to {s.alignment}"
                f" in a workspace aligned to {program.alignment}",
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
