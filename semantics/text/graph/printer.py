"""Graph functions as text: the printer (row R5; specs/semantics.md, "Text").

Lets become assignments, branches and nested functions become blocks. Any other node with two parents, or too long to
stand inside another, is named in a block `with A.graph():`, one line each, so that depth never nests. There every node
has a form, lets and functions too: `A.let`, `A.if_`, `A.function`, `A.match`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Call, CallTIR, Expr, Function, If, Let, Match, TupleGetItem, Var
from assay.semantics.graph.nodes import LEAVES, Dataflow, bound_by
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.text.graph.default_device import default_device_of, without_annotation
from assay.semantics.text.graph.hoisting import hoisted_nodes
from assay.semantics.text.graph.names import ModuleTexts, NamePool, SymbolNames, unknown_sizes
from assay.semantics.text.graph.scope import HOUSE
from assay.semantics.text.graph.texts import NodeTexts
from assay.semantics.text.types_text import height
from assay.semantics.types import TupleType, Type, same_type, symbols
from assay.semantics.walk import post_order

DEEPEST = 16
"""Blocks inside blocks; what is deeper is written as nodes."""
WIDEST = 60
"""Characters of a node that stands inside another."""
INSIDE = 2
"""How deep nodes stand inside one another on a line."""
LARGEST = 24
"""Parts of a type that is annotated although it need not be."""
INDENT = "    "


@dataclass(frozen=True)
class Sink:
    """Where a block's value goes: to a name, with an annotation, or to the caller."""

    name: str | None = None
    annotation: str = ""

    def text(self, value: str) -> str:
        """The statement that puts `value` where it goes."""
        return f"return {value}" if self.name is None else f"{self.name}{self.annotation} = {value}"


def print_function(
    function: Function, name: str, module: ModuleTexts, symbols_: Mapping[Symbol, str], depth: int = 0
) -> list[str]:
    """The lines of a top-level function. `symbols_` are the names of those in its signature, which the module
    declares."""
    # many people call a tensor A: it may keep that name where nothing of the house's own is said
    lines = _printed(function, name, module, symbols_, depth, module.taken - {HOUSE})
    if any(_HIDDEN.search(line) for line in lines) and any(_HOUSE.search(line) for line in lines):
        return _printed(function, name, module, symbols_, depth, module.taken)
    return lines


_HIDDEN = re.compile(rf"\b{HOUSE}\b(?!\.)")
"""The prefix of the house as a name of the program."""
_HOUSE = re.compile(rf"\b{HOUSE}\.")


def _printed(
    function: Function, name: str, module: ModuleTexts, symbols_: Mapping[Symbol, str], depth: int, taken: set[str]
) -> list[str]:
    pool = NamePool(taken)
    names = SymbolNames(symbols_, pool)
    printer = _Printer(module, names, pool, function)
    run_task(printer.definition(function, name, depth, top=True))
    body = [INDENT * (depth + 1) + f"{n} = T.int64()" for n in names.declared]
    if printer.texts.uses_module:
        body.insert(0, INDENT * (depth + 1) + "cls = Module")
    return [*printer.lines[: printer.head], *body, *printer.lines[printer.head :]]


