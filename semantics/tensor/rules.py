"""Static rules of tensor functions (specs/semantics.md, "Well-formed"); `assay.semantics.rules` checks whole
modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from assay.semantics import tensor
from assay.semantics.dtypes import BOOL, dtype
from assay.semantics.errors import Invalid
from assay.semantics.scalar import Expr, Load, Var, const, variables
from assay.semantics.tensor.places import has_bytes, same_width
from assay.semantics.walk import Worklist, post_order


def check_prim_func(function: tensor.PrimFunc) -> None:
    """Every buffer allocated around its use, every scalar bound around its use and only once there, conditions bool,
    names unique."""
    if not 0 <= function.num_outputs <= len(function.params):
        raise Invalid(f"{function.num_outputs} outputs of {len(function.params)} parameters", label="tensor.C6")
    names = [*(b.name for b in function.params), *(v.name for v in function.scalars)]
    if len(set(names)) != len(names):
        raise Invalid("two parameters have one name", label="tensor.C7")
    symbols = {v for b in function.params for d in b.shape for v in variables(d)}
    scope = _TensorScope({*function.params, *symbols, *function.scalars})
    work = Worklist([function.body])
    for item in work:
        try:
            bound = scope.statement(item)
        except Invalid as wrong:
            raise wrong.at(item.span) from None
        for b in bound:
            work.on_leave(scope.bound.discard, b)
        work.add(item.children)


def _check_constant(item: tensor.AllocateConst) -> None:
    """Data, the name of some, or both; data of the buffer's dtype and shape."""
    buffer, data = item.buffer, item.data
    symbolic = next((d for d in buffer.shape if not isinstance(d, int)), None)
    if symbolic is not None:
        what = f"{buffer} is a constant, and its dim {symbolic} is no number"
        raise Invalid(what, label="tensor.C23")
    if data is None:
        if not item.index:
            what = f"{buffer} has neither data nor the name of a constant of the module"
            raise Invalid(what, label="tensor.C9")
        return
    if dtype(data.dtype) is not buffer.dtype:
        raise Invalid(f"{buffer} is given data of dtype {data.dtype}", label="tensor.C24")
    if data.shape != buffer.static_shape:
        what = f"{buffer} has {prod(buffer.static_shape)} elements, and is given {data.size} of shape {data.shape}"
        raise Invalid(what, label="tensor.C25")


def _check_block(block: tensor.Block, scope: _TensorScope) -> None:
    """Iterators of one integer dtype each, a bool predicate, regions and views of buffers that are there."""
    for i in block.iterators:
        if not i.var.dtype.is_integer or any(e.dtype is not i.var.dtype for e in i.expressions):
            dtypes = ", ".join(str(e.dtype) for e in i.expressions)
            raise Invalid(
                f"block {block.name}: iterator {i.var.name} is {i.var.dtype}, its domain and value are {dtypes}",
                label="tensor.C12",
            )
    if block.predicate is not None and block.predicate.dtype is not BOOL:
        raise Invalid(f"a condition is bool, not {block.predicate.dtype}", label="tensor.C5")
    scope.check(block.inner_expressions)
    for v in block.views:
        scope.view(v)
    for r in (*(block.reads or ()), *(block.writes or ())):
        scope.access(r.buffer, r.starts)


