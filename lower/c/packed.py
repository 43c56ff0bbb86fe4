"""Kernels and entry in the packed conventions (specs/lower.md, "c", I4 to I7).

The work is done by the same typed functions as in the unpacked convention; a packed function checks its arguments and
calls one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay.lower.c.header import type_text
from assay.lower.c.kernel import CKernel, KernelParameter
from assay.lower.c.layout import EntryLayout, by_pointer
from assay.lower.c.names import text_literal
from assay.lower.c.packed_abi import ARGUMENTS, FAIL, FIND, PACK, PACKED_PARAMETERS, SPEC, Spec, spec_tables
from assay.lower.interfaces import Interface
from assay.semantics.dtypes import DTYPES
from assay.semantics.tensor import Buffer, PrimFunc
from assay.semantics.types import TensorType


def all_buffers(kernel: PrimFunc) -> tuple[Buffer, ...]:
    """What a packed function is given: inputs, outputs, and what the kernel allocates."""
    return (*kernel.inputs, *kernel.outputs, *kernel.allocations)


def position(kernel: PrimFunc, parameter: KernelParameter) -> int:
    """The place of a parameter of the typed function among those."""
    first = {"input": 0, "output": len(kernel.inputs), "scratch": len(kernel.inputs) + len(kernel.outputs)}
    return first[parameter.role] + parameter.index


def runtime(layout: EntryLayout) -> Iterator[str]:
    """The functions that packed code shares, before all kernels."""
    if layout.interface is Interface.UNPACKED:
        return
    for text in (SPEC, FAIL, ARGUMENTS, *((PACK,) if layout.program.calls else ())):
        yield text.replace("@", layout.name).replace("$", layout.macro)


def wrappers(layout: EntryLayout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """The packed functions, each with its table of parameters; and the table of functions."""
    if layout.interface is Interface.UNPACKED:
        return
    for name, kernel in kernels.items():
        yield from spec_tables(layout.name, layout.specs[name], list(_kernel_specs(layout.module.kernel(name))))
        yield f"\n#ifndef {layout.external[name]}\n"
        yield from _wrapper(layout, name, kernel)
        yield "#endif\n"
    if layout.interface is Interface.PACKED:
        yield f"\nconst struct assay_function_row {layout.name}_functions[] = {{\n"
        for name in kernels:
            yield f"#ifndef {layout.external[name]}\n"
            yield f"    {{{text_literal(layout.packed[name])}, {layout.packed[name]}, NULL}},\n#endif\n"
        yield "    {NULL, NULL, NULL}\n};\n"
        if layout.program.calls:
            yield FIND.replace("@", layout.name).replace("$", layout.macro)


def _kernel_specs(kernel: PrimFunc) -> Iterator[Spec]:
    for buffer in all_buffers(kernel):
        of = TensorType(buffer.static_shape, buffer.dtype)
        yield Spec(
            f"{kernel.name}: {buffer.name}: {type_text(of)}", buffer.static_shape, buffer.dtype, buffer.dtype.itemsize
        )


def _wrapper(layout: EntryLayout, name: str, kernel: CKernel) -> Iterator[str]:
    function = layout.module.kernel(name)
    count = len(all_buffers(function))
    args = []
    for p in kernel.parameters:
        const = "const " if p.role == "input" else ""
        args.append(f"({const}{p.type} *)pointers[{position(function, p)}]")
    args += ["&message"] if kernel.last else []
    static = "static " if layout.interface is Interface.PACKED else ""
    yield f"{static}int {layout.packed[name]}(\n    {PACKED_PARAMETERS})\n{{\n"
    yield f"    void *pointers[{max(count, 1)}];\n"
    yield "    const char *message = NULL;\n" if kernel.last else ""
    yield (
        f"    int status = {layout.name}_arguments(args, count, {layout.specs[name].table}, {count}, pointers,"
        " result);\n"
    )
    yield "    (void)handle;\n"
    call = f"{kernel.name}({', '.join(args)})"
    yield f"    if (status == {layout.macro}_OK) {{\n        status = {call};\n"
    if kernel.last:
        yield f"        if (status != {layout.macro}_OK) {{\n"
        yield f"            status = {layout.name}_fail(result, status, message);\n        }}\n"
    yield "    }\n    return status;\n}\n"


def call(layout: EntryLayout, name: str, pointers: Sequence[str]) -> str:
    """The lines of a block that call a packed kernel on all of its buffers; they set `status`."""
    count = len(pointers)
    values = "values, " + str(count)
    if layout.interface is Interface.C_PACKED:
        text = f"{layout.packed[name]}(handle, {values}, result)"
    else:
        text = f"{layout.name}_call(functions, {text_literal(layout.packed[name])}, {values}, result)"
    size = max(count, 1)
    inner = ",\n            ".join(pointers) or "NULL"
    return f"""const void *const pointers[{size}] = {{
            {inner}}};
        struct assay_tensor tensors[{size}];
        struct assay_value values[{size}];
        {layout.name}_pack({layout.specs[name].table}, {count}, pointers, tensors, values);
        status = {text};"""


def entry_specs(layout: EntryLayout) -> Iterator[Spec]:
    """What the packed entry takes."""
    for a in (*by_pointer(layout.inputs), *by_pointer(layout.outputs)):
        yield Spec(f"{a.slot}: {type_text(a.type)}", a.type.static_shape, a.type.dtype, a.type.dtype.itemsize)
    of = DTYPES["uint8"]
    for w in layout.workspaces:
        what = "the workspace" if len(layout.workspaces) == 1 else w.name
        assert isinstance(w.nbytes, int), "these conventions take no symbols"
        yield Spec(f"{what}: uint8[{w.nbytes}] or larger", (w.nbytes,), of, w.alignment, at_least=True)
    if layout.blob is not None:
        yield Spec(f"the weights: uint8[{layout.blob.nbytes}]", (layout.blob.nbytes,), of, layout.blob.alignment)


def entry_head(layout: EntryLayout) -> Iterator[str]:
    """The first lines of the packed entry: arguments that fit, by the names of the unpacked one."""
    count = len(list(entry_specs(layout)))
    m = layout.name
    yield f"    void *arguments[{count}];\n"
    if layout.interface is Interface.PACKED:
        yield "    const struct assay_function_row *functions = NULL;\n"
        yield f"    const int32_t given = (count == {count + 1} && args != NULL) ? {count} : count;\n"
        yield f"    int status = {m}_arguments(args, given, {layout.entry_specs.table}, {count}, arguments, result);\n"
        yield f"    if (status == {layout.macro}_OK && given != count) {{\n"
        yield f"        if (args[{count}].code == ASSAY_CODE_POINTER) {{\n"
        yield f"            functions = (const struct assay_function_row *)args[{count}].as.pointer;\n"
        yield f"        }} else if (args[{count}].code != ASSAY_CODE_NONE) {{\n"
        yield (
            f'            status = {m}_fail(result, {layout.macro}_WRONG_CODE, "the table of functions: a pointer");\n'
        )
        yield "        }\n    }\n    (void)functions;\n"
    else:
        yield f"    int status = {m}_arguments(args, count, {layout.entry_specs.table}, {count}, arguments, result);\n"
    yield "    (void)handle;\n"
    yield f"    if (status != {layout.macro}_OK) {{\n        return status;\n    }}\n"


def entry_names(layout: EntryLayout) -> Iterator[str]:
    """C declarations of locals for inputs, outputs and workspaces, with the names that they have as parameters."""
    words = [(a.name, f"const {a.ctype} *") for a in by_pointer(layout.inputs)]
    words += [(a.name, f"{a.ctype} *") for a in by_pointer(layout.outputs)]
    words += [(w.name, "void *") for w in layout.workspaces]
    words += [("weights", "const void *")] if layout.blob is not None else []
    for i, (name, type_) in enumerate(words):
        yield f"    {type_}const {name} = ({type_})arguments[{i}];\n"
