"""A place in the words of a StableHLO text, and its types and attribute values (specs/lower.md, "StableHLO")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NoReturn

from assay.lower.frontends.places import Places, Token, TokenCursor
from assay.lower.frontends.stablehlo.syntax import (
    Dense,
    Dialect,
    QuantizedElement,
    RefusedType,
    Symbolic,
    TensorText,
    TupleText,
    TypeText,
    Use,
)
from assay.semantics.digits import is_size
from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.tasks import Task
from assay.semantics.types import MOST_AXES

MOST_DEPTH = 512
"""Brackets inside one another; more are refused."""

_FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f4E2M1FN": "float4_e2m1fn"}
_FLOAT8 = re.compile(r"f8(E[0-9]M[0-9](?:B11)?(?:FNUZ|FNU|FN)?)")


def element_type(name: str) -> DType | None:
    """The dtype that a scalar type's name says; None where we have none."""
    if name == "i1":
        return BOOL
    if name == "index":
        return INT64
    if found := re.fullmatch(r"(ui|si|i)([0-9]{1,2})", name):
        return DTYPES.get(("uint" if found[1] == "ui" else "int") + found[2])
    if found := _FLOAT8.fullmatch(name):
        return DTYPES.get("float8_" + found[1].lower())
    return DTYPES.get(_FLOATS.get(name, ""))


