"""Tensor functions as text: the printer (specs/semantics.md, "Text").

    print_prim_func(func, {n: "n"})                           # the lines of one function, in the dialect of apache-tvm
    0.27

The mapping names the symbols that the module declares (`module_symbols`). Reading the text gives the same function
again. What TVM has no words for, such as constants in a function or a declaration that ends before its scope does, is
written in its older spellings, which only Assay reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.semantics import tensor
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Crash, Unsupported
from assay.semantics.graph.sizes import sizes_in
from assay.semantics.scalar import Apply, Expr, Var, same, simplify, variables
from assay.semantics.text.outputs import alone, cells_of, derived_outputs, needs_root, noted
from assay.semantics.text.scalars.printer import SUM
from assay.semantics.text.tensor.names import BufferText, PrintedNames, later, parameter_symbols, quoted_literal
from assay.semantics.walk import Worklist

"""A statement at a depth of indentation, and whether its scope ends with it; or something else to be done."""

_LOOPS = {"serial": "serial", "parallel": "parallel", "vectorized": "vectorized", "unrolled": "unroll"}
_FLAGS = ("global_symbol", "s_tir")
DEEPEST = 98
"""Levels of indentation, one less than Python takes."""


def module_symbols(func: tensor.PrimFunc) -> tuple[Var, ...]:
    """The symbols that a module declares for this function: `n = TypeVar("n")`. What it claims to compute may
    be said in symbols of its caller."""
    claims = func.attrs.get("attrs")
    claimed = [s for s in sizes_in(claims.values()) if s not in func.scalars] if isinstance(claims, Mapping) else []
    return tuple(v for v in dict.fromkeys((*parameter_symbols(func), *claimed)) if v.dtype is INT64)


def print_prim_func(func: tensor.PrimFunc, symbols: Mapping[Var, str], name: str | None = None, depth: int = 0) -> str:
    """The text of a function, every line indented `depth` times; it ends with a line feed."""
    printer = _Printer(func, symbols, depth)
    printer.run(func.name if name is None else name)
    return "".join(printer.lines)


class _Printer:
    def __init__(self, func: tensor.PrimFunc, symbols: Mapping[Var, str], depth: int) -> None:
        names = PrintedNames(symbols.values())
        self.buffers = buffers = BufferText(names)
        self.names, self.cells, self.scalars = names, buffers.cells, buffers.scalars
        for v, name in symbols.items():
            names[v] = name
        self.func = func
        self.base = depth
        self.lines: list[str] = []
        self.work = Worklist[tuple[tensor.Stmt, int, bool]]([])
        """Statements, how deep they stand, and whether each is the last of its scope."""
        self.loops: dict[Var, tensor.For] = {}
        self.first: dict[tensor.Buffer, tensor.Store] = {}
        self.skipped: set[tensor.Store] = set()

    def line(self, depth: int, text: str) -> None:
        if self.base + depth > DEEPEST:
            raise Unsupported(
                f"{self.func.name} is nested more than {DEEPEST} deep, which Python cannot read", label="text.C10"
            )
        self.lines.append(f"{'    ' * (self.base + depth)}{text}\n")

    def run(self, name: str) -> None:
        func, body = self.func, alone(self.func.body)
        hidden = later(func)
        for v in parameter_symbols(func):
            if v not in self.names:
                if v.dtype is INT64:
                    raise Unsupported(f"symbol {v.name} of {func.name} has no name in the module", label="text.C10")
                self.names.declare(v)
        for v in func.scalars:
            self.names.declare(v)
        words = [f"{self.names.declare(b)}: T.Buffer({self.buffers.buffer(b, hidden)})" for b in func.params]
        words += [f"{self.names[v]}: T.{v.dtype}" for v in func.scalars]
        root = body if isinstance(body, tensor.Block) and _is_root(body) else None
        places = {v for b in func.params for v in noted(b)}
        while isinstance(body, tensor.LetStmt) and body.var in places:  # the calling convention says it
            body = alone(body.body)
            root = body if isinstance(body, tensor.Block) and _is_root(body) else None
        self.first = cells_of(func.body)
        flags = ["private=True"] if "global_symbol" not in func.attrs else []
        if root is None and needs_root(body, ()):
            flags.append("s_tir=False")
        elif func.attrs.get("s_tir", True):
            flags.append("s_tir=True")
        if not any(f.startswith("s_tir") for f in flags):
            self.first = {}  # a reader of a text without that flag takes them for names of values
        self.line(0, "@T.prim_func" + (f"({', '.join(flags)})" if flags else ""))
        self.line(0, f"def {name}({', '.join(words)}):")
        start = len(self.lines)
        for v in parameter_symbols(func):
            if v.dtype is not INT64:
                self.line(1, f"{self.names[v]} = T.{v.dtype}()")
        attrs = {k: v for k, v in func.attrs.items() if k not in _FLAGS or (k == "global_symbol" and v != name)}
        if derived_outputs(func.params, body) != func.num_outputs:
            attrs["num_outputs"] = func.num_outputs
        if attrs:
            self.line(1, f"T.func_attr({self.buffers.data(attrs)})")
        if root is not None:
            self.line(1, '# with T.sblock("root"):')
            for b in root.allocated:
                self.line(1, f"{self.names.declare(b)} = T.sblock_alloc_buffer({self.buffers.buffer(b)})")
            body = root.body
        self.statements(body, 1)
        if all(line.lstrip().startswith("#") for line in self.lines[start:]):
            self.line(1, "pass")

    # --- statements ----------------------------------------------------------------------------------------------

    def statements(self, body: tensor.Stmt, depth: int) -> None:
        self.work.add([(body, depth, True)])
        for stmt, at, last in self.work:
            self.statement(stmt, at, last)

    def inside(self, body: tensor.Stmt, depth: int, *names: Var | tensor.Buffer) -> None:
        """`body` is printed next, as the whole of a scope; then the names are free again."""
        start = len(self.lines)

        def end() -> None:
            self.names.leave(*names)
            if len(self.lines) == start:
                self.line(depth, "pass")

        self.work.on_leave(end)
        self.work.add([(body, depth, True)])

    def statement(self, stmt: tensor.Stmt, depth: int, last: bool) -> None:
        match stmt:
            case tensor.Seq():
                self.work.add((s, depth, last and i == len(stmt.body) - 1) for i, s in enumerate(stmt.body))
            case tensor.For():
                self.loop(stmt, depth)
            case tensor.While():
                self.line(depth, f"while {self.scalars.text(stmt.condition)}:")
                self.inside(stmt.body, depth + 1)
            case tensor.If():
                self.branch(stmt, depth, "if")
            case tensor.LetStmt() if not last and (lanes := stored_lanes(stmt)) is not None:
                self.line(depth, self.vector(*lanes))
            case tensor.LetStmt():
                value = self.scalars.text(stmt.value)
                name = self.names.declare(stmt.var)
                if stmt.var.dtype is not stmt.value.dtype:
                    raise Unsupported(f"{name} is {stmt.var.dtype}, its value {stmt.value.dtype}", label="text.C10")
                flat = f"{name}: T.let[T.{stmt.var.dtype}] = {value}"
                self.declaration(stmt, stmt.var, depth, last, flat, f"with T.LetStmt({value}) as {name}:")
            case tensor.Allocate() if last and stmt.buffer in self.first:
                name = self.names.declare(stmt.buffer)
                self.cells.add(stmt.buffer)
                self.skipped.add(self.first[stmt.buffer])
                value = self.scalars.text(self.first[stmt.buffer].value)
                self.line(depth, f"{name}: T.{stmt.buffer.dtype} = {value}")
                self.work.on_leave(self.names.leave, stmt.buffer)
                self.work.add([(stmt.body, depth, True)])
            case tensor.Store() if stmt in self.skipped:
                self.skipped.discard(stmt)
            case tensor.Store() if stmt.buffer in self.cells:
                self.line(depth, f"{self.scalars.name(stmt.buffer)} = {self.scalars.text(stmt.value)}")
            case tensor.Allocate() | tensor.AllocateConst() | tensor.Alias():
                if isinstance(stmt, tensor.Alias):
                    buffer, text = stmt.view.buffer, self.buffers.view(stmt.view)
                elif isinstance(stmt, tensor.Allocate):
                    buffer, text = stmt.buffer, f"T.alloc_buffer({self.buffers.buffer(stmt.buffer)})"
                else:
                    buffer, text = stmt.buffer, self.buffers.constant(stmt)
                name = self.names.declare(buffer)
                self.declaration(stmt, buffer, depth, last, f"{name} = {text}", f"with {text} as {name}:")
            case tensor.Pragma():
                self.line(depth, f"with T.attr({{{quoted_literal(stmt.key)}: {self.buffers.data(stmt.value)}}}):")
                self.inside(stmt.body, depth + 1)
            case tensor.Block():
                self.block(stmt, depth)
            case tensor.Store():
                index = ", ".join(self.scalars.text(i) for i in stmt.indices) or "()"
                self.line(depth, f"{self.scalars.name(stmt.buffer)}[{index}] = {self.scalars.text(stmt.value)}")
            case tensor.Assert():
                kind = "RuntimeError" if stmt.kind == "assertion" else stmt.kind
                shown = f", [{', '.join(map(self.scalars.text, stmt.values))}]" if stmt.values else ""
                message = f"({quoted_literal(kind)}, [{quoted_literal(stmt.message)}]{shown})"
                self.line(depth, f"assert {self.scalars.text(stmt.condition)}, {message}")
            case tensor.Call():
                self.line(depth, self.call(stmt))
            case tensor.Evaluate():
                self.line(depth, f"T.evaluate({self.scalars.text(stmt.value)})")
            case _:
                raise Crash(f"no such statement: {type(stmt).__name__}")

    def vector(
        self, buffer: tensor.Buffer, first: Sequence[Expr], along: int, step: int, values: Sequence[Expr]
    ) -> str:
        """The store of a vector, its lanes put together."""
        index = [self.scalars.text(e) for e in first]
        index[along] += f":{self.scalars.text(first[along] + len(values) * step)}" + (f":{step}" if step > 1 else "")
        lanes = ", ".join(map(self.scalars.text, values))
        which = ", ".join(map(str, range(len(values))))
        return f"{self.scalars.name(buffer)}[{', '.join(index)}] = T.Shuffle([{lanes}], [{which}])"

    def call(self, stmt: tensor.Call) -> str:
        words = [quoted_literal(stmt.function)] if stmt.extern else []
        for a in stmt.args:
            if isinstance(a, tensor.Buffer):
                words.append(f"{self.scalars.name(a)}.data")
            else:
                words.append(quoted_literal(a) if isinstance(a, str) else self.scalars.text(a))
        if stmt.result is not None:
            words.insert(0, quoted_literal(stmt.result.dtype.name))
            to = self.scalars.text(stmt.result)
            return f"{to} = T.call_extern({', '.join(words)})"
        return f"{'T.call_packed' if stmt.extern else f'Module.{stmt.function}'}({', '.join(words)})"

    def declaration(
        self,
        stmt: tensor.LetStmt | tensor.Allocate | tensor.AllocateConst | tensor.Alias,
        of: Var | tensor.Buffer,
        depth: int,
        last: bool,
        flat: str,
        scoped: str,
    ) -> None:
        """A declaration holds to the end of the scope that it stands in; one that ends before is written with
        `with`."""
        if last:
            self.line(depth, flat)
            self.work.on_leave(self.names.leave, of)
            self.work.add([(stmt.body, depth, True)])
        else:
            self.line(depth, scoped)
            self.inside(stmt.body, depth + 1, of)

    def branch(self, stmt: tensor.If, depth: int, word: str) -> None:
        self.line(depth, f"{word} {self.scalars.text(stmt.condition)}:")
        otherwise = stmt.otherwise
        if otherwise is not None:

            def rest(other: tensor.Stmt = otherwise) -> None:
                if isinstance(other, tensor.If):
                    self.branch(other, depth, "elif")
                else:
                    self.line(depth, "else:")
                    self.inside(other, depth + 1)

            self.work.on_leave(rest)
        self.inside(stmt.then, depth + 1)

    def loop(self, stmt: tensor.For, depth: int) -> None:
        nest = [stmt]
        while _is_plain(nest[-1]) and isinstance(nest[-1].body, tensor.For) and _is_plain(nest[-1].body):
            inner = nest[-1].body
            if any(v in [f.var for f in nest] for v in variables(inner.extent)):
                break
            nest.append(inner)
        for f in nest:
            if f.var.dtype is not f.extent.dtype:
                raise Unsupported(f"loop {f.var.name} is {f.var.dtype}, its extent {f.extent.dtype}", label="text.C10")
        extents = ", ".join(self.scalars.text(f.extent) for f in nest)
        names = ", ".join([self.names.declare(f.var) for f in nest])
        if len(nest) > 1:
            text = f"T.grid({extents})"
        else:
            text = self.range(stmt)
        self.line(depth, f"for {names} in {text}:")
        for f in nest:
            self.loops[f.var] = f
        self.inside(nest[-1].body, depth + 1, *(f.var for f in nest))

    def range(self, stmt: tensor.For) -> str:
        extent = self.scalars.text(stmt.extent)
        if stmt.start is not None:
            extent = f"{self.scalars.text(stmt.start)}, {self.stop(stmt.start, stmt.extent)}"
        if stmt.kind == "serial" and not stmt.annotations:
            return f"range({extent})"
        notes = f", annotations={self.buffers.data(stmt.annotations)}" if stmt.annotations else ""
        return f"T.{_LOOPS[stmt.kind]}({extent}{notes})"

    def stop(self, start: Expr, extent: Expr) -> str:
        """`start + extent`, written so that the extent can be read back."""
        if isinstance(extent, Apply) and extent.op == "sub" and same(extent.args[1], start):
            return self.scalars.text(extent.args[0])
        total = start + extent
        if isinstance(total, Apply) and total.op == "add" and total.args[0] is start:
            return self.scalars.text(total)
        if isinstance(total, Apply):
            return f"{self.scalars.text(start, SUM)} + {self.scalars.text(extent, SUM + 1)}"
        return self.scalars.text(total)

    def block(self, block: tensor.Block, depth: int) -> None:
        self.line(depth, f"with T.sblock({quoted_literal(block.name)}):")
        inner = depth + 1
        plain = [self._is_loop(i.value, i.start, i.extent) and i.kind in ("spatial", "reduce") for i in block.iterators]
        values = [self.scalars.text(i.value) for i in block.iterators]
        domains = [self._domain(i.start, i.extent) for i in block.iterators]
        predicate = None if block.predicate is None else self.scalars.text(block.predicate)
        names = [self.names.declare(i.var) for i in block.iterators]
        if len(names) > 1 and all(plain):
            kinds = "".join(i.kind[0].upper() for i in block.iterators)
            self.line(inner, f'{", ".join(names)} = T.axis.remap("{kinds}", [{", ".join(values)}])')
        else:
            for i, name, domain, value in zip(block.iterators, names, domains, values, strict=True):
                self.line(inner, f"{name} = T.axis.{i.kind}({domain}, {value})")
        if predicate is not None:
            self.line(inner, f"T.where({predicate})")
        for word, regions in (("reads", block.reads), ("writes", block.writes)):
            if regions is not None:
                self.line(inner, f"T.{word}({', '.join(map(self.buffers.region, regions))})")
        if block.annotations:
            self.line(inner, f"T.sblock_attr({self.buffers.data(block.annotations)})")
        for b in block.allocated:
            self.line(inner, f"{self.names.declare(b)} = T.sblock_alloc_buffer({self.buffers.buffer(b)})")
        for v in block.views:
            text = self.buffers.match(v)
            self.line(inner, f"{self.names.declare(v.buffer)} = {text}")
        own: tuple[Var | tensor.Buffer, ...] = (
            *(i.var for i in block.iterators),
            *block.allocated,
            *(v.buffer for v in block.views),
        )
        self.inside(block.body, inner, *own)
        if block.init is not None:
            self.line(inner, "with T.init():")
            self.inside(block.init, inner + 1)

    def _domain(self, start: Expr | None, extent: Expr) -> str:
        if start is None:
            return self.scalars.text(extent)
        return f"({self.scalars.text(start)}, {self.stop(start, extent)})"

    def _is_loop(self, value: Expr, start: Expr | None, extent: Expr) -> bool:
        """Whether an iterator just follows a loop."""
        loop = self.loops.get(value) if isinstance(value, Var) else None
        if loop is None or not same(loop.extent, extent):
            return False
        return loop.start is start or (loop.start is not None and start is not None and same(loop.start, start))


def stored_lanes(stmt: tensor.LetStmt) -> tuple[tensor.Buffer, Sequence[Expr], int, int, Sequence[Expr]] | None:
    """The vector that a chain of lets stores: where its first lane goes, along which dimension and how far apart, the
    lanes.

    None for what is no such chain. A reader makes the chain of it again.
    """
    names: list[Var] = []
    values: list[Expr] = []
    body: tensor.Stmt = stmt
    while isinstance(body, tensor.LetStmt):
        names.append(body.var)
        values.append(body.value)
        body = body.body
    stores = [s for s in body.children if isinstance(s, tensor.Store)] if isinstance(body, tensor.Seq) else []
    if len(stores) != len(names) or len(body.children) != len(names) or len(names) < 2:
        return None
    if any(s.value is not v or s.buffer is not stores[0].buffer for s, v in zip(stores, names, strict=True)):
        return None
    used = {v for s, e in zip(stores, values, strict=True) for part in (*s.indices, e) for v in variables(part)}
    if used & set(names) or any(v.dtype is not e.dtype for v, e in zip(names, values, strict=True)):
        return None
    first = stores[0].indices
    moving = [d for d, e in enumerate(first) if not all(same(s.indices[d], e) for s in stores)]
    if len(moving) != 1:
        return None
    (along,) = moving
    step = simplify(stores[1].indices[along] - first[along])
    if not isinstance(step, int) or step < 1:
        return None
    apart = all(same(s.indices[along], first[along] + k * step) for k, s in enumerate(stores[1:], start=1))
    return (stores[0].buffer, first, along, step, values) if apart else None


def _is_plain(loop: tensor.For) -> bool:
    return loop.kind == "serial" and loop.start is None and not loop.annotations


def _is_root(block: tensor.Block) -> bool:
    """Whether reading supplies this block, so that it need not be written."""
    bare = block.name == "root" and not (block.iterators or block.views or block.annotations)
    empty = block.predicate is None and block.init is None and block.reads == () and block.writes == ()
    return bare and empty and needs_root(block.body, block.allocated)
