"""Names while a tensor function is printed, and the texts of its buffers (specs/semantics.md, "Text")."""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL, INT64, DType
from assay.semantics.errors import Unsupported
from assay.semantics.scalar import Const, Expr, Var, same, variables
from assay.semantics.tensor import AllocateConst, Buffer, PrimFunc, Region, View
from assay.semantics.tensor.places import dense_strides
from assay.semantics.text.constants_text import encoded, has_literals
from assay.semantics.text.external_data import LARGEST
from assay.semantics.text.outputs import noted
from assay.semantics.text.scalars import MODULES
from assay.semantics.text.scalars.printer import ScalarPrinter, literal_text

TAKEN = frozenset(
    (*keyword.kwlist, *keyword.softkwlist, *MODULES, "range", "cls", "metadata", "TypeVar", "min", "max", "abs")
)

MOST_LITERALS = 1024
"""Constants of more elements are written as the text of their bytes."""


class PrintedNames(dict["Var | Buffer", str]):
    """A name for each variable and buffer in scope, all different; a name is free again when its scope is left."""

    def __init__(self, taken: Collection[str]) -> None:
        super().__init__()
        self.bases: dict[str, str] = {}
        self.used: Counter[str] = Counter({*TAKEN, *taken})
        self.alike: Counter[str] = Counter()
        """How many names in scope were made from one: where the search for a fresh one starts."""

    def declare(self, of: Var | Buffer) -> str:
        """A name like its own that is free in this scope."""
        base = re.sub(r"\W", "_", of.name) or "v"
        base = f"v{base}" if base[0].isdigit() else base
        k = self.alike[base]
        name = f"{base}_{k}" if k else base
        while self.used[name]:
            k += 1
            name = f"{base}_{k}"
        self.used[name] += 1
        self.alike[base] += 1
        self.bases[name] = base
        self[of] = name
        return name

    def leave(self, *those: Var | Buffer) -> None:
        """Leaves the scope of these: their names are free again."""
        for of in those:
            name = self.pop(of)
            self.used[name] -= 1
            self.alike[self.bases.pop(name)] -= 1