@dataclass(frozen=True)
class _TensorScope:
    """What is declared at some place of a tensor function. Failures have no place: it is that of the statement."""

    bound: set[tensor.Buffer | Var]
    constants: dict[tensor.Buffer, tensor.Buffer] = field(default_factory=dict)
    """The constant that a buffer is, or is a view of."""

    def statement(self, item: tensor.Stmt) -> list[Var | tensor.Buffer]:
        """Checks what a statement says itself, and declares what it binds for its parts: that is the result."""
        self.check(item.expressions)
        bound = self.bound_by(item)
        for b in bound:
            if isinstance(b, tensor.Buffer):
                self.check([d for d in b.shape if isinstance(d, Expr)])
            self.enter(b)
        match item:
            case tensor.Block():
                _check_block(item, self)
            case tensor.AllocateConst():
                _check_constant(item)
            case tensor.Store():
                self.access(item.buffer, item.indices)
                self.written(item.buffer)
                if item.value.dtype is not item.buffer.dtype:
                    raise Invalid(f"store of {item.value.dtype} into {item.buffer}", label="tensor.C3")
            case tensor.Call():
                for buffer in item.buffers:
                    self.access(buffer, [const(0)] * len(buffer.shape))
                if item.result is not None:
                    self.access(item.result.buffer, item.result.indices)
                    self.written(item.result.buffer)
            case tensor.If() | tensor.While() | tensor.Assert() if item.condition.dtype is not BOOL:
                raise Invalid(f"a condition is bool, not {item.condition.dtype}", label="tensor.C5")
            case tensor.For() if item.start is not None and item.start.dtype is not item.extent.dtype:
                both = f"starts at {item.start.dtype} and has {item.extent.dtype} iterations"
                raise Invalid(f"the loop over {item.var.name} {both}", label="tensor.C11")
        return bound

    def bound_by(self, item: tensor.Stmt) -> list[Var | tensor.Buffer]:
        """What a statement declares for its parts."""
        match item:
            case tensor.For() | tensor.LetStmt():
                return [item.var]
            case tensor.AllocateConst():
                self.constants[item.buffer] = item.buffer
                return [item.buffer]
            case tensor.Alias():
                self.view(item.view)
                return [item.view.buffer]
            case tensor.Block():
                return [*(i.var for i in item.iterators), *item.allocated, *(v.buffer for v in item.views)]
            case _:
                return [*tensor.allocated(item)]

    def written(self, buffer: tensor.Buffer) -> None:
        """A constant is read-only, through views too (rule M6)."""
        if buffer in self.constants:
            whole = self.constants[buffer]
            through = "" if whole is buffer else f" through {buffer.name}"
            what = f"{whole.name} is a constant, and is written{through}"
            raise Invalid(f"{what}: copy it to a buffer of its own, and write that", label="tensor.C26")

    def enter(self, of: tensor.Buffer | Var) -> None:
        if of in self.bound:
            raise Invalid(
                f"{of.name} is bound again inside its own scope; the inner one must be another variable or buffer, of"
                " the same name if you like",
                label="tensor.C19",
            )
        self.bound.add(of)

    def check(self, exprs: Sequence[Expr]) -> None:
        for expr in exprs:
            for node in post_order(expr):
                if isinstance(node, Var) and node not in self.bound:
                    raise Invalid(f"scalar {node.name} is not bound", label="tensor.C8")
                if isinstance(node, Load):
                    self.access(node.buffer, node.indices)

    def access(self, buffer: tensor.Buffer, indices: Sequence[Expr]) -> None:
        if buffer not in self.bound:
            raise Invalid(f"buffer {buffer.name} is not allocated here", label="tensor.C10")
        if len(indices) != len(buffer.shape):
            raise Invalid(f"{buffer} is accessed with {len(indices)} indices", label="tensor.C2")
        for i in indices:
            if not i.dtype.is_integer:
                raise Invalid(f"{buffer} is accessed at {i.dtype} {i}", label="tensor.C13")

    def view(self, view: tensor.View) -> None:
        if view.source not in self.bound:
            raise Invalid(f"buffer {view.source.name} is not allocated here", label="tensor.C10")
        if view.source in self.constants:
            self.constants[view.buffer] = self.constants[view.source]
        fits = (has_bytes if view.region is None else same_width)(view.source.dtype, view.buffer.dtype)
        if not fits or len(view.strides) != len(view.buffer.shape):
            what = f"{view.buffer} with {len(view.strides)} strides is no view of {view.source}"
            raise Invalid(what, label="tensor.C14")
