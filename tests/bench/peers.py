"""The interpreters of other projects, on the same computations as ours.

xDSL runs the same loops as our definition: `to_mlir` writes a kernel of ours as scf, arith and memref. StableHLO's
reference interpreter, which comes inside jaxlib, runs the operators that the kernels stand for.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.semantics.scalar import Apply, Cast, Const, Expr, Load, Var
from assay.semantics.tensor import Allocate, Buffer, For, PrimFunc, Seq, Stmt, Store
from assay.semantics.walk import post_order

Array = np.ndarray[Any, Any]
FLOAT_OPS = {
    "add": "arith.addf",
    "sub": "arith.subf",
    "mul": "arith.mulf",
    "div": "arith.divf",
    "max": "arith.maximumf",
}
INDEX_OPS = {"add": "arith.addi", "sub": "arith.subi", "mul": "arith.muli"}


def memref(buffer: Buffer) -> str:
    return f"memref<{'x'.join(map(str, (*buffer.static_shape, 'f32')))}>"


class _Writer:
    """Writes one kernel of float32 buffers and loops, without guards, as MLIR."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.lines: list[str] = []
        self.names: dict[object, str] = {}
        self.count = 0

    def name(self, of: object = None) -> str:
        self.count += 1
        found = f"%v{self.count}"
        if of is not None:
            self.names[of] = found
        return found

    def write(self) -> str:
        params = ", ".join(f"{self.name(b)} : {memref(b)}" for b in self.func.params)
        self.statement(self.func.body)
        return "\n".join([f"func.func @{self.func.name}({params}) {{", *self.lines, "  func.return", "}"])

    def statement(self, stmt: Stmt) -> None:
        match stmt:
            case Seq():
                for s in stmt.body:
                    self.statement(s)
            case Allocate():
                self.lines.append(f"  {self.name(stmt.buffer)} = memref.alloc() : {memref(stmt.buffer)}")
                self.statement(stmt.body)
            case For(start=None):
                low, high, step = self.constant(0), self.value(stmt.extent), self.constant(1)
                self.lines.append(f"  scf.for {self.name(stmt.var)} = {low} to {high} step {step} {{")
                self.statement(stmt.body)
                self.lines.append("  }")
            case Store():
                at = [self.value(i) for i in stmt.indices]
                value = self.value(stmt.value)
                to = self.names[stmt.buffer]
                self.lines.append(f"  memref.store {value}, {to}[{', '.join(at)}] : {memref(stmt.buffer)}")
            case _:
                raise NotImplementedError(type(stmt).__name__)

    def constant(self, number: int) -> str:
        found = self.name()
        self.lines.append(f"  {found} = arith.constant {number} : index")
        return found

    def value(self, expr: Expr) -> str:
        known: dict[int, str] = {}
        for node in post_order(expr):
            known[id(node)] = self.node(node, [known[id(c)] for c in node.children])
        return known[id(expr)]

    def node(self, node: Expr, args: Sequence[str]) -> str:
        if isinstance(node, Var):
            return self.names[node]
        if isinstance(node, Cast) and node.dtype.is_integer and node.arg.dtype.is_integer:
            return args[0]  # every integer is an index here
        if isinstance(node, Const) and node.dtype.is_integer:
            return self.constant(int(node.value))
        found = self.name()
        match node:
            case Const():
                bits = int(np.float32(node.value).view(np.uint32))
                text = f"arith.constant 0x{bits:08X} : f32"
            case Load():
                text = f"memref.load {self.names[node.buffer]}[{', '.join(args)}] : {memref(node.buffer)}"
            case Apply(op="exp"):
                text = f"math.exp {args[0]} : f32"
            case Apply() if node.dtype.is_integer:
                text = f"{INDEX_OPS[node.op]} {args[0]}, {args[1]} : index"
            case Apply():
                text = f"{FLOAT_OPS[node.op]} {args[0]}, {args[1]} : f32"
            case _:
                raise NotImplementedError(type(node).__name__)
        self.lines.append(f"  {found} = {text}")
        return found


def to_mlir(func: PrimFunc) -> str:
    """`func`, of static float32 buffers and plain loops, as the text of an MLIR function."""
    return _Writer(func).write()


def xdsl(func: PrimFunc, inputs: Sequence[Array]) -> tuple[float, Array]:
    """CPU seconds of xDSL's interpreter on the loops of `func`, and the result."""
    from xdsl.context import Context
    from xdsl.dialects import arith, get_all_dialects
    from xdsl.dialects.builtin import f32
    from xdsl.interpreter import Interpreter, InterpreterFunctions, impl, register_impls
    from xdsl.interpreters import register_implementations
    from xdsl.interpreters.math import MathFunctions
    from xdsl.interpreters.shaped_array import ShapedArray
    from xdsl.interpreters.utils.ptr import TypedPtr
    from xdsl.parser import Parser

    @register_impls
    class Division(InterpreterFunctions):
        """xDSL 0.74 has no division of floats."""

        @impl(arith.DivfOp)
        def run(self, interpreter: Interpreter, op: arith.DivfOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (args[0] / args[1],)

    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    module = Parser(context, to_mlir(func)).parse_module()
    interpreter = Interpreter(module)
    register_implementations(interpreter, context)
    interpreter.register_implementations(MathFunctions(), override=True)
    interpreter.register_implementations(Division(), override=True)
    out = func.outputs[0]
    given = [
        ShapedArray(TypedPtr.new(x.reshape(-1).tolist(), xtype=f32), list(x.shape))
        for x in (*inputs, np.zeros(out.static_shape, np.float32))
    ]
    start = time.process_time()
    interpreter.call_op(func.name, tuple(given))
    seconds = time.process_time() - start
    return seconds, np.array(given[-1].data, dtype=np.float32).reshape(out.static_shape)


def stablehlo(text: str, inputs: Sequence[Array]) -> tuple[float, Array]:
    """CPU seconds of StableHLO's reference interpreter on a module, and its first result."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import stablehlo as dialect

    with ir.Context() as context:
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        context.append_dialect_registry(registry)
        dialect.register_dialect(context)
        module = ir.Module.parse(text)
        args = [ir.DenseElementsAttr.get(x) for x in inputs]
        start = time.process_time()
        (result,) = dialect.eval_module(module, args)
        return time.process_time() - start, np.array(result)
