"""Texts of single nodes: what stands to the right of an assignment (specs/semantics.md, "Text")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.dtypes import INT64
from assay.semantics.errors import Crash, Unsupported
from assay.semantics.graph.nodes import Dataflow
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim
from assay.semantics.tasks import Task, run_task
from assay.semantics.text import constants_text
from assay.semantics.text.graph.names import ModuleTexts, NamePool, SymbolNames, double_quoted, value_text
from assay.semantics.text.relax.build import Number, RelaxCall, Shape
from assay.semantics.text.relax.ops import to_relax
from assay.semantics.text.scalars.printer import ScalarPrinter
from assay.semantics.text.types_text import TypePrinter, tuple_text
from assay.semantics.types import FuncType, TupleType, Type, same_type


class NodeTexts:
    """Writes nodes whose operands have their texts already."""

    def __init__(self, module: ModuleTexts, symbols: SymbolNames, pool: NamePool) -> None:
        self.module = module
        self.symbols = symbols
        self.pool = pool
        self.scalars = ScalarPrinter(symbols, INT64)
        self.types = TypePrinter(self.dim, module.type_var, module.data)
        self.named: dict[int, str] = {}
        """Nodes that have a name, and those that stand inside another."""
        self.blocks: dict[Dataflow, int] = {}
        self.uses_module = False
        self.unsaid: set[int] = set()
        """What says nothing of its device, since it lives where its function says."""

    def dim(self, dim: Dim) -> str:
        """The text of a dim."""
        return self.scalars.dim(dim, INT64)

    # --- atoms ---------------------------------------------------------------------------------------------------

    def atom(self, node: graph.Expr) -> str:
        """What stands for an operand."""
        found = self.named.get(id(node))
        if found is not None:
            return found
        return self.on(self.leaf(node), self.said(node))

    def leaf(self, node: graph.Expr) -> str:
        """The text of a node without parts; Unsupported (text.C10) for a variable that nothing declares."""
        match node:
            case graph.Constant():
                return self.constant(node)
            case graph.GlobalVar():
                return self.global_(node)
            case graph.ExternFunc():
                return f"A.extern({double_quoted(node.name)}, {self.types.text(node.type)})"
            case graph.Constructor():
                return f"{self.module.data.get(node.data, node.data)}.{node.name}"
            case graph.ShapeExpr():
                return f"R.shape([{', '.join(map(self.dim, node.dims))}])"
            case graph.Var():
                raise Unsupported(f"variable {node.name} is used where nothing declares it", label="text.C10")
            case _:
                raise Crash(f"{type(node).__name__} has no text yet")

    def constant(self, node: graph.Constant) -> str:
        """The text of a tensor literal: inline, in the metadata, as `A.tensor`, or beside the text if it is large."""
        inline = constants_text.inline(node.data)
        if inline is not None:
            return inline
        if node.data.nbytes > self.module.largest:
            return self.module.stored(node.data)
        if not constants_text.fits_section(node.data):
            return constants_text.house(node.data)
        return f'metadata["ir.GenericConst"][{self.module.place(node.data)}]'

    def global_(self, node: graph.GlobalVar) -> str:
        """The text of a name of the module, with its type where that is not the declared one."""
        declared = self.module.types.get(node.name)
        if declared is None or not same_type(declared, node.type):
            name = double_quoted(self.module.globals.get(node.name, node.name))
            return f"A.global_({name}, {self.types.text(node.type)})"
        self.uses_module = True
        return f"cls.{self.module.globals[node.name]}"

    def on(self, text: str, device: VirtualDevice) -> str:
        """A text with its device, if there is one."""
        return text if device == ANYWHERE else f"A.on({text}, {self.module.device(device)})"

    def said(self, node: graph.Expr) -> VirtualDevice:
        """The device that the text of an expression or a variable says."""
        return ANYWHERE if id(node) in self.unsaid else node.device

    def on_device(self, node: graph.OnDevice) -> str:
        """The text of an `A.on_device`, without what is the default."""
        given = [self.atom(node.value), *([self.module.device(node.wanted)] if node.wanted != ANYWHERE else [])]
        if not node.constrain_body:
            given.append("constrain_body=False")
        if node.constrain_result:
            given.append("constrain_result=True")
        return f"A.on_device({', '.join(given)})"

    def annotation(self, of: Type, device: VirtualDevice = ANYWHERE, signature: bool = False) -> str:
        """The text of a type with its device; `signature`: as it stands in a function's signature."""
        return self.on(self.types.text(of, quoted=signature), device)

    def value(self, value: Any) -> str:
        """The text of an attribute's value."""
        return value_text(value, self.scalars.text)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def render(self, node: graph.Expr) -> str:
        """The node in terms of its operands' texts."""
        return self.on(self._render(node), self.said(node))

    def _render(self, node: graph.Expr) -> str:
        match node:
            case graph.Call():
                return self.call(node)
            case graph.CallTIR():
                return self.call_tir(node)
            case graph.Tuple():
                return "R.tuple()" if not node.fields else tuple_text(self.atoms(node.fields))
            case graph.TupleGetItem():
                return f"{self.atom(node.value)}[{node.index}]"
            case graph.RefCreate():
                return f"A.ref({self.atom(node.value)})"
            case graph.RefRead():
                return f"A.read({self.atom(node.ref)})"
            case graph.RefWrite():
                return f"A.write({self.atom(node.ref)}, {self.atom(node.value)})"
            case graph.Print() | graph.AssertOp():
                name = "print" if isinstance(node, graph.Print) else "assert_op"
                return f"R.{name}({', '.join([*self.atoms(node.children), f'format={double_quoted(node.format)}'])})"
            case graph.MatchCast():
                return f"R.match_cast({self.atom(node.value)}, {self.types.text(node.type)})"
            case graph.OnDevice():
                return self.on_device(node)
            case graph.ShapeOf():
                return f"R.shape_of({self.atom(node.value)})"
            case graph.Let():
                block = ""
                if node.dataflow is not None:
                    block = f", block={self.blocks.setdefault(node.dataflow, len(self.blocks))}"
                return f"A.let({self.atom(node.var)}, {self.atom(node.value)}, {self.atom(node.body)}{block})"
            case graph.If():
                return f"A.if_({', '.join(self.atoms(node.children))})"
            case graph.Function():
                return self.function(node)
            case graph.Match():
                cases = [f"({run_task(self.pattern(c.pattern))}, {self.atom(c.body)})" for c in node.clauses]
                partial = ["partial=True"] if node.partial else []
                return f"A.match({', '.join([self.atom(node.value), *cases, *partial])})"
            case _:
                return self.leaf(node)

    def atoms(self, nodes: Sequence[graph.Expr]) -> list[str]:
        """The texts of operands."""
        return [self.atom(n) for n in nodes]

    def call(self, node: graph.Call) -> str:
        """The text of a call: as Relax writes it where that means the same, else as `A.name(...)` or by its callee."""
        if isinstance(node.op, Operator):
            relax = to_relax(node)
            if relax is not None:
                return self.relax(relax)
            attrs = [f"{k}={self.value(v)}" for k, v in node.attrs.items()]
            return f"A.{node.op.name}({', '.join([*self.atoms(node.args), *attrs])})"
        packed = self.packed(node, node.op)
        if packed is not None:
            return packed
        types = [f"type_args={tuple_text([self.types.text(t) for t in node.type_args])}"] if node.type_args else []
        return f"{self.atom(node.op)}({', '.join([*self.atoms(node.args), *types])})"

    def relax(self, call: RelaxCall) -> str:
        """The text of a call of a Relax operator."""
        parts = [self.operand(v) for v in call.operands]
        parts += [f"{k}={self.value(v)}" for k, v in call.attrs.items()]
        field = "" if call.field is None else f"[{call.field}]"
        return f"R.{call.name}({', '.join(parts)}){field}"

    def operand(self, value: Any) -> str:
        """The text of an operand of a Relax call."""
        match value:
            case Shape():
                return f"R.shape([{', '.join(map(self.dim, value.dims))}])"
            case Number():
                return f'R.const({self.value(value.value)}, "{value.dtype}")'
            case graph.Expr():
                return self.atom(value)
            case tuple():
                return tuple_text([self.operand(v) for v in value])
            case _:
                return self.value(value)

    def packed(self, node: graph.Call, callee: graph.Expr) -> str | None:
        """A call of an extern function as TVM writes it, where its parameters are just the arguments' types."""
        of = callee.type
        if not isinstance(callee, graph.ExternFunc) or not isinstance(of, FuncType) or of.type_params or node.type_args:
            return None
        given = [a.type for a in node.args]
        if self.said(callee) != ANYWHERE or len(given) != len(of.params):
            return None
        if not all(same_type(p, a) for p, a in zip(of.params, given, strict=True)):
            return None
        name = "call_pure_packed" if of.pure else "call_packed"
        result = self.types.text(of.result)
        return f"R.{name}({', '.join([double_quoted(callee.name), *self.atoms(node.args), f'ty_args=({result},)'])})"

    def call_tir(self, node: graph.CallTIR) -> str:
        """The text of a call of a tensor function."""
        self.uses_module = True
        name = self.module.globals.get(node.func, node.func)
        if isinstance(node.type, TupleType):
            out = f"[{', '.join(self.types.text(t) for t in node.type.fields)}]"
        else:
            out = self.types.text(node.type)
        sizes = ""
        if node.scalars:
            sizes = f", tir_vars=R.shape([{', '.join(map(self.dim, node.scalars))}])"
        args = tuple_text(self.atoms(node.args)) if node.args else "R.tuple()"
        return f"R.call_tir(cls.{name}, {args}, out_ty={out}{sizes})"

    def function(self, node: graph.Function) -> str:
        """The text of a function as one expression, `A.function(...)`."""
        of = node.func_type
        parts = [tuple_text(self.atoms(node.params)), self.atom(node.body), self.types.text(of.result)]
        if not of.pure:
            parts.append("pure=False")
        if of.type_params:
            parts.append(f"type_params={tuple_text([self.module.type_var(t) for t in of.type_params])}")
        if node.attrs:
            parts.append(f"attrs={self.value(node.attrs)}")
        return f"A.function({', '.join(parts)})"

    def pattern(self, pattern: graph.Pattern, case: bool = False) -> Task[str]:
        """A pattern inside `A.match`, or after `case`."""
        match pattern:
            case graph.Wildcard():
                return "_" if case else "A.any"
            case graph.Bind():
                return self.atom(pattern.var)
            case graph.Fields() | graph.Made():
                fields: list[str] = []
                for p in pattern.fields:
                    fields.append((yield self.pattern(p, case)))
                if isinstance(pattern, graph.Fields):
                    return f"[{', '.join(fields)}]" if case else tuple_text(fields)
                made = self.leaf(pattern.constructor)
                return f"{made}({', '.join(fields)})" if case else f"A.made({', '.join([made, *fields])})"
