"""Kernels and entry in the packed conventions (specs/lower.md, "c", I4 to I7).

The work is done by the same typed functions as in the unpacked convention; a packed function checks its arguments and
calls one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay.lower.c.header import type_text
from assay.lower.c.layout import EntryLayout, by_pointer
from assay.lower.c.names import text_literal
from assay.lower.c.packed_abi import (
    ARGUMENTS,
    FAIL,
    FIND,
    PACK,
    PACKED_PARAMETERS,
    SPEC,
    STRIDES,
    Spec,
    is_sized,
    places,
    sizes_table,
    spec_tables,
)
from assay.lower.c.signature import CKernel, KernelParameter
from assay.lower.c.sizes import DimRanges, DimWriter, fits, outside
from assay.lower.interfaces import Interface
from assay.semantics.dtypes import DTYPES, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.instance import shape_in
from assay.semantics.module import Step
from assay.semantics.scalar import Expr, Var
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
    called = [layout.module.kernel(s.kernel) for s in layout.program.calls]
    strides = any(is_sized(list(_kernel_specs(k))) for k in called)
    for text in (SPEC, FAIL, ARGUMENTS, *((STRIDES,) if strides else ()), *((PACK,) if called else ())):
        yield text.replace("@", layout.name).replace("$", layout.macro)


def wrappers(layout: EntryLayout, kernels: Mapping[str, CKernel]) -> Iterator[str]:
    """The packed functions, each with its table of parameters; and the table of functions."""
    if layout.interface is Interface.UNPACKED:
        return
    for name, kernel in kernels.items():
        specs = list(_kernel_specs(layout.module.kernel(name)))
        yield from spec_tables(layout.name, layout.specs[name], specs)
        if kernel.symbols:
            yield from _dims_function(layout, name, kernel, specs)
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
        of = TensorType(buffer.shape, buffer.dtype)
        yield Spec(f"{kernel.name}: {buffer.name}: {type_text(of)}", buffer.shape, buffer.dtype, buffer.dtype.itemsize)


def _dims_function(layout: EntryLayout, name: str, kernel: CKernel, specs: Sequence[Spec]) -> Iterator[str]:
    """The function that finds the dims of a kernel's tensors from its symbols; BAD_SIZE for those that it is not made
    for. Unsupported (c.C6): a dim may leave 64 bits."""
    bounds = kernel.symbols
    if not fits((d for s in specs for d in s.shape if isinstance(d, Expr)), bounds):
        raise Unsupported(
            f"the sizes of {name} may leave 64 bits, and in the convention {layout.interface} anybody may call it;"
            f" give smaller bounds with --bound, or take {Interface.UNPACKED}",
            label="c.C6",
        )
    macro, symbols = layout.macro, [(v, f"n{i}") for i, v in enumerate(bounds)]
    given = ", ".join(f"int64_t {n}" for _, n in symbols)
    yield f"\nstatic int {layout.specs[name].dims}({given}, int64_t *dims)\n{{\n"
    for v, n in symbols:
        yield outside(n, str(bounds[v][0]), str(bounds[v][1]), macro)
    rows = list(sizes_table(specs))
    ranges = DimRanges(bounds)
    writer = DimWriter(layout.sizes.library, ranges, symbols, f"return {macro}_BAD_SIZE;", ("dims",))
    yield from writer.assignments([(f"dims[{i}]", d, "int64_t") for i, d in rows])
    for i, d in rows:
        if ranges.of(d)[0] < 0:
            yield f"    if (dims[{i}] < 0) {{\n        return {macro}_BAD_SIZE;\n    }}\n"
    yield f"    return {macro}_OK;\n}}\n"


def _told_by(kernel: PrimFunc, symbol: Var) -> str:
    """C text for a symbol of a kernel: the first dim that is one, or a scalar behind the tensors."""
    buffers = all_buffers(kernel)
    if symbol in kernel.scalars:
        return f"args[{len(buffers) + kernel.scalars.index(symbol)}].as.number"
    return next(
        f"tensors[{i}]->shape[{k}]" for i, b in enumerate(buffers) for k, d in enumerate(b.shape) if d is symbol
    )


def _wrapper(layout: EntryLayout, name: str, kernel: CKernel) -> Iterator[str]:
    function, specs = layout.module.kernel(name), layout.specs[name]
    count, scalars = len(all_buffers(function)), len(function.scalars)
    values = {v: f"n{i}" for i, v in enumerate(kernel.symbols)}
    args = []
    for p in kernel.parameters:
        const = "const " if p.role == "input" else ""
        args.append(f"({const}{p.type} *)pointers[{position(function, p)}]")
    args += [f"({s.type}){values[s.symbol]}" for s in kernel.sizes]
    args += ["&message"] if kernel.last else []
    static, size, ok = "static " if layout.interface is Interface.PACKED else "", max(count, 1), f"{layout.macro}_OK"
    yield f"{static}int {layout.packed[name]}(\n    {PACKED_PARAMETERS})\n{{\n"
    yield f"    void *pointers[{size}];\n    const struct assay_tensor *tensors[{size}];\n"
    dims = specs.dims if places(list(_kernel_specs(function)))[-1] else "NULL"
    if kernel.symbols:
        dims = "dims"
        yield f"    int64_t dims[{max(places(list(_kernel_specs(function)))[-1], 1)}];\n"
        yield f"    int64_t {', '.join(f'{n} = 0' for n in values.values())};\n"
    yield "    const char *message = NULL;\n" if kernel.last else ""
    yield f"    int status = {layout.name}_tensors(args, count, {specs.table}, {count}, {scalars}, tensors, result);\n"
    yield "    (void)handle;\n"
    if kernel.symbols:
        yield f"    if (status == {ok}) {{\n"
        for v, n in values.items():
            yield f"        {n} = {_told_by(function, v)};\n"
        yield f"        status = {specs.dims}({', '.join(values.values())}, dims);\n    }}\n"
    yield f"    if (status == {ok}) {{\n"
    yield f"        status = {layout.name}_arguments(tensors, {specs.table}, {count}, {dims}, pointers, result);\n"
    yield "    }\n"
    call = f"{kernel.name}({', '.join(args)})"
    yield f"    if (status == {ok}) {{\n        status = {call};\n"
    if kernel.last:
        yield f"        if (status != {ok}) {{\n"
        yield f"            status = {layout.name}_fail(result, status, message);\n        }}\n"
    yield "    }\n    return status;\n}\n"


def call(layout: EntryLayout, step: Step, pointers: Sequence[str]) -> str:
    """The lines of a block that call a packed kernel on all of its buffers, and its scalars; they set `status`."""
    name, kernel, sizes = step.kernel, layout.module.kernel(step.kernel), layout.sizes
    tensors, count = len(pointers), len(pointers) + len(kernel.scalars)
    values = f"values, {count}"
    if layout.interface is Interface.C_PACKED:
        text = f"{layout.packed[name]}(handle, {values}, result)"
    else:
        text = f"{layout.name}_call(functions, {text_literal(layout.packed[name])}, {values}, result)"
    inner = ",\n            ".join(pointers) or "NULL"
    specs, table = list(_kernel_specs(kernel)), layout.specs[name].table
    dims = layout.specs[name].dims if places(specs)[-1] else "NULL"
    lines = [
        f"const void *const pointers[{max(tensors, 1)}] = {{\n            {inner}}};",
        f"struct assay_tensor tensors[{max(tensors, 1)}];",
        f"struct assay_value values[{max(count, 1)}];",
    ]
    if is_sized(specs):
        dims = "dims"
        lines.append(f"int64_t dims[{places(specs)[-1]}];")
        shown = [Spec("", shape_in(step, kernel, b), b.dtype, 1) for b in all_buffers(kernel)]
        lines += [f"dims[{i}] = {sizes.text(d)};" for i, d in sizes_table(shown)]
        lines.append(f"{layout.name}_strides({table}, {tensors}, dims);")
    lines.append(f"{layout.name}_pack({table}, {tensors}, pointers, {dims}, tensors, values);")
    for i, d in enumerate(step.scalars):
        value = f"values[{tensors + i}]"
        lines.append(f"{value}.code = ASSAY_CODE_INTEGER;\n        {value}.zero = 0u;")
        lines.append(f"{value}.as.number = {sizes.text(d)};")
    return "\n        ".join([*lines, f"status = {text};"])


def entry_specs(layout: EntryLayout) -> Iterator[Spec]:
    """What the packed entry takes."""
    named = layout.sizes.named
    for a in (*by_pointer(layout.inputs), *by_pointer(layout.outputs)):
        told = "" if a.room is None else f" in {type_text(a.handed, named)} or larger"
        of = a.handed.dtype
        yield Spec(f"{a.slot}: {type_text(a.type, named)}{told}", a.handed.shape, of, of.itemsize, a.room is not None)
    for r in layout.sizes.returned:
        yield Spec(f"{r.name}, where the run writes that size: int64", (), INT64, INT64.itemsize)
    of = DTYPES["uint8"]
    for w in layout.workspaces:
        what = "the workspace" if len(layout.workspaces) == 1 else w.name
        size = w.nbytes if isinstance(w.nbytes, int) else f"{w.name}_bytes of {layout.name}_sizes"
        yield Spec(f"{what}: uint8[{size}] or larger", (w.nbytes,), of, w.alignment, at_least=True)
    if layout.blob is not None:
        yield Spec(f"the weights: uint8[{layout.blob.nbytes}]", (layout.blob.nbytes,), of, layout.blob.alignment)


def entry_head(layout: EntryLayout) -> Iterator[str]:
    """The first lines of the packed entry: arguments that fit, by the names of the unpacked one."""
    specs, names = list(entry_specs(layout)), layout.entry_specs
    count, m, ok = len(specs), layout.name, f"{layout.macro}_OK"
    dims = names.dims if places(specs)[-1] else "NULL"
    yield f"    void *arguments[{count}];\n    const struct assay_tensor *handed[{count}];\n"
    if layout.sizes.is_planned:
        yield f"    struct {m}_plan found;\n    {plan_type(layout)}const plan = &found;\n"
    if is_sized(specs):
        dims = "extents"
        yield f"    int64_t extents[{places(specs)[-1]}];\n"
    given = "count"
    if layout.interface is Interface.PACKED:
        given = "given"
        yield "    const struct assay_function_row *functions = NULL;\n"
        yield f"    const int32_t given = (count == {count + 1} && args != NULL) ? {count} : count;\n"
    yield f"    int status = {m}_tensors(args, {given}, {names.table}, {count}, 0, handed, result);\n"
    if layout.sizes.is_planned:
        yield from _entry_dims(layout, specs)
    yield f"    if (status == {ok}) {{\n"
    yield f"        status = {m}_arguments(handed, {names.table}, {count}, {dims}, arguments, result);\n    }}\n"
    if layout.interface is Interface.PACKED:
        yield f"    if (status == {ok} && given != count) {{\n"
        yield f"        if (args[{count}].code == ASSAY_CODE_POINTER) {{\n"
        yield f"            functions = (const struct assay_function_row *)args[{count}].as.pointer;\n"
        yield f"        }} else if (args[{count}].code != ASSAY_CODE_NONE) {{\n"
        yield (
            f'            status = {m}_fail(result, {layout.macro}_WRONG_CODE, "the table of functions: a pointer");\n'
        )
        yield "        }\n    }\n    (void)functions;\n"
    yield "    (void)handle;\n"
    yield f"    if (status != {ok}) {{\n        return status;\n    }}\n"


def plan_type(layout: EntryLayout) -> str:
    """A pointer to what depends on sizes; it changes where sizes are measured."""
    return f"{'' if layout.sizes.measured else 'const '}struct {layout.name}_plan *"


def _entry_dims(layout: EntryLayout, specs: Sequence[Spec]) -> Iterator[str]:
    """The lines that read the sizes from the inputs, and find the plan and the dims of all arguments."""
    inputs, ok = by_pointer(layout.inputs), f"{layout.macro}_OK"
    told = [
        next(f"handed[{i}]->shape[{k}]" for i, a in enumerate(inputs) for k, d in enumerate(a.type.shape) if d is v)
        for v in (s.symbol for s in layout.sizes.arguments)
    ]
    yield f"    if (status == {ok}) {{\n        status = {layout.name}_find_plan({', '.join([*told, '&found'])});\n"
    yield f"        if (status != {ok}) {{\n"
    names = ", ".join(s.name for s in layout.sizes.arguments)
    said = text_literal(f"a size is outside of what the header says{f': {names}' if names else ''}")
    yield f"            status = {layout.name}_fail(result, status, {said});\n        }}\n    }}\n"
    if not is_sized(specs):
        return
    yield f"    if (status == {ok}) {{\n"
    for i, d in sizes_table(specs):
        yield f"        extents[{i}] = {f'(int64_t){layout.sizes.text(d)}' if isinstance(d, Expr) else d};\n"
    yield "    }\n"


def entry_names(layout: EntryLayout) -> Iterator[str]:
    """C declarations of locals for inputs, outputs and workspaces, with the names that they have as parameters."""
    words = [(a.name, f"const {a.ctype} *") for a in by_pointer(layout.inputs)]
    words += [(a.name, f"{a.ctype} *") for a in by_pointer(layout.outputs)]
    words += [(r.name, "int64_t *") for r in layout.sizes.returned]
    words += [(w.name, "void *") for w in layout.workspaces]
    words += [("weights", "const void *")] if layout.blob is not None else []
    for i, (name, type_) in enumerate(words):
        yield f"    {type_}const {name} = ({type_})arguments[{i}];\n"
