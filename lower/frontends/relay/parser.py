"""Relay's grammar of definitions: data types and functions (specs/lower.md, "Relay")."""

from __future__ import annotations

from dataclasses import replace

from assay.lower.frontends.places import Places
from assay.lower.frontends.relay.expressions import Expressions
from assay.lower.frontends.relay.lexer import tokenized
from assay.lower.frontends.relay.metadata import Metadata
from assay.lower.frontends.relay.syntax import Fn, RelayProgram, Shared
from assay.semantics.builder.prelude import prelude
from assay.semantics.tasks import run_task
from assay.semantics.text.source import Source
from assay.semantics.types import DataDef, Type
from assay.semantics.walk import post_order

PRELUDE = {
    "Cons": ("List", "cons"), "Nil": ("List", "nil"), "Some": ("Option", "some"), "None": ("Option", "none"),
    "Rose": ("Tree", "rose"),
}  # fmt: skip
"""Constructors of Relay's prelude, and ours."""


def syntax_tree(source: Source) -> RelayProgram:
    """The tree of a Relay text."""
    places = Places(source)
    tokens, metadata = tokenized(places)
    return _Parser(places, tokens, Metadata(places, metadata)).module()


class _Parser(Expressions):
    def module(self) -> RelayProgram:
        heads = self.outline()
        for kind, at in heads:
            if kind != "def":
                self.data_head(at)
        if not self.program.data.keys() & {"List", "Option", "Tree"}:
            self.program.prelude = True
            known = prelude().definitions
            self.prelude_types = {n: d for n, d in known.items() if isinstance(d, DataDef)}
            for name, made in PRELUDE.items():
                self.makers.setdefault(name, made)
        for kind, at in heads:
            if kind != "def":
                self.data(at)
        for kind, at in heads:
            if kind == "def":
                self.definition(at)
        if not heads and self.next.kind != "end":
            self.alone()
        return self.program

    def outline(self) -> list[tuple[str, int]]:
        """Where each definition begins. A text without one is an expression."""
        heads: list[tuple[str, int]] = []
        depth = 0
        for i, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in "([{":
                depth += 1
            elif token.kind == "sign" and token.text in ")]}":
                depth -= 1
            elif depth == 0 and token.kind == "name" and token.text in ("def", "type"):
                heads.append((token.text, i))
        starts = {i - (self.tokens[i - 1].text == "extern" and i > 0) for _, i in heads}
        if heads and 0 not in starts:
            self.wrong(self.next, f"a definition expected: def @name(...) or type Name, found {self.next.text!r}")
        return heads

    def data_head(self, at: int) -> None:
        self.at = at + 1
        token = self.need_kind("name", "the name of a data type")
        if token.text in self.program.data:
            self.wrong(token, f"two data types are called {token.text}", "relay.C5")
        params = tuple(self.type_parameters()) if self.next.text == "[" else ()
        self.type_params = {}
        self.program.data[token.text] = DataDef(token.text, params, {})

    def data(self, at: int) -> None:
        self.at = at + 1
        head = self.program.data[self.take().text]
        self.type_params = {p.name: p for p in head.type_params}
        if self.when("["):
            while not self.when("]"):
                self.take()
        made: dict[str, tuple[Type, ...]] = {}
        for _ in self.items("}") if self.when("{") else ():
            token = self.need_kind("name", "a constructor")
            if token.text in made or self.makers.get(token.text, ("", ""))[0] in self.program.data:
                self.wrong(token, f"two constructors are called {token.text}", "relay.C5")
            fields = self.items(")") if self.when("(") else ()
            made[token.text] = tuple(run_task(self.type("d", f"the data type {head.name}")) for _ in fields)
            self.makers[token.text] = (head.name, token.text)
        self.type_params = {}
        self.program.data[head.name] = replace(head, constructors=made)
        self.at_definition()

    def definition(self, at: int) -> None:
        self.at = at + 1
        token = self.need_kind("global", "the name of a function, such as @main,")
        name = token.text[1:]
        if name in self.program.functions or name in self.program.data:
            self.wrong(token, f"two definitions are called {name}", "relay.C5")
        self.names, self.graphs, self.symbols, self.uses = {}, {}, {}, set()
        self.program.functions[name] = run_task(self.function(token))
        self.drop_unused()
        self.program.used[name] = self.uses
        self.at_definition()

    def drop_unused(self) -> None:
        """A graph binding that nothing uses is no part of the program, nor is what only it uses."""
        dropped: set[int] = set()
        for graph in reversed(self.bound):  # a use comes after its binding
            if graph.uses == 0:
                for node in post_order(graph.value):
                    if isinstance(node, Shared) and id(node) not in dropped:
                        dropped.add(id(node))
                        node.graph.uses -= 1
        self.bound = []

    def alone(self) -> None:
        """An expression, whose free variables are the parameters of `main`."""
        start = self.next
        body = run_task(self.block("end"))
        self.drop_unused()
        if isinstance(body, Fn) and not self.free and not body.type_params:
            self.program.functions["main"] = body
        else:
            self.program.functions["main"] = Fn(start.start, body.end, (), self.free, None, body, {})
        self.program.used["main"] = self.uses
