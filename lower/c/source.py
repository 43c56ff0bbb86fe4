"""Generated C as a value, written to files and read back (specs/lower.md, "c").

The header says everything that a reader needs: `CSource.read` takes sizes, names and types from it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from assay.lower.c.convention import Device
from assay.lower.c.effects import PrintLine, read_prints
from assay.lower.c.externs import EXTERN
from assay.lower.c.header import ARGUMENT, DEVICE, SIZE, WORKSPACE
from assay.lower.c.layout import Argument, Workspace, workspace_names
from assay.lower.c.names import ScopeNames, identifier, unquote
from assay.lower.c.sizes import ReturnedSize, SizeArgument
from assay.lower.c.tables import STORAGE, Array, Blob
from assay.lower.interfaces import Interface
from assay.semantics.dtypes import INT64, dtype
from assay.semantics.errors import Invalid
from assay.semantics.files import open_regular, read_text
from assay.semantics.instance import replaced, sizes_of
from assay.semantics.scalar import Dim, Var
from assay.semantics.text.scalars import ScalarParser
from assay.semantics.text.source import Source
from assay.semantics.types import TensorType


@dataclass(frozen=True)
class CSource:
    """Generated C. `name` starts every symbol and names the files; `macro` starts every macro and enumerator."""

    name: str
    header: str
    source: str
    weights: Blob | None
    """The constants that are handed in by pointer; None if all stand in the source."""
    weights_digest: str
    """SHA-256 of those bytes in hexadecimal, compiled in; empty if there are none."""
    workspaces: tuple[Workspace, ...]
    macro: str = ""
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    interface: Interface = Interface.UNPACKED
    device: str = ""
    """The device of steps that name none; empty if they have no hooks."""
    devices: tuple[Device, ...] = ()
    """Those whose hooks it calls, in the order of activation."""
    externs: tuple[str, ...] = ()
    """The functions of the user's that it calls, by their names in C."""
    loader: str = ""
    """C that maps the weights from their file; empty if there are none."""
    sizes: tuple[SizeArgument, ...] = ()
    """The sizes that the entry takes, before all else."""
    returned: tuple[ReturnedSize, ...] = ()
    """The sizes that it returns by pointers, behind those of the outputs."""

    prints: tuple[PrintLine, ...] = ()
    """What it prints, in the order of its text."""

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces together; Invalid (c.C6) where sizes decide."""
        found = [w.nbytes for w in self.workspaces if isinstance(w.nbytes, int)]
        if len(found) < len(self.workspaces):
            raise Invalid(f"how many bytes {self.name} works in is decided by sizes", label="c.C6")
        return sum(found)

    @property
    def alignment(self) -> int:
        """Bytes to which every workspace may be aligned."""
        return max((w.alignment for w in self.workspaces), default=1)

    def values(self, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
        """The sizes in order, from the shapes of the inputs by slot: the first dim of an input that is one.

        Invalid (input.C3): a rank is another, or a dim is not what these sizes say.
        """
        found = sizes_of({a.slot: a.type for a in self.inputs}, shapes)
        return tuple(found[s.symbol] for s in self.sizes)

    def at(self, values: Sequence[int], workspaces: Sequence[int]) -> CSource:
        """The same with arguments and workspaces at these sizes. The bytes of workspaces are those that the code
        says. What is measured stays open."""
        env: dict[Var, Dim] = dict(zip((s.symbol for s in self.sizes), values, strict=True))

        def sized(a: Argument) -> Argument:
            room = None if a.room is None else replaced(a.room, env)
            return replace(a, type=TensorType(tuple(replaced(d, env) for d in a.type.shape), a.type.dtype), room=room)

        return replace(
            self,
            inputs=tuple(map(sized, self.inputs)),
            outputs=tuple(map(sized, self.outputs)),
            workspaces=tuple(replace(w, nbytes=n) for w, n in zip(self.workspaces, workspaces, strict=True)),
        )

    def write(self, directory: Path) -> tuple[Path, ...]:
        """Write the files into a directory that exists; their paths, header first."""
        paths = [directory / f"{self.name}.h", directory / f"{self.name}.c"]
        paths[0].write_text(self.header, encoding="ascii")
        paths[1].write_text(self.source, encoding="ascii")
        if self.weights is not None:
            paths.append(directory / f"{self.name}.weights")
            self.weights.write(paths[2])
            paths.append(directory / f"{self.name}_weights.c")
            paths[3].write_text(self.loader, encoding="ascii")
        return tuple(paths)

    @classmethod
    def read(cls, directory: Path, name: str) -> CSource:
        """What `write` has written; the weights are mapped, not copied. Invalid where it is not that.

        Whether the weights are the right ones is for the generated code to say, by their digest.
        """
        prefix = identifier(name)
        path = directory / f"{prefix}.h"
        try:
            header = read_text(path, "ascii")
            source = read_text(directory / f"{prefix}.c", "ascii")
            found = _Header(header, prefix.upper())
            blob = _weights(directory / f"{prefix}.weights", found)
            return cls(
                prefix,
                header,
                source,
                blob,
                found.find(r"with this SHA-256:\n \* ([0-9a-f]{64})\n") if blob is not None else "",
                tuple(found.workspaces()),
                prefix.upper(),
                tuple(found.arguments("Inputs")),
                tuple(found.arguments("Outputs")),
                Interface(found.find(r"\n \* Interface: (\S+)\n")),
                found.default_device(),
                tuple(found.devices()),
                found.externs(),
                read_text(directory / f"{prefix}_weights.c", "ascii") if blob is not None else "",
                found.sizes,
                found.returned,
                tuple(read_prints(found.text, prefix, prefix.upper())),
            )
        except FileNotFoundError as missing:
            raise Invalid("there is no such file", where=str(missing.filename), label="c.C13") from None
        except OSError as wrong:
            raise Invalid(
                f"cannot be read: {wrong.strerror or wrong}", where=str(wrong.filename or path), label="c.C13"
            ) from None
        except ValueError as wrong:
            raise Invalid(f"not a header that was generated: {wrong}", where=str(path), label="c.C13") from None


class _Header:
    """The parts of a generated header; ValueError where one is missing."""

    def __init__(self, text: str, macro: str) -> None:
        self.text = text
        self.macro = macro

    def find(self, pattern: str) -> str:
        found = re.search(pattern, self.text)
        if found is None:
            raise ValueError(f"nothing in it is like {pattern!r}")
        return found[1]

    def number(self, macro: str) -> int:
        return int(self.find(rf"#define {self.macro}_{macro} (\d+)u"))

    def default_device(self) -> str:
        found = re.search(r"\n \* Steps that name no device: (.*)\n", self.text)
        return "" if found is None else unquote(found[1])

    def devices(self) -> Iterator[Device]:
        """The devices with hooks, in order."""
        found = re.search(r"\n \* Devices:\n((?: \*   .*\n)*)", self.text)
        for c, number, name in re.findall(DEVICE, "" if found is None else found[1]):
            yield Device(unquote(name), int(number), c)

    def externs(self) -> tuple[str, ...]:
        """The names in C of the externs."""
        found = re.search(r"\n \* Externs:\n((?: \*   .*\n)*)", self.text)
        return tuple(c for c, _ in re.findall(EXTERN, "" if found is None else found[1]))

    def named(self, section: str) -> Iterator[tuple[str, int, int, str]]:
        """The sizes of a section: the name in C, the least and the greatest value, what it is called."""
        found = re.search(rf"\n \* {section}:\n((?: \*   .*\n)*)", self.text)
        for c, low, high, quoted in re.findall(SIZE, "" if found is None else found[1]):
            yield c, int(low), int(high), unquote(quoted)

    @cached_property
    def sizes(self) -> tuple[SizeArgument, ...]:
        """The sizes, in order."""
        macros = ScopeNames()
        return tuple(
            SizeArgument(called, c, macros.fresh(called, upper=True), low, high, Var(called, INT64))
            for c, low, high, called in self.named("Sizes")
        )

    @cached_property
    def returned(self) -> tuple[ReturnedSize, ...]:
        """The sizes that are returned, in order."""
        return tuple(
            ReturnedSize(called, c, high, Var(called, INT64)) for c, _, high, called in self.named("Returned sizes")
        )

    def dim(self, text: str) -> Dim:
        """A dim of an argument."""
        if text.isdigit():
            return int(text)
        reader = ScalarParser(
            Source.of(text, ""),
            {s.name: s.symbol for s in self.sizes} | {r.name: r.symbol for r in self.returned},
            integer=INT64,
        )
        try:
            return reader.dim(ast.Constant(text, lineno=1, col_offset=0))
        except Invalid as wrong:
            raise ValueError(wrong.message) from None

    def arguments(self, section: str) -> Iterator[Argument]:
        """The inputs or outputs, in order."""
        macros = ScopeNames()
        for row in self.find(rf"\n \* {section}:\n((?: \*   .*\n)*)").splitlines():
            found = re.fullmatch(ARGUMENT, row)
            if found is None:
                raise ValueError(f"{row!r} is no {section.lower()[:-1]}")
            name, of, dims, most, offset, workspace, quoted = found.groups()
            slot = unquote(quoted)
            shape = tuple(self.dim(text) for text in re.findall(r"\[([^\]]+)\]", dims))
            macro, type_ = macros.fresh(slot, upper=True), TensorType(shape, dtype(of))
            yield Argument(
                slot,
                name,
                macro,
                type_,
                STORAGE[of],
                workspace or "",
                int(offset or 0),
                self.dim(most) if most else None,
            )

    def workspaces(self) -> Iterator[Workspace]:
        """The workspaces, in order."""
        found = re.findall(WORKSPACE, self.text)
        if len(found) != len(re.findall(rf"#define {self.macro}_WORKSPACE(?:_\w+)?_ALIGN ", self.text)):
            raise ValueError("it has macros for other workspaces than it lists")
        names = workspace_names([unquote(quoted) for _, quoted, _, _ in found])
        for (name, quoted, nbytes, alignment), (c, macro) in zip(found, names, strict=True):
            made = Workspace(unquote(quoted), name, macro, int(nbytes or 0), int(alignment))
            said = (self.number(f"{macro}_BYTES") if nbytes else 0, self.number(f"{macro}_ALIGN"))
            if name != c or said != (made.nbytes, made.alignment):
                raise ValueError(f"the workspace {name} is not what its macros say")
            yield made


def _weights(path: Path, found: _Header) -> Blob | None:
    """The blob that the header speaks of, as a map of its file."""
    size = found.number("WEIGHTS_BYTES")
    if size == 0:
        return None
    with open_regular(path) as file:
        found_size = os.fstat(file.fileno()).st_size
        if found_size != size:
            raise ValueError(f"{path.name} has {found_size} bytes, the header says {size}")
        data: Array = np.memmap(file, np.uint8, "r")
    return Blob(((0, data),), size, found.number("WEIGHTS_ALIGN"))
