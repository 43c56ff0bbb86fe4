"""The function that runs the steps, and the kernels around it (specs/lower.md, "c")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.lower.c.convention import Device
from assay.lower.c.effects import silent, told
from assay.lower.c.header import statuses
from assay.lower.c.helpers import Library
from assay.lower.c.layout import EntryLayout, by_pointer
from assay.lower.c.names import text_literal
from assay.lower.c.outlining import OutlinedFunctions, Piece, indented
from assay.lower.c.packed import call as packed_call, entry_head, entry_names, entry_specs, plan_type
from assay.lower.c.packed_abi import spec_tables, tvm_ffi
from assay.lower.c.signature import READ_ONLY, CKernel, KernelParameter
from assay.lower.c.sizes import c_size
from assay.lower.interfaces import Interface
from assay.lower.liveness.problem import bytes_of
from assay.lower.pool import leaders
from assay.semantics.dtypes import INT64
from assay.semantics.instance import sizes_of_step
from assay.semantics.memory import overlap
from assay.semantics.module import Slot
from assay.semantics.scalar import Expr
from assay.semantics.steps import Assertion, Branch, Loop, Measure, PrintValues, Require, Step, flow

OFTEN = 8
"""A kernel that is called more often is not copied into those that call it."""


def _slots(step: Step, kernel: CKernel) -> dict[str, tuple[str, ...]]:
    return {"input": step.reads, "output": step.writes, "scratch": step.scratch, "constant": kernel.held}


def definitions(layout: EntryLayout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """The kernels. A pointer is `restrict` if at every step its bytes are apart from all others that the step touches
    and that either of the two writes."""
    shared: set[tuple[str, str, int]] = set()
    for step in layout.program.calls:
        for p in kernels[step.kernel].parameters:
            if (step.kernel, p.role, p.index) not in shared and _is_shared(layout, step, p, kernels[step.kernel]):
                shared.add((step.kernel, p.role, p.index))
    calls = Counter(step.kernel for step in layout.program.calls)
    for name, kernel in kernels.items():
        alone = {p for p in kernel.parameters if (name, p.role, p.index) not in shared}
        yield f"\n#ifndef {layout.external[name]}\n"
        yield from kernel.text(alone, f"{layout.macro}_APART " if calls[name] > OFTEN or kernel.sizes else "")
        yield "#endif\n"


def _is_shared(layout: EntryLayout, step: Step, one: KernelParameter, kernel: CKernel) -> bool:
    slots = layout.program.slots
    mine = slots[_slots(step, kernel)[one.role][one.index]]
    for other in kernel.parameters:
        if other is one or (one.role in READ_ONLY and other.role in READ_ONLY):
            continue
        if _meet(layout, mine, slots[_slots(step, kernel)[other.role][other.index]]):
            return True
    return False


def _meet(layout: EntryLayout, a: Slot, b: Slot) -> bool:
    """Whether two slots share a byte, be it at different phases. Arguments of the entry do not: it has checked."""
    if a.name == b.name:
        return True
    program = layout.program
    if not a.is_pooled or not b.is_pooled:
        return False
    if program.plan is not None:
        # its places are expressions, of which the plan says that they are apart where both are live
        first = leaders(program)
        return first.get(a.name, a.name) == first.get(b.name, b.name) or not overlap(a.live, b.live)
    if a.offset is None or b.offset is None:
        return False
    if program.pool_of(a) is not program.pool_of(b):
        return False
    one, other = max(a.nbytes, 1), max(b.nbytes, 1)  # a compiler warns of one address, be it of nothing
    return a.offset < b.offset + other and b.offset < a.offset + one


def entry(layout: EntryLayout, kernels: Mapping[str, CKernel], library: Library) -> Iterator[str]:
    """Offsets, static asserts, checks and the run function."""
    if layout.program.plan is None:
        yield from _offsets(layout)
    if not layout.sizes.is_planned:
        yield from _entry(layout, kernels, library)
        return
    text = [*_entry(layout, kernels, library)]  # it says what the plan has to hold
    text += _taken(layout) if layout.sizes.arguments else ()
    yield from layout.sizes.definition()
    yield from text


def _offsets(layout: EntryLayout) -> Iterator[str]:
    """Where each buffer lies, as numbers, and that these fit."""
    macro, program = layout.macro, layout.program
    yield "\n/* Where each buffer lies in its workspace. */\n"
    for i, name in enumerate(layout.offsets):
        slot = program.slots[name]
        yield f"#define {layout.offset(name)} {c_size(slot.offset or 0)}\n"
        yield (
            f"typedef char {layout.name}_assert_{i}[({layout.offset(name)} % {c_size(slot.alignment)} == 0u &&"
            f" {layout.offset(name)} + {c_size(slot.nbytes)} <= {macro}_{layout.workspace(slot).macro}_BYTES) ? 1 :"
            " -1];\n"
        )


def _taken(layout: EntryLayout) -> Iterator[str]:
    """The function that says what the arguments take at given sizes."""
    sizes, m = layout.sizes, layout.name
    fields = [(f"{w.name}_bytes", w.nbytes) for w in layout.workspaces]
    fields += [(f"{a.name}_bytes", a.kept) for a in (*layout.inputs, *layout.outputs)]
    texts = [(name, sizes.text(dim)) for name, dim in fields]
    yield f"\nint {m}_sizes({', '.join(sizes.parameters())}, struct {m}_sizes *sizes)\n{{\n"
    yield f"    struct {m}_plan found;\n    const struct {m}_plan *const plan = &found;\n"
    yield f"    const int status = {m}_find_plan({', '.join(a.name for a in sizes.arguments)}, &found);\n"
    yield f"    if (status != {layout.macro}_OK) {{\n        return status;\n    }}\n"
    for name, text in texts:
        yield f"    sizes->{name} = (size_t){text};\n"
    yield "    (void)plan;\n    return status;\n}\n"


def _entry(layout: EntryLayout, kernels: Mapping[str, CKernel], library: Library) -> Iterator[str]:
    """The checks and the run function."""
    macro = layout.macro
    if layout.blob is not None:
        yield from _check_weights(layout, library)
    yield from _check_arguments(layout, library)
    if layout.interface is not Interface.UNPACKED:
        yield from spec_tables(layout.name, layout.entry_specs, list(entry_specs(layout)))
    yield from _status_text(layout)
    yield _trace(layout)
    yield from silent(layout)
    if layout.devices.all:
        yield f"""
