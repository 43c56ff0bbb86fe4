"""The walk over a program that is written in a language of operators (specs/lower.md, "Export").

The program is taken in A-normal form, whose order and places of evaluation are those of the source. What a tensor of
the text is, `V`, and how sizes are known in it, `S`, is the language's; so is how anything is said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from assay.lower.anf import Converted, function_to_anf
from assay.lower.claimed import claimed_of
from assay.lower.simplify.size_checks import SizeChecks
from assay.lower.tail_loops import TailLoop, tail_loop_of
from assay.semantics import graph
from assay.semantics.errors import Invalid, Unsupported, placed
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim
from assay.semantics.tasks import Task
from assay.semantics.types import TensorType, TupleType, Type
from assay.semantics.walk import fold_scoped, occurrences


class ExportedValue:
    """Base of a tensor of the text."""


V = TypeVar("V", bound=ExportedValue)
S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class ExportClosure(Generic[V, S]):
    """A function and the activation in which it was made."""

    function: graph.Function
    outer: ExportActivation[V, S] | None
    name: str = ""
    var: graph.Var | None = None

    def is_named(self, node: graph.Expr) -> bool:
        """Whether a node names this function."""
        if isinstance(node, graph.GlobalVar):
            return self.outer is None and node.name == self.name
        return node is self.var and self.var is not None


ExportItem: TypeAlias = V | tuple["ExportItem[V, S]", ...] | ExportClosure[V, S]
"""What a variable stands for: a tensor of the text, several, or a function."""


@dataclass(eq=False)
class ExportActivation(Generic[V, S]):
    """A function or branch that is being written: what its variables and symbols stand for."""

    sizes: S
    outer: ExportActivation[V, S] | None = None
    values: dict[graph.Var, ExportItem[V, S]] = field(default_factory=dict)

    def look(self, var: graph.Var) -> ExportItem[V, S]:
        """What a variable stands for."""
        at: ExportActivation[V, S] | None = self
        while at is not None and var not in at.values:
            at = at.outer
        if at is None:
            raise Invalid(f"variable {var.name} is not bound", where=var.span, label="graph.C1")
        return at.values[var]


def parts_of_item(item: ExportItem[V, S]) -> Sequence[ExportItem[V, S]]:
    """The fields of a tuple."""
    return item if isinstance(item, tuple) else ()


def values_of(item: ExportItem[V, S]) -> list[V]:
    """The tensors of an item, left to right; what is a function has none."""
    parts = occurrences(item, parts_of_item)
    return [part for part in parts if not isinstance(part, (tuple, ExportClosure))]


def fields_of(of: Type) -> Sequence[Type]:
    """The fields of the type of a tuple."""
    return of.fields if isinstance(of, TupleType) else ()


def shaped_as(of: Type, values: Iterator[V]) -> ExportItem[V, S]:
    """The next values as a value of a type."""

    def made(t: Type, inside: list[ExportItem[V, S]]) -> ExportItem[V, S]:
        return tuple(inside) if isinstance(t, TupleType) else next(values)

    return fold_scoped(of, fields_of, made)


class ExportWalk(ABC, Generic[V, S]):
    """The export of one module to a language."""

    LANGUAGE: ClassVar[str]
    LABELS: ClassVar[str]
    """The group of the labels of what the language has no word for: C1, and C2 for an operator."""
    UNSAID: ClassVar[Mapping[str, str]]
    """The operators that are not said, each with the reason."""

    def __init__(self, module: Module) -> None:
        self.module = module.resolved()
        self.converted: dict[int, Converted] = {}
        self.checks = SizeChecks()
        self.active: list[int] = []
        """The functions that are being written where they are called."""

    # --- what the language says

    @abstractmethod
    def new_sizes(self, outer: S | None) -> S:
        """What is known of sizes at the start of a function or branch inside of another."""

    @abstractmethod
    def constant(self, data: Any, name: str = "") -> V:
        """An array as a constant."""

    @abstractmethod
    def shape(self, dims: Sequence[Dim], at: ExportActivation[V, S]) -> V:
        """Sizes as a vector."""

    @abstractmethod
    def shape_of(self, value: V) -> V:
        """The sizes of a tensor as a vector."""

    @abstractmethod
    def matched(self, node: graph.MatchCast, item: ExportItem[V, S], at: ExportActivation[V, S]) -> ExportItem[V, S]:
        """What a cast gives of a value."""

    @abstractmethod
    def bind(self, at: ExportActivation[V, S], var: graph.Var, item: ExportItem[V, S]) -> None:
        """Let a variable mean a value, and note the sizes that its type names."""

    @abstractmethod
    def rule(
        self,
        op: Operator,
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
        values: Sequence[V],
        of: Type,
        at: ExportActivation[V, S],
    ) -> V | Sequence[V] | None:
        """The call of an operator; None where the language has no rule for it."""

    @abstractmethod
    def branches(self, node: graph.If, at: ExportActivation[V, S]) -> Task[ExportItem[V, S]]:
        """A choice between two blocks."""

    @abstractmethod
    def looped(self, loop: TailLoop, function: graph.Function, at: ExportActivation[V, S]) -> Task[ExportItem[V, S]]:
        """A function that calls itself as the last thing that it does, as a loop, and what stands behind that. Its
        parameters are bound to what they begin with."""

    def asserted(self, node: graph.AssertOp, values: Sequence[ExportItem[V, S]]) -> None:
        """Say that a condition holds, the first of these values. No assertion is kept: where they hold, what is written
        means the same."""

    # --- functions

    def inside(self, outer: ExportActivation[V, S] | None) -> ExportActivation[V, S]:
        """A new activation inside of another."""
        return ExportActivation(self.new_sizes(None if outer is None else outer.sizes), outer)

    def bound(
        self, function: graph.Function, values: Sequence[V], outer: ExportActivation[V, S] | None
    ) -> ExportActivation[V, S]:
        """A new activation in which the parameters of a function are these tensors."""
        rest, at = iter(values), self.inside(outer)
        for p in function.params:
            self.bind(at, p, shaped_as(p.type, rest))
        return at

    def anf(self, function: graph.Function) -> graph.Function:
        """A function in A-normal form, converted once."""
        found = self.converted.get(id(function))
        if found is None:
            found = self.converted[id(function)] = function_to_anf(function, self.module)
            self.checks.add(graph.let_chain(found.function.body)[0])
        return found.function

    def call(self, closure: ExportClosure[V, S], operands: Sequence[ExportItem[V, S]]) -> Task[ExportItem[V, S]]:
        """A call of a function, written as its body."""
        function = closure.function if closure.outer is not None else self.anf(closure.function)
        if id(closure.function) in self.active:
            raise Unsupported(
                f"a function calls itself, and not as the last thing that it does; {self.LANGUAGE} has no word for"
                " that",
                where=function.span,
                label=f"{self.LABELS}.C1",
            )
        self.active.append(id(closure.function))
        at = self.inside(closure.outer)
        for p, item in zip(function.params, operands, strict=True):
            self.bind(at, p, item)
        loop = tail_loop_of(function, closure.is_named)
        result: ExportItem[V, S]
        if loop is None:
            result = yield self.body(function.body, at)
        else:
            result = yield self.looped(loop, function, at)
        self.active.pop()
        return result

    # --- bodies

    def body(self, expr: graph.Expr, at: ExportActivation[V, S]) -> Task[ExportItem[V, S]]:
        """The lets of a block in order; what its result stands for."""
        lets, last = graph.let_chain(expr)
        yield self.bindings(lets, at)
        result: ExportItem[V, S] = yield self.value(last, at)
        return result

    def bindings(self, lets: Sequence[graph.Let], at: ExportActivation[V, S]) -> Task[None]:
        """Lets in order."""
        for let in lets:
            with placed(let.value.span):
                item: ExportItem[V, S] = yield self.value(let.value, at, let.var)
            self.bind(at, let.var, item)

    # --- nodes

    def value(
        self, node: graph.Expr, at: ExportActivation[V, S], var: graph.Var | None = None
    ) -> Task[ExportItem[V, S]]:
        """What an expression of atoms stands for; `var` is the variable that is bound to it."""
        result: ExportItem[V, S]
        match node:
            case graph.Var():
                return at.look(node)
            case graph.GlobalVar(name=name):
                found = self.module.definitions.get(name)
                if isinstance(found, graph.Function):
                    return ExportClosure(found, None, name)
                if name in self.module.constants:
                    return self.constant(self.module.constants[name], name)
                raise self.no_word(node)
            case graph.Constant(data=data):
                return self.constant(data)
            case graph.Function():
                return ExportClosure(node, at, "", var)
            case graph.Tuple(fields=fields):
                return tuple((yield self.values(fields, at)))
            case graph.TupleGetItem(value=value, index=index):
                whole = yield self.value(value, at)
                assert isinstance(whole, tuple)
                result = whole[index]
                return result
            case graph.OnDevice(value=value):
                result = yield self.value(value, at)
                return result
            case graph.MatchCast(value=value):
                result = yield self.value(value, at)
                return self.matched(node, result, at)
            case graph.ShapeExpr(dims=dims):
                return self.shape(dims, at)
            case graph.ShapeOf(value=value):
                return self.shape_of((yield self.value(value, at)))
            case graph.AssertOp():
                values = yield self.values((node.condition, *node.values), at)
                if not self.checks.hold(node):
                    self.asserted(node, values)
                return ()
            case graph.If():
                result = yield self.branches(node, at)
                return result
            case graph.Call() | graph.CallTIR():
                result = yield self.called(node, (yield self.values(node.args, at)), at)
                return result
            case _:
                raise self.no_word(node)

    def values(self, nodes: Sequence[graph.Expr], at: ExportActivation[V, S]) -> Task[list[ExportItem[V, S]]]:
        """What several expressions stand for, left to right."""
        items: list[ExportItem[V, S]] = []
        for node in nodes:
            items.append((yield self.value(node, at)))
        return items

    # --- calls

    def called(
        self, node: graph.Call | graph.CallTIR, operands: Sequence[ExportItem[V, S]], at: ExportActivation[V, S]
    ) -> Task[ExportItem[V, S]]:
        """A call: of an operator; of a function; of a tensor function as the operator that it claims to be, or those of
        its group one after another."""
        callee: ExportItem[V, S]
        if isinstance(node, graph.Call):
            if isinstance(node.op, Operator):
                return self.operation(node.op, node.op.check_attrs(node.attrs), node, operands, at)
            callee = yield self.value(node.op, at)
            if not isinstance(callee, ExportClosure):
                raise self.no_word(node)
        else:
            claimed = claimed_of(self.module, node)
            if claimed is None:
                raise Unsupported(
                    f"tensor function {node.func} is no operator with tensors for operands; {self.LANGUAGE} has no word"
                    " for loops over elements",
                    label=f"{self.LABELS}.C1",
                )
            if not isinstance(claimed, graph.Function):
                return self.operation(*claimed, node, operands, at)
            callee = ExportClosure(claimed, None)
        result: ExportItem[V, S] = yield self.call(callee, operands)
        return result

    def operation(
        self,
        op: Operator,
        attrs: Mapping[str, Any],
        node: graph.Call | graph.CallTIR,
        operands: Sequence[ExportItem[V, S]],
        at: ExportActivation[V, S],
    ) -> ExportItem[V, S]:
        """The call of an operator. Unsupported (C2) without a rule or tensor operands."""
        types, values = list[TensorType](), list[V]()
        for a, item in zip(node.args, operands, strict=True):
            if not isinstance(a.type, TensorType) or isinstance(item, (tuple, ExportClosure)):
                raise Unsupported(f"{op.name} of {a.type}; a tensor is wanted", label=f"{self.LABELS}.C2")
            types.append(a.type)
            values.append(item)
        made = self.rule(op, attrs, types, values, node.type, at)
        if made is None:
            why = self.UNSAID.get(op.name, "nobody has said how")
            raise Unsupported(f"{op.name} has no word in {self.LANGUAGE}: {why}", label=f"{self.LABELS}.C2")
        return made if isinstance(made, ExportedValue) else tuple(made)

    def no_word(self, node: graph.Expr) -> Unsupported:
        """The failure (C1) for what the language does not say."""
        return Unsupported(f"{self.LANGUAGE} has no word for {graph.show_head(node)}", label=f"{self.LABELS}.C1")
