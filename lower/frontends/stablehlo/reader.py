"""The operations, regions, functions and modules of a StableHLO text (specs/lower.md, "StableHLO").

An operation stands in the generic form, `"stablehlo.add"(%0, %1) : (T, T) -> T`, or in a short one. Most short forms
are alike: operands, words and `name = value` in any order, then the types. Those that are not have a rule in `SHORT`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.lower.frontends.places import Places, Token
from assay.lower.frontends.stablehlo.lexer import hlo_words
from assay.lower.frontends.stablehlo.syntax import (
    FunctionText,
    ModuleText,
    Operation,
    Param,
    Region,
    TypeText,
)
from assay.lower.frontends.stablehlo.words import WordReader
from assay.semantics.tasks import Task, run_task

UNPREFIXED = {"call": "func.call", "return": "func.return"}
"""Operations of `func`, which is left out in its functions."""

MESH = "sdy.mesh"
"""The operation that names the devices that values are spread over, which says nothing of their elements."""


def named_by(notes: dict[str, Any]) -> str:
    """The name that our own export gives a parameter or result of main; "" where there is none."""
    found = notes.get("assay.name", "")
    return found if isinstance(found, str) else ""


def module_texts(places: Places) -> list[ModuleText]:
    """The modules of a text; what stands outside of one is a module of its own. Invalid (`stablehlo.C1`)."""
    return run_task(ModuleReader(places, hlo_words(places)).modules())


class ModuleReader(WordReader):
    """Reads modules, functions, regions and operations."""

    # --- modules ---------------------------------------------------------------------------------------------------

    def modules(self) -> Task[list[ModuleText]]:
        """Read all of the text."""
        found: list[ModuleText] = []
        loose = ModuleText("")
        while self.next.kind != "end":
            token = self.next
            if token.kind == "split":
                self.take()
                if loose.functions:
                    found.append(loose)
                loose, self.aliases = ModuleText(""), {}
            elif token.kind in ("attribute", "alias") and self.ahead(1).text == "=":
                self.take()
                self.take()
                self.aliases[token.text] = (yield self.value()) if token.kind == "attribute" else (yield self.type())
            elif token.text in ("module", "builtin.module"):
                found.append((yield self.module()))
            elif token.text == '"builtin.module"':
                found.append((yield self.generic_module()))
            else:
                yield self.function_into(loose)
        if loose.functions or not found:
            found.append(loose)
        return found

    def module(self) -> Task[ModuleText]:
        """Read `module @name attributes {...} { functions }`."""
        self.take()
        made = ModuleText(self.take().text[1:] if self.next.kind == "symbol" else "")
        if self.when("attributes"):
            yield self.dictionary()
        self.need("{")
        while not self.when("}"):
            yield self.function_into(made)
        self.location()
        return made

    def generic_module(self) -> Task[ModuleText]:
        """Read `"builtin.module"() <{...}> ({ functions }) : () -> ()`."""
        made = ModuleText("")
        op = yield self.operation(True)
        for region in op.regions:
            for inner in region.body:
                if inner.name == MESH:
                    continue
                self.add(made, self.function_of(inner))
        return made

    def function_into(self, module: ModuleText) -> Task[None]:
        """Read a function into a module."""
        token = self.next
        if token.text == "func.func":
            self.add(module, (yield self.function()))
        elif token.text == '"func.func"':
            self.add(module, self.function_of((yield self.operation(True))))
        elif token.text.strip('"') == MESH:
            yield self.operation()
        else:
            self.wrong(token, f"a function, func.func, expected, found {token.text[:40]!r}")

    def add(self, module: ModuleText, function: FunctionText) -> None:
        """Give a module one more function; Invalid (`stablehlo.C1`) for a second one of a name."""
        if module.functions.setdefault(function.name, function) is not function:
            self.wrong(Token("", "", function.start, function.end), f"two functions are called @{function.name}")

    def function_of(self, op: Operation) -> FunctionText:
        """The function that a `"func.func"` in the generic form is."""
        token = Token("", "", op.start, op.end)
        name = op.attrs.get("sym_name")
        if op.name != "func.func" or not isinstance(name, str) or len(op.regions) != 1:
            self.wrong(token, f"a function expected, found {op.name}")
        region = op.regions[0]
        of = op.attrs.get("function_type")
        results = list(of[1]) if isinstance(of, tuple) and len(of) == 2 else []
        private = op.attrs.get("sym_visibility") == "private"
        return FunctionText(name, private, region.params, results, region, op.start, op.end)

    def function(self) -> Task[FunctionText]:
        """Read `func.func private @name(%a: T {...}) -> T attributes {...} { operations }`."""
        start = self.take()
        private = False
        while self.next.text in ("public", "private", "nested"):
            private = self.take().text != "public"
        name = self.need_kind("symbol", "the name of a function, such as @main")
        self.need("(")
        params: list[Param] = []
        for _ in self.items(")"):
            params.append((yield self.param(declared=True)))
        results: list[TypeText] = []
        notes: list[dict[str, Any]] = []
        if self.when("->"):
            results = yield self.types(notes)
        if self.when("attributes"):
            yield self.dictionary()
        body = None
        if self.when("{"):
            body = yield self.region()
        self.location()
        given = tuple(named_by(n) for n in notes)
        return FunctionText(name.text[1:].strip('"'), private, params, results, body, start.start, name.end, given)

    def param(self, declared: bool = False) -> Task[Param]:
        """Read `%name: type {attributes} loc(...)`; a function that is only declared may leave out the name."""
        token = self.next
        name = ""
        if token.kind == "value" or not declared:
            name = self.need_kind("value", "a parameter such as %arg0").text[1:]
            self.need(":")
        of = yield self.type()
        notes = (yield self.dictionary()) if self.next.text == "{" else {}
        self.location()
        return Param(name, of, token.start, named_by(notes))

    # --- regions ---------------------------------------------------------------------------------------------------

    def region(self) -> Task[Region]:
        """Read the operations of a region, after its bracket, up to the one that closes it."""
        self.deeper()
        made = Region()
        if self.next.kind == "block":
            self.take()
            if self.when("("):
                for _ in self.items(")"):
                    made.params.append((yield self.param()))
            self.need(":")
        while not self.when("}"):
            if self.next.kind == "block":
                self.wrong(self.next, "a region of several blocks; StableHLO's have one")
            made.body.append((yield self.operation()))
        self.depth -= 1
        return made

    # --- operations ------------------------------------------------------------------------------------------------

    def operation(self, only_generic: bool = False) -> Task[Operation]:
        """Read an operation."""
        results: list[tuple[str, int]] = []
        if self.next.kind == "value":
            while True:
                token = self.need_kind("value", "a result such as %0")
                count = self.whole() if self.when(":") else 1
                if "#" in token.text or not 0 < count < 1 << 16:
                    self.wrong(token, "a result is a name, and maybe how many values it has: %0:2")
                results.append((token.text[1:], count))
                if not self.when(","):
                    break
            self.need("=")
        token = self.take()
        if token.kind == "text":
            op = Operation(token.text[1:-1], token.start, token.end, results)
            yield self.generic(op)
        elif token.kind == "name" and not only_generic:
            op = Operation(UNPREFIXED.get(token.text, token.text), token.start, token.end, results)
            yield SHORT.get(op.name, ModuleReader.short)(self, op)
        else:
            self.wrong(token, f"an operation expected, found {token.text[:40]!r}")
        self.location()
        return op

    def generic(self, op: Operation) -> Task[None]:
        """Read `(operands) <{properties}> ({ regions }) {attributes} : (types) -> types`."""
        self.need("(")
        for _ in self.items(")"):
            op.operands.append(self.use())
        if self.next.text == "[":
            self.wrong(self.next, "an operation with successors; StableHLO has none")
        if self.next.text == "<" and self.ahead(1).text == "{":
            self.take()
            yield self.attributes(op)
            self.need(">")
        if self.when("("):
            for _ in self.items(")"):
                self.need("{")
                op.regions.append((yield self.region()))
        if self.next.text == "{":
            yield self.attributes(op)
        self.need(":")
        yield self.signature(op)

    def attributes(self, op: Operation) -> Task[None]:
        """Read `{name = value, ...}`, which add to those that the operation has."""
        if op.name == "func.func":
            yield self.function_attributes(op)
            return
        token = self.next
        for name, value in (yield self.dictionary()).items():
            if name in op.attrs:
                self.wrong(token, f"the attribute {name} is given twice")
            op.attrs[name] = value

    def function_attributes(self, op: Operation) -> Task[None]:
        """Read the attributes of a function, of which one is a function type."""
        self.need("{")
        for _ in self.items("}"):
            name = self.take().text.strip('"')
            if not self.when("="):
                op.attrs[name] = True
            elif name == "function_type":
                params = yield self.types()
                self.need("->")
                op.attrs[name] = (params, (yield self.types()))
            else:
                op.attrs[name] = yield self.value()

    def signature(self, op: Operation) -> Task[None]:
        """Read the types after the colon: those of operands and results, or one for all."""
        listed: list[TypeText] = []
        in_brackets = self.next.text == "("
        while True:
            listed += yield self.types()
            if self.when("->"):
                op.operand_types, op.types = listed, (yield self.types())
                return
            if in_brackets or not self.when(","):
                break
        op.types = listed

    def short(self, op: Operation) -> Task[None]:
        """Read the short form that most operations have."""
        opened = 0
        while True:
            token = self.next
            if token.kind == "value":
                op.operands.append(self.use())
            elif token.text == "{":
                yield self.attributes(op)
            elif token.kind == "name" and self.ahead(1).text == "=":
                yield self.named(op)
            elif token.text == "(":
                opened += 1
                self.take()
            elif token.text == ")" and opened:
                opened -= 1
                self.take()
            elif token.text == ",":
                self.take()
            elif token.kind in ("name", "symbol", "text", "number", "dense", "attribute") or token.text == "[":
                if token.kind == "name" and not opened and ("." in token.text or token.text in UNPREFIXED):
                    return  # the next operation: this one has no types
                op.words.append((yield self.value(typed=False)))
            else:
                break
        if opened:
            self.wrong(self.next, f"')' expected, found {self.next.text[:40]!r}")
        if self.when(":"):
            yield self.signature(op)
        if self.next.text == "{":
            yield self.attributes(op)

    def named(self, op: Operation) -> Task[None]:
        """Read `name = value`, or `name = value x value` for both operands of a product."""
        token = self.take()
        self.need("=")
        if token.text in op.attrs:
            self.wrong(token, f"the attribute {token.text} is given twice")
        value = yield self.value(typed=False)
        if self.when("x"):
            value = (value, (yield self.value(typed=False)))
        op.attrs[token.text] = value

    def slice(self, op: Operation) -> Task[None]:
        """Read `%x [start:limit:stride, ...] : (T) -> T`."""
        op.operands.append(self.use())
        self.need("[")
        bounds: list[tuple[int, int, int]] = []
        for _ in self.items("]"):
            start = self.whole()
            self.need(":")
            limit = self.whole()
            bounds.append((start, limit, self.whole() if self.when(":") else 1))
        names = ("start_indices", "limit_indices", "strides")
        op.attrs.update({n: tuple(b[k] for b in bounds) for k, n in enumerate(names)})
        yield self.short(op)

    def constant(self, op: Operation) -> Task[None]:
        """Read `{attributes} dense<...> : T`, or a value with a type."""
        if self.next.text == "{":
            yield self.attributes(op)
        op.attrs["value"] = yield self.value()
        of = getattr(op.attrs["value"], "type", None)
        op.types = [of] if of is not None else []
        if not op.types:
            self.wrong(self.next, "a constant is dense<...> with its type")

    def reduce(self, op: Operation) -> Task[None]:
        """Read `(%x init: %v), ... applies operator across dimensions = [...] : (...) -> T`, or with a `reducer`."""
        inits = []
        while True:
            self.need("(")
            op.operands.append(self.use())
            self.need("init")
            self.need(":")
            inits.append(self.use())
            self.need(")")
            if not self.when(","):
                break
        op.operands += inits
        applied = self.need_kind("name", "an operator").text if self.when("applies") else ""
        self.need("across")
        self.need("dimensions")
        self.need("=")
        op.attrs["dimensions"] = yield self.value()
        if self.next.text == "{":
            yield self.attributes(op)
        self.need(":")
        yield self.signature(op)
        op.attrs["applies"] = applied
        if not applied:
            yield self.reducer(op, len(inits))

    def reducer(self, op: Operation, count: int) -> Task[None]:
        """Read `reducer(%a: T, %b: T) (...) { ... }`: for each operand what was there and what comes."""
        self.need("reducer")
        pairs: list[tuple[Param, Param]] = []
        for _ in range(count):
            self.need("(")
            first = yield self.param()
            self.need(",")
            pairs.append((first, (yield self.param())))
            self.need(")")
        self.need("{")
        region = yield self.region()
        region.params = [p[0] for p in pairs] + [p[1] for p in pairs]
        op.regions.append(region)

    def loop(self, op: Operation) -> Task[None]:
        """Read `(%a = %x, ...) : T, ... cond { ... } do { ... }`."""
        self.need("(")
        names: list[tuple[str, int]] = []
        for _ in self.items(")"):
            token = self.need_kind("value", "a variable of the loop")
            names.append((token.text[1:], token.start))
            self.need("=")
            op.operands.append(self.use())
        if self.when(":"):
            yield self.signature(op)
        if self.when("attributes"):
            yield self.attributes(op)
        if len(op.types) != len(names):
            self.wrong(self.next, f"{len(names)} types expected, one for each variable of the loop")
        for word in ("cond", "do"):
            self.need(word)
            self.need("{")
            region = yield self.region()
            region.params = [Param(n, t, at) for (n, at), t in zip(names, op.types, strict=True)]
            op.regions.append(region)

    def convolution(self, op: Operation) -> Task[None]:
        """Read `(%x, %w) dim_numbers = [...]x[...]->[...], window = {...} {attributes} : (...) -> T`."""
        self.need("(")
        for _ in self.items(")"):
            op.operands.append(self.use())
        self.need("dim_numbers")
        self.need("=")
        op.attrs["dimension_numbers"] = self.dim_numbers()
        self.need(",")
        self.need("window")
        self.need("=")
        window = yield self.dictionary()
        known = {"stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation",
                 "rhs_dilate": "rhs_dilation", "reverse": "window_reversal"}  # fmt: skip
        for name, value in window.items():
            if name not in known:
                self.wrong(self.next, f"window has no {name}; it has {', '.join(known)}")
            op.attrs[known[name]] = value
        yield self.short(op)

    def dim_numbers(self) -> tuple[str, ...]:
        """Read `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` as words."""
        words: list[str] = []
        for k in range(3):
            if k:
                self.need("x" if k == 1 else "->")
                words.append(",")
            self.need("[")
            for _ in self.items("]"):
                words.append(self.take().text)
        return tuple(words)

    def element_of_tuple(self, op: Operation) -> Task[None]:
        """Read `%t[index] : (tuple<...>) -> T`."""
        op.operands.append(self.use())
        self.need("[")
        op.attrs["index"] = self.whole()
        self.need("]")
        yield self.short(op)

    def mesh(self, op: Operation) -> Task[None]:
        """Read `@name = <...> {attributes}`."""
        self.need_kind("symbol", "the name of a mesh")
        self.need("=")
        self.bracketed()
        if self.next.text == "{":
            yield self.attributes(op)

    def placed(self, op: Operation) -> Task[None]:
        """Read `%x <@mesh, [...]> : T`."""
        op.operands.append(self.use())
        self.bracketed()
        yield self.short(op)

    def bracketed(self) -> None:
        """Pass over `<...>`."""
        if self.next.text != "<":
            self.wrong(self.next, f"'<' expected, found {self.next.text[:40]!r}")
        self.skip_balanced()

    def named_call(self, op: Operation) -> Task[None]:
        """Read `@name(%a, ...) {attributes} : (...) -> ...`."""
        token = self.need_kind("symbol", "the name of a function")
        op.attrs["callee"] = token.text[1:].strip('"')
        yield self.short(op)


SHORT: dict[str, Callable[[ModuleReader, Operation], Task[Any]]] = {
    "stablehlo.constant": ModuleReader.constant,
    "stablehlo.convolution": ModuleReader.convolution,
    "stablehlo.custom_call": ModuleReader.named_call,
    "stablehlo.get_tuple_element": ModuleReader.element_of_tuple,
    "stablehlo.reduce": ModuleReader.reduce,
    "stablehlo.slice": ModuleReader.slice,
    "stablehlo.while": ModuleReader.loop,
    "func.call": ModuleReader.named_call,
    "sdy.mesh": ModuleReader.mesh,
    "sdy.sharding_constraint": ModuleReader.placed,
    "sdy.reshard": ModuleReader.placed,
}
"""The short forms that are not like the others."""
