"""The parts of Relay's grammar below expressions: types and attribute values (specs/lower.md, "Relay")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from assay.lower.frontends.places import Places, Token, TokenCursor
from assay.lower.frontends.relay.metadata import Metadata
from assay.lower.frontends.relay.syntax import RelayProgram
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tasks import Task
from assay.semantics.types import DataDef, DataType, FuncType, RefType, TensorType, TupleType, Type, TypeVar


def _digits(text: str) -> tuple[str, str]:
    """A real number without its suffix, and the width that this says."""
    if "f" not in text.removeprefix("inf"):
        return text, ""
    digits, _, width = text.rpartition("f")
    return digits, width


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), text)


class Hole(TypeVar):
    """A type that the text leaves open: `_`, or one that is found from its uses."""


class TokenReader(TokenCursor):
    """A place in a list of words, and what the names of types mean there."""

    def __init__(self, places: Places, tokens: list[Token], metadata: Metadata) -> None:
        super().__init__(places, tokens)
        self.comma = False
        """Whether a comma stood after the last item of a list."""
        self.metadata = metadata
        self.program = RelayProgram()
        self.type_params: dict[str, TypeVar] = {}
        self.symbols: dict[str, Symbol] = {}
        """Sizes that have a name, in one definition."""
        self.prelude_types: Mapping[str, DataDef] = {}

    # --- words -----------------------------------------------------------------------------------------------------

    def need(self, text: str, other: str = "") -> Token:
        """The next word, which must be this one. `other` says what it might have been as well."""
        token = self.next
        if not self.when(text):
            self.wrong(token, f"{text!r}{other} expected, found {token.text!r}")
        return token

    def need_kind(self, kind: str, what: str) -> Token:
        """Take a word of this kind; Invalid (`relay.C3`) if it is another."""
        token = self.take()
        if token.kind != kind:
            self.wrong(token, f"{what} expected, found {token.text!r}")
        return token

    def wrong(self, token: Token, message: str, label: str = "relay.C3") -> NoReturn:
        """Raise Invalid at a word."""
        raise self.places.failure(Invalid, token.start, token.end, message, label)

    def unsupported(self, start: int, end: int, message: str, label: str) -> NoReturn:
        """Raise Unsupported for the text between two offsets."""
        raise self.places.failure(Unsupported, start, end, message, label)

    def items(self, close: str) -> Iterator[None]:
        """A step for each item up to `close`: commas stand between them, and maybe one after them (`comma`)."""
        while not self.when(close):
            yield
            self.comma = self.when(",")
            if not self.comma:
                self.need(close, " or ','")
                return

    # --- types -----------------------------------------------------------------------------------------------------

    def type(self, name: str = "d", closed: str = "") -> Task[Type]:
        """A type. Sizes that it leaves open are fresh symbols, called after `name`; where it is `closed` by a data type
        or a reference no run could ask for them."""
        token = self.take()
        if token.text == "(":
            return (yield from self.tuple_type(name, closed))
        if token.text == "fn":
            return (yield from self.function_type())
        if token.text == "_":
            return Hole("_")
        if token.text == "ref" and token.kind == "name":
            self.need("(")
            value: Type = yield self.type(name, closed or "a reference")
            self.need(")")
            return RefType(value)
        if token.kind != "name":
            self.wrong(token, f"a type expected, found {token.text!r}")
        if token.text == "Tensor":
            return self.tensor_type(name, closed)
        if token.text in self.type_params:
            return self.type_params[token.text]
        if self.looks_scalar(token.text):
            return TensorType((), self.dtype(token))
        return (yield from self.data_type(token))

    def tuple_type(self, name: str, closed: str) -> Task[Type]:
        """Read a tuple type after its parenthesis; one type without a comma is that type."""
        fields: list[Type] = []
        for _ in self.items(")"):
            fields.append((yield self.type(f"{name}_{len(fields)}", closed)))
        return fields[0] if len(fields) == 1 and not self.comma else TupleType(tuple(fields))

    def function_type(self) -> Task[Type]:
        """Read `fn[T](...) -> R` after the word; its type parameters hold only inside."""
        outer, own = self.type_params, []
        if self.next.text == "[":
            own = self.type_parameters()
        self.need("(")
        params: list[Type] = []
        for _ in self.items(")"):
            params.append((yield self.type()))
        self.need("->")
        result: Type = yield self.type()
        self.type_params = outer
        return FuncType(tuple(params), result, type_params=tuple(own), pure=not self.program.references)

    def type_parameters(self) -> list[TypeVar]:
        """`[A, B]`; they mean something until `type_params` is set back."""
        self.need("[")
        found: list[TypeVar] = []
        self.type_params = dict(self.type_params)
        for _ in self.items("]"):
            token = self.need_kind("name", "the name of a type parameter")
            found.append(TypeVar(token.text))
            self.type_params[token.text] = found[-1]
        return found

    def tensor_type(self, name: str, closed: str) -> TensorType:
        """Read `Tensor[(sizes), dtype]` after the word."""
        self.need("[")
        self.need("(")
        dims: list[Dim] = []
        for _ in self.items(")"):
            dims.append(self.dim(f"{name}_{len(dims)}", closed))
        self.need(",")
        of = self.dtype(self.need_kind("name", "a dtype"))
        self.need("]")
        return TensorType(tuple(dims), of)

    def dim(self, name: str, closed: str) -> Dim:
        """Read a size: a number, a symbol, or `?`, which is a new symbol. Unsupported (`relay.C7`) for others."""
        token = self.take()
        if token.text == "?" and closed:
            message = f"a size inside {closed} cannot be left open: no run would know it"
            self.unsupported(token.start, token.end, message, "relay.C7")
        if token.text == "?":
            symbol = Symbol(name)
            self.program.unknown.add(symbol)
            return symbol
        if token.kind == "int":
            return int(token.text.split("i")[0])
        if token.kind == "name":
            return self.symbols.setdefault(token.text, Symbol(token.text))
        if token.kind == "meta":
            self.unsupported(token.start, token.end, f"a size that stands in the metadata, {token.text}", "relay.C7")
        self.wrong(token, f"a size or ? expected, found {token.text!r}")

    @staticmethod
    def looks_scalar(name: str) -> bool:
        """Whether a name is spelled as a dtype is, supported or not."""
        return name.rstrip("0123456789x") in ("int", "uint", "float", "bool", "bfloat") or name in DTYPES

    def dtype(self, token: Token) -> DType:
        """The dtype that a word names; Unsupported (`relay.C8`) if it is none of ours."""
        name = "bool" if token.text == "uint1" else token.text
        if name not in DTYPES:
            self.unsupported(token.start, token.end, f"the dtype {name}; supported are {', '.join(DTYPES)}", "relay.C8")
        return DTYPES[name]

    def data_type(self, token: Token) -> Task[Type]:
        """Read a data type after its name, with arguments. Invalid (`relay.C5`) if unknown or their number is wrong."""
        known = self.program.data.get(token.text)
        if known is None and token.text in self.prelude_types:
            known = self.prelude_types[token.text]
            self.program.uses_prelude = True
        if known is None:
            names = ", ".join([*self.type_params, *self.program.data]) or "none but Tensor, fn, tuples and scalars"
            self.wrong(token, f"no type is called {token.text}; there are {names}", "relay.C5")
        args: list[Type] = []
        for _ in self.items("]") if self.when("[") else ():
            args.append((yield self.type("d", f"the data type {token.text}")))
        if len(args) != len(known.type_params):
            message = f"{token.text} takes {len(known.type_params)} type arguments, {len(args)} given"
            self.wrong(token, message, "relay.C5")
        return DataType(known.name, tuple(args))

    # --- numbers and attribute values ------------------------------------------------------------------------------

    def number(self, token: Token, negative: bool) -> np.ndarray[Any, Any]:
        """The constant that a number is: int32 or float32 unless its suffix says otherwise."""
        text = token.text
        sign = -1 if negative else 1
        if token.kind == "int":
            digits, _, width = text.partition("i")
            value = sign * int(digits)
            of = DTYPES.get(f"int{width or 32}")
            if of is not None and "i" not in text and not of.min <= value <= of.max:
                of = DTYPES["int64"]
            if of is None or not of.min <= value <= of.max:
                self.wrong(token, f"{text} is no number of int{width or 32}", "relay.C6")
            return np.asarray(value).astype(of.numpy)
        digits, width = _digits(text)
        to = DTYPES.get(f"float{width or 32}")
        if to is None:
            self.wrong(token, f"there is no float{width}", "relay.C6")
        with np.errstate(all="ignore"):
            data = np.asarray(sign * float(digits)).astype(to.numpy)
        if np.isinf(data) and digits != "inf":
            self.wrong(token, f"{text} is no number of {to}", "relay.C6")
        return data

    def value(self) -> Task[Any]:
        """The value of an attribute: number, text, list, None; a list is a tuple."""
        token = self.take()
        match token.kind, token.text:
            case "sign", "-":
                inner = yield self.value()
                if isinstance(inner, bool) or not isinstance(inner, (int, float)):
                    self.wrong(token, "a number expected after -")
                return -inner
            case "int", text:
                return int(text.split("i")[0])
            case "float", _:
                return float(_digits(token.text)[0])  # Relay keeps all digits, whatever the suffix says
            case "text", text:
                return _unescaped(text[1:-1])
            case "meta", _:
                return self.metadata.value(self.places, token)
            case "name", "None" | "nullptr":
                return None
            case "name", "True" | "False":
                return token.text == "True"
            case "name", text:
                while self.next.text == "." and self.ahead(1).kind == "name":
                    self.take()
                    text += "." + self.take().text
                return text
            case "sign", "[" | "(" | "{":
                close = {"[": "]", "(": ")", "{": "}"}[token.text]
                found: list[Any] = []
                for _ in self.items(close):
                    found.append((yield self.value()))
                    if close == "}":
                        self.need(":")
                        found.append((yield self.value()))
                return found[0] if close == ")" and len(found) == 1 else tuple(found)
        self.wrong(token, f"the value of an attribute expected, found {token.text!r}")

    def attributes(self) -> Task[dict[str, Any]]:
        """`name=value, ...`; names may have dots."""
        found: dict[str, Any] = {}
        while self.next.kind == "name":
            token = self.take()
            name = token.text
            while self.when("."):
                name += "." + self.need_kind("name", "a name").text
            self.need("=")
            if name in found:
                self.wrong(token, f"the attribute {name} is given twice")
            found[name] = yield self.value()
            if not self.when(","):
                break
        return found
