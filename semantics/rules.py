"""Static rules: what a module must be before anything runs (rule M1, Invalid; specs/semantics.md, "Well-formed").

`check(module)` raises Invalid with the label of the first broken rule, the place, and what would be right. It derives
every type anew and compares: an annotation is checked, never believed (rule M4).
"""

from __future__ import annotations

from math import prod

from assay.semantics import graph
from assay.semantics.dtypes import BOOL, dtype
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, CallTIR, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from assay.semantics.module import Module, Program
from assay.semantics.operator import Operator
from assay.semantics.scalar import Load, Var as Symbol, variables
from assay.semantics.tensor import (
    Allocate,
    AllocateConst,
    Buffer,
    For,
    If as IfStmt,
    LetStmt,
    PrimFunc,
    Stmt,
    Store,
    While,
)
from assay.semantics.types import FuncType, TensorType, TupleType, Type, flatten, same_type
from assay.semantics.walk import post_order


def check(module: Module) -> None:
    """Raise Invalid unless every definition of the module is well-formed."""
    for name, d in module.definitions.items():
        try:
            match d:
                case Function():
                    check_function(d, module)
                case PrimFunc():
                    check_prim_func(d)
                case Program():
                    check_program(d, module)
        except Invalid as wrong:
            raise wrong.at(name) from None


# --- graph functions ---------------------------------------------------------------------------------------------


def check_function(function: Function, module: Module) -> None:
    """Every variable bound before its use, every name of the module known, every type as its parts make it."""
    order = list(post_order(function))
    lets = {n.var: n for n in order if isinstance(n, Let)}
    params = {p for n in order if isinstance(n, Function) for p in n.params}
    done: set[int] = set()
    for node in order:
        try:
            if isinstance(node, Var) and node not in params:
                bound = lets.get(node)
                if bound is None:
                    raise Invalid(f"variable {node.name} is not bound", label="graph.C1")
                if id(bound.value) not in done and not isinstance(bound.value, Function):
                    raise Invalid(f"variable {node.name} is used before it is bound", label="graph.C1")
            wanted = derive(node, module)
        except Invalid as wrong:
            raise wrong.at(node.span) from None
        if not same_type(wanted, node.type):
            raise Invalid(f"{graph.show_head(node)}: its parts make {wanted}", where=node.span, label="graph.C3")
        done.add(id(node))
    names = [p.name for p in function.params]
    if len(set(names)) != len(names):
        raise Invalid("two parameters have one name", label="graph.C4")


def derive(node: Expr, module: Module) -> Type:
    """The type of a node from its parts."""
    match node:
        case Var():
            return node.type
        case Constant():
            return TensorType(node.data.shape, dtype(node.data.dtype))
        case GlobalVar() if node.name in module.constants:
            array = module.constants[node.name]
            return TensorType(array.shape, dtype(array.dtype))
        case GlobalVar():
            target = module.definitions.get(node.name)
            if not isinstance(target, Function):
                raise Invalid(f"the module has no function or constant {node.name}", label="graph.C2")
            return target.type
        case Call() if isinstance(node.op, Operator):
            return graph.call(node.op, *node.args, **node.attrs).type
        case Call():
            return graph.call(node.op, *node.args).type
        case CallTIR():
            _check_call_tir(node, module.kernel(node.func))
            return node.type
        case Tuple():
            return TupleType(tuple(f.type for f in node.fields))
        case TupleGetItem():
            return graph.get(node.value, node.index).type
        case Let():
            return graph.let(node.var, node.value, node.body).type
        case If():
            return graph.if_(node.condition, node.then, node.otherwise).type
        case Function():
            declared = node.type.result if isinstance(node.type, FuncType) else None
            return graph.function(node.params, node.body, declared).type
        case _:
            raise Invalid(f"no such expression: {type(node).__name__}", label="graph.C5")


def _check_call_tir(node: CallTIR, kernel: PrimFunc) -> None:
    types = [*(t for a in node.args for t in flatten(a.type)), *flatten(node.type)]
    if len(types) != len(kernel.params):
        raise Invalid(f"{kernel.name} takes {len(kernel.params)} buffers, {len(types)} given", label="call_tir.C1")
    for b, t in zip(kernel.params, types, strict=True):
        if not same_type(TensorType(b.shape, b.dtype), t):
            raise Invalid(f"{kernel.name}: {b} is given {t}", label="call_tir.C2")


# --- tensor functions --------------------------------------------------------------------------------------------


