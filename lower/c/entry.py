"""The function that runs the steps, and the kernels around it (specs/lower.md, "c")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.lower.c.header import Layout, size
from assay.lower.c.helpers import Library
from assay.lower.c.kernel import CKernel, Parameter
from assay.semantics.module import Slot, Step


def _slots(step: Step) -> dict[str, tuple[str, ...]]:
    return {"input": step.reads, "output": step.writes, "scratch": step.scratch}


def definitions(layout: Layout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """The kernels. A pointer is `restrict` if at every step its bytes are apart from all others that the step touches
    and that either of the two writes."""
    shared: set[tuple[str, str, int]] = set()
    for step in layout.program.steps:
        for p in kernels[step.kernel].parameters:
            if (step.kernel, p.role, p.index) not in shared and _is_shared(layout, step, p, kernels[step.kernel]):
                shared.add((step.kernel, p.role, p.index))
    status = f"enum {layout.name}_status"
    for name, kernel in kernels.items():
        alone = {p for p in kernel.parameters if (name, p.role, p.index) not in shared}
        yield from kernel.text(status, alone)


def _is_shared(layout: Layout, step: Step, one: Parameter, kernel: CKernel) -> bool:
    slots = layout.program.slots
    mine = slots[_slots(step)[one.role][one.index]]
    for other in kernel.parameters:
        if other is one or (one.role == "input" and other.role == "input"):
            continue
        if _meet(mine, slots[_slots(step)[other.role][other.index]]):
            return True
    return False


def _meet(a: Slot, b: Slot) -> bool:
    """Whether two slots share a byte. Arguments of the entry do not: it has checked."""
    if a.name == b.name:
        return True
    if a.place != "workspace" or b.place != "workspace" or a.offset is None or b.offset is None:
        return False
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def entry(layout: Layout, kernels: Mapping[str, CKernel], library: Library) -> Iterator[str]:
    """Offsets, static asserts, checks and the run function."""
    macro, program = layout.macro, layout.program
    yield "\n/* Where each buffer lies in the workspace. */\n"
    for i, slot in enumerate(program.placed("workspace")):
        yield f"#define {layout.offset(slot.name)} {size(slot.offset or 0)}\n"
        yield (
            f"typedef char {layout.name}_assert_{i}[({layout.offset(slot.name)} % {size(slot.alignment)} == 0u &&"
            f" {layout.offset(slot.name)} + {size(slot.nbytes)} <= {macro}_WORKSPACE_BYTES) ? 1 : -1];\n"
        )
    if layout.blob is not None:
        yield from _check_weights(layout, library)
    yield from _check_arguments(layout, library)
    yield _trace(layout)
    yield f"\n{layout.signature()}\n{{\n"
    body = list(_steps(layout, kernels))
    text = "".join(body)
    if "base + " in text:
        yield "    unsigned char *const base = (unsigned char *)workspace;\n"
    if "table + " in text:
        yield "    const unsigned char *const table = (const unsigned char *)weights;\n"
    yield text
    yield f"    return {macro}_OK;\n}}\n"


def _trace(layout: Layout) -> str:
    """A hook behind every step, for whoever compares step by step; it is not there unless it is asked for."""
    macro = layout.macro
    return f"""
#ifdef {macro}_TRACE
void {layout.name}_trace(int step);
#define {macro}_STEP(i) {layout.name}_trace(i);
#else
#define {macro}_STEP(i)
#endif
"""


def _check_arguments(layout: Layout, library: Library) -> Iterator[str]:
    """Pointers: there, aligned, and what is written apart from all else. Written arguments come first."""
    macro, program = layout.macro, layout.program
    rows = [(a.nbytes, a.type.dtype.itemsize) for a in layout.outputs]
    rows.append((layout.workspace_bytes, program.alignment))
    written = len(rows)
    rows += [(a.nbytes, a.type.dtype.itemsize) for a in layout.inputs]
    if layout.blob is not None:
        rows.append((layout.blob.nbytes, layout.blob.alignment))
    overlap = library.use("overlap")
    yield f"""
static enum {layout.name}_status {layout.name}_check(const void *const *buffers)
{{
    static const size_t bytes[{len(rows)}] = {{{", ".join(size(b) for b, _ in rows)}}};
    static const size_t align[{len(rows)}] = {{{", ".join(size(a) for _, a in rows)}}};
    size_t i;
    size_t j;
    for (i = 0; i < {size(len(rows))}; ++i) {{
        if (buffers[i] == NULL && bytes[i] != 0u) {{
            return {macro}_NULL_POINTER;
        }}
    }}
    for (i = 0; i < {size(len(rows))}; ++i) {{
        if ((uintptr_t)buffers[i] % align[i] != 0u) {{
            return {macro}_MISALIGNED;
        }}
    }}
    for (i = 0; i < {size(written)}; ++i) {{
        for (j = i + 1u; j < {size(len(rows))}; ++j) {{
            if ({overlap}(buffers[i], bytes[i], buffers[j], bytes[j])) {{
                return {macro}_OVERLAP;
            }}
        }}
    }}
    return {macro}_OK;
}}
"""


def _check_weights(layout: Layout, library: Library) -> Iterator[str]:
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


def _steps(layout: Layout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """The calls, then the copies of outputs that are no memory of their own."""
    program = layout.program
    first = {a.slot: a.name for a in reversed(layout.outputs) if program.slots[a.slot].place == "output"}
    given = {**{a.slot: a.name for a in layout.inputs}, **first}

    def pointer(slot: Slot, ctype: str, const: bool) -> str:
        qualifier = "const " if const else ""
        if slot.place == "workspace":
            return f"({qualifier}{ctype} *)({qualifier}void *)(base + {layout.offset(slot.name)})"
        if slot.place != "constant":
            return given[slot.name]
        if slot.name in layout.tables:
            return layout.tables[slot.name]
        return f"(const {ctype} *)(const void *)(table + {size(slot.offset or 0)})"

    words = [a.name for a in layout.outputs] + ["workspace"] + [a.name for a in layout.inputs]
    words += ["weights"] if layout.blob is not None else []
    yield f"    const void *const buffers[{len(words)}] = {{{', '.join(words)}}};\n"
    yield f"    enum {layout.name}_status status = {layout.name}_check(buffers);\n"
    yield f"    if (status != {layout.macro}_OK) {{\n        return status;\n    }}\n"
    for i, step in enumerate(program.steps):
        kernel = kernels[step.kernel]
        args = []
        for p in kernel.parameters:
            slot = program.slots[_slots(step)[p.role][p.index]]
            args.append(pointer(slot, p.type, p.role == "input"))
        inner = ", ".join(args)
        if len(inner) > 90:
            inner = "\n        " + ",\n        ".join(args)
        call = f"{kernel.name}({inner});"
        if kernel.traps:
            yield f"    status = {call} /* step {i} */\n    if (status != {layout.macro}_OK) {{\n        return status;\n    }}\n"
        else:
            yield f"    {call} /* step {i} */\n"
        yield f"    {layout.macro}_STEP({i})\n"
    for a in layout.outputs:
        slot = program.slots[a.slot]
        if given.get(slot.name) != a.name and slot.nbytes:
            yield f"    memcpy({a.name}, {pointer(slot, a.ctype, True)}, {size(slot.nbytes)});\n"