def quoted_literal(text: str) -> str:
    """The text of a string literal."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


class BufferText:
    """Prints buffers, regions and attributes over the names in scope."""

    def __init__(self, names: PrintedNames) -> None:
        self.names = names
        self.cells: set[Buffer] = set()
        self.scalars = ScalarPrinter(names, cells=self.cells)

    def shape(self, buffer: Buffer, hidden: Collection[Var] | None = None) -> str:
        """The dims as a tuple. In a signature, where `hidden` is given, sums and names that come later are quoted."""
        dtypes = buffer.notes.get("dims") or ("int64",) * len(buffer.shape)
        dims = []
        for d, of in zip(buffer.shape, dtypes, strict=True):
            text = self.scalars.text(d) if isinstance(d, Expr) else self._number(d, of)
            if hidden is not None and isinstance(d, Expr) and (not isinstance(d, Var) or d in hidden):
                text = quoted_literal(text)
            dims.append(text)
        return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"

    def _number(self, dim: int, of: str) -> str:
        return str(dim) if of == "int32" else f"T.{of}({dim})"

    def buffer(
        self, buffer: Buffer, hidden: Collection[Var] | None = None, scope: str = "global", extra: Sequence[str] = ()
    ) -> str:
        """The arguments that describe a buffer."""
        words = [self.shape(buffer, hidden), quoted_literal(buffer.dtype.name), *extra]
        if buffer.scope != scope:
            words.append(f"scope={quoted_literal(buffer.scope)}")
        for key, value in buffer.notes.items():
            if key in ("dims", "elem_offset", "strides") and extra:
                continue  # said by the view
            if key != "dims":
                words.append(f"{key}={self._note(value, hidden)}")
        return ", ".join(words)

    def _note(self, value: Any, hidden: Collection[Var] | None) -> str:
        match value:
            case Var():
                name = self.scalars.name(value)
                return quoted_literal(name) if hidden is not None and value in hidden else name
            case tuple():
                parts = [self._note(v, hidden) for v in value]
                return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
            case _:
                return str(value)

    def view(self, view: View) -> str:
        """`T.decl_buffer(...)` for a view."""
        extra = [f"data={self.scalars.name(view.source)}.data"]
        if isinstance(view.offset, Const) and int(view.offset.value) == 0 and view.offset.dtype is INT64:
            if "elem_offset" in view.buffer.notes:
                extra.append(f"elem_offset={self._note(view.buffer.notes['elem_offset'], None)}")
        else:
            extra.append(f"elem_offset={self.scalars.text(view.offset)}")
        if not all(map(same, view.strides, dense_strides(view.buffer.shape))):
            extra.append(f"strides=[{', '.join(self.scalars.text(s) for s in view.strides)}]")
        extra += ["read_only=True"] if view.constant else []
        return f"T.decl_buffer({self.buffer(view.buffer, None, view.source.scope, extra)})"

    def match(self, view: View) -> str:
        """`T.match_buffer(A[...], ...)` for a view of a block."""
        if view.region is None:
            raise Unsupported(f"view {view.buffer.name} of a block is no match of a region", label="text.C10")
        region = self.region(view.region)
        return f"T.match_buffer({region}, {self.buffer(view.buffer, None, view.source.scope)})"

    def region(self, region: Region) -> str:
        """The text of a region: `A[i, 0:4]`."""
        parts = []
        for start, stop in zip(region.starts, region.stops, strict=True):
            text = self.scalars.text(start)
            parts.append(text if stop is None else f"{text}:{self.scalars.text(stop)}")
        return f"{self.scalars.name(region.buffer)}[{', '.join(parts) or '()'}]"

    def data(self, value: Any) -> str:
        """The text of an attribute's value."""
        match value:
            case None | bool() | int():
                return str(value)
            case str():
                return quoted_literal(value)
            case float() if np.isfinite(value):
                return repr(value)
            case float():
                return f'float("{value}")'
            case Expr():
                return self.scalars.text(value)
            case Buffer():
                return self.scalars.name(value)
            case Mapping() if list(value) == ["T.target"]:
                return f"T.target({self.data(value['T.target'])})"
            case Mapping():
                return "{" + ", ".join(f"{self.data(k)}: {self.data(v)}" for k, v in value.items()) + "}"
            case tuple() | list():
                return "[" + ", ".join(map(self.data, value)) + "]"
            case _:
                raise Unsupported(f"an attribute {value!r} cannot be printed", label="text.C10")

    def constant(self, stmt: AllocateConst) -> str:
        """The contents as numbers, as the text of their bytes where those would not be exact or would be many, or as
        the name of a constant of the module's table."""
        buffer, data = stmt.buffer, stmt.data
        notes = f", annotations={self.data(stmt.annotations)}" if stmt.annotations else ""
        if stmt.index:
            notes += f", index={quoted_literal(stmt.index)}"
        if data is None:
            return f"T.allocate_const(None, {self.buffer_head(buffer)}{notes})"
        if data.nbytes > LARGEST:
            raise Unsupported(
                f"the constant {buffer.name} has {data.nbytes} bytes, too many for a text; in the module's table"
                " (assay.lower.constants) it is stored beside it",
                where=stmt.span,
                label="text.C35",
            )
        if data.size > MOST_LITERALS or not has_literals(data):
            contents = quoted_literal(encoded(data))
        else:
            contents = f"[{', '.join(self._element(x, buffer.dtype) for x in data.reshape(-1))}]"
        return f"T.allocate_const({contents}, {self.buffer_head(buffer)}{notes})"

    def buffer_head(self, buffer: Buffer) -> str:
        """The first arguments of a buffer's declaration: dtype, shape, and scope unless it is "global"."""
        scope = "" if buffer.scope == "global" else f", scope={quoted_literal(buffer.scope)}"
        return f"{quoted_literal(buffer.dtype.name)}, {self.shape(buffer)}{scope}"

    def _element(self, x: Any, of: DType) -> str:
        if of is BOOL:
            return str(bool(x))
        if of.is_integer:
            return str(int(x))
        return repr(float(x)) if np.isfinite(float(x)) else literal_text(Const(of, x), None)


def later(func: PrimFunc) -> set[Var]:
    """Symbols whose names a signature can only quote: scalar parameters, and symbols that the body declares."""
    return {*func.scalars, *(v for v in parameter_symbols(func) if v.dtype is not INT64)}


def parameter_symbols(func: PrimFunc) -> tuple[Var, ...]:
    """The symbols of a function's parameters, in the order of their first occurrence."""

    found: dict[Var, None] = {}
    for b in func.params:
        for d in b.shape:
            found.update(dict.fromkeys(variables(d)))
        found.update(dict.fromkeys(noted(b)))
    return tuple(v for v in found if v not in func.scalars)
