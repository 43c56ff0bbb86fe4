"""Tensor functions as text: the parser (specs/semantics.md, "Text").

    func = parse_prim_func(source, node, symbols)             # node: the `ast.FunctionDef` under `@T.prim_func`

The dialect is what apache-tvm 0.27 prints, in block form and flat, and the older spellings that bug reports have. What
is notation only becomes plain nodes here: `T.grid`, `T.axis.remap`, scalars in memory, steps of a range. `symbols` are
the scalars that the module declares for all of its functions.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, MutableMapping, Sequence
from dataclasses import replace
from functools import partial

from assay.semantics import tensor
from assay.semantics.dtypes import DTYPES
from assay.semantics.errors import Invalid, Span
from assay.semantics.scalar import Var
from assay.semantics.tasks import Task, run_task
from assay.semantics.tensor.rules import check_prim_func
from assay.semantics.text.outputs import handed_over, needs_root, noted, stored_parameters
from assay.semantics.text.scalars import MODULES
from assay.semantics.text.source import Source
from assay.semantics.text.tensor.blocks import LOOPS, BlockReader, Opener, for_, let_stmt
from assay.semantics.text.tensor.buffers import BufferReader
from assay.semantics.text.tensor.calls import CallReader
from assay.semantics.text.tensor.context import FunctionContext
from assay.semantics.text.tensor.lines import BUFFER, Item, LineReader
from assay.semantics.text.tensor.scope import BlockHead

_BLOCKS = ("sblock", "block")


def parse_prim_func(
    source: Source, node: ast.FunctionDef, symbols: MutableMapping[str, Var], modules: Collection[str] = MODULES
) -> tensor.PrimFunc:
    """The tensor function that a definition is. Invalid, with its place and line, where it is wrong."""
    try:
        return _TensorParser(source, symbols, modules).function_of(node)
    except RecursionError:
        raise source.error(node, f"{node.name} is nested too deeply", "text.C2") from None


class _TensorParser:
    """Reads the signature of a tensor function and statements that have statements inside; its parts read the rest."""

    def __init__(self, source: Source, symbols: MutableMapping[str, Var], modules: Collection[str]) -> None:
        self.context = context = FunctionContext(source, modules)
        self.source, self.names, self.scalars = source, context.names, context.scalars
        self.function, self.heads = context.function, context.heads
        self.symbols = symbols
        self.buffers = BufferReader(context, symbols)
        self.blocks = BlockReader(context, self.buffers)
        self.calls = CallReader(context, self.buffers)
        self.lines = LineReader(context, self.buffers, self.blocks, self.calls)

    def function_of(self, node: ast.FunctionDef) -> tensor.PrimFunc:
        for name, var in self.symbols.items():
            self.names.declare(name, var)
        private, blocks = self.decorator(node)
        if node.args.posonlyargs or node.args.kwonlyargs or node.args.vararg or node.args.kwarg or node.args.defaults:
            raise self.source.error(node, "a tensor function has plain parameters only", "text.C12")
        for part in ast.walk(node):
            if isinstance(part, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                self.function.assigned.update(t.id for t in targets if isinstance(t, ast.Name))
        for line in node.body:
            if (
                isinstance(line, ast.Assign)
                and isinstance(line.targets[0], ast.Name)
                and isinstance(line.value, ast.Call)
            ):
                of = self.context.member(line.value)
                if of in DTYPES and not line.value.args:
                    self.function.declared[line.targets[0].id] = DTYPES[of]
        self.parameters(node.args.args)
        root = BlockHead("root")
        self.heads.append(root)
        body = run_task(self.statements(node.body))
        self.heads.pop()
        for window in reversed(self.function.windows):
            body = tensor.Alias(window, body)
        if needs_root(body, root.allocated) and blocks:
            body = replace(root, reads=root.reads or (), writes=root.writes or ()).block(body)
        for b in reversed(self.function.params):
            for var in reversed(noted(b)):
                value = self.function.implied.pop(var, None)
                body = body if value is None else tensor.LetStmt(var, value, body)
        for name in self.function.handles:
            raise self.source.unsupported(
                node, f"parameter {name} is a pointer that no buffer is matched to", "text.C7"
            )
        attrs = dict(self.function.attrs)
        if not (self.function.is_new and blocks) and not any(
            isinstance(s, tensor.Block) for s in tensor.program_order(body)
        ):
            attrs["s_tir"] = False  # a text of an earlier version without blocks, or a newer one that may have none
        if not private:
            attrs.setdefault("global_symbol", node.name)
        count = attrs.pop("num_outputs", None)
        params = tuple(self.function.params)
        if count is None:
            count = self.outputs(node, params, body)
        if not isinstance(count, int) or not 0 <= count <= len(params):
            raise self.source.error(node, f"num_outputs is a number from 0 to {len(params)}, not {count}", "text.C12")
        func = tensor.PrimFunc(node.name, params, count, body, attrs, tuple(self.function.scalars))
        with self.source.at(node):
            check_prim_func(func)
        return func

    def outputs(self, node: ast.FunctionDef, params: Sequence[tensor.Buffer], body: tensor.Stmt) -> int:
        """How many parameters are written; they must be the last."""
        if handed_over(params, body):
            message = (
                f'{node.name} hands parameters to calls: T.func_attr({{"num_outputs": N}}) says how many are outputs'
            )
            raise self.source.unsupported(node, message, "text.C12")
        stored = stored_parameters(params, body)
        count = len(stored)
        if stored != set(params[len(params) - count :]):
            last = next(b.name for b in reversed(params) if b not in stored)
            first = next(b.name for b in params if b in stored)
            message = (
                f"{node.name} writes {first} but only reads {last}, which comes after it: the parameters that are"
                ' written come last (T.func_attr({"num_outputs": N}) says how many are outputs)'
            )
            raise self.source.unsupported(node, message, "text.C12")
        return count

    def decorator(self, node: ast.FunctionDef) -> tuple[bool, bool]:
        """Whether the function is private, and whether its body may have blocks (always, in older texts)."""
        for d in node.decorator_list:
            if self.context.member(d) != "prim_func":
                continue
            if not isinstance(d, ast.Call):
                return False, True
            flags = {k.arg: k.value.value for k in d.keywords if isinstance(k.value, ast.Constant)}
            unknown = [k.arg for k in d.keywords if k.arg not in ("private", "s_tir", "check_well_formed", "tirx")]
            if d.args or unknown:
                raise self.source.error(d, "T.prim_func takes private= and s_tir= only", "text.C5")
            self.function.is_new = "s_tir" in flags
            return bool(flags.get("private", False)), bool(flags.get("s_tir", True))
        raise self.source.error(node, f"{node.name} is no tensor function: @T.prim_func is missing", "text.C12")

    # --- parameters ----------------------------------------------------------------------------------------------

    def parameters(self, params: Sequence[ast.arg]) -> None:
        """Scalars first: the shapes of buffers may name any of them."""
        waiting: list[ast.arg] = []
        for p in params:
            if sum(q.arg == p.arg for q in params) > 1:
                raise self.source.error(p, f"two parameters are called {p.arg}", "text.C12")
            kind = self.context.member(p.annotation) if p.annotation is not None else None
            scalar = self.lines.scalar_type(p.annotation)
            if scalar is not None:
                var = Var(p.arg, scalar)
                self.function.scalars.append(var)
                self.names.declare(p.arg, var)
            elif kind in ("handle", "Buffer") or (
                isinstance(p.annotation, ast.Subscript) and self.context.member(p.annotation.value) == "Buffer"
            ):
                waiting.append(p)
            else:
                raise self.source.error(
                    p, f"parameter {p.arg} is T.Buffer(...), T.handle or a scalar such as T.int64", "text.C12"
                )
        for p in waiting:
            with self.source.at(p):
                self.parameter(p)

    def parameter(self, p: ast.arg) -> None:
        match p.annotation:
            case ast.Call() if self.context.member(p.annotation) == "Buffer":
                given = self.context.arguments(p.annotation, BUFFER)
                self.lines.declare_param(self.buffers.spread(p.arg, p.annotation, given))
            case ast.Subscript(slice=inside):  # T.Buffer[(4, 4), "float32"]
                pair = (
                    inside.elts
                    if isinstance(inside, ast.Tuple) and inside.elts and not isinstance(inside.elts[-1], ast.Tuple)
                    else [inside]
                )
                if len(pair) == 2 and isinstance(pair[1], ast.Constant) and isinstance(pair[1].value, str):
                    given = {"shape": pair[0], "dtype": pair[1]}
                else:
                    given = {"shape": inside}
                self.lines.declare_param(self.buffers.spread(p.arg, p, given))
            case _:
                self.function.handles[p.arg] = len(self.function.params) + len(self.function.handles)

    # --- statements ----------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ast.stmt]) -> Task[tensor.Stmt]:
        """Statements one after another: what is declared holds until their end."""
        if self.calls.before and body:
            raise self.source.unsupported(body[0], "an extern has no place in the line above", "text.C7")
        mark = self.names.mark()
        items: list[tensor.Stmt | Opener] = []
        for node in body:
            try:
                item = self.calls.after_calls((yield self.statement(node)), node)
            except Invalid as wrong:
                self.source.locate(wrong, node)
            if item is not None:
                items.append(item)
        self.names.leave(mark)
        rest: list[tensor.Stmt] = []
        for item in reversed(items):
            if isinstance(item, tensor.Stmt):
                rest.append(item)
            else:
                rest = [item(tensor.seq(*reversed(rest)))]
        return tensor.seq(*reversed(rest))

    def statement(self, node: ast.stmt) -> Task[Item]:
        item: Item
        match node:
            case ast.For():
                item = yield self.loop(node)
                return item
            case ast.While():
                condition = self.context.condition(node.test)
                if node.orelse:
                    raise self.source.error(node.orelse[0], "while has no else here", "text.C4")
                body = yield self.statements(node.body)
                return tensor.While(condition, body, span=self.source.span(node))
            case ast.If():
                condition = self.context.condition(node.test)
                before, self.calls.before = self.calls.before, []
                then = yield self.statements(node.body)
                otherwise = (yield self.statements(node.orelse)) if node.orelse else None
                self.calls.before = before
                return tensor.If(condition, then, otherwise, span=self.source.span(node))
            case ast.With():
                item = yield self.with_(node, 0)
                return item
            case ast.Assert():
                return self.lines.assertion(node)
            case ast.Pass():
                return None
            case ast.Expr(value=ast.Constant(value=str())):
                return None
            case ast.Expr(value=ast.Call() as call):
                return self.lines.call(node, call)
            case ast.Expr():
                return tensor.Evaluate(self.scalars.expr(node.value), span=self.source.span(node))
            case ast.Assign(targets=[target]):
                return self.lines.assign(node, target, node.value)
            case ast.AnnAssign(target=ast.Name() as target):
                return self.lines.annotated(node, target)
            case ast.AugAssign():
                read = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
                return self.lines.assign(node, node.target, read)
            case _:
                raise self.source.error(node, f"{type(node).__name__} has no place in a tensor function", "text.C4")

    # --- loops ---------------------------------------------------------------------------------------------------

    def loop(self, node: ast.For) -> Task[tensor.Stmt]:
        if node.orelse:
            raise self.source.error(node.orelse[0], "for has no else here", "text.C4")
        targets = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
        names: list[str] = []
        for t in targets:
            if not isinstance(t, ast.Name):
                raise self.source.error(t, "the name of a loop variable expected", "text.C4")
            names.append(t.id)
        call = node.iter
        name = self.context.member(call) or (
            call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
        )
        if not isinstance(call, ast.Call) or (name not in LOOPS and name != "grid"):
            what = "a loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll or T.grid"
            if name == "thread_binding":
                raise self.source.unsupported(call, "loops bound to threads are not handled", "text.C7")
            raise self.source.error(call, what, "text.C4")
        mark = self.names.mark()
        span = self.source.span(node)
        if name == "grid":
            if len(call.args) != len(names) or call.keywords:
                raise self.source.error(call, f"{len(names)} extents expected, {len(call.args)} given", "text.C5")
            extents = [self.context.integer(a) for a in call.args]
            vars = [Var(n, e.dtype) for n, e in zip(names, extents, strict=True)]
            nest: list[Opener] = [
                partial(for_, v, e, "serial", None, {}, span) for v, e in zip(vars, extents, strict=True)
            ]
        else:
            if len(names) != 1:
                raise self.source.error(node.target, "one loop variable expected", "text.C5")
            vars, nest = self.blocks.single(call, names[0], name, span)
        for v in vars:
            self.names.declare(v.name, v)
        for opener in nest:
            loop = opener(tensor.seq())
            if isinstance(loop, tensor.For):
                self.context.loops[loop.var] = loop.start, loop.extent
        body: tensor.Stmt = yield self.statements(node.body)
        self.names.leave(mark)
        for opener in reversed(nest):
            body = opener(body)
        return body

    # --- with ----------------------------------------------------------------------------------------------------

    def with_(self, node: ast.With, index: int) -> Task[tensor.Stmt | None]:
        """`with` has one or several items, the later ones inside the earlier."""
        item = node.items[index]
        call = item.context_expr
        name = self.context.member(call)
        inner = self.statements(node.body) if index + 1 == len(node.items) else self.with_(node, index + 1)
        if not isinstance(call, ast.Call) or name is None:
            raise self.source.error(call, "with T.sblock(...), T.init() or T.attr(...) expected", "text.C4")
        mark, span = self.names.mark(), self.source.span(node)
        result: tensor.Stmt | None
        if name in _BLOCKS:
            inner.close()
            result = yield self.block(node, call)
            return result
        if name == "init":
            if len(self.heads) < 2 or self.heads[-1].init is not None:
                raise self.source.error(node, "T.init() stands once, in a block", "text.C13")
            self.heads[-1].init = yield inner
            return None
        opener = self.with_opener(call, name, item.optional_vars, span)
        body = (yield inner) or tensor.seq()
        self.names.leave(mark)
        result = opener(body)
        return result

    def with_opener(self, call: ast.Call, name: str, target: ast.expr | None, span: Span) -> Opener:
        bound = target.id if isinstance(target, ast.Name) else None
        if name == "attr":
            return self.blocks.pragma(call, span)
        if name in ("LetStmt", "let"):
            value = self.scalars.expr(call.args[0]) if call.args else None
            if bound is None or value is None:
                raise self.source.error(call, "with T.LetStmt(value) as name: expected", "text.C4")
            var = Var(bound, value.dtype)
            self.names.declare(bound, var)
            return partial(let_stmt, var, value, span)
        if name == "Assert":
            given = self.context.arguments(call, ("condition", "message"))
            check = tensor.Assert(
                self.context.condition(given["condition"]), self.context.string(given["message"]), span=span
            )
            return lambda body: tensor.seq(check, body)
        if bound is not None:
            opener = self.lines.declaration(call, name, bound, span)
            if opener is not None:
                return opener
        raise self.source.unsupported(call, f"with T.{name} is not handled", "text.C7")

    # --- blocks --------------------------------------------------------------------------------------------------

    def block(self, node: ast.With, call: ast.Call) -> Task[tensor.Stmt]:
        if len(node.items) != 1:
            raise self.source.error(node, "a block stands by itself", "text.C13")
        given = self.context.arguments(call, ("name", "no_realize"))
        head = BlockHead(self.context.string(given["name"]) if "name" in given else "")
        mark = self.names.mark()
        self.heads.append(head)
        body = yield self.statements(node.body)
        self.heads.pop()
        self.names.leave(mark)
        return replace(head.block(body), span=self.source.span(node))
