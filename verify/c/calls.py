"""The entry of generated C behind one signature, whatever its convention and its devices (specs/verify.md, "c").

`caller` writes `int assay_call(void *const *p)`: the addresses of sizes, inputs and outputs, but those that lie in a
workspace, of workspaces and of weights in an array, for there may be more of them than a foreign call can have. It
stands in for the hooks too, and holds the entry to their order: WRONG_HOOKS where a device is opened before it is
activated, closed twice, or left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.lower.c import CSource, Interface
from assay.lower.c.effects import signature
from assay.lower.c.layout import by_pointer
from assay.lower.c.packed_abi import dlpack
from assay.semantics.dtypes import DTYPES, INT64
from assay.verify.c.tools import WRONG_HOOKS


def caller(source: CSource) -> str:
    """The C text of `assay_call`, which calls the entry function with an array of pointers."""
    return "".join(_caller(source))


def _caller(source: CSource) -> Iterator[str]:
    yield f'#include "{source.name}.h"\n#include <stddef.h>\n\nint assay_call(void *const *p);\n'
    yield "extern const char *assay_message;\nconst char *assay_message;\n"
    yield from _hooks(source)
    yield "\nint assay_call(void *const *p)\n{\n    int status;\n"
    handle = "NULL"
    if source.devices:
        handle = "&calls"
        yield "    struct assay_calls calls = {{0}, 0};\n    size_t i;\n"
    yield from _packed(source, handle) if source.interface is not Interface.UNPACKED else _unpacked(source, handle)
    if source.devices:
        yield f"    for (i = 0; i < {len(source.devices)}u; ++i) {{\n        calls.wrong |= calls.state[i];\n    }}\n"
        yield f"    status = calls.wrong ? {WRONG_HOOKS} : status;\n"
    yield "    return status;\n}\n"
    if source.sizes:
        given = "".join(f"sizes[{i}], " for i in range(len(source.sizes)))
        yield f"""
int assay_sizes(const int64_t *sizes, size_t *bytes);
int assay_sizes(const int64_t *sizes, size_t *bytes)
{{
    struct {source.name}_sizes found;
    const int status = {source.name}_sizes({given}&found);
    if (status == 0) {{
"""
        for i, w in enumerate(source.workspaces):
            yield f"        bytes[{i}] = found.{w.name}_bytes;\n"
        yield "    }\n    return status;\n}\n"
    yield f"""
#ifdef {source.macro}_TRACE
int {source.name}_trace(int step);
extern int (*assay_hook)(int step);
int (*assay_hook)(int step);

int {source.name}_trace(int step)
{{
    return assay_hook ? assay_hook(step) : 0;
}}
#endif
"""
    if source.prints:
        has_handle = bool(source.devices) or source.interface is not Interface.UNPACKED
        unused = "    (void)handle;\n" if has_handle else ""
        yield f"""
#ifdef {source.macro}_PRINT
typedef int assay_told(int step, const void *const *shown, const int64_t *dims);
extern assay_told *assay_print_hook;
assay_told *assay_print_hook;

{signature(source.name, has_handle)}
{{
{unused}    return assay_print_hook ? assay_print_hook(step, shown, dims) : 0;
}}
#endif
"""


def _hooks(source: CSource) -> Iterator[str]:
    """The hooks: each device has a state, 0 at rest, 1 active, 2 open."""
    if not source.devices:
        return
    yield f"\nstruct assay_calls {{\n    int state[{len(source.devices)}];\n    int wrong;\n}};\n"
    yield """
static int assay_move(struct assay_calls *calls, int device, int from, int to)
{
    calls->wrong |= (calls->state[device] != from);
    calls->state[device] = to;
    return 0;
}
"""
    moves = {"activate": (0, 1), "open": (1, 2), "close": (2, 1), "deactivate": (1, 0)}
    for c in dict.fromkeys(d.c for d in source.devices):
        same = [(i, d.id) for i, d in enumerate(source.devices) if d.c == c]
        index = "".join(f"id == {id} ? {i} : " for i, id in same[:-1]) + str(same[-1][0])
        for verb, (before, after) in moves.items():
            yield f"\nint {source.name}_device_{c}_{verb}(void *handle, int32_t id)\n{{\n"
            yield (
                f"    (void)id;\n    return assay_move((struct assay_calls *)handle, {index}, {before}, {after});\n}}\n"
            )


def _unpacked(source: CSource, handle: str) -> Iterator[str]:
    types = ["*(const int64_t *)"] * len(source.sizes)
    types += [f"(const {a.ctype} *)" for a in by_pointer(source.inputs)]
    types += [f"({a.ctype} *)" for a in by_pointer(source.outputs)] + ["(int64_t *)"] * len(source.returned)
    types += [""] * (len(source.workspaces) + (source.weights is not None))
    args = [f"{t}p[{i}]" for i, t in enumerate(types)] + ([handle] if source.devices else [])
    joined = ",\n        ".join(args)
    yield f"    status = {source.name}_run(\n        {joined});\n"


def _packed(source: CSource, handle: str) -> Iterator[str]:
    """Every address as a tensor."""
    byte = DTYPES["uint8"]
    handed = [a.handed for a in (*by_pointer(source.inputs), *by_pointer(source.outputs))]
    rows = [*((t.shape, t.dtype) for t in handed), *(((), INT64) for _ in source.returned)]
    rows += [((w.nbytes,), byte) for w in source.workspaces]
    rows += [((source.weights.nbytes,), byte)] if source.weights is not None else []
    first = sum(len(shape) for shape, _ in rows) if source.sizes else 0
    told = iter(range(first))
    for i, (shape, _) in enumerate(rows):
        if shape:
            dims = [f"*(const int64_t *)p[{next(told)}]" if source.sizes else str(d) for d in shape]
            yield f"    {'' if source.sizes else 'static '}const int64_t shape_{i}[] = {{{', '.join(dims)}}};\n"
    yield "    const struct assay_tensor tensors[] = {\n"
    for i, (shape, of) in enumerate(rows):
        code, bits = dlpack(of)
        where = f"shape_{i}" if shape else "NULL"
        yield f"        {{p[{first + i}], 1, 0, {len(shape)}, {code}, {bits}, 1, {where}, NULL, 0}},\n"
    yield f"    }};\n    struct assay_value args[{len(rows)}];\n    struct assay_value result;\n    int32_t k;\n"
    yield f"    for (k = 0; k < {len(rows)}; ++k) {{\n"
    yield "        args[k].code = ASSAY_CODE_TENSOR;\n        args[k].zero = 0;\n"
    yield "        args[k].as.pointer = (void *)(uintptr_t)&tensors[k];\n    }\n"
    yield f"    status = {source.name}_run({handle}, args, {len(rows)}, &result);\n"
    yield "    assay_message = result.code == ASSAY_CODE_TEXT ? result.as.text : NULL;\n"


def leading_numbers(source: CSource, sizes: Sequence[int]) -> list[int]:
    """The numbers that come first, each by its address, at sizes at which `source` is: these, or in a packed convention
    the shapes of all tensors."""
    if not sizes or source.interface is Interface.UNPACKED:
        return list(sizes)
    found = [n for a in (*by_pointer(source.inputs), *by_pointer(source.outputs)) for n in a.handed.static_shape]
    found += [w.nbytes for w in source.workspaces if isinstance(w.nbytes, int)]
    return found + ([source.weights.nbytes] if source.weights is not None else [])
