"""Relay's grammar of expressions: bindings, calls, functions, matches (specs/lower.md, "Relay").

Expressions nest as deep as they like: each is a task, and a chain of bindings is a loop.
"""

from __future__ import annotations

import numpy as np

from assay.lower.frontends.places import Places, Token
from assay.lower.frontends.relay import syntax
from assay.lower.frontends.relay.metadata import Metadata
from assay.lower.frontends.relay.reader import TokenReader
from assay.lower.frontends.relay.syntax import Binder, Fn, RelayNode, RelayPattern
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.digits import is_digits
from assay.semantics.tasks import Task
from assay.semantics.types import Type

BINARY = {
    "*": ("multiply", 12), "/": ("divide", 12), "+": ("add", 10), "-": ("subtract", 10), "<": ("less", 8),
    ">": ("greater", 8), "<=": ("less_equal", 8), ">=": ("greater_equal", 8), "==": ("equal", 7),
    "!=": ("not_equal", 7),
}  # fmt: skip
"""Operators between operands, and how tightly they bind; equals from left to right."""

REFERENCES = {"ref": 1, "ref_read": 1, "ref_write": 2}


class Expressions(TokenReader):
    """Reads expressions. Names are resolved as they are read."""

    def __init__(self, places: Places, tokens: list[Token], metadata: Metadata) -> None:
        super().__init__(places, tokens, metadata)
        self.names: dict[str, Binder] = {}
        self.graphs: dict[str, syntax.Graph] = {}
        self.bound: list[syntax.Graph] = []
        """The graph bindings of a definition, in the order of the text."""
        self.makers: dict[str, tuple[str, str]] = {}
        self.free: list[Binder] = []
        self.uses: set[str] = set()
        self.program.references = any(t.kind == "name" and t.text in REFERENCES for t in tokens)

    def at_definition(self) -> None:
        """A definition ends where another begins, or the text ends."""
        if self.next.kind != "end" and self.next.text not in ("def", "type", "extern"):
            self.wrong(self.next, f"a definition or the end of the text expected, found {self.next.text!r}")

    # --- blocks ----------------------------------------------------------------------------------------------------

    def block(self, close: str) -> Task[RelayNode]:
        """Bindings and what they end in, up to `close`, which is taken; names bound in it end with it."""
        outer: list[tuple[str, Binder | None]] = []
        done: list[RelayNode] = []
        while True:
            token = self.next
            if token.kind == "graph" and self.ahead(1).text == "=":
                self.at += 2
                value: RelayNode = yield self.expression()
                graph = syntax.Graph(token.start, value.end, value)
                self.graphs[token.text] = graph
                self.bound.append(graph)
                done.append(graph)
                self.need(";")
            elif self.when("let"):
                done.append((yield self.let(token, outer)))
            elif self.when("free_var"):
                binder = yield self.local_binder()
                self.free.append(binder)
                self.names[binder.name] = binder
                self.need(";")
            else:
                body: RelayNode = yield self.expression()
                if not self.when(";"):
                    break
                done.append(syntax.Let(body.start, body.end, Binder("_", None, body.start, body.end), body, body))
        if close == "end":
            self.at_definition()
        else:
            self.need(close, " or ';'")
        self.restore(outer)
        for node in reversed(done):
            assert isinstance(node, (syntax.Graph, syntax.Let))
            node.body, body = body, node
        return body

    def let(self, token: Token, outer: list[tuple[str, Binder | None]]) -> Task[RelayNode]:
        """Read `let %x = value;` after the word; a function may refer to itself, other values may not."""
        binder: Binder = yield self.local_binder()
        self.need("=")
        if self.next.text == "fn":  # it may call itself
            self.bind(binder, outer)
            value: RelayNode = yield self.expression()
        else:
            value = yield self.expression()
            self.bind(binder, outer)
        self.need(";")
        return syntax.Let(token.start, value.end, binder, value, value)

    def bind(self, binder: Binder, outer: list[tuple[str, Binder | None]]) -> None:
        """Let a name mean this binder, and note in `outer` what it meant before."""
        outer.append((binder.name, self.names.get(binder.name)))
        self.names[binder.name] = binder

    def restore(self, outer: list[tuple[str, Binder | None]]) -> None:
        """Names mean again what they did before `bind`."""
        for name, known in reversed(outer):
            self.names.pop(name, None)
            if known is not None:
                self.names[name] = known

    def local_binder(self) -> Task[Binder]:
        """`%x`, maybe with its device, maybe with its type."""
        token = self.need_kind("local", "a name such as %x")
        name = token.text[1:]
        device = ANYWHERE
        if self.when("{"):
            attrs = yield self.attributes()
            self.need("}")
            found = attrs.get("virtual_device")
            device = found if isinstance(found, VirtualDevice) else ANYWHERE
        of: Type | None = None
        if self.when(":"):
            of = yield self.type(name)
        return Binder(name, of, token.start, token.end, device)

    # --- expressions -----------------------------------------------------------------------------------------------

    def expression(self) -> Task[RelayNode]:
        """Operands with operators between them. A single word, the usual operand, needs no task."""
        first = self.word()
        left: RelayNode = first if first is not None else (yield self.call())
        if self.next.text not in BINARY or self.next.kind != "sign":
            return left
        operands, waiting = [left], list[tuple[str, int]]()
        while self.next.kind == "sign" and self.next.text in BINARY:
            name, rank = BINARY[self.take().text]
            while waiting and waiting[-1][1] >= rank:
                _reduce(operands, waiting)
            waiting.append((name, rank))
            operands.append((yield self.call()))
        while waiting:
            _reduce(operands, waiting)
        return operands[0]

    def word(self) -> RelayNode | None:
        """The next operand, where it is one word that a comma or the like follows."""
        after = self.ahead(1)
        if after.kind != "sign" or after.text not in ",);]}":
            return None
        return self.atom_word(self.next)

    def atom_word(self, token: Token) -> RelayNode | None:
        """An atom that is one word; None, and nothing taken, for another."""
        made: RelayNode
        match token.kind:
            case "local":
                made = self.local(token)
            case "graph":
                graph = self.graphs.get(token.text)
                if graph is None:
                    self.wrong(token, f"{token.text} is not bound before", "relay.C10")
                graph.uses += 1
                made = syntax.Shared(token.start, token.end, graph)
            case "global":
                self.uses.add(token.text[1:])
                made = syntax.Global(token.start, token.end, token.text[1:])
            case "int" | "float":
                made = syntax.Literal(token.start, token.end, self.number(token, False))
            case "name" if token.text in ("True", "False"):
                made = syntax.Literal(token.start, token.end, np.asarray(token.text == "True"))
            case "meta":
                value = self.metadata.value(self.places, token)
                if isinstance(value, VirtualDevice):
                    self.wrong(token, "a virtual device is no expression")
                made = syntax.Literal(token.start, token.end, value)
            case _:
                return None
        self.at += 1
        return made

    def local(self, token: Token) -> RelayNode:
        """A name, or a name and fields of it: what is bound decides where a name with dots ends."""
        parts = token.text[1:].split(".")
        for count in range(len(parts), 0, -1):
            binder = self.names.get(".".join(parts[:count]))
            rest = parts[count:]
            if binder is not None and all(is_digits(p) for p in rest):
                node: RelayNode = syntax.RelayVar(token.start, token.end, binder)
                for p in rest:
                    node = syntax.Item(token.start, token.end, node, int(p))
                return node
        self.wrong(token, f"{token.text} is not bound here", "relay.C10")

    def call(self) -> Task[RelayNode]:
        """An atom and the calls and fields that follow it."""
        start = self.next
        found = self.atom_word(start)
        node: RelayNode = found if found is not None else (yield self.atom())
        called = False
        while True:
            if self.next.kind == "field":
                token = self.take()
                node = syntax.Item(start.start, token.end, node, int(token.text[1:]))
            elif self.next.text == "(" and self.next.kind == "sign":
                node = yield self.arguments(node)
                called = True
            else:
                break
        if isinstance(node, syntax.Maker) and not called and not self.fields_of(node):
            return syntax.Apply(node.start, node.end, node, [], {})
        return node

    def made(self, name: str) -> tuple[str, str]:
        """The data type of a constructor, and its name there."""
        found = self.makers[name]
        self.program.uses_prelude |= found[0] not in self.program.data
        return found

    def fields_of(self, node: syntax.Maker) -> tuple[Type, ...]:
        """The types of a constructor's fields, from the text or the prelude."""
        known = self.program.data.get(node.data) or self.prelude_types[node.data]
        return known.constructors[node.name]

    def arguments(self, callee: RelayNode) -> Task[RelayNode]:
        """Read the arguments and attributes of a call, and what belongs to the callee."""
        self.need("(")
        args: list[RelayNode] = []
        attrs: dict[str, object] = {}
        for _ in self.items(")"):
            last = 1  # a name may have dots
            while self.ahead(last).text == "." and self.ahead(last + 1).kind == "name":
                last += 2
            if self.next.kind == "name" and self.ahead(last).text == "=":
                attrs = yield self.attributes()
                self.need(")")
                break
            args.append((yield self.expression()))
        return syntax.Apply(callee.start, self.tokens[self.at - 1].end, callee, args, attrs)

    def atom(self) -> Task[RelayNode]:
        """Read an expression that begins with the next word, before calls and projections after it."""
        token = self.take()
        match token.kind, token.text:
            case "sign", "(":
                return (yield from self.parenthesis(token))
            case "sign", "{":
                return (yield from self.block("}"))
            case "sign", "-":
                return self.negative(token)
            case "name", "fn":
                return (yield from self.function(token))
            case "name", "if":
                self.need("(")
                condition: RelayNode = yield self.expression()
                self.need(")")
                self.need("{")
                then: RelayNode = yield self.block("}")
                self.need("else")
                if self.next.text == "if":
                    otherwise: RelayNode = yield self.atom()
                else:
                    self.need("{")
                    otherwise = yield self.block("}")
                return syntax.Branch(token.start, token.end, condition, then, otherwise)
            case "name", "match" | "match?":
                return (yield from self.match(token))
            case "name", text if text in REFERENCES and self.next.text == "(":
                self.need("(")
                args: list[RelayNode] = []
                for _ in self.items(")"):
                    args.append((yield self.expression()))
                if len(args) != REFERENCES[text]:
                    self.wrong(token, f"{text} takes {REFERENCES[text]} operands, {len(args)} given")
                return syntax.Reference(token.start, self.tokens[self.at - 1].end, text, args)
            case "name", text if text in self.makers:
                data, name = self.made(text)
                return syntax.Maker(token.start, token.end, data, name)
            case "name", name if name not in ("let", "else", "def", "type", "extern"):
                end = token.end
                while self.next.text == "." and self.ahead(1).kind == "name":
                    self.take()
                    part = self.take()
                    name, end = f"{name}.{part.text}", part.end
                return syntax.RelayOp(token.start, end, name)
        self.wrong(token, f"an expression expected, found {token.text!r}")

    def negative(self, token: Token) -> RelayNode:
        """Read a number after one or more minus signs."""
        count = 1
        while self.when("-"):
            count += 1
        number = self.take()
        if number.kind not in ("int", "float"):
            self.wrong(number, "a number expected after -")
        return syntax.Literal(token.start, number.end, self.number(number, count % 2 == 1))

    def parenthesis(self, token: Token) -> Task[RelayNode]:
        """Read to the closing parenthesis: a tuple, or the expression itself if there is one without a comma."""
        fields: list[RelayNode] = []
        for _ in self.items(")"):
            fields.append((yield self.inside_parenthesis()))
        if len(fields) == 1 and not self.comma:
            return fields[0]
        return syntax.RelayTuple(token.start, self.tokens[self.at - 1].end, fields)

    def inside_parenthesis(self) -> Task[RelayNode]:
        """An expression, or bindings and what they end in."""
        if self.next.text == "let" or (self.next.kind == "graph" and self.ahead(1).text == "="):
            body: RelayNode = yield self.block(")")
            self.at -= 1  # the parenthesis is asked for again
            return body
        return (yield from self.expression())

    # --- functions and matches -------------------------------------------------------------------------------------

    def function(self, token: Token) -> Task[Fn]:
        """`[A](%x: T, ..., name=value) -> R { body }`."""
        outer_types, outer = self.type_params, list[tuple[str, Binder | None]]()
        own = self.type_parameters() if self.next.text == "[" else []
        self.need("(")
        params: list[Binder] = []
        attrs: dict[str, object] = {}
        for _ in self.items(")"):
            if self.next.kind == "name":
                attrs = yield self.attributes()
                self.need(")")
                break
            binder: Binder = yield self.local_binder()
            if any(p.name == binder.name for p in params):
                self.wrong(self.tokens[self.at - 1], f"two parameters are called %{binder.name}", "relay.C5")
            params.append(binder)
        for p in params:
            self.bind(p, outer)
        result: Type | None = None
        if self.when("->"):
            result = yield self.type("r")
        self.need("{")
        body: RelayNode = yield self.block("}")
        self.restore(outer)
        self.type_params = outer_types
        return Fn(token.start, token.end, tuple(own), params, result, body, attrs)

    def match(self, token: Token) -> Task[RelayNode]:
        """Read a match after its word; `match?` may leave cases out. Invalid (`match.C1`) without a clause."""
        self.need("(")
        value: RelayNode = yield self.parenthesis(self.tokens[self.at - 1])
        self.need("{")
        clauses: list[tuple[RelayPattern, RelayNode]] = []
        for _ in self.items("}"):
            outer: list[tuple[str, Binder | None]] = []
            pattern: RelayPattern = yield self.pattern(outer)
            self.need("=>")
            body: RelayNode = yield self.block("}") if self.when("{") else self.expression()
            self.restore(outer)
            clauses.append((pattern, body))
        if not clauses:
            self.wrong(token, "a match has no clause", "match.C1")
        return syntax.RelayMatch(token.start, token.end, value, clauses, token.text == "match?")

    def pattern(self, outer: list[tuple[str, Binder | None]]) -> Task[RelayPattern]:
        """Read a pattern and bind its names. Invalid (`relay.C5`) for a constructor that is not defined."""
        token = self.next
        if self.when("_"):
            return RelayPattern("any", token.start, token.end)
        if token.kind == "local":
            binder: Binder = yield self.local_binder()
            self.bind(binder, outer)
            return RelayPattern("name", token.start, token.end, binder)
        if self.when("("):
            return RelayPattern("tuple", token.start, token.end, children=(yield from self.patterns(outer)))
        self.take()
        if token.kind != "name" or token.text not in self.makers:
            message = f"{token.text} is no constructor; a name that a pattern binds is %{token.text}"
            self.wrong(token, message, "relay.C5")
        data, name = self.made(token.text)
        fields = (yield from self.patterns(outer)) if self.when("(") else []
        return RelayPattern("made", token.start, token.end, data=data, constructor=name, children=fields)

    def patterns(self, outer: list[tuple[str, Binder | None]]) -> Task[list[RelayPattern]]:
        """The patterns of fields, up to the parenthesis."""
        fields: list[RelayPattern] = []
        for _ in self.items(")"):
            fields.append((yield self.pattern(outer)))
        return fields


def _reduce(operands: list[RelayNode], waiting: list[tuple[str, int]]) -> None:
    name, _ = waiting.pop()
    right, left = operands.pop(), operands.pop()
    op = syntax.RelayOp(left.start, right.end, name)
    operands.append(syntax.Apply(left.start, right.end, op, [left, right], {}))