class WordReader(TokenCursor):
    """A place in a list of words. What is wrong is said at a word."""

    def __init__(self, places: Places, tokens: list[Token]) -> None:
        super().__init__(places, tokens)
        self.depth = 0
        self.aliases: dict[str, Any] = {}
        """What `#name = ...` and `!name = ...` at the top of the text stand for."""

    # --- words -----------------------------------------------------------------------------------------------------

    def need(self, text: str) -> Token:
        """The next word, which must be this one."""
        token = self.next
        if not self.when(text):
            self.wrong(token, f"{text!r} expected, found {token.text[:40]!r}")
        return token

    def need_kind(self, kind: str, what: str) -> Token:
        """The next word, which must be of this kind."""
        token = self.take()
        if token.kind != kind:
            self.wrong(token, f"{what} expected, found {token.text[:40]!r}")
        return token

    def wrong(self, token: Token, message: str) -> NoReturn:
        """Raise Invalid (`stablehlo.C1`) at a word."""
        raise self.places.failure(Invalid, token.start, token.end, message, "stablehlo.C1")

    def items(self, close: str) -> Iterator[None]:
        """A step for each item up to `close`, with commas between them."""
        self.deeper()
        while not self.when(close):
            yield
            if not self.when(","):
                self.need(close)
                break
        self.depth -= 1

    def deeper(self) -> None:
        """One bracket more is open; Invalid (`stablehlo.C2`) for too many."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            token = self.next
            message = f"more than {MOST_DEPTH} brackets inside one another"
            raise self.places.failure(Invalid, token.start, token.end, message, "stablehlo.C2")

    def skip_balanced(self) -> None:
        """Pass over what stands in the brackets that open here."""
        opened = 0
        while True:
            token = self.take()
            if token.kind == "end":
                self.wrong(token, "a bracket is not closed")
            opened += (token.text in ("(", "<", "[", "{")) - (token.text in (")", ">", "]", "}"))
            if opened <= 0:
                return

    def location(self) -> None:
        """Pass over `loc(...)`, where one stands."""
        if self.next.text == "loc" and self.ahead(1).text == "(":
            self.take()
            self.skip_balanced()

    # --- types -----------------------------------------------------------------------------------------------------

    def type(self) -> Task[TypeText]:
        """Read a type."""
        token = self.take()
        if token.kind == "tensor":
            return (yield from self.tensor_type(token))
        if token.text == "tuple":
            self.need("<")
            fields: list[TypeText] = []
            for _ in self.items(">"):
                fields.append((yield self.type()))
            return TupleText(tuple(fields))
        if token.text in ("!stablehlo.token", "!mhlo.token"):
            return TupleText()
        if token.kind == "alias" and token.text in self.aliases:
            known = self.aliases[token.text]
            if isinstance(known, (TensorText, TupleText, RefusedType)):
                return known
        if token.kind == "alias":
            if self.next.text == "<":
                self.skip_balanced()
            return RefusedType(f"the type {token.text}")
        if token.kind == "name":
            self.at -= 1
            element = self.element()
            return element if isinstance(element, RefusedType) else TensorText((), element)
        self.wrong(token, f"a type expected, found {token.text[:40]!r}")

    def tensor_type(self, token: Token) -> Task[TypeText]:
        """Read the rest of a tensor type; its sizes are in the word."""
        sizes = token.text.removeprefix("tensor<").split("x")[:-1]
        element = self.element()
        bounds: tuple[int | None, ...] = ()
        refused = "" if "*" not in sizes else "a tensor of unknown rank"
        if len(sizes) > MOST_AXES:
            refused = f"a tensor of {len(sizes)} axes; {MOST_AXES} are the most"
        if self.when(","):
            encoding = yield self.value()
            is_bounds = isinstance(encoding, Dialect) and encoding.name.endswith(".bounds")
            if not is_bounds:
                refused = "a tensor with an encoding that is not #stablehlo.bounds<...>"
            else:
                bounds = tuple(None if w == "?" else int(w) for w in encoding.words if w == "?" or is_size(w))
        self.need(">")
        if isinstance(element, RefusedType) or refused:
            return element if isinstance(element, RefusedType) else RefusedType(refused)
        for s in sizes:
            if s != "?" and not is_size(s):
                self.wrong(token, f"{s} is no size: 2^63 and more is too large")
        return TensorText(tuple(None if s == "?" else int(s) for s in sizes), element, bounds)

    def element(self) -> DType | QuantizedElement | RefusedType:
        """Read an element type."""
        token = self.take()
        if token.text == "complex":
            self.skip_balanced()
            return RefusedType("complex numbers")
        if token.text in ("!quant.uniform", "!quant"):
            return self.quantized(token)
        if token.kind == "name" and (of := element_type(token.text)) is not None:
            return of
        if token.kind == "name" and re.fullmatch(r"(ui|si|i|f|bf|tf)[0-9]\w*", token.text):
            return RefusedType(f"elements of type {token.text}")
        self.wrong(token, f"an element type expected, found {token.text[:40]!r}")

    def quantized(self, token: Token) -> QuantizedElement | RefusedType:
        """Read `<i8<-127:127>:f32:axis, {scale:zero, ...}>` after the word."""
        self.need("<")
        name = self.need_kind("name", "a storage type").text
        storage = element_type(name.replace("u", "ui") if re.fullmatch(r"u[0-9]+", name) else name)
        if storage is None or not storage.is_integer:
            self.wrong(token, f"{name} is no storage type of quantised elements")
        low, high = int(storage.min), int(storage.max)
        if self.when("<"):
            low = self.whole()
            self.need(":")
            high = self.whole()
            self.need(">")
        self.need(":")
        expressed = element_type(self.need_kind("name", "an expressed type").text)
        if expressed is None or not expressed.is_float:
            self.wrong(token, "the expressed type of quantised elements is a float")
        axis = None
        if self.when(":"):
            axis = self.whole()
            if self.next.text == ":" or self.next.text == "{":
                self.wrong(self.next, "',' expected")
        self.need(",")
        pairs: list[tuple[float, int]] = []
        if self.when("{"):
            if self.next.text == "{" or axis is None:
                self.at = self.balanced_end(token)
                return RefusedType("elements that are quantised by blocks")
            for _ in self.items("}"):
                pairs.append(self.scale(token))
        else:
            pairs.append(self.scale(token))
        self.need(">")
        if not low < high or not all(low <= z <= high for _, z in pairs):
            self.wrong(token, "the storage's least number is below its greatest, and zero points lie between them")
        scales, zeros = zip(*pairs, strict=True)
        return QuantizedElement(storage, low, high, expressed, axis, scales, zeros)

    def balanced_end(self, token: Token) -> int:
        """Where the words go on after the `<` that follows `token` is closed."""
        self.at = next(i for i in range(self.at, -1, -1) if self.tokens[i] is token) + 1
        self.skip_balanced()
        return self.at

    def scale(self, token: Token) -> tuple[float, int]:
        """Read `scale` or `scale:zero_point`. A scale is a finite number above 0."""
        scale = float(self.need_kind("number", "a scale").text)
        if not (scale > 0 and isfinite(scale)):
            self.wrong(token, "a scale is a finite number above 0")
        return scale, self.whole() if self.when(":") else 0

    def whole(self) -> int:
        """Read a whole number of 64 bits."""
        token = self.need_kind("number", "a whole number")
        try:
            value = int(token.text, 0) if "x" in token.text else int(token.text)
        except ValueError:
            self.wrong(token, f"a whole number expected, found {token.text[:40]!r}")
        if not -(2**63) <= value < 2**64:
            self.wrong(token, "a number of more than 64 bits")
        return value

    def types(self, notes: list[dict[str, Any]] | None = None) -> Task[list[TypeText]]:
        """Read a type, or several in parentheses, each maybe with attributes, which `notes` gets, and a location."""
        found: list[TypeText] = []
        if not self.when("("):
            found.append((yield self.type()))
            return found
        for _ in self.items(")"):
            found.append((yield self.type()))
            said = (yield self.dictionary()) if self.next.text == "{" else {}
            if notes is not None:
                notes.append(said)
            self.location()
        return found

    # --- values of attributes --------------------------------------------------------------------------------------

    def use(self) -> Use:
        """Read `%name` or `%name#index`."""
        token = self.need_kind("value", "a value such as %0")
        name, _, index = token.text[1:].partition("#")
        return Use(name, int(index) if index else None, token.start, token.end)

    def dictionary(self) -> Task[dict[str, Any]]:
        """Read `{name = value, name, ...}`; a name alone is True."""
        self.need("{")
        return (yield from self.fields("}"))

    def fields(self, close: str) -> Task[dict[str, Any]]:
        """Read `name = value, ...` up to a sign."""
        found: dict[str, Any] = {}
        for _ in self.items(close):
            token = self.take()
            if token.kind not in ("name", "text"):
                self.wrong(token, f"the name of an attribute expected, found {token.text[:40]!r}")
            name = token.text.strip('"')
            if name in found:
                self.wrong(token, f"the attribute {name} is given twice")
            found[name] = (yield self.value()) if self.when("=") else True
        return found

    def value(self, typed: bool = True) -> Task[Any]:  # noqa: C901  (a case for each kind of value)
        """Read the value of an attribute. A list is a tuple, a type is a `TypeText`. A number may have a type behind
        it, but not in a short form, where the types of the operation may follow."""
        token = self.next
        match token.kind, token.text:
            case "number", _:
                self.take()
                number: Any = float(token.text) if "." in token.text else self.number(token)
                if typed and self.when(":"):
                    of = yield self.type()
                    if "x" in token.text and isinstance(of, TensorText) and of.dtype.is_float:
                        return Dense(token.text, token.start, of)
                    if isinstance(of, TensorText) and of.dtype.is_float:
                        return float(number)
                return number
            case "name", "true" | "false":
                self.take()
                return token.text == "true"
            case "name", "unit":
                self.take()
                return True
            case "name", "array":
                self.take()
                return (yield from self.array())
            case "name", "loc" | "affine_map" | "affine_set" | "dense_resource" | "sparse" | "distinct" | "strided":
                self.take()
                self.skip_balanced()
                if self.when(":"):
                    yield self.type()
                return Dialect(token.text)
            case "dense", text:
                self.take()
                of = (yield self.type()) if self.when(":") else None
                return Dense(text[6:-1], token.start + 6, of)
            case "text", text:
                self.take()
                if self.when(":"):
                    yield self.type()
                return text[1:-1]
            case "symbol", text:
                self.take()
                while self.when("::"):
                    text = self.need_kind("symbol", "a symbol").text
                return Symbolic(text[1:].strip('"'))
            case "sign", "[":
                self.take()
                found: list[Any] = []
                for _ in self.items("]"):
                    found.append((yield self.value()))
                return tuple(found)
            case "sign", "{":
                return (yield from self.dictionary())
            case "attribute", text:
                self.take()
                if text in self.aliases:
                    return self.aliases[text]
                return (yield from self.dialect(text[1:]))
            case "tensor", _:
                return (yield self.type())
            case "name" | "alias", _:
                return (yield from self.word(token))
            case "sign", "<":
                return (yield from self.dialect(""))
        self.wrong(token, f"the value of an attribute expected, found {token.text[:40]!r}")

    def word(self, token: Token) -> Task[Any]:
        """A type, or a word that stands for itself."""
        if token.kind == "alias" or token.text == "tuple" or element_type(token.text) is not None:
            return (yield self.type())
        self.take()
        return token.text

    def number(self, token: Token) -> int:
        """A whole number."""
        self.at -= 1
        return self.whole()

    def array(self) -> Task[tuple[Any, ...]]:
        """Read `<i64: 1, 2>` after the word."""
        self.need("<")
        yield self.type()
        found: list[Any] = []
        if self.when(":"):
            for _ in self.items(">"):
                found.append((yield self.value()))
        else:
            self.need(">")
        return tuple(found)

    def dialect(self, name: str) -> Task[Dialect]:
        """Read what follows `#dialect.name`: fields, or words."""
        if not self.when("<"):
            return Dialect(name)
        if self.next.kind == "name" and self.ahead(1).text in ("=", ",", ">") and not name.endswith("bounds"):
            fields = yield self.fields(">")
            return Dialect(name, fields, tuple(fields))
        words: list[str] = []
        opened = 1
        while opened:
            token = self.take()
            if token.kind == "end":
                self.wrong(token, "a bracket is not closed")
            opened += (token.text == "<") - (token.text == ">")
            if opened:
                words.append(token.text)
        return Dialect(name, {}, tuple(words))

    def refused(self, start: int, end: int, what: str) -> Unsupported:
        """The failure (`stablehlo.C4`) for what is well written and not handled."""
        failure = self.places.failure(Unsupported, start, end, f"{what} is not handled", "stablehlo.C4")
        assert isinstance(failure, Unsupported)
        return failure
