"""What the entry asks of its arguments before anything runs (specs/verify.md, "c").

The check is held against a text that stands here, with the numbers of the program in it: pointers that are there and
aligned, and nothing written that shares a byte with another argument. So a contract that the header states is what the
kernels may rely on, and no caller who keeps it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.lower.c.source import CSource
from assay.semantics.module import Module, Program
from assay.verify.c.reading.contents import NUMPY, element_bytes
from assay.verify.c.reading.parse import SYSTEM, CFile
from assay.verify.c.reading.preprocess import NotRead
from assay.verify.c.reading.sizes import EntrySizes
from assay.verify.c.reading.terms import Term
from assay.verify.c.reading.values import CNode

_OVERLAP = """
static int @_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t p = (uintptr_t)a;
    const uintptr_t q = (uintptr_t)b;
    if (a_bytes == 0u || b_bytes == 0u) {
        return 0;
    }
    return (p < q) ? (size_t)(q - p) < a_bytes : (size_t)(p - q) < b_bytes;
}
"""
_CHECK = """
static enum @_status @_check(const void *const *buffersPLAN)
{
    STATIC const size_t bytes[ROWS] = {BYTES};
    static const size_t align[ROWS] = {ALIGN};
    size_t i;
    size_t j;
    UNUSED
    TABLES
    for (i = 0; i < ROWSu; ++i) {
        if (buffers[i] == NULL && bytes[i] != 0u) {
            return M_NULL_POINTER;
        }
    }
    for (i = 0; i < ROWSu; ++i) {
        if ((uintptr_t)buffers[i] % align[i] != 0u) {
            return M_MISALIGNED;
        }
    }
    ADDRESSES
    for (i = 0; i < WRITTENu; ++i) {
        for (j = i + 1u; j < ROWSu; ++j) {
            if (@_overlap(buffers[i], bytes[i], buffers[j], bytes[j])) {
                return M_OVERLAP;
            }
        }
    }
    return M_OK;
}
"""
_TABLES = """
    static const void *const constants[COUNT] = {NAMES};
    static const size_t constant_align[COUNT] = {ALIGNS};
"""
_ADDRESSES = """
    for (i = 0; i < COUNTu; ++i) {
        if ((uintptr_t)constants[i] % constant_align[i] != 0u) {
            return M_MISALIGNED;
        }
    }
"""


@dataclass(frozen=True)
class ArgumentCheck:
    """What is handed to the check, in its order, and the functions that it has to be, by name."""

    buffers: list[str]
    functions: Mapping[str, str]


def argument_check(source: CSource, program: Program, module: Module, file: CFile, sizes: EntrySizes) -> ArgumentCheck:
    """What the check of the arguments has to be."""
    written = [(a.name, sizes.bytes_of(a.type), a.type.dtype.itemsize) for a in source.outputs if not a.workspace]
    for w in source.workspaces:
        pool = next((p for p in program.pools if p.name == w.pool), None)
        handed = sizes.is_planned or w.nbytes == program.sizes.get(w.pool, 0)
        if pool is None or not handed or w.alignment < pool.alignment:
            raise NotRead(f"the workspace {w.name} is none of the program")
        written.append((w.name, sizes.pool_size(w.pool), w.alignment))
    placed = [s for s in program.pooled if s.place != "constant"]
    outside = sizes.first_open([(sizes.inside(s), f"{s.name} is not inside of its workspace") for s in placed])
    if outside:
        raise NotRead(outside)
    read = [(a.name, sizes.bytes_of(a.type), a.type.dtype.itemsize) for a in source.inputs if not a.workspace]
    for side, names in ((source.inputs, program.inputs), (source.outputs, program.outputs)):
        if [a.slot for a in side] != list(names) or any(a.type != program.slots[a.slot].type for a in side):
            raise NotRead("the arguments are not those of the program")
    rows = written + read
    if source.weights is not None:
        rows.append(("weights", sizes.ours.math.whole(source.weights.nbytes), source.weights.alignment))
    texts = _byte_texts([(n, b) for n, b, _ in rows], file, sizes)
    lines = [(text, align) for text, (_, _, align) in zip(texts, rows, strict=True)]
    functions = _texts(source, lines, len(written), _tables(program, module, file), sizes.is_planned)
    return ArgumentCheck([n for n, _, _ in rows], functions)


def _byte_texts(rows: Sequence[tuple[str, Term]], file: CFile, sizes: EntrySizes) -> list[str]:
    """The bytes of each argument as text: a number, or what the check of the file has there, which has to be that."""
    from pycparser import c_generator

    found: list[CNode] = []
    function = file.functions.get(f"{sizes.name}_check")
    if sizes.is_planned and function is not None:
        for node in function.tree.body.block_items:
            if type(node).__name__ == "Decl" and node.name == "bytes" and type(node.init).__name__ == "InitList":
                found = list(node.init.exprs)
        if len(found) != len(rows):
            raise NotRead(f"the check of the arguments has {len(found)} sizes")
    texts = []
    for i, (name, bytes_) in enumerate(rows):
        if not found:
            texts.append(count_text(bytes_.value))
            continue
        sizes.require_same(found[i], bytes_, f"the bytes of {name}")
        texts.append(str(c_generator.CGenerator().visit(found[i])))
    return texts


def count_text(count: int) -> str:
    """A number of bytes as it stands in C."""
    return f"{count}u" if count < 1 << 32 else f"{count}ull"


def _tables(program: Program, module: Module, file: CFile) -> list[tuple[str, int]]:
    """The tables of the file that are constants of the program, with their alignments."""
    slots = {module.constants[s.name].tobytes(): s.alignment for s in program.placed("constant")}
    found = [(n, element_bytes(*table)) for n, table in file.tables.items() if table[0] in NUMPY]
    return [(name, slots[data]) for name, data in found if data in slots]


def _texts(
    source: CSource, rows: Sequence[tuple[str, int]], written: int, tables: Sequence[tuple[str, int]], planned: bool
) -> dict[str, str]:
    text = _CHECK.replace("BYTES", ", ".join(n for n, _ in rows))
    text = text.replace("ALIGN}", ", ".join(f"{a}u" for _, a in rows) + "}")
    text = text.replace("STATIC", "" if planned else "static").replace("UNUSED", "(void)plan;" if planned else "")
    text = text.replace("PLAN", ", const struct @_plan *plan" if planned else "")
    text = text.replace("TABLES", _TABLES if tables else "").replace("ADDRESSES", _ADDRESSES if tables else "")
    text = text.replace("NAMES", ", ".join(n for n, _ in tables)).replace(
        "ALIGNS", ", ".join(f"{a}u" for _, a in tables)
    )
    for word, number in (("ROWS", len(rows)), ("WRITTEN", written), ("COUNT", len(tables))):
        text = text.replace(word, str(number))
    made = {f"{source.name}_check": text, f"{source.name}_overlap": _OVERLAP}
    return {n: t.replace("@", source.name).replace("M_", f"{source.macro}_") for n, t in made.items()}


def same_function(file: CFile, name: str, text: str) -> bool:
    """Whether a function of the file is written as `text` is, but for layout."""
    from pycparser import CParser, c_generator

    function = file.functions.get(name)
    if function is None:
        return False
    tree = CParser().parse(SYSTEM + text)
    printed = c_generator.CGenerator()
    return str(printed.visit(tree.ext[-1])) == str(printed.visit(function.tree))