/* The first of two statuses that is not 0. */
static int {layout.name}_first(int one, int other)
{{
    return (one != {macro}_OK) ? one : other;
}}
"""
    parts = OutlinedFunctions(layout.name, macro, _locals(layout))
    body = "".join(_Body(layout, kernels, parts).text())
    text = parts.handed() + body
    if parts.functions:
        yield parts.state()
        yield from parts.functions
    yield f"\n{layout.signature()}\n{{\n"
    yield from _head(layout)
    mentioned = parts.mentioned(text)
    for w in layout.workspaces:
        if w.base in mentioned:
            yield f"    unsigned char *const {w.base} = (unsigned char *){w.name};\n"
    if "table" in mentioned:
        yield "    const unsigned char *const table = (const unsigned char *)weights;\n"
    if "again" in mentioned:
        yield f"    unsigned char loops[{len(_loops(layout))}];\n"
        yield "    unsigned char *const again = loops; /* whether each loop begins anew */\n"
    yield text
    yield "    return status;\n}\n"
    if layout.interface is not Interface.UNPACKED:
        yield tvm_ffi(layout.name, macro)


def _status_text(layout: EntryLayout) -> Iterator[str]:
    """What a status means, for messages."""
    yield f"\nconst char *{layout.name}_status_text(int status)\n{{\n    switch (status) {{\n"
    yield f'    case {layout.macro}_OK:\n        return "all is done";\n'
    for word, meaning in statuses(layout.interface).items():
        yield f"    case {layout.macro}_{word}:\n        return {text_literal(meaning)};\n"
    yield '    default:\n        return "a status of a kernel or a hook that is not generated";\n    }\n}\n'


def _trace(layout: EntryLayout) -> str:
    """A call behind every step, for whoever compares step by step; it is not there unless it is asked for. Another
    status than OK ends the run."""
    macro = layout.macro
    return f"""
