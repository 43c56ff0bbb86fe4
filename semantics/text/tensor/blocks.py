"""Loops, the lines that stand at the start of a block, and pragmas as they are read (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from assay.semantics.dtypes import INT32
from assay.semantics.errors import Span
from assay.semantics.scalar import Apply, Const, Expr, Var, cast, const, same
from assay.semantics.tensor import For, IterKind, IterVar, LetStmt, LoopKind, Pragma, Stmt
from assay.semantics.text.tensor.buffers import BufferReader
from assay.semantics.text.tensor.context import FunctionContext

Opener: TypeAlias = Callable[[Stmt], Stmt]
"""What a declaration does with the statements that follow it."""

LOOPS: dict[str, LoopKind] = {
    "range": "serial", "serial": "serial", "parallel": "parallel", "vectorized": "vectorized", "unroll": "unrolled",
    "unrolled": "unrolled",
}  # fmt: skip
AXES: dict[str, IterKind] = {
    "spatial": "spatial", "S": "spatial", "reduce": "reduce", "R": "reduce", "scan": "scan", "opaque": "opaque",
}  # fmt: skip


class BlockReader:
    """Reads loops and what blocks say of themselves."""

    def __init__(self, context: FunctionContext, buffers: BufferReader) -> None:
        self.context = context
        self.source, self.names, self.scalars = context.source, context.names, context.scalars
        self.heads = context.heads
        self.buffers = buffers

    def single(self, call: ast.Call, name: str, kind: str, span: Span) -> tuple[list[Var], list[Opener]]:
        """`range(stop)`, `range(start, stop)`, `range(start, stop, step)` and the same of the other kinds."""
        options = {k.arg: k.value for k in call.keywords}
        parts = list(call.args)
        if kind != "range" and "step" in options and len(parts) < 3:
            step: ast.expr | None = options.pop("step")
        else:
            step = parts.pop() if len(parts) == 3 else None
        annotations = options.pop("annotations", None)
        if options or not 1 <= len(parts) <= 2:
            raise self.source.error(call, f"{kind} takes a number of iterations, or start and stop", "text.C5")
        bounds = self.together([self.scalars.value(p) for p in parts], parts)
        notes = {} if annotations is None else self.context.data(annotations)
        if not isinstance(notes, dict):
            raise self.source.error(call, "annotations are a dictionary", "text.C4")
        if step is not None:
            return self.stepped(name, bounds, self.context.integer(step), LOOPS[kind], span)
        start = bounds[0] if len(bounds) == 2 else None
        extent = bounds[0] if start is None else extent_between(bounds[1], start)
        var = Var(name, extent.dtype)
        return [var], [partial(for_, var, extent, LOOPS[kind], start, notes, span)]

    def together(self, values: Sequence[Expr | int | float | bool], nodes: Sequence[ast.expr]) -> list[Expr]:
        """Integers of one dtype: that of the widest."""
        typed = [v.dtype for v in values if isinstance(v, Expr)]
        of = max(typed, key=lambda d: d.bits) if typed else INT32
        found: list[Expr] = []
        for v, n in zip(values, nodes, strict=True):
            if isinstance(v, float):
                raise self.source.error(n, f"an integer expected, this is {v}", "text.C6")
            e = self.scalars.operations.typed(v, of)
            if not e.dtype.is_integer:
                raise self.source.error(n, f"an integer expected, this is {e.dtype}", "text.C6")
            found.append(const(e, of) if isinstance(e, Const) else cast(e, of))
        return found

    def stepped(
        self, name: str, bounds: Sequence[Expr], step: Expr, kind: LoopKind, span: Span
    ) -> tuple[list[Var], list[Opener]]:
        """A loop by steps: one that counts, and a name for the number that is meant."""
        start, stop = bounds if len(bounds) == 2 else (const(0, bounds[0].dtype), bounds[0])
        step = const(step, stop.dtype) if isinstance(step, Const) else cast(step, stop.dtype)
        var, count = Var(name, stop.dtype), Var(f"{name}_step", stop.dtype)
        extent = (extent_between(stop, start) + (step - 1)) // step
        return [var], [
            partial(for_, count, extent, kind, None, {}, span),
            partial(let_stmt, var, start + count * step, span),
        ]

    def pragma(self, call: ast.Call, span: Span) -> Opener:
        """`T.attr({"key": value})`, or `T.attr(node, "key", value)`: advice, if it is a pragma."""
        if len(call.args) == 1:
            table = self.context.dictionary(call)
            if len(table) != 1:
                raise self.source.error(call, "one attribute expected", "text.C5")
            ((key, value),) = table.items()
        else:
            given = self.context.arguments(call, ("node", "key", "value"))
            key, value = self.context.string(given["key"]), self.context.data(given["value"])
        if not key.startswith("pragma_"):
            raise self.source.unsupported(call, f"the attribute {key} is not handled", "text.C7")
        return partial(pragma, key, value, span)

    def axis(self, call: ast.Call, names: Sequence[ast.expr]) -> bool:
        """`vi = T.axis.spatial(4, i)` and `vi, vj = T.axis.remap("SR", [i, j])`; False where the call is none of
        these."""
        func = call.func
        if not (isinstance(func, ast.Attribute) and self.context.member(func.value) == "axis"):
            return False
        if len(self.heads) < 2:
            raise self.source.error(call, "T.axis stands in a block", "text.C13")
        if func.attr == "remap":
            given = self.context.arguments(call, ("kinds", "bindings"))
            kinds = self.context.string(given["kinds"])
            bindings = given.get("bindings")
            loops = bindings.elts if isinstance(bindings, (ast.List, ast.Tuple)) else []
            if len(kinds) != len(loops) or len(names) != len(kinds) or not set(kinds) <= {"S", "R"}:
                raise self.source.error(call, "T.axis.remap takes an S or R and a loop for each name", "text.C5")
            for kind, loop, name in zip(kinds, loops, names, strict=True):
                var = self.scalars.expr(loop)
                start, extent = self.context.loops.get(var, (None, None)) if isinstance(var, Var) else (None, None)
                if extent is None:
                    raise self.source.error(loop, "a loop variable expected", "text.C13")
                self.iterate(name, AXES[kind], start, extent, var)
            return True
        if func.attr not in AXES:
            raise self.source.unsupported(call, f"T.axis.{func.attr} is not handled", "text.C7")
        given = self.context.arguments(call, ("dom", "binding", "dtype"))
        if len(names) != 1 or "dom" not in given or "binding" not in given:
            raise self.source.error(call, f"T.axis.{func.attr} takes a domain and a value", "text.C5")
        dom = given["dom"]
        ends = [dom]
        if isinstance(dom, ast.Tuple):
            ends = dom.elts
        elif isinstance(dom, ast.Call) and (
            self.context.member(dom) == "Range" or ast.unparse(dom.func).endswith("Range")
        ):
            ends = dom.args
        if not 1 <= len(ends) <= 2:
            raise self.source.error(dom, "a domain is an extent, or (start, stop)", "text.C5")
        parts = [*ends, given["binding"]]
        *bounds, value = self.together([self.scalars.value(p) for p in parts], parts)
        start = bounds[0] if len(bounds) == 2 else None
        extent = extent_between(bounds[1], bounds[0]) if len(bounds) == 2 else bounds[0]
        self.iterate(names[0], AXES[func.attr], start, extent, value)
        return True

    def iterate(self, name: ast.expr, kind: IterKind, start: Expr | None, extent: Expr, value: Expr) -> None:
        """Adds an iterator to the block that is being read, and declares its name."""
        if not isinstance(name, ast.Name):
            raise self.source.error(name, "the name of a block's variable expected", "text.C4")
        var = Var(name.id, value.dtype)
        self.heads[-1].iterators.append(IterVar(var, kind, extent, value, start))
        self.names.declare(name.id, var)

    def block_line(self, name: str, call: ast.Call) -> bool:
        """`T.reads(...)` and the other lines that say something of their block; False where the call is none."""
        if name not in ("where", "reads", "writes", "sblock_attr", "block_attr"):
            return False
        if len(self.heads) < 2:
            raise self.source.error(call, f"T.{name} stands in a block", "text.C13")
        head = self.heads[-1]
        match name:
            case "where":
                head.predicate = self.context.condition(self.context.arguments(call, ("predicate",))["predicate"])
            case "reads":
                head.reads = self.buffers.regions(call)
            case "writes":
                head.writes = self.buffers.regions(call)
            case _:
                head.annotations = self.context.dictionary(call)
        return True


def extent_between(stop: Expr, start: Expr) -> Expr:
    """`stop - start`; where `stop` is written as start plus something, that."""
    if isinstance(stop, Apply) and stop.op == "add" and same(stop.args[0], start):
        return stop.args[1]
    if same(stop, start):
        return const(0, stop.dtype)
    return stop - start


def for_(
    var: Var, extent: Expr, kind: LoopKind, start: Expr | None, annotations: dict[str, Any], span: Span, body: Stmt
) -> Stmt:
    """A loop, with the body last so that a reader can bind the rest first."""
    return For(var, extent, body, kind, start, annotations, span=span)


def let_stmt(var: Var, value: Expr, span: Span, body: Stmt) -> Stmt:
    """A `LetStmt`, with the body last so that a reader can bind the rest first."""
    return LetStmt(var, value, body, span=span)


def pragma(key: str, value: Any, span: Span, body: Stmt) -> Stmt:
    """A `Pragma`, with the body last so that a reader can bind the rest first."""
    return Pragma(key, value, body, span=span)
