"""Pointers into buffers, and calls of the user's functions, in a kernel (specs/lower.md, "c")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.lower.c.expr import BufferPlace, ExprWriter
from assay.lower.c.externs import ExternParameter
from assay.lower.c.helpers import Library
from assay.lower.c.names import string_literal
from assay.lower.c.ops import CODED, SUM, Code, converted
from assay.lower.c.tables import STORAGE
from assay.semantics.dtypes import BOOL, DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Expr, show
from assay.semantics.tensor import Alias, Buffer, Call, PrimFunc, View, program_order


def pointed_buffers(kernel: PrimFunc) -> set[Buffer]:
    """The buffers that must be memory, for something points at them."""
    found: set[Buffer] = set()
    for stmt in program_order(kernel.body):
        match stmt:
            case Call():
                found.update(stmt.buffers)
            case Alias():
                found.add(stmt.view.source)
            case _:
                pass
    return found


def viewed_buffers(kernel: PrimFunc) -> set[Buffer]:
    """The buffers that are views of others."""
    return {s.view.buffer for s in program_order(kernel.body) if isinstance(s, Alias)}


@dataclass(eq=False)
class Pointers:
    """Writes pointers and calls of one kernel."""

    kernel: str
    library: Library
    exprs: ExprWriter

    def view(self, view: View) -> tuple[BufferPlace, str]:
        """A pointer to the bytes of a buffer, or to some element of it: its place, and its declaration."""
        source, of = self.exprs.place(view.source), view.source.dtype
        type_ = STORAGE[view.buffer.dtype.name]
        constant = source.constant or view.constant
        const = "const " if constant else ""
        if view.buffer.dtype is of:
            offset, _ = self.exprs.value(self.exprs.fold(view.offset))
            first, size = source.text + (f" + {offset.at(SUM + 1)}" if offset.text != "0" else ""), 1
        else:
            first, size = f"({const}{type_} *){source.text}", of.itemsize
        place = BufferPlace(self.exprs.names.fresh(view.buffer.name), constant=constant, bytes=size)
        return place, f"{const}{type_} *const {place.text} = {first};"

    def call(self, stmt: Call, ok: str, failed: str) -> Iterator[str]:
        """A function that the user writes is called; its status, where it is not `ok`, ends the kernel after
        `failed`."""
        words: list[str] = []
        parameters: list[ExternParameter] = []
        for k, a in enumerate(stmt.args):
            match a:
                case Buffer():
                    words.append(self.exprs.place(a).text)
                    parameters.append(self.pointer(a, k))
                case Expr():
                    code, _ = self.exprs.value(self.exprs.fold(a))
                    words.append(self.stored(code, a.dtype).text)
                    type_ = STORAGE[a.dtype.name]
                    parameters.append(ExternParameter(type_, f"n{k}", a.dtype.name))
                case _:
                    words.append(self.text(a, stmt))
                    parameters.append(ExternParameter("const char *", f"s{k}", words[-1]))
        back, of = "", None if stmt.result is None else stmt.result.dtype
        if of is not None:
            back = self.exprs.names.fresh("back")
            words.append(f"&{back}")
            type_ = STORAGE[of.name]
            parameters.append(ExternParameter(f"{type_} *", "result", f"{of} returned"))
        function = self.library.externs.use(stmt.function, parameters, self.kernel, stmt.span)
        status = self.exprs.names.fresh("status")
        yield "{"
        if of is not None:
            yield f"    {STORAGE[of.name]} {back} = 0;"
        yield f"    const int {status} = {function}({', '.join(words)});"
        yield f"    if ({status} != {ok}) {{"
        if failed:
            yield f"        {failed}"
        yield f"        return {status};"
        yield "    }"
        if stmt.result is not None:
            place = self.exprs.place(stmt.result.buffer)
            place.used = True
            yield f"    {place.text} = {self.loaded(back, stmt.result.dtype)};"
        yield "}"

    def pointer(self, buffer: Buffer, k: int) -> ExternParameter:
        """The k-th parameter of an extern: a pointer to a buffer, const where it must not be changed."""
        place = self.exprs.place(buffer)
        place.used = place.read = True
        type_ = STORAGE[buffer.dtype.name]
        shape = "".join(f"[{show(n)}]" for n in buffer.shape)
        about = f"{buffer.name} {buffer.dtype}{shape}{' (not to be changed)' if place.constant else ''}"
        return ExternParameter(f"{'const ' if place.constant else ''}{type_} *", f"x{k}", about)

    def text(self, text: str, stmt: Call) -> str:
        """A C string literal for a text operand. Unsupported (`c.C21`) if it is too long or holds a zero byte."""
        if "\0" in text or len(text.encode()) > MOST_TEXT:
            what = f"{self.kernel} hands a text of {len(text)} characters to the extern {stmt.function}: in C at most"
            raise Unsupported(f"{what} {MOST_TEXT} bytes, none of them 0", where=stmt.span, label="c.C21")
        return string_literal(text)

    def stored(self, code: Code, of: DType) -> Code:
        """A value as an element of memory."""
        if of.name in CODED:
            return Code(f"{self.library.use(f'store_{CODED[of.name]}')}({code.text})", STORAGE[of.name])
        return converted(code, STORAGE[of.name])

    def loaded(self, element: str, of: DType) -> str:
        """An element of memory as a value."""
        if of is BOOL:
            return f"{element} != 0"
        return f"{self.library.use(f'load_{CODED[of.name]}')}({element})" if of.name in CODED else element


MOST_TEXT = 500
"""Bytes of a string constant that every C compiler takes, with room for what escapes them."""
