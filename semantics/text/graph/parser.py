"""Graph functions of the text format: the parser (rows R4 and R30; specs/semantics.md, "Text").

    parser = FunctionParser(names, symbols)
    signature = parser.signatures.read(node)                  # `node` is an `ast.FunctionDef` with @R.function
    function = parser.function(node, signature)

A statement `v = value` is a let; inside `with A.graph():` it names a node, which has no place in an order. A type that
is annotated is checked: it is taken where it holds, it becomes a match-cast where only a run can tell, else it is
Invalid.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Dataflow, Expr, Function, Var
from assay.semantics.graph.matching import compatible, instantiate
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tasks import Task, run_task
from assay.semantics.text.graph.calls import Calls
from assay.semantics.text.graph.default_device import with_default_device
from assay.semantics.text.graph.patterns import PatternReader
from assay.semantics.text.graph.scope import DataflowLocal, ModuleNames, Path
from assay.semantics.text.graph.signatures import Signature, SignatureReader
from assay.semantics.text.graph.values import Values
from assay.semantics.text.relax.build import attribute
from assay.semantics.text.scope import Scope
from assay.semantics.text.types_text import Written, exact, filled
from assay.semantics.types import Type, dims, same_type, symbols
from assay.semantics.walk import post_order

DEEPEST = 90
"""Blocks inside blocks; Python's own limit is about 100."""


@dataclass
class Binding:
    """A let whose body is still to come."""

    var: Var
    value: Expr
    dataflow: Dataflow | None
    node: ast.AST