#ifdef {macro}_TRACE
int {layout.name}_trace(int step);
#define {macro}_STEP(i) if (status == {macro}_OK) {{ status = {layout.name}_trace(i); }}
#else
#define {macro}_STEP(i)
#endif
"""


def _check_arguments(layout: EntryLayout, library: Library) -> Iterator[str]:
    """Pointers: there, aligned, and what is written apart from all else. Written arguments come first."""
    macro = layout.macro
    rows = [(a.kept, a.type.dtype.itemsize) for a in by_pointer(layout.outputs)]
    rows += [(INT64.itemsize, INT64.itemsize) for _ in layout.sizes.returned]
    rows += [(w.nbytes, w.alignment) for w in layout.workspaces]
    written = len(rows)
    rows += [(a.kept, a.type.dtype.itemsize) for a in by_pointer(layout.inputs)]
    plan = f", const struct {layout.name}_plan *plan" if layout.sizes.is_planned else ""
    static = "" if plan else "static "
    unused = "    (void)plan;\n" if plan else ""
    bytes_ = [layout.sizes.count(b) for b, _ in rows]
    if layout.blob is not None:
        rows.append((layout.blob.nbytes, layout.blob.alignment))
        bytes_.append(c_size(layout.blob.nbytes))
    overlap = library.use("overlap")
    where, aligned = _constants(layout)
    yield f"""
static enum {layout.name}_status {layout.name}_check(const void *const *buffers{plan})
{{
    {static}const size_t bytes[{len(rows)}] = {{{", ".join(bytes_)}}};
    static const size_t align[{len(rows)}] = {{{", ".join(c_size(a) for _, a in rows)}}};
    size_t i;
    size_t j;
{unused}{where}    for (i = 0; i < {c_size(len(rows))}; ++i) {{
        if (buffers[i] == NULL && bytes[i] != 0u) {{
            return {macro}_NULL_POINTER;
        }}
    }}
    for (i = 0; i < {c_size(len(rows))}; ++i) {{
        if ((uintptr_t)buffers[i] % align[i] != 0u) {{
            return {macro}_MISALIGNED;
        }}
    }}
{aligned}    for (i = 0; i < {c_size(written)}; ++i) {{
        for (j = i + 1u; j < {c_size(len(rows))}; ++j) {{
            if ({overlap}(buffers[i], bytes[i], buffers[j], bytes[j])) {{
                return {macro}_OVERLAP;
            }}
        }}
    }}
    return {macro}_OK;
}}
"""


def _constants(layout: EntryLayout) -> tuple[str, str]:
    """The addresses of the constants in the source and their alignments, and the loop that compares them."""
    found = [(layout.constants.names[t.slot.name], t.slot.alignment) for t in layout.constants.tables]
    found += [(f"&{p.c}", p.pool.alignment) for p in layout.constants.pools]
    if not found:
        return "", ""
    where = f"    static const void *const constants[{len(found)}] = {{{', '.join(c for c, _ in found)}}};\n"
    where += f"    static const size_t constant_align[{len(found)}] = {{{', '.join(c_size(a) for _, a in found)}}};\n"
    return (
        where,
        f"""    for (i = 0; i < {c_size(len(found))}; ++i) {{
        if ((uintptr_t)constants[i] % constant_align[i] != 0u) {{
            return {layout.macro}_MISALIGNED;
        }}
    }}
""",
    )


def _check_weights(layout: EntryLayout, library: Library) -> Iterator[str]:
    assert layout.blob is not None
    macro, digest = layout.macro, layout.blob.digest
    words = ", ".join(f"0x{digest[i : i + 8]}u" for i in range(0, 64, 8))
    sha256 = library.use("sha256")
    yield f"""