class _Printer:
    def __init__(self, module: ModuleTexts, symbols_: SymbolNames, pool: NamePool, root: Function) -> None:
        self.texts = texts = NodeTexts(module, symbols_, pool)
        self.module, self.pool, self.named = module, pool, texts.named
        self.lines: list[str] = []
        self.head = 0
        self.uses: dict[int, int] = {}
        self.deep: dict[int, int] = {}
        order: list[Expr] = list(post_order(_as_expr(root)))
        for node in order:
            for child in node.children:
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
        self.block_of = _blocks(order)
        self.early = hoisted_nodes(order, self.uses, DEEPEST)
        self.graph_end = (0, 0)
        """After which line, and how deep, a block of nodes ended."""
        self.home = default_device_of(root)
        if self.home is not None:
            self.texts.unsaid = without_annotation(root, self.home)

    def line(self, depth: int, text: str) -> None:
        self.lines.append(INDENT * depth + text)

    def shared(self, node: Expr) -> bool:
        return self.uses.get(id(node), 0) > 1

    # --- functions -----------------------------------------------------------------------------------------------

    def definition(self, function: Function, name: str, depth: int, top: bool = False) -> Task[None]:
        """The lines of a function, as a definition."""
        of = function.func_type
        flags = []
        if function.attrs.get("private") is True:
            flags.append("private=True")
        if not of.pure:
            flags.append("pure=False")
        if of.type_params:
            flags.append(f"type_params=({', '.join(map(self.module.type_var, of.type_params))},)")
        self.line(depth, f"@R.function({', '.join(flags)})" if flags else "@R.function")
        params: list[str] = []
        for p in function.params:
            self.named[id(p)] = self.pool.fresh(p.name, "x")
            params.append(f"{self.named[id(p)]}: {self.texts.annotation(p.type, self.texts.said(p), signature=True)}")
        unknown = unknown_sizes(function) if top else ()
        result = self.texts.on(
            replace(self.texts.types, unknown=unknown).text(of.result, quoted=True), self.texts.said(function)
        )
        self.line(depth, f"def {name}({', '.join(params)}) -> {result}:")
        attrs = {k: v for k, v in function.attrs.items() if not (k == "private" and v is True)}
        if attrs:
            self.line(depth + 1, f"R.func_attr({self.texts.value({k: _listed(v) for k, v in attrs.items()})})")
        changed = {self.named[id(p)]: p.name for p in function.params if self.named[id(p)] != p.name}
        if changed and top:
            self.line(depth + 1, f"A.names({self.texts.value(changed)})")
        if self.home is not None and top:
            self.line(depth + 1, f"A.home({self.module.device(self.home)})")
        if top:
            self.head = len(self.lines)
        yield self.block(function.body, depth + 1, Sink())

    # --- blocks --------------------------------------------------------------------------------------------------

    def block(self, expr: Expr, depth: int, sink: Sink) -> Task[None]:
        """The statements of a block that gives `expr`."""
        flow: Dataflow | None = None
        made: list[Var] = []
        while isinstance(expr, Let) and self.as_statement(expr):
            if expr.dataflow is not flow:
                if not self.as_statements(expr):
                    break
                self._close(flow, made, depth)
                flow, made = expr.dataflow, []
                if flow is not None:
                    self.line(depth, "with R.dataflow():")
            made.append(expr.var)
            yield self.binding(expr, depth + (flow is not None))
            expr = expr.body
        self._close(flow, made, depth)
        if self.as_block(expr, depth):
            yield self.branches(expr, depth, sink)
            return
        self.line(depth, sink.text(self.prepare(expr, depth, annotated=False)))

    def as_statement(self, let: Let) -> bool:
        """Whether a let is written as an assignment."""
        return not self.shared(let) and self.texts.said(let) == ANYWHERE

    def as_statements(self, let: Let) -> bool:
        """Whether all the lets of a dataflow block are: it is written as one."""
        at: Expr = let
        while isinstance(at, Let) and at.dataflow is let.dataflow and let.dataflow is not None:
            if not self.as_statement(at):
                return False
            at = at.body
        return True

    def _close(self, flow: Dataflow | None, made: Sequence[Var], depth: int) -> None:
        if flow is not None:
            outputs = [
                self.named[id(v)] for v in made if self.block_of.get(id(v), flow) is not flow and id(v) in self.named
            ]
            self.line(depth + 1, f"R.output({', '.join(outputs)})")

    def as_block(self, node: Expr, depth: int) -> bool:
        """Whether an If or a Match is written as a statement."""
        if (
            not isinstance(node, (If, Match))
            or self.shared(node)
            or depth > DEEPEST
            or self.texts.said(node) != ANYWHERE
        ):
            return False
        bodies = node.children[1:]
        if isinstance(node, Match) and any(height(c.pattern) > DEEPEST for c in node.clauses):
            return False
        return all(same_type(node.type, b.type) for b in bodies)

    def branches(self, node: Expr, depth: int, sink: Sink) -> Task[None]:
        self.name_early(node, depth)
        if isinstance(node, If):
            self.line(depth, f"if {self.prepare(node.condition, depth)}:")
            yield self.block(node.then, depth + 1, sink)
            self.line(depth, "else:")
            yield self.block(node.otherwise, depth + 1, sink)
            return
        assert isinstance(node, Match)
        subject = self.prepare(node.value, depth)
        self.line(depth, f"match A.partial({subject}):" if node.partial else f"match {subject}:")
        for c in node.clauses:
            for v in c.vars:
                self.named[id(v)] = self.pool.fresh(v.name)
            self.line(depth + 1, f"case {run_task(self.texts.pattern(c.pattern, case=True))}:")
            yield self.block(c.body, depth + 2, sink)

    def binding(self, let: Let, depth: int) -> Task[None]:
        """The statement that is a let."""
        var, value = let.var, let.value
        device = self.texts.said(var)
        plain = device == ANYWHERE and not self.shared(value)
        if isinstance(value, Function) and plain and depth <= DEEPEST:
            self.name_early(value, depth, var)
            name = self.named[id(var)] = self.pool.fresh(var.name, "f")
            yield self.definition(value, name, depth)
            self.lines.append("")
            return
        if self.as_block(value, depth) and plain:
            name = self.pool.fresh(var.name)
            yield self.branches(value, depth, Sink(name, self._typed(var.type, ANYWHERE, needed=False)))
            self.named[id(var)] = name
            return
        if isinstance(value, Function):  # it may use its own variable
            self.named[id(var)] = self.pool.fresh(var.name)
            self._flat_var(var, self.named[id(var)], depth)
            text = self.prepare(value, depth)
        else:
            text = self.prepare(value, depth)
            if (
                not self.uses.get(id(var))
                and isinstance(var.type, TupleType)
                and not var.type.fields
                and _is_call(value)
            ):
                if self.named.get(id(value)) is None and device == ANYWHERE:
                    self.line(depth, text)
                    return
            self.named[id(var)] = self.pool.fresh(var.name)
        silent = isinstance(value, CallTIR) and device == ANYWHERE
        typed = "" if silent else self._typed(var.type, device, self.introduces(value))
        self.line(depth, f"{self.named[id(var)]}{typed} = {text}")

    def _flat_var(self, var: Var, name: str, depth: int) -> None:
        self.line(depth, "with A.graph():")
        self.line(depth + 1, f"{name} = A.var({self.texts.annotation(var.type, self.texts.said(var))})")

    def _typed(self, of: Type, device: VirtualDevice = ANYWHERE, needed: bool = False) -> str:
        """The annotation of a name, unless it is long and says nothing that its value does not."""
        if not needed and device == ANYWHERE and sum(1 for _ in post_order(of)) > LARGEST:
            return ""
        return f": {self.texts.annotation(of, device)}"

    # --- nodes ---------------------------------------------------------------------------------------------------

    def prepare(self, root: Expr, depth: int, annotated: bool = True) -> str:
        """The text of `root`; nodes that need a name get one in the lines before.

        `annotated` says that what is assigned has an annotation: else sizes that the root introduces need a name.
        """
        pending: list[str] = []
        for node in post_order(root, lambda n: () if id(n) in self.named else n.children):
            if id(node) in self.named:
                continue
            if isinstance(node, Var):
                self.declare(node, pending)
                continue
            if isinstance(node, LEAVES):
                continue
            for v in bound_by(node):
                if id(v) not in self.named:
                    self.declare(v, pending)
            text = self.texts.render(node)
            new = self.introduces(node)
            self.deep[id(node)] = 1 + max((self.deep.get(id(c), 0) for c in node.children), default=0)
            if node is root and not self.shared(node) and (annotated or not new):
                root_text = text
                break
            if node is not root and not new and self.inside(node, text):
                self.named[id(node)] = text
                continue
            name = self.pool.fresh("g")
            pending.append(f"{name}{'' if isinstance(node, CallTIR) else self._typed(node.type, needed=new)} = {text}")
            self.named[id(node)] = name
            self.deep[id(node)] = 0
        else:
            root_text = self.texts.atom(root)
        if pending:
            if self.graph_end != (len(self.lines), depth):
                self.line(depth, "with A.graph():")
            self.lines += [INDENT * (depth + 1) + p for p in pending]
            self.graph_end = len(self.lines), depth
        return root_text

    def name_early(self, whole: Expr, depth: int, var: Var | None = None) -> None:
        """Name the nodes that are used in a part of `whole` and outside of it; but not what needs `var`, which has no
        name before `whole`."""
        needs = {id(var)}
        seen: set[int] = set()
        for early in self.early.get(id(whole), ()):
            for node in post_order(early, lambda n: () if id(n) in self.named or id(n) in seen else n.children):
                seen.add(id(node))
                if any(id(c) in needs for c in node.children):
                    needs.add(id(node))
            if id(early) not in self.named and id(early) not in needs:
                self.prepare(early, depth)

    def declare(self, var: Var, pending: list[str]) -> None:
        """A variable of a let, a function or a match that is written as a node."""
        name = self.pool.fresh(var.name)
        pending.append(f"{name} = A.var({self.texts.annotation(var.type, self.texts.said(var))})")
        self.named[id(var)] = name

    def inside(self, node: Expr, text: str) -> bool:
        """Whether a node may stand inside the one that uses it."""
        if self.shared(node) or isinstance(node, (Let, If, Match, Function)):
            return False
        return len(text) <= WIDEST and self.deep[id(node)] <= INSIDE

    def introduces(self, node: Expr) -> bool:
        """Whether a node has sizes that its operands do not have: only a run can tell them."""
        if not isinstance(node, (If, Match)) and not (isinstance(node, Call) and not isinstance(node.op, Operator)):
            return False
        known = {s for c in node.children for s in symbols(c.type)}
        return any(s not in known for s in symbols(node.type))


def _as_expr(root: Function) -> Expr:
    return root


def _is_call(node: Expr) -> bool:
    return not isinstance(node, (*LEAVES, TupleGetItem, Let, If, Match, Function)) and type(node).__name__ != "Tuple"


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _blocks(order: Sequence[Expr]) -> dict[int, Dataflow | None]:
    """For each node the dataflow block that all its uses are in; None where there is no one such block."""
    home: dict[int, Dataflow | None] = {id(order[-1]): None}
    for node in reversed(order):  # every user of a node comes before it
        outer = home[id(node)]
        for i, child in enumerate(node.children):
            at = outer
            if isinstance(node, Let):
                at = (node.dataflow if node.dataflow is not None else outer) if i == 0 else outer
            known = home.get(id(child), at)
            home[id(child)] = at if known is at else None
    return home