def check_prim_func(function: PrimFunc) -> None:
    """Every buffer allocated around its use, every scalar bound around its use, conditions bool, names unique."""
    if not 0 <= function.num_outputs <= len(function.params):
        raise Invalid(f"{function.num_outputs} outputs of {len(function.params)} parameters", label="tensor.C6")
    buffers: set[Buffer] = set(function.params)
    scalars = {v for b in function.params for d in b.shape for v in variables(d)}
    names = {b.name for b in function.params}
    if len(names) != len(function.params):
        raise Invalid("two parameters have one name", label="tensor.C7")
    work: list[tuple[str, Stmt | Buffer | Symbol]] = [("enter", function.body)]
    while work:
        what, item = work.pop()
        if what == "leave":
            buffers.discard(item)
            scalars.discard(item)
            continue
        assert isinstance(item, Stmt)
        for expr in item.expressions:
            for node in post_order(expr):
                if isinstance(node, Symbol) and node not in scalars:
                    raise Invalid(f"scalar {node.name} is not bound", where=item.span, label="tensor.C8")
                if isinstance(node, Load):
                    _check_access(node.buffer, len(node.indices), buffers, item)
        match item:
            case For() | LetStmt():
                scalars.add(item.var)
                work.append(("leave", item.var))
            case Allocate() | AllocateConst():
                if isinstance(item, AllocateConst) and (
                    item.data.shape != item.buffer.static_shape or dtype(item.data.dtype) is not item.buffer.dtype
                ):
                    raise Invalid(
                        f"{item.buffer} is given data of shape {item.data.shape} and dtype {item.data.dtype}",
                        where=item.span,
                        label="tensor.C9",
                    )
                buffers.add(item.buffer)
                work.append(("leave", item.buffer))
            case Store():
                _check_access(item.buffer, len(item.indices), buffers, item)
                if item.value.dtype is not item.buffer.dtype:
                    raise Invalid(f"store of {item.value.dtype} into {item.buffer}", where=item.span, label="tensor.C3")
            case IfStmt() | While():
                if item.condition.dtype is not BOOL:
                    raise Invalid(f"a condition is bool, not {item.condition.dtype}", where=item.span, label="tensor.C5")
            case _:
                pass
        work += [("enter", s) for s in reversed(item.children)]


def _check_access(buffer: Buffer, indices: int, known: set[Buffer], at: Stmt) -> None:
    if buffer not in known:
        raise Invalid(f"buffer {buffer.name} is not allocated here", where=at.span, label="tensor.C10")
    if indices != len(buffer.shape):
        raise Invalid(f"{buffer} is accessed with {indices} indices", where=at.span, label="tensor.C2")


# --- planned programs --------------------------------------------------------------------------------------------


def check_program(program: Program, module: Module) -> None:
    """Every step calls a known tensor function on known slots of the right dtype and size."""
    for name in (*program.inputs, *program.outputs):
        if name not in program.slots:
            raise Invalid(f"no slot {name}", label="program.C1")
    for i, step in enumerate(program.steps):
        kernel = module.kernel(step.kernel)
        allocated = kernel.allocations
        wanted = [*kernel.params, *allocated]
        given = [*step.reads, *step.writes, *step.scratch]
        if len(step.reads) != len(kernel.inputs) or len(wanted) != len(given):
            raise Invalid(
                f"step {i} gives {step.kernel} {len(given)} slots, it takes {len(wanted)}", where=step.span, label="program.C2"
            )
        made = [*step.writes, *step.scratch]
        if len(set(made)) != len(made) or set(made) & set(step.reads):
            raise Invalid(f"step {i} ({step.kernel}) uses one slot twice", where=step.span, label="program.C5")
        for buffer, name in zip(wanted, given, strict=True):
            slot = program.slots.get(name)
            if slot is None:
                raise Invalid(f"step {i} uses an unknown slot {name}", where=step.span, label="program.C1")
            same_size = prod(slot.type.static_shape) == prod(buffer.static_shape)
            if slot.type.dtype is not buffer.dtype or not same_size:
                raise Invalid(f"step {i}: {buffer} is given slot {name}: {slot.type}", where=step.span, label="program.C3")
            if name in step.writes and slot.place in ("input", "constant"):
                raise Invalid(f"step {i} writes {slot.place} {name}", where=step.span, label="program.C4")
            if name in step.scratch and slot.place != "workspace":
                raise Invalid(f"step {i} uses {slot.place} {name} as scratch", where=step.span, label="program.C4")
