"""From a StableHLO text's tree to the graph language (specs/lower.md, "StableHLO").

Every operation becomes lets in the order of the text. A function whose types have all their sizes is a function of the
module; one with a size `?` is translated where it is called, so that its sizes are those of the call.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from assay.lower.frontends.places import Places
from assay.lower.frontends.stablehlo.build import HloBuilder, Scope
from assay.lower.frontends.stablehlo.dense import dense_array
from assay.lower.frontends.stablehlo.node import HloNode
from assay.lower.frontends.stablehlo.operators import rule_of
from assay.lower.frontends.stablehlo.operators.quantized import in_expressed
from assay.lower.frontends.stablehlo.syntax import (
    FunctionText,
    ModuleText,
    Operation,
    Param,
    RefusedType,
    Region,
    Symbolic,
    TensorText,
    TupleText,
    TypeText,
    Use,
)
from assay.semantics import graph
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import Expr, Function, GlobalVar, Var
from assay.semantics.graph.limits import UPPER
from assay.semantics.module import Module
from assay.semantics.names import unused
from assay.semantics.rules import check
from assay.semantics.scalar import Dim, Var as Symbol, provably_equal
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import TensorType, TupleType, Type

MOST_OPERATIONS = 1 << 20
"""Operations that are translated at most, those of a function that is translated at each call counted each time."""

RETURNS = ("func.return", "stablehlo.return", "chlo.return")
Value: TypeAlias = tuple[Expr, TypeText]
Names: TypeAlias = tuple[dict[str, list[Value]], ...]
"""What names stand for, the outermost region first."""


def to_module(text: ModuleText, places: Places) -> Module:
    """The module that a tree means, well-formed: `main` and what it calls, or all functions where there is no main."""
    module = run_task(Translator(text, places).module())
    try:
        check(module)
    except Invalid as wrong:
        where = wrong.where
        if isinstance(where, Span) and where.source == places.source.file and where.line:
            raise places.shown(wrong, where.line, where.column) from None
        raise
    return module


def as_identifier(name: str) -> str:
    """A name of the text as one of ours."""
    plain = re.sub(r"\W", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) else f"v{plain}"


def is_dynamic(function: FunctionText) -> bool:
    """Whether a size in the types of a function is not written."""
    types = [*(p.type for p in function.params), *function.results]
    return any(isinstance(t, TensorText) and None in t.shape for t in types)


class Translator:
    """Translates one module."""

    def __init__(self, text: ModuleText, places: Places) -> None:
        self.text = text
        self.places = places
        self.builder = HloBuilder()
        self.names: dict[str, str] = {}
        self.done: dict[str, Function] = {}
        self.open: list[str] = []
        """The functions that are being translated: none of them may be called."""
        self.count = 0

    def module(self) -> Task[Module]:
        """All functions that are asked for."""
        functions = self.text.functions
        for name in functions:
            self.names[name] = unused(as_identifier(name), self.names.values())
        wanted = ["main"] if "main" in functions else [n for n, f in functions.items() if f.body and not f.private]
        for name in wanted or [n for n, f in functions.items() if f.body]:
            if name not in self.done:
                yield self.function(name)
        if not self.done:
            raise Invalid("the module has no function with a body", label="stablehlo.C5")
        return Module({self.names[n]: f for n, f in self.done.items()})

    # --- functions -------------------------------------------------------------------------------------------------

    def function(self, name: str) -> Task[Function]:
        """Translate a function as one of the module."""
        text = self.text.functions[name]
        span = self.places.span(text.start)
        if text.body is None:
            raise self.failure(Invalid, text, f"@{name} is declared, but has no body", "stablehlo.C5")
        outer, scope = self.builder.scope, Scope()
        params, limits = self.params(text, scope)
        self.builder.scope = scope
        results = yield self.inlined(text, list(params))
        self.builder.scope = outer
        body = results[0] if len(results) == 1 else graph.tuple_of(*results)
        attrs: dict[str, Any] = {UPPER: limits} if limits else {}
        if all(text.given) and len(set(text.given)) == len(results):
            attrs["outputs"] = text.given
        made = graph.function(params, self.builder.around(body, scope), span=span)
        self.done[name] = replace(made, attrs=attrs)
        return self.done[name]

    def params(self, text: FunctionText, scope: Scope) -> tuple[list[Var], dict[str, int]]:
        """The parameters of a function, and the greatest sizes that their types declare."""
        params: list[Var] = []
        limits: dict[str, int] = {}
        for k, p in enumerate(text.params):
            name = p.given or as_identifier(p.name or f"arg{k}")
            params.append(graph.var(unused(name, [v.name for v in params]), self.typed(p.type, name, p)))
            scope_of = self.builder.params
            scope_of[params[-1]] = scope
            if isinstance(p.type, TensorText) and isinstance(of := params[-1].type, TensorType):
                pairs = zip(of.shape, p.type.bounds, strict=False)
                limits.update({d.name: b for d, b in pairs if isinstance(d, Symbol) and b is not None})
        return params, limits

    def inlined(self, text: FunctionText, args: Sequence[Expr]) -> Task[list[Expr]]:
        """The results of a function's body on values of its parameters, in the open scope."""
        assert text.body is not None
        if text.name in self.open:
            raise Invalid(f"@{text.name} calls itself, which StableHLO does not allow", label="stablehlo.C5")
        self.open.append(text.name)
        params = text.params or text.body.params
        names = {p.name: [(a, p.type)] for p, a in zip(params, args, strict=True)}
        results: list[Value] = yield self.block(text.body, (names,), False)
        self.open.pop()
        if len(results) != len(text.results):
            message = f"@{text.name} gives {len(results)} values; {len(text.results)} are declared"
            raise self.failure(Invalid, text, message, "stablehlo.C6")
        pairs = zip(results, text.results, strict=True)
        return [self.fitted(value, of, f"result of @{text.name}") for (value, _), of in pairs]

    def called(self, name: str, args: Sequence[Expr]) -> Task[list[Expr]]:
        """The results of the call of a function."""
        text = self.text.functions.get(name)
        if text is None or text.body is None:
            known = ", ".join(f"@{n}" for n, f in self.text.functions.items() if f.body)
            raise Invalid(f"there is no function @{name} with a body; there are {known}", label="stablehlo.C5")
        if len(args) != len(text.params):
            raise Invalid(f"@{name} takes {len(text.params)} values, {len(args)} given", label="stablehlo.C6")
        args = [self.fitted(a, p.type, f"argument {p.name}") for a, p in zip(args, text.params, strict=True)]
        if is_dynamic(text):
            return (yield from self.inlined(text, args))
        if name in self.open:
            raise Invalid(f"@{name} calls itself, which StableHLO does not allow", label="stablehlo.C5")
        if name not in self.done:
            yield self.function(name)
        callee = GlobalVar(self.done[name].type, self.names[name])
        made = self.builder.named(graph.call(callee, *args, span=self.builder.span), as_identifier(name))
        if len(text.results) == 1:
            return [made]
        return [self.builder.named(graph.get(made, k)) for k in range(len(text.results))]

    # --- types -----------------------------------------------------------------------------------------------------

    def typed(self, of: TypeText, name: str, at: Param | Operation) -> Type:
        """A type; a size `?` is a fresh symbol."""
        match of:
            case TensorText():
                shape: list[Dim] = [Symbol(f"{name}_{k}") if d is None else d for k, d in enumerate(of.shape)]
                return TensorType(tuple(shape), of.dtype)
            case TupleText():
                return TupleType(tuple(self.typed(f, f"{name}_{k}", at) for k, f in enumerate(of.fields)))
            case RefusedType():
                raise self.failure(Unsupported, at, f"{of.reason}: not handled", "stablehlo.C4")

    def fitted(self, x: Expr, of: TypeText, what: str) -> Expr:
        """A value as its type says: sizes that are not shown to be those of the text are compared by the run."""
        if not isinstance(of, TensorText) or not isinstance(x.type, TensorType):
            return x
        shape = x.type.shape
        differs = len(shape) != len(of.shape) or x.type.dtype is not of.dtype
        pairs = [] if differs else list(zip(shape, of.shape, strict=True))
        if differs or any(isinstance(d, int) and e is not None and d != e for d, e in pairs):
            raise Invalid(f"{what} is {x.type}; the text says {of}", label="stablehlo.C6")
        wanted = tuple(d if e is None else e for d, e in pairs)
        if all(map(provably_equal, wanted, shape)):
            return x
        cast = graph.match_cast(x, TensorType(wanted, x.type.dtype), self.builder.span)
        return self.builder.named(cast)

    # --- operations ------------------------------------------------------------------------------------------------

    def block(self, region: Region, names: Names, lifted: bool) -> Task[list[Value]]:
        """The values that a region returns."""
        for op in region.body:
            self.count += 1
            if self.count > MOST_OPERATIONS:
                message = f"more than {MOST_OPERATIONS:,} operations, counted at each call"
                raise self.failure(Unsupported, op, message, "stablehlo.C2")
            if op.name in RETURNS:
                return [self.used(use, names) for use in op.operands]
            self.builder.span = self.places.span(op.start)
            try:
                values = yield self.operation(op, names, lifted)
                self.bind(op, values, names[-1], lifted)
            except Invalid as wrong:
                if "\n" in wrong.message and wrong.where is not None:
                    raise
                raise self.failure(type(wrong), op, wrong.message, wrong.label) from None
        return []

    def failure(self, kind: type[Invalid], at: Param | Operation | FunctionText, message: str, label: str) -> Invalid:
        """A failure with a place and its line."""
        return self.places.failure(kind, at.start, getattr(at, "end", at.start + 1), message, label)

    def used(self, use: Use, names: Names) -> Value:
        """What a name stands for."""
        found = next((n[use.name] for n in reversed(names) if use.name in n), None)
        index = use.index or 0
        if found is None or index >= len(found) or (use.index is None and len(found) != 1):
            what = "is not defined here" if found is None else f"is {len(found)} values, %{use.name}#0 and so on"
            raise self.places.failure(Invalid, use.start, use.end, f"%{use.name} {what}", "stablehlo.C5")
        return found[index]

    def operation(self, op: Operation, names: Names, lifted: bool) -> Task[list[Expr]]:
        """The results of an operation."""
        values = [self.used(use, names) for use in op.operands]
        for of in (*op.types, *(t for _, t in values)):
            if isinstance(of, RefusedType):
                raise Unsupported(f"{of.reason}: not handled", label="stablehlo.C4")
        rule = rule_of(op, lifted)
        if op.operand_types is not None and len(op.operand_types) != len(values):
            raise Invalid(f"{len(values)} operands, {len(op.operand_types)} types for them", label="stablehlo.C6")
        if op.operand_types is not None and not lifted:
            values = [(self.fitted(v, t, "an operand"), t) for (v, _), t in zip(values, op.operand_types, strict=True)]

        def run_region(index: int, args: Sequence[Expr], lift: bool = False) -> Task[list[Expr]]:
            return self.region(op, index, args, names, lift or lifted)

        def array(dense: Any, of: object) -> Any:
            return dense_array(dense, of, self.places)

        self.with_computations(op)
        args, types = [v for v, _ in values], [t for _, t in values]
        node = HloNode(self.builder, op, args, types, run_region, self.called, array, lifted)
        made = in_expressed(node, rule)
        if isinstance(made, Generator):
            made = yield made
        return [made] if isinstance(made, Expr) else list(made)

    def with_computations(self, op: Operation) -> None:
        """Give a custom call the functions that it names as its regions."""
        named = op.attrs.get("called_computations", ())
        if op.regions or not isinstance(named, tuple):
            return
        found = (self.text.functions.get(n.name) for n in named if isinstance(n, Symbolic))
        op.regions += [Region(f.params or f.body.params, f.body.body) for f in found if f is not None and f.body]

    def region(self, op: Operation, index: int, args: Sequence[Expr], names: Names, lifted: bool) -> Task[list[Expr]]:
        """The results of a region of an operation for values of its parameters, in the open scope."""
        if index >= len(op.regions):
            raise Invalid(f"{op.name}: its region {index} is missing", label="stablehlo.C6")
        region = op.regions[index]
        if len(region.params) != len(args):
            message = f"{op.name}: region {index} has {len(region.params)} parameters, {len(args)} are wanted"
            raise Invalid(message, label="stablehlo.C6")
        span = self.builder.span
        own = {p.name: [(a, p.type)] for p, a in zip(region.params, args, strict=True)}
        for p, a in zip(region.params, args, strict=True):
            if isinstance(p.type, TensorText) and isinstance(a.type, TensorType) and p.type.dtype is not a.type.dtype:
                message = f"{op.name}: region {index} takes {p.type} for %{p.name}, which is {a.type}"
                raise Invalid(message, label="stablehlo.C6")
        results = yield self.block(region, (*names, own), lifted)
        self.builder.span = span
        return [v for v, _ in results]

    def bind(self, op: Operation, values: Sequence[Expr], names: dict[str, list[Value]], lifted: bool) -> None:
        """Give the results of an operation their names."""
        count = sum(n for _, n in op.results)
        if not op.results:
            return
        if len(values) != count:
            raise Invalid(f"{op.name} gives {len(values)} values, {count} are named", label="stablehlo.C6")
        types: list[TypeText] = list(op.types)
        if len(types) != count:
            types = [types[-1]] * count if types and len(op.results) == 1 and op.operand_types is None else types
        if len(types) != count:
            raise Invalid(f"{op.name} has {count} results, {len(types)} types for them", label="stablehlo.C6")
        at = 0
        for name, n in op.results:
            if name in names:
                raise Invalid(f"%{name} is defined twice", label="stablehlo.C5")
            pairs = list(zip(values[at : at + n], types[at : at + n], strict=True))
            names[name] = [(v if lifted else self.fitted(v, t, "the result"), t) for v, t in pairs]
            at += n
