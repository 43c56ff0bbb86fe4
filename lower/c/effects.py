"""Assertions on values and prints in C (specs/lower.md, "c").

Generated C has no way to print, so it calls a function of the user's, where that is wanted: `NAME_print` with the
number of the step, the addresses of what is printed and the sizes of all their dims.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.lower.c.layout import EntryLayout
from assay.lower.c.names import comment, quote, unquote
from assay.semantics.dtypes import DType, dtype
from assay.semantics.module import PrintValues
from assay.semantics.scalar import Dim

PRINTS = "Prints, told to NAME_print where NAME_PRINT is defined"
PRINT = r' \*   step (\d+): (.*?) by (".*")'
"""The line of a print in the header: the number of its step, the types of what it shows, its format."""


@dataclass(frozen=True)
class PrintLine:
    """A print of generated C: the step, the dtype and the rank of each tensor that it shows, and its format."""

    step: int
    shown: tuple[tuple[DType, int], ...]
    format: str


def prints(layout: EntryLayout) -> tuple[PrintLine, ...]:
    """The prints of a program, in the order of its text."""
    found = []
    for i, step in enumerate(layout.program.steps):
        if isinstance(step, PrintValues):
            types = [layout.program.slots[n].type for n in step.shown]
            found.append(PrintLine(i, tuple((t.dtype, t.ndim) for t in types), step.format))
    return tuple(found)


def print_lines(layout: EntryLayout) -> Iterator[str]:
    """The lines of the header that name the prints."""
    if not prints(layout):
        return
    yield f" * {_title(layout.name, layout.macro)}:\n"
    for line in prints(layout):
        step = layout.program.steps[line.step]
        assert isinstance(step, PrintValues)
        types = [layout.program.slots[n].type for n in step.shown]
        dims = ["".join(f"[{comment(layout.sizes.named(d))}]" for d in t.shape) for t in types]
        told = ", ".join(f"{t.dtype}{d}" for t, d in zip(types, dims, strict=True)) or "nothing"
        yield f" *   step {line.step}: {told} by {quote(line.format)}\n"


def read_prints(text: str, name: str, macro: str) -> Iterator[PrintLine]:
    """The prints that a header names."""
    found = re.search(rf"\n \* {_title(name, macro)}:\n((?: \*   .*\n)*)", text)
    for step, types, quoted in re.findall(PRINT, "" if found is None else found[1]):
        shown = re.findall(r"(\w+)((?:\[[^\]]*\])*)(?:, |$)", "" if types == "nothing" else types)
        yield PrintLine(int(step), tuple((dtype(of), dims.count("[")) for of, dims in shown), unquote(quoted))


def _title(name: str, macro: str) -> str:
    return PRINTS.replace("NAME_PRINT", f"{macro}_PRINT").replace("NAME_print", f"{name}_print")


def signature(name: str, has_handle: bool) -> str:
    """The function of the user's that is told of a print, without its semicolon."""
    handle = "void *handle, " if has_handle else ""
    return f"int {name}_print({handle}int step, const void *const *shown, const int64_t *dims)"


def prototype(layout: EntryLayout) -> Iterator[str]:
    """What the header says of the hook; nothing where nothing is printed."""
    if not prints(layout):
        return
    m = layout.macro
    yield f"""
/* Where {m}_PRINT is defined, this is for you to write: it is told of the prints, listed at the top, in their order.
 * `shown` are the addresses of what a step prints, tensors dense and row-major, good until it returns; `dims` the
 * sizes of all their dims, one tensor after another; NULL where there are none. It returns 0, or a status (of 256 or
 * above, or below 0), which ends the run. */
#ifdef {m}_PRINT
{signature(layout.name, layout.has_handle)};
#endif
"""


def silent(layout: EntryLayout) -> Iterator[str]:
    """The hook of those who want no prints."""
    if prints(layout):
        unused = ("handle", "step", "shown", "dims") if layout.has_handle else ("step", "shown", "dims")
        yield f"\n#ifndef {layout.macro}_PRINT\nstatic {signature(layout.name, layout.has_handle)}\n{{\n"
        yield "".join(f"    (void){word};\n" for word in unused)
        yield f"    return {layout.macro}_OK;\n}}\n#endif\n"


def told(layout: EntryLayout, index: int, pointers: Sequence[str], dims: Sequence[Dim]) -> str:
    """The call of the hook."""
    sizes = layout.sizes
    shown = f"(const void *const[]){{{', '.join(pointers)}}}" if pointers else "NULL"
    lengths = f"(const int64_t[]){{{', '.join(sizes.text(d) for d in dims)}}}" if dims else "NULL"
    args = [*(["handle"] if layout.has_handle else []), str(index), shown, lengths]
    return f"{layout.name}_print({', '.join(args)})"