class FunctionParser:
    """Reads one top-level function and the functions inside it."""

    def __init__(self, module: ModuleNames, symbols_: Mapping[str, Any]) -> None:
        self.module, self.source, self.scope = module, module.source, Scope[Any]()
        self.values = Values(module, self.scope)
        self.calls = Calls(self.values)
        for name, meaning in symbols_.items():
            self.scope.declare(name, meaning)
        self.attrs: list[dict[str, Any]] = []
        self.read: dict[str, Written] = {}
        """Annotations by their words."""
        self.depth = 0
        self.home = ANYWHERE
        self.patterns = PatternReader(self.values, self.block)
        self.signatures = SignatureReader(self.values)

    # --- functions -----------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef, signature: Signature) -> Function:
        """The function that a definition is."""
        made: Function = run_task(self._function_task(node, signature))
        return made if self.home == ANYWHERE else with_default_device(made, self.home)

    def _function_task(self, node: ast.FunctionDef, signature: Signature) -> Task[Function]:
        mark = self.scope.mark()
        self.read.clear()
        for name, symbol in signature.symbols.items():
            self.scope.declare(name, symbol)
        for name, p in zip(signature.names, signature.params, strict=True):
            self.scope.declare(name, p)
        self.attrs.append({})
        body = yield self.block(node.body, None)
        self.scope.leave(mark)
        self.read.clear()
        attrs = self.attrs.pop()
        if signature.private:
            attrs["private"] = True
        with self.values.at(node.returns or node):
            result = signature.result
            if result is None and signature.written is not None:
                result = filled(signature.written, body.type)
            made = graph.function(
                signature.params, body, result, type_params=signature.type_params, pure=signature.pure,
                span=self.source.span(node, node.name),
            )  # fmt: skip
        return replace(made, attrs=attrs, device=signature.device)

    # --- blocks --------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], target: str | None) -> Task[Expr]:
        """What a block gives: what it returns, or what its last line binds to `target`."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.source.unsupported(body[0], f"more than {DEEPEST} blocks inside one another", "text.C2")
        mark = self.scope.mark()
        lets: list[Binding] = []
        result: Expr | None = None
        for i, stmt in enumerate(body):
            if result is not None:
                raise self.source.error(stmt, "nothing can follow here: the block has its value", "text.C13")
            last = i == len(body) - 1
            result = yield self.statement(stmt, lets, None, target if last else None, last)
        self.scope.leave(mark)
        if self.depth > 1:
            self.read.clear()
        self.depth -= 1
        if result is None:
            end = f"assign {target}" if target else "return a value"
            raise self.source.error(body[-1], f"the block must {end} at its end", "text.C13")
        for b in reversed(lets):
            with self.values.at(b.node):
                result = graph.let(b.var, b.value, result, span=self.source.span(b.node), dataflow=b.dataflow)
        return result

    def statement(
        self, stmt: ast.stmt, lets: list[Binding], mark: Dataflow | None, target: str | None, last: bool
    ) -> Task[Expr | None]:
        """Read a statement: it adds to `lets`, or is the block's value."""
        match stmt:
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                return None
            case ast.Return() if last and target is None and self.depth >= 1 and mark is None:
                if stmt.value is None:
                    return graph.tuple_of(span=self.source.span(stmt))
                return self.values.expr(stmt.value)
            case ast.Return():
                raise self.source.error(
                    stmt, "a return stands at the end of a function, or of each of its last branches", "text.C13"
                )
            case ast.Expr(value=ast.Call() as call):
                self._call_statement(call, lets, mark)
                return None
            case ast.Assign(targets=[ast.Name() as name]) | ast.AnnAssign(target=ast.Name() as name):
                return self._assignment(stmt, name, lets, mark, target)
            case ast.With():
                yield self._with(stmt, lets, mark)
                return None
            case ast.FunctionDef():
                signature, var = self._nested(stmt)
                function = yield self._function_task(stmt, signature)
                self._bind_function(stmt, var, function, lets, mark)
                return None
            case ast.If() | ast.Match():
                value: Expr | None = yield self._branches(stmt, lets, mark, target, last)
                return value
            case ast.Assign():
                raise self.source.error(stmt, "one name is assigned at a time", "text.C13")
            case _:
                raise self.source.error(
                    stmt, f"a graph function has no {type(stmt).__name__.lower()} statement", "text.C13"
                )

    def _call_statement(self, call: ast.Call, lets: list[Binding], mark: Dataflow | None) -> None:
        match self.values.path(call.func):
            case Path(parts=("R", "func_attr")):
                attrs = self.values.value(call.args[0]) if call.args else None
                if not isinstance(attrs, dict):
                    raise self.source.error(call, "R.func_attr takes a dict", "text.C6")
                with self.values.at(call):
                    self.attrs[-1].update({str(k): attribute(v) for k, v in attrs.items()})
            case Path(parts=("R", "output")):
                for a in call.args:
                    self.values.value(a)
            case Path(parts=("A", "names")):
                return  # read with the parameters
            case Path(parts=("A", "home")):
                if len(self.attrs) > 1 or self.home != ANYWHERE:
                    raise self.source.error(call, "A.home stands once, in the function that is outermost", "text.C20")
                args = [self.values.value(a) for a in call.args]
                given = {k.arg or "": self.values.value(k.value) for k in call.keywords}
                self.home = self.calls.device_of(
                    self.calls.arguments(call, args, given, "type?", "id?", "target?", "scope?"), call
                )
            case Path(parts=("R", "func_name" | "func_ret_ty" | "func_ret_value")):
                raise self.source.unsupported(call, "the builder's calls are not handled", "text.C7")
            case _:
                value = self.values.expr(call)
                lets.append(Binding(Var(value.type, "_", span=value.span), value, mark, call))

    def _assignment(
        self,
        stmt: ast.Assign | ast.AnnAssign,
        name: ast.Name,
        lets: list[Binding],
        mark: Dataflow | None,
        target: str | None,
    ) -> Expr | None:
        if stmt.value is None:
            raise self.source.error(stmt, f"{name.id} needs a value", "text.C13")
        if self._declaration(name.id, stmt.value):
            return None
        value, type_, device = self._annotated(stmt, self.values.expr(stmt.value))
        if name.id == target:
            if device not in (ANYWHERE, value.device):
                message = f"{target} is what the branches give: their values have devices, as in {target} = A.on(...)"
                raise self.source.error(stmt, message, "text.C19")
            return value
        var = Var(type_, name.id, device=device, span=self.source.span(stmt))
        self.scope.declare(name.id, var)
        lets.append(Binding(var, value, mark, stmt))
        return None

    def _declaration(self, name: str, value: ast.expr) -> bool:
        """`cls = Module`, and `n = T.int64()`, which declares a symbol unless the signature has done so."""
        if isinstance(value, ast.Name) and value.id in self.module.module_names and value.id not in self.scope:
            self.module.module_names.add(name)
            return True
        if not isinstance(value, ast.Call):
            return False
        path = self.values.path(value.func)
        if path is None or path.parts[0] != "T":
            return False
        texts = [a.value for a in value.args if isinstance(a, ast.Constant)]
        plain_ = path.parts[1:] == ("int64",) and not value.args
        if plain_ or (path.parts[1:] in (("var",), ("Var",), ("SizeVar",), ("dyn",)) and "int64" in texts):
            found = self.scope.get(name)
            if not isinstance(found, Symbol):
                self.scope.declare(name, Symbol(name))
                self.read.clear()
            return True
        return False

    # --- annotations ---------------------------------------------------------------------------------------------

    def _annotated(self, stmt: ast.Assign | ast.AnnAssign, value: Expr) -> tuple[Expr, Type, VirtualDevice]:
        """`value` with its annotation settled; the type and the device of the name."""
        if isinstance(stmt, ast.Assign):
            return value, value.type, ANYWHERE
        written = self.annotation(stmt.annotation)
        if (
            written.device != ANYWHERE
            and value.device == ANYWHERE
            and not isinstance(value, Var)
            and _plain_device(stmt)
        ):
            value = replace(value, device=written.device)
        return (*self.settled(value, written, stmt.annotation), written.device)

    def annotation(self, node: ast.expr) -> Written:
        """The type that an annotation is. The same words mean the same type until a symbol is declared."""
        line = self.source.line(node.lineno)
        if node.lineno != node.end_lineno or not line.isascii():
            return self.values.type(node)
        words = line[node.col_offset : node.end_col_offset]
        found = self.read.get(words)
        if found is None:
            found = self.read[words] = self.values.type(node)
        return found

    def settled(self, value: Expr, written: Written, node: ast.AST) -> tuple[Expr, Type]:
        """`value` as one of the annotated type, and that type.

        Sizes that only a run can tell get the annotation's names. Where a size may differ, the run checks it.
        """
        with self.values.at(node):
            wanted = filled(written, value.type)
        if wanted is value.type or same_type(wanted, value.type):
            return value, wanted
        unknown = isinstance(value, (graph.If, graph.Match)) or (
            isinstance(value, graph.Call) and isinstance(value.op, Expr)
        )
        names = _new_names(wanted, value, self.known(value)) if unknown else {}
        if names:
            renamed = instantiate(value.type, names)
            if same_type(wanted, renamed):
                return replace(value, type=renamed), wanted
        if compatible(wanted, value.type):
            return graph.match_cast(value, wanted, span=self.source.span(node)), wanted
        raise self.source.error(node, f"the annotation does not hold: the value is {value.type}", "text.C14")

    def known(self, value: Expr) -> set[Symbol]:
        """The symbols that had a meaning before `value` was evaluated."""
        return {s for c in value.children for s in symbols(c.type)}

    # --- blocks inside blocks ------------------------------------------------------------------------------------

    def _with(self, stmt: ast.With, lets: list[Binding], mark: Dataflow | None) -> Task[None]:
        call = stmt.items[0].context_expr
        path = self.values.path(call.func) if isinstance(call, ast.Call) and len(stmt.items) == 1 else None
        if path == Path(("R", "dataflow")) and mark is None:
            block, before = Dataflow(), self.scope.mark()
            for inner in stmt.body:
                yield self.statement(inner, lets, block, None, False)
            self._end_block(stmt, before)
        elif path == Path(("A", "graph")):
            for inner in stmt.body:
                yield self._node(inner)
        else:
            raise self.source.error(stmt, "with R.dataflow(): or with A.graph(): expected", "text.C13")

    def _end_block(self, stmt: ast.With, before: int) -> None:
        """Behind a dataflow block that names its outputs no other variable of it is known."""
        calls = [s.value for s in stmt.body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)]
        named = [c for c in calls if self.values.path(c.func) == Path(("R", "output"))]
        outputs = {a.id for c in named for a in c.args if isinstance(a, ast.Name)}
        for name in sorted(self.scope.since(before) - outputs) if named else ():
            if isinstance(self.scope.get(name), Var):
                self.scope.declare(name, DataflowLocal())

    def _node(self, stmt: ast.stmt) -> Task[None]:
        """A statement that names a node. The name holds to the end of the function."""
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if (
                stmt.value is not None
            ):
                if self._declaration(name, stmt.value):
                    return
                call = stmt.value
                if isinstance(call, ast.Call) and self.values.path(call.func) == Path(("A", "var")):
                    args = [self.values.value(a) for a in call.args]
                    written = self.values.as_type(args[0] if args else None, call)
                    own = str(args[1]) if len(args) > 1 else name
                    with self.values.at(call):
                        var = Var(exact(written), own, device=written.device, span=self.source.span(stmt))
                    self.scope.declare(name, var, lasting=True)
                    return
                self.scope.declare(name, self._annotated(stmt, self.values.expr(stmt.value))[0], lasting=True)
            case ast.FunctionDef():
                signature = self.signatures.read(stmt)
                function = yield self._function_task(stmt, signature)
                self.scope.declare(stmt.name, function, lasting=True)
            case ast.Pass():
                return
            case _:
                raise self.source.error(stmt, "inside A.graph() nodes get names: name = expression", "text.C13")

    def _nested(self, stmt: ast.FunctionDef) -> tuple[Signature, Var | None]:
        """The signature of a function inside a function; its variable, if the signature says its whole type."""
        signature = self.signatures.read(stmt)
        if signature.type is None:
            return signature, None
        var = Var(signature.type, stmt.name, span=self.source.span(stmt))
        self.scope.declare(stmt.name, var)
        return signature, var

    def _bind_function(
        self, stmt: ast.FunctionDef, var: Var | None, function: Function, lets: list[Binding], mark: Dataflow | None
    ) -> None:
        if var is None:
            var = Var(function.type, stmt.name, span=self.source.span(stmt))
            self.scope.declare(stmt.name, var)
        lets.append(Binding(var, function, mark, stmt))

    def _branches(
        self, stmt: ast.If | ast.Match, lets: list[Binding], mark: Dataflow | None, target: str | None, last: bool
    ) -> Task[Expr | None]:
        end = _end(stmt)
        if end is None or (end == "" and (not last or target is not None)):
            message = "each branch ends with an assignment of one name, or at the end of a function with a return"
            raise self.source.error(stmt, message, "text.C13")
        inner = end or None
        if isinstance(stmt, ast.If):
            condition = self.values.expr(stmt.test)
            if not stmt.orelse:
                raise self.source.error(stmt, "the other branch is missing: else", "text.C13")
            then = yield self.block(stmt.body, inner)
            otherwise = yield self.block(stmt.orelse, inner)
            with self.values.at(stmt.test):
                value: Expr = graph.if_(condition, then, otherwise, span=self.source.span(stmt))
        else:
            value = yield self.patterns.match(stmt, inner)
        if inner is None or inner == target:
            return value
        var = Var(value.type, inner, span=self.source.span(stmt))
        self.scope.declare(inner, var)
        lets.append(Binding(var, value, mark, stmt))
        return None


def _end(stmt: ast.stmt) -> str | None:
    """What a block that ends with `stmt` assigns at its end; "" for a return, None for neither."""
    while True:
        match stmt:
            case ast.If():
                stmt = stmt.body[-1]
            case ast.Match():
                stmt = stmt.cases[0].body[-1]
            case ast.Return():
                return ""
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name
            case _:
                return None


def _plain_device(stmt: ast.AnnAssign) -> bool:
    """Whether the annotation has the device as TVM writes it, for variable and value alike."""
    return isinstance(stmt.annotation, ast.Call) and not (
        isinstance(stmt.annotation.func, ast.Attribute) and stmt.annotation.func.attr == "on"
    )


def _new_names(wanted: Type, value: Expr, known: set[Symbol]) -> dict[Any, Any]:
    """Symbols of the value's type that it introduces itself, by what the annotation has in their places."""
    names: dict[Any, Any] = {}
    for a, b in zip(post_order(wanted), post_order(value.type), strict=False):
        for d, e in zip(dims(a), dims(b), strict=False):
            if isinstance(e, Symbol) and e not in known and isinstance(d, Symbol):
                if names.setdefault(e, d) is not d:
                    return {}
    return names
