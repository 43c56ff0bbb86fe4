"""How a builder binds expressions: names, scopes and bindings in A-normal form (specs/semantics.md, "Builder")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from assay.semantics import graph
from assay.semantics.builder.scopes import FunctionScope, OpenBody
from assay.semantics.errors import Invalid
from assay.semantics.graph.nodes import ATOMS, bound_by
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import TensorType, Type
from assay.semantics.walk import Worklist, post_order


class Bindings:
    """The open scopes, innermost first, and what is bound in them."""

    def __init__(self) -> None:
        self._frame: OpenBody | None = None

    @property
    def frame(self) -> OpenBody:
        """The innermost open body; Invalid (builder.C12) where no function is open."""
        if self._frame is None:
            raise Invalid("no function is open: with builder.function(...)", label="builder.C12")
        return self._frame

    @contextmanager
    def body(self, what: str, function: FunctionScope | None = None) -> Iterator[OpenBody]:
        """A body with its own bindings; for the scopes of this builder."""
        outer = self._frame
        frame = OpenBody(what, outer, function)
        if outer is not None:
            frame.names = outer.names  # unique in the whole top-level function
        self._frame = frame
        try:
            yield frame
        finally:
            self._frame = outer

    # --- names ----------------------------------------------------------------------------------------------------

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name of the innermost open function; of one around it, if that has it already."""
        frame: OpenBody | None = self.frame
        home: OpenBody | None = None
        while frame is not None:
            if name in frame.symbols:
                return frame.symbols[name]
            if home is None and frame.function is not None:
                home = frame
            frame = frame.outer
        if home is None:
            raise Invalid("no function is open: with builder.function(...)", label="builder.C12")
        return home.symbols.setdefault(name, Symbol(name))

    def unique(self, name: str) -> str:
        """The name, or with a number if the top-level function has it already."""
        names = self.frame.names
        new = name
        while new in names:
            names[name] += 1
            new = f"{name}_{names[name]}"
        names[new] = 0
        return new

    # --- bindings -------------------------------------------------------------------------------------------------

    def emit(self, value: Any, name: str = "") -> graph.Var:
        """Binds an expression, and its operands before it; the variable. What is bound already is not bound again."""
        atom = self.atom(value, name)
        return atom if isinstance(atom, graph.Var) else self.bind(atom, name)

    def atom(self, value: Any, name: str = "") -> graph.Expr:
        """The variable (or name of the module) that stands for an expression, which is bound if it is not yet."""
        root = self.operand(value)
        work = Worklist([(root, False)])
        for node, ready in work:
            if self._known(node) is not None:
                continue
            if isinstance(node, ATOMS):
                self._check_visible(node)
            elif isinstance(node, graph.Let):
                work.add(self._let(node, ready))
            elif ready:
                self.bind(self._with_known(node), name if node is root else "", of=node)
            else:
                work.add([*((c, False) for c in _operands(node)), (node, True)])
        return self._known(root) or root

    def _let(self, node: graph.Let, ready: bool) -> list[tuple[graph.Expr, bool]]:
        """A let as an operand: its bindings become bindings here (row A3). What is to be done, in order."""
        value = node.value
        if self._known(node.var) is not None:
            if not ready:
                return [(node.body, False), (node, True)]
            self._remember(node, self._known(node.body) or node.body)
            return []
        if isinstance(value, ATOMS) or self._known(value) is not None:
            self._check_visible(value)
            self._remember(node.var, self._known(value) or value)
            return [(node, False)]
        missing = [c for c in _operands(value) if not isinstance(c, ATOMS) and self._known(c) is None]
        if isinstance(value, graph.Let):
            return [(value, False), (node, False)]
        if missing:
            return [*((c, False) for c in missing), (node, False)]
        for c in _operands(value):
            self._check_visible(c)
        var = graph.Var(node.var.type, self.unique(node.var.name), device=node.var.device)
        self._remember(node.var, var)
        if isinstance(value, graph.Function):
            self.frame.visible.add(var)
        self.bind(self._with_known(value), var=var, of=value)
        return [(node, False)]

    def _visible(self, var: graph.Var) -> bool:
        frame = self._frame
        while frame is not None:
            if var in frame.visible:
                return True
            frame = frame.outer
        return False

    def _check_visible(self, node: graph.Expr) -> None:
        if isinstance(node, graph.Var) and self._known(node) is None and not self._visible(node):
            raise Invalid(f"variable {node.name} is used outside its scope", label="builder.C1")

    def _known(self, node: graph.Expr) -> graph.Expr | None:
        frame = self._frame
        while frame is not None:
            if id(node) in frame.known:
                return frame.known[id(node)]
            frame = frame.outer
        return None

    def _remember(self, node: graph.Expr, atom: graph.Expr) -> None:
        self.frame.known[id(node)] = atom
        self.frame.kept.append(node)

    def _with_known(self, node: graph.Expr) -> graph.Expr:
        """The node around the atoms that stand for its parts. What only a branch or a function needs stays there."""
        operands = _operands(node)
        if len(operands) == len(node.children):
            return node.with_children([self._known(c) or c for c in operands])
        new: dict[int, graph.Expr] = {}
        bound: set[graph.Var] = set()
        order = list(post_order(node, lambda n: () if n is not node and self._known(n) is not None else n.children))
        for n in order:
            known = self._known(n)
            new[id(n)] = known if known is not None else n.with_children([new[id(c)] for c in n.children])
            bound.update(bound_by(n))
        for n in order:
            if isinstance(n, graph.Var) and n not in bound:
                self._check_visible(n)
        return new[id(node)]

    def bind(
        self, value: graph.Expr, name: str = "", var: graph.Var | None = None, of: graph.Expr | None = None
    ) -> graph.Var:
        """Binds an expression whose operands are atoms; it stands for `of`."""
        frame = self.frame
        if frame.result is not None:
            raise Invalid(f"a binding after the result of {frame.what}", label="builder.C2")
        if frame.mark is not None and any(map(graph.acts, post_order(value, _evaluated))):
            raise Invalid(f"{graph.show_head(value)} acts, which nothing in a dataflow block does", label="builder.C13")
        if var is None:
            var = graph.Var(value.type, self.unique(name or _short_name(value)), device=value.device)
        frame.bindings.append((var, value, frame.mark))
        frame.visible.add(var)
        self._remember(value if of is None else of, var)
        return var

    def operand(self, value: Any, like: Type | None = None) -> graph.Expr:
        """An expression from what stands for one: a function, a tuple, an array, a number of the dtype of `like`."""
        match value:
            case graph.Expr():
                return value
            case FunctionScope():
                return value.ref
            case tuple():
                return graph.tuple_of(*(self.operand(v, like) for v in value))
            case bool() | int() | float():
                of = {bool: "bool", int: "int64", float: "float32"}[type(value)]
                return graph.constant(value, like.dtype.name if isinstance(like, TensorType) else of)
            case np.ndarray() | np.generic():
                return graph.constant(value)
            case _:
                raise Invalid(f"a {type(value).__name__} is no expression", label="builder.C14")


def _operands(node: graph.Expr) -> Sequence[graph.Expr]:
    """The parts that are evaluated whenever the node is."""
    match node:
        case graph.If():
            return (node.condition,)
        case graph.Match():
            return (node.value,)
        case graph.Function():
            return ()
        case _:
            return node.children


def _evaluated(node: graph.Expr) -> Sequence[graph.Expr]:
    return () if isinstance(node, graph.Function) else node.children


def _short_name(value: graph.Expr) -> str:
    match value:
        case graph.Call():
            return value.op.name.split(".")[-1] if isinstance(value.op, (Operator, *ATOMS)) else "call"
        case graph.CallTIR():
            return value.func
        case graph.Constant():
            return "c"
        case graph.Tuple():
            return "t"
        case _:
            return type(value).__name__.lower()
