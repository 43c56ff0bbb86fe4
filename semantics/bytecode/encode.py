"""Bytecode as bytes (specs/semantics.md; specs/vm.md, "File").

    code, companion = encode_bytecode(module)        # and `assay.semantics.store.encode_root(companion, arrays)`

Equal executables give equal bytes: nothing is written that could be written in two ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from assay.semantics.bytecode import Bytecode, BytecodeFunction
from assay.semantics.bytecode.code_form import FIELDS, MAGIC, NUMBERS, ROWS, VERSION, Companion, Row, element_form, rest
from assay.semantics.errors import Invalid
from assay.semantics.module import Module


def encode_bytecode(module: Module) -> tuple[bytes, Companion]:
    """The bytecode of a module as bytes, and what stands beside it."""
    to = _Writer()
    _executable(to, module.bytecode)
    rest_of_module = replace(module, definitions={n: d for n, d in module.definitions.items() if n != "main"})
    return to.finished(), Companion(rest_of_module, tuple(to.rows))


def number_bytes(n: int) -> bytes:
    """A whole number that is not negative, in groups of seven bits."""
    found = bytearray()
    while n > 0x7F:
        found.append(n & 0x7F | 0x80)
        n >>= 7
    found.append(n)
    return bytes(found)


class _Writer:
    """Bytes, and the tables that they name rows of."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.texts: dict[str, int] = {}
        self.rows: list[Row] = []
        self.known: dict[int, int] = {}

    def finished(self) -> bytes:
        """All bytes: the head, the texts, then what was written."""
        texts = (t.encode("utf-8") for t in self.texts)
        table = b"".join(number_bytes(len(t)) + t for t in texts)
        return MAGIC + number_bytes(VERSION) + number_bytes(len(self.texts)) + table + bytes(self.data)

    def number(self, n: int) -> None:
        """A number from 0. Invalid (bytecode.C3): it is below."""
        if n < 0:
            raise Invalid(f"{n} stands where a number from 0 is wanted", label="bytecode.C3")
        self.data += number_bytes(n)

    def text(self, text: str) -> None:
        """A text, by its row."""
        self.number(self.texts.setdefault(text, len(self.texts)))

    def row_number(self, of: Row) -> int:
        """The number of a row; a new one where it is not there yet."""
        if id(of) not in self.known:
            self.known[id(of)] = len(self.rows)
            self.rows.append(of)
        return self.known[id(of)]

    def all(self, some: Sequence[Any], form: str) -> None:
        """A list: how many, then each."""
        self.number(len(some))
        for one in some:
            self.field(one, form)

    def field(self, value: Any, form: str) -> None:
        """A value of a form."""
        of, optional = element_form(form), rest(form)
        if of is not None:
            self.all(value, of)
        elif optional == "Span":
            self.number(0 if value is None else 1 + self.row_number(value))
        elif optional is not None:
            self.number(0 if value is None else 1 + value)
        elif form == "Dim" and isinstance(value, int):
            self.number((value << 1 if value >= 0 else (-value << 1) - 1) << 1)
        elif form == "Dim":
            self.number(self.row_number(value) << 1 | 1)
        elif form in ROWS:
            self.number(self.row_number(value))
        elif form == "str":
            self.text(value)
        else:
            self.number(int(value))


def _executable(to: _Writer, code: Bytecode) -> None:
    to.number(len(code.functions))
    for function in code.functions.values():
        _function(to, function)
    to.all(code.inputs, "str")
    to.all(code.outputs, "str")
    _pairs(to, code.late.items(), "str", "TensorType")
    _pairs(to, code.devices.items(), "str", "VirtualDevice")
    to.field(code.host, "VirtualDevice")


def _pairs(to: _Writer, pairs: Iterable[tuple[Any, Any]], key: str, value: str) -> None:
    pairs = list(pairs)
    to.number(len(pairs))
    for k, v in pairs:
        to.field(k, key)
        to.field(v, value)


def _function(to: _Writer, of: BytecodeFunction) -> None:
    to.text(of.name)
    to.all(of.parameters, "Type")
    to.field(of.result, "Type")
    to.number(of.registers)
    to.number(of.captured)
    to.all(of.sizes, "Size")
    to.number(of.inherited)
    to.all(of.type_params, "TypeVar")
    _pairs(to, sorted(of.names.items()), "Register", "str")
    to.number(len(of.limits))
    for size, least, most in of.limits:
        to.field(size, "Size")
        to.number(least)
        to.field(most, "int | None")
    to.number(len(of.body))
    for instruction in of.body:
        to.number(NUMBERS[type(instruction)])
        to.field(instruction.span, "Span | None")
        for name, form in FIELDS[type(instruction)]:
            to.field(getattr(instruction, name), form)