enum {layout.name}_status {layout.name}_check_weights(const void *weights, size_t bytes)
{{
    static const uint32_t digest[8] = {{{words}}};
    static const uint16_t one = 1u;
    uint32_t found[8];
    unsigned char low;
    if (weights == NULL) {{
        return {macro}_NULL_POINTER;
    }}
    if ((uintptr_t)weights % {macro}_WEIGHTS_ALIGN != 0u) {{
        return {macro}_MISALIGNED;
    }}
    memcpy(&low, &one, 1);
    if (low != 1u || bytes != {macro}_WEIGHTS_BYTES) {{
        return {macro}_BAD_WEIGHTS; /* the numbers in the file are little-endian */
    }}
    {sha256}((const unsigned char *)weights, bytes, found);
    return (memcmp(found, digest, sizeof digest) == 0) ? {macro}_OK : {macro}_BAD_WEIGHTS;
}}
"""


def _head(layout: EntryLayout) -> Iterator[str]:
    """The checks of the arguments; behind them `status` is OK."""
    packed = layout.interface is not Interface.UNPACKED
    if packed:
        yield from entry_head(layout)
        yield from entry_names(layout)
    words = [a.name for a in by_pointer(layout.outputs)]
    words += [r.name for r in layout.sizes.returned]
    words += [w.name for w in layout.workspaces]
    words += [a.name for a in by_pointer(layout.inputs)]
    words += ["weights"] if layout.blob is not None else []
    yield f"    const void *const buffers[{len(words)}] = {{{', '.join(words)}}};\n"
    if layout.devices.all:
        yield "    int active = 0; /* how many devices are activated */\n"
    plan = ", plan" if layout.sizes.is_planned else ""
    if plan and not packed:
        yield f"    struct {layout.name}_plan found;\n    {plan_type(layout)}const plan = &found;\n"
        given = ", ".join([*(a.name for a in layout.sizes.arguments), "&found"])
        yield f"    int status = {layout.name}_find_plan({given});\n"
        yield f"    if (status == {layout.macro}_OK) {{\n    "
    yield f"    {'' if packed or plan else 'int '}status = (int){layout.name}_check(buffers{plan});\n"
    yield "    }\n" if plan and not packed else ""
    yield f"    if (status != {layout.macro}_OK) {{\n        return status;\n    }}\n"


def _loops(layout: EntryLayout) -> list[int]:
    """The steps at which loops begin."""
    return [i for i, s in enumerate(layout.program.steps) if isinstance(s, Loop)]


def _locals(layout: EntryLayout) -> dict[str, str]:
    """What steps know by name, and its type."""
    known = {a.name: f"const {a.ctype} *" for a in by_pointer(layout.inputs)}
    known |= {a.name: f"{a.ctype} *" for a in by_pointer(layout.outputs)}
    known |= {w.base: "unsigned char *" for w in layout.workspaces}
    known |= {"table": "const unsigned char *"} if layout.blob is not None else {}
    known |= {"again": "unsigned char *"} if _loops(layout) else {}
    known |= {"plan": plan_type(layout)} if layout.sizes.is_planned else {}
    known |= {"handle": "void *"} if layout.has_handle else {}
    if layout.interface is Interface.PACKED:
        known["functions"] = "const struct assay_function_row *"
    if layout.interface is not Interface.UNPACKED:
        known["result"] = "struct assay_value *"
    return known


@dataclass(eq=False)
class _Body:
    """The steps of an entry as C. Nothing leaves early: what was activated and opened is closed and deactivated
    whatever fails between."""

    layout: EntryLayout
    kernels: Mapping[str, CKernel]
    parts: OutlinedFunctions

    def __post_init__(self) -> None:
        layout = self.layout
        slots = layout.program.slots
        first = {a.slot: a.name for a in reversed(by_pointer(layout.outputs)) if slots[a.slot].place == "output"}
        self.given = {**{a.slot: a.name for a in by_pointer(layout.inputs)}, **first}
        """The pointers that the caller has given, by slot."""
        self.named = layout.constants.names
        self.ok = f"status == {layout.macro}_OK"

    def text(self) -> Iterator[str]:
        """The steps with the hooks around them, and the copies of outputs that are no memory of their own."""
        layout, ok = self.layout, self.ok
        for d in layout.devices.all:
            yield f"    if ({ok}) {{\n        status = {layout.hook(d, 'activate')}(handle, {d.id});\n"
            yield f"        active += ({ok}) ? 1 : 0;\n    }}\n"
        yield self.steps()
        copies = []
        for a in by_pointer(layout.outputs):
            slot = layout.program.slots[a.slot]
            if self.given.get(slot.name) != a.name and bytes_of(slot.type) != 0:
                size = layout.sizes.count(bytes_of(slot.type))
                copies.append(f"        memcpy({a.name}, {self.pointer(slot, a.ctype, True)}, {size});\n")
        copies += [f"        *{r.name} = {layout.sizes.text(r.symbol)};\n" for r in layout.sizes.returned]
        if copies:
            yield f"    if ({ok}) {{\n"
            yield from copies
            yield "    }\n"
        for i, d in reversed(list(enumerate(layout.devices.all))):
            deactivate = f"{layout.hook(d, 'deactivate')}(handle, {d.id})"
            yield f"    if (active > {i}) {{\n        status = {layout.name}_first(status, {deactivate});\n    }}\n"
        if layout.interface is not Interface.UNPACKED:
            yield f"    if ({ok}) {{\n        result->code = ASSAY_CODE_NONE;\n        result->as.number = 0;\n    }}\n"

    def steps(self) -> str:
        """The steps, those of an arm inside an `if`; hooks around each stretch on a device."""
        steps = self.layout.program.steps
        stretches = {r.start: (device, r) for device, r in self.layout.devices.regions()}
        blocks: list[list[Piece]] = [[]]
        """The pieces of each block around, the entry first; of a branch, those of the arm that is being written come
        behind those of the arm before it."""
        loops: list[int] = []
        for what, i in flow(steps):
            step = steps[i]
            if isinstance(step, Assertion):
                blocks[-1].append(self.assertion(i, step))
                continue
            if isinstance(step, Measure):
                found = [self.pointer(self.layout.program.slots[n], "int64_t", True) for n in step.reads]
                call = f"{self.layout.name}_measure_{i}({', '.join([*found, 'plan'])})"
                blocks[-1].append(Piece(f"    if ({self.ok}) {{ /* step {i} */\n        status = {call};\n    }}\n"))
                continue
            if isinstance(step, Require):
                where = self.pointer(self.layout.program.slots[step.condition], "uint8_t", True)
                status = f"{self.layout.macro}_TRAP_ASSERT"
                text = f"    if ({self.ok} && *{where} == 0) {{ /* step {i} */\n        status = {status};\n    }}\n"
                blocks[-1].append(Piece(text))
                continue
            if isinstance(step, PrintValues):
                blocks[-1].append(self.print(i, step))
                continue
            if isinstance(step, Step):
                if i in stretches:
                    blocks[-1] += self.stretch(*stretches[i])
                continue
            match what:
                case "if" | "else":
                    blocks.append([])
                case "loop":
                    loops.append(i)
                    blocks.append([])
                case "continue":
                    blocks[-1].append(Piece(f"    {self.again(loops[-1])} = 1u; /* step {i} */\n"))
                case "leave":
                    again = self.again(loops.pop())
                    head = f"    do {{ /* step {i} */\n        {again} = 0u;\n"
                    tail = f"    }} while ({self.ok} && {again} != 0u);\n"
                    blocks[-2:] = [[*blocks[-2], self.parts.inside(head, blocks[-1], tail)]]
                case "end":
                    assert isinstance(step, Branch)
                    otherwise, then = blocks.pop(), blocks.pop()
                    slot = self.layout.program.slots[step.condition]
                    head = f"    if ({self.ok} && *{self.pointer(slot, 'uint8_t', True)} != 0) {{ /* step {i} */\n"
                    one = self.parts.inside(head, then, "    }")
                    two = self.parts.inside(" else {\n", otherwise, "    }\n") if otherwise else Piece("\n", 0)
                    blocks[-1].append(Piece(one.text + two.text, one.steps + two.steps, max(one.depth, two.depth)))
        (pieces,) = blocks
        return self.parts.joined(pieces).text

    def again(self, index: int) -> str:
        """The byte that says whether a loop begins anew."""
        return f"again[{_loops(self.layout).index(index)}]"

    def assertion(self, index: int, step: Assertion) -> Piece:
        """An assertion on sizes: another size ends the run."""
        sizes = self.layout.sizes
        odd = " || ".join(f"{sizes.text(a)} != {sizes.text(b)}" for a, b in step.sizes)
        head = f"    if ({self.ok} && ({odd})) {{ /* step {index} */\n"
        return Piece(f"{head}        status = {self.layout.macro}_BAD_SIZE;\n    }}\n")

    def print(self, index: int, step: PrintValues) -> Piece:
        """What slots hold is told."""
        slots = [self.layout.program.slots[n] for n in step.shown]
        call = told(self.layout, index, [self.plain(s) for s in slots], [d for s in slots for d in s.type.shape])
        return Piece(f"    if ({self.ok}) {{ /* step {index} */\n        status = {call};\n    }}\n")

    def stretch(self, device: Device | None, steps: range) -> Iterator[Piece]:
        """Steps next to one another on one device, between its hooks."""
        layout, ok = self.layout, self.ok
        calls = [Piece("".join(self.call(i))) for i in steps]
        if device is None:
            yield from calls
            return
        opened = f"    if ({ok}) {{\n        status = {layout.hook(device, 'open')}(handle, {device.id});\n"
        close = f"        status = {layout.name}_first(status, {layout.hook(device, 'close')}(handle, {device.id}));\n"
        inner = self.parts.inside(f"    if ({ok}) {{\n", calls, f"{close}    }}\n")
        yield Piece(f"{opened}{indented(inner.text)}    }}\n", inner.steps + 1, inner.depth + 1)

    def call(self, index: int) -> Iterator[str]:
        """One step, if all before it went well."""
        layout, step = self.layout, self.layout.program.steps[index]
        assert isinstance(step, Step)
        kernel, slots = self.kernels[step.kernel], layout.program.slots
        yield f"    if ({self.ok}) {{ /* step {index} */\n        "
        if layout.interface is Interface.UNPACKED:
            args = []
            for p in kernel.parameters:
                slot = slots[_slots(step, kernel)[p.role][p.index]]
                args.append(self.pointer(slot, p.type, p.role in READ_ONLY))
            values = sizes_of_step(step, layout.module.kernel(step.kernel)) if kernel.sizes else {}
            for s in kernel.sizes:
                text, of = layout.sizes.text(values[s.symbol]), layout.sizes.type(values[s.symbol])
                args.append(text if of == s.type or not isinstance(values[s.symbol], Expr) else f"({s.type}){text}")
            args += ["handle"] if layout.has_handle else []
            inner = ", ".join(args)
            if len(inner) > 90:
                inner = "\n            " + ",\n            ".join(args)
            yield f"status = {kernel.name}({inner});"
        else:
            names = (*step.reads, *step.writes, *step.scratch)
            yield packed_call(layout, step, [self.plain(slots[n]) for n in names])
        yield f"\n        {layout.macro}_STEP({index})\n    }}\n"

    def plain(self, slot: Slot) -> str:
        """A pointer of any type to a slot."""
        if slot.place == "constant":
            return self.named.get(slot.name) or f"table + {c_size(self.layout.constants.blob[slot.name])}"
        if slot.is_pooled:
            return f"{self.layout.workspace(slot).base} + {self.layout.offset(slot.name)}"
        return self.given[slot.name]

    def pointer(self, slot: Slot, ctype: str, const: bool) -> str:
        """C text for a slot's address as a pointer to `ctype`, const or not."""
        text = self.plain(slot)
        if " + " not in text:
            return text
        qualifier = "const " if const else ""
        return f"({qualifier}{ctype} *)({qualifier}void *)({text})"
