"""Bytecode from bytes that a stranger may have made (specs/semantics.md; specs/vm.md, "File").

Every number, count, text and row is checked where it is read, with its place in the file; no list is longer than the
bytes that are left. What is read is written again, and has to be these very bytes. Whether it holds together as an
executable is for `assay.semantics.bytecode.structure` to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar as Kind

from assay.semantics.bytecode import Bytecode, BytecodeFunction, Instruction
from assay.semantics.bytecode.code_form import (
    FIELDS,
    LEAST,
    MAGIC,
    MOST,
    MOST_REGISTERS,
    ROWS,
    VERSION,
    Companion,
    Row,
    element_form,
    rest,
)
from assay.semantics.bytecode.encode import encode_bytecode
from assay.semantics.bytecode.instructions import INSTRUCTIONS
from assay.semantics.errors import Invalid
from assay.semantics.module import Module

T = Kind("T")
LONGEST = 10
"""Bytes of a number at most."""


def decode_bytecode(data: bytes, beside: Companion, where: str = "") -> Module:
    """The module whose bytecode these bytes are, with what stands beside it. Invalid: they are none (bytecode.C1), end
    too early or too late (bytecode.C2), have a number that cannot be (bytecode.C3), a text that cannot (bytecode.C4),
    or name a row that is not there, or of another kind (bytecode.C5); or they are not written as `encode` does
    (bytecode.C6).
    """
    reader = _Reader(data, beside.rows, where)
    code = _executable(reader)
    if reader.at != len(data):
        raise reader.no(f"{len(data) - reader.at} bytes more than the code has", "bytecode.C2")
    definitions = beside.module.definitions
    if "main" in definitions:
        raise reader.no("beside the code stands another main", "bytecode.C6")
    module = beside.module.with_(main=code)
    again, rows = encode_bytecode(module)
    if again != data:
        at = next((i for i, (a, b) in enumerate(zip(again, data, strict=False)) if a != b), min(len(again), len(data)))
        raise Invalid(f"byte {at} is not as it would be written", where=where, label="bytecode.C6")
    if list(map(id, rows.rows)) != list(map(id, beside.rows)):
        raise Invalid("the rows are not just those that the code names, in its order", where=where, label="bytecode.C6")
    return module


class _Reader:
    """A place in the bytes."""

    def __init__(self, data: bytes, rows: tuple[Row, ...], where: str) -> None:
        self.data, self.rows, self.where, self.at = data, rows, where, 0
        self.began = 0
        if not data.startswith(MAGIC):
            raise self.no("this is no bytecode", "bytecode.C1")
        self.at = len(MAGIC)
        version = self.number(MOST)
        if version != VERSION:
            raise self.no(f"version {version} of bytecode, and {VERSION} is read: build it again", "bytecode.C1")
        self.texts: tuple[str, ...] = self.all(self.new_text)
        if len(set(self.texts)) < len(self.texts):
            raise self.no("a text stands twice", "bytecode.C4")

    def no(self, message: str, label: str) -> Invalid:
        """What is wrong with what was read last."""
        return Invalid(f"byte {self.began} of the code: {message}", where=self.where, label=label)

    def number(self, most: int, what: str = "number") -> int:
        """A whole number from 0 to `most`."""
        self.began = self.at
        found = shift = 0
        while True:
            if self.at >= len(self.data):
                raise self.no(f"the code ends inside of a {what}", "bytecode.C2")
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 7 * LONGEST:
                raise self.no(f"a {what} of more than {LONGEST} bytes", "bytecode.C3")
        if byte == 0 and shift:
            raise self.no(f"a {what} in more bytes than it needs", "bytecode.C3")
        if found > most:
            raise self.no(f"the {what} {found}, where {most} is the most that can be", "bytecode.C3")
        return found

    def count(self) -> int:
        """How many there are of what takes a byte at least."""
        left = len(self.data) - self.at
        found = self.number(MOST, "count")
        if found > left:
            raise self.no(f"a list of {found}, and {left} bytes are left", "bytecode.C3")
        return found

    def all(self, one: Callable[[], T]) -> tuple[T, ...]:
        """A list."""
        return tuple(one() for _ in range(self.count()))

    def new_text(self) -> str:
        """A text of the table."""
        size = self.count()
        data = self.data[self.at : self.at + size]
        if len(data) < size:
            raise self.no("the code ends inside of a text", "bytecode.C2")
        self.at += size
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as wrong:
            raise self.no(f"a text is no UTF-8: {wrong.reason}", "bytecode.C4") from None

    def text(self) -> str:
        """A text, by its row."""
        n = self.number(MOST, "text")
        if n >= len(self.texts):
            raise self.no(f"text {n}, and there are {len(self.texts)}", "bytecode.C5")
        return self.texts[n]

    def row(self, n: int, form: str) -> Row:
        """The row of a number, of a class that the form takes."""
        if n >= len(self.rows):
            raise self.no(f"row {n}, and there are {len(self.rows)}", "bytecode.C5")
        found = self.rows[n]
        if not isinstance(found, ROWS[form]):
            raise self.no(f"row {n} is {type(found).__name__}, and no {form}", "bytecode.C5")
        return found

    def dim(self) -> Any:
        """A size: a number of either sign, or a row."""
        n = self.number((1 << 66) - 1, "size")
        if n & 1:
            return self.row(n >> 1, "Dim")
        n >>= 1
        found = -(n + 1 >> 1) if n & 1 else n >> 1
        if not LEAST <= found <= MOST:
            raise self.no(f"the size {found}, which 64 bits do not hold", "bytecode.C3")
        return found

    def field(self, form: str) -> Any:
        """A value of a form."""
        of, optional = element_form(form), rest(form)
        if of is not None:
            return self.all(lambda: self.field(of))
        if optional is not None:
            n = self.number(MOST)
            return None if n == 0 else self.row(n - 1, optional) if optional in ROWS else n - 1
        if form == "Dim":
            return self.dim()
        if form in ROWS:
            return self.row(self.number(MOST, "row"), form)
        if form == "str":
            return self.text()
        if form == "bool":
            return bool(self.number(1, "truth"))
        if form == "Register":
            return self.number(MOST_REGISTERS - 1, "register")
        return self.number(MOST)


def _executable(of: _Reader) -> Bytecode:
    functions: dict[str, BytecodeFunction] = {}
    for function in of.all(lambda: _function(of)):
        if function.name in functions:
            raise of.no(f"the function {function.name!r} stands twice", "bytecode.C4")
        functions[function.name] = function
    inputs, outputs = of.field("tuple[str, ...]"), of.field("tuple[str, ...]")
    late, devices = _pairs(of, "str", "TensorType"), _pairs(of, "str", "VirtualDevice")
    return Bytecode(functions, inputs, outputs, late, devices, of.field("VirtualDevice"))


def _pairs(of: _Reader, key: str, value: str) -> dict[Any, Any]:
    """A mapping. A key that stands twice is not written so."""
    return {k: v for k, v in of.all(lambda: (of.field(key), of.field(value)))}


def _function(of: _Reader) -> BytecodeFunction:
    return BytecodeFunction(
        name=of.text(),
        parameters=of.field("tuple[Type, ...]"),
        result=of.field("Type"),
        registers=of.number(MOST_REGISTERS, "number of registers"),
        captured=of.number(MOST_REGISTERS),
        sizes=of.field("tuple[Size, ...]"),
        inherited=of.number(MOST_REGISTERS),
        type_params=of.field("tuple[TypeVar, ...]"),
        names=_pairs(of, "Register", "str"),
        limits=of.all(lambda: (of.field("Size"), of.number(MOST), of.field("int | None"))),
        body=of.all(lambda: _instruction(of)),
    )


def _instruction(of: _Reader) -> Instruction:
    kind = INSTRUCTIONS[of.number(len(INSTRUCTIONS) - 1, "instruction")]
    span = of.field("Span | None")
    return kind(**{name: of.field(form) for name, form in FIELDS[kind]}, span=span)
