"""A program as StableHLO (specs/lower.md, "Export").

A call of a function of the module is a call of a private function; one of a local function is written as what it does;
a function that calls itself as the last thing that it does is a `while`. A size is a number or an expression of
symbols, which are measured where main's parameters have them; those of a function are what its arguments say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.lower.export_walk import (
    ExportClosure,
    ExportWalk,
    fields_of,
    shaped_as,
    values_of,
)
from assay.lower.stablehlo_export import elementwise, movement, sorting, sums
from assay.lower.stablehlo_export.items import HloActivation, HloClosure, HloItem, holds_function, type_of
from assay.lower.stablehlo_export.sizes import HloSizes
from assay.lower.stablehlo_export.use import HloExportRule, HloUse
from assay.lower.stablehlo_export.writer import HloBlock, HloValue, HloWriter, numbers_of, same_sizes
from assay.lower.tail_loops import TailLoop
from assay.semantics import graph
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph.matching import Bound, instantiate, instantiate_dim, match_types
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, simplify
from assay.semantics.tasks import Task, run_task
from assay.semantics.types import ShapeType, TensorType, TupleType, Type
from assay.semantics.walk import fold_scoped, occurrences

MOST_DEPTH = 100
"""Regions inside one another; readers recurse over them."""

RULES: dict[str, HloExportRule] = {**elementwise.TABLE, **movement.TABLE, **sorting.TABLE, **sums.TABLE}
"""How each operator is said in StableHLO."""

UNSAID: dict[str, str] = {
    "det": "StableHLO has no determinant; elimination with its choice of pivots would be written out for each size",
    "suppress": "StableHLO has no choice of boxes; a loop would be written for each batch and class",
}
"""The operators that are not said, each with the reason."""


class HloExport(ExportWalk[HloValue, Bound]):
    """The export of one module as StableHLO."""

    LANGUAGE, LABELS, UNSAID = "StableHLO", "stablehlo_export", UNSAID

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.writer = HloWriter()
        self.sizes = HloSizes(self.writer)
        self.written: dict[tuple[str, tuple[str, ...]], tuple[str, Type]] = {}
        """The names and results of the private functions that are written, by the function and the types of its
        parameters."""

    def text(self) -> str:
        """The whole module, main first."""
        main = self.module.main
        types = [p.type for p in main.params]
        if any(not isinstance(t, TensorType) for t in types):
            raise Unsupported("a parameter of main is no tensor", label="stablehlo_export.C4")
        names = [p.name for p in main.params], list(main.attrs.get("outputs", ()))
        self.function("main", ExportClosure(main, None, "main"), types, names)
        return "module {\n" + "\n".join(reversed(self.writer.functions)) + "\n}\n"

    def asserted(self, node: graph.AssertOp, values: Sequence[HloItem]) -> None:
        """A check of sizes, as JAX writes it. One of elements is not kept: XLA takes checks of sizes alone."""
        if not self.checks.about_sizes(node):
            return
        first, *others = map(message_text, node.format.split("{}"))
        message = first + "".join(f"{{{k}}}{text}" for k, text in enumerate(others))
        self.sizes.asserted([v for item in values for v in values_of(item)], message)

    # --- functions

    def function(
        self, name: str, closure: HloClosure, types: Sequence[Type], names: tuple[list[str], list[str]] = ([], [])
    ) -> Type:
        """Write a function of the text, for arguments of these types; the type of its result. `names` are those of its
        parameters and results, by which its reader may call them."""
        blocks, self.writer.blocks = self.writer.blocks, [HloBlock()]
        params = [self.fresh(t) for t in types]
        if name == "main":
            self.measured([v for p in params for v in values_of(p)], closure.function)
        result = run_task(super().call(closure, params))
        lines = self.writer.block.lines
        self.writer.blocks = blocks
        leaves = values_of(result)
        given = [v for p in params for v in values_of(p)]
        said = listed(given, names[0], [f"{v.name}: {v.type}" for v in given])
        made = listed(leaves, names[1], [v.type for v in leaves])
        private = "public" if name == "main" else "private"
        end = f'"func.return"({", ".join(v.name for v in leaves)}) : ({", ".join(v.type for v in leaves)}) -> ()'
        body = "\n".join([f"func.func {private} @{name}({said}) -> ({made}) {{", *lines, end, "}"])
        self.writer.functions.append(body)
        return type_of(result)

    def fresh(self, of: Type) -> HloItem:
        """Values with new names, of a type."""

        def made(t: Type, inside: list[HloItem]) -> HloItem:
            if isinstance(t, TensorType):
                return self.writer.value(tuple(map(simplify, t.shape)), t.dtype)
            if isinstance(t, TupleType):
                return tuple(inside)
            raise Unsupported(f"a value of type {t}", label="stablehlo_export.C1")

        return fold_scoped(of, fields_of, made)

    def measured(self, params: Sequence[HloValue], main: graph.Function) -> None:
        """Measure the symbols that stand alone in the types of main's parameters, and write that the other sizes are
        what the types say. Unsupported (stablehlo_export.C3): a symbol stands alone nowhere."""
        later: list[tuple[HloValue, int, Dim, str]] = []
        for v, p in zip(params, main.params, strict=True):
            for axis, d in enumerate(v.shape):
                if not isinstance(d, Symbol) or not self.sizes.measure(d, v, axis):
                    later.append((v, axis, d, p.name))
        for v, axis, d, name in later:
            if isinstance(d, Scalar):
                given = Symbol(name)
                self.sizes.measure(given, v, axis)
                message = f"axis {axis} of parameter {message_text(name)} has {{0}} elements, not {{1}}"
                self.sizes.holds(given, d, message)

    def looped(self, loop: TailLoop, function: graph.Function, at: HloActivation) -> Task[HloItem]:
        """As a while. What decides is written before each round and behind the last."""
        flat = [v for p in function.params for v in values_of(at.values[p])]
        types = [(v.shape, v.dtype) for v in flat]

        regions: list[str] = []
        for is_test in (True, False):
            params = [self.writer.value(*t) for t in types]
            self.writer.blocks.append(HloBlock())
            inside = self.bound(function, params, at.outer)
            yield self.bindings(loop.before, inside)
            if is_test:
                test = yield self.value(loop.condition, inside)
                assert isinstance(test, HloValue)
                if not loop.goes_on:
                    (test,) = self.writer.op("stablehlo.not", [test], [(test.shape, test.dtype)])
                regions.append(self.ended(test, params))
                continue
            yield self.bindings(loop.round, inside)
            again = [v for item in (yield self.values(loop.again, inside)) for v in values_of(item)]
            if not all(same_sizes(v.shape, shape) for v, (shape, _) in zip(again, types, strict=True)):
                raise Unsupported("the sizes of a loop's state change in a round", label="stablehlo_export.C3")
            regions.append(self.ended(tuple(again), params))
        behind = self.bound(function, self.writer.op("stablehlo.while", flat, types, {}, regions), at.outer)
        yield self.bindings(loop.before, behind)
        result: HloItem = yield self.body(loop.end, behind)
        return result

    def bind(self, at: HloActivation, var: graph.Var, item: HloItem) -> None:
        """Let a variable mean a value, and the symbols of its type the value's sizes."""
        at.values[var] = item
        if holds_function(item):
            return
        given = type_of(item)
        if isinstance(var.type, ShapeType):
            return
        found: Bound = {}
        try:
            match_types([var.type], [given], found)
        except Invalid:
            return  # a shape inside of a tuple; what is wrong elsewhere is found where it is used
        for symbol, size in found.items():
            at.sizes.setdefault(symbol, size)

    # --- nodes

    def new_sizes(self, outer: Bound | None) -> Bound:
        """Those of the outer one: all are numbers."""
        return dict(outer or {})

    def constant(self, data: Any, name: str = "") -> HloValue:
        """A constant; its name is not kept."""
        return self.writer.constant(data, dtype(data.dtype))

    def shape(self, dims: Sequence[Dim], at: HloActivation) -> HloValue:
        """Sizes as a vector."""
        return self.sizes.vector([self.dim(d, at) for d in dims])

    def shape_of(self, value: HloValue) -> HloValue:
        """The sizes of a tensor as a vector."""
        return self.sizes.vector(value.shape)

    def dim(self, d: Dim, at: HloActivation) -> Dim:
        """A size in the symbols that have values in the text. Unsupported (stablehlo_export.C3) where one has none."""
        found = simplify(instantiate_dim(d, at.sizes))
        if not self.sizes.has(found):
            raise Unsupported(f"the size {d} is only known in a run; say sizes with --dim", label="stablehlo_export.C3")
        return found

    def matched(self, node: graph.MatchCast, item: HloItem, at: HloActivation) -> HloItem:
        """A cast. What it says of sizes is written, unless it is shown; a size that becomes a number is converted to.
        Unsupported (stablehlo_export.C3): it reads sizes from elements, or does not hold."""
        of = node.type
        if isinstance(of, ShapeType):
            raise Unsupported(
                "sizes that are elements of a tensor are only known in a run", label="stablehlo_export.C3"
            )
        found: Bound = dict(at.sizes)
        try:
            match_types([of], [type_of(item)], found)
        except Invalid as wrong:
            raise Unsupported(f"sizes do not match: {wrong.message}", label="stablehlo_export.C3") from None
        wanted = [t for t in occurrences(instantiate(of, found), fields_of) if isinstance(t, TensorType)]
        made = [self.cast_to(v, t.shape) for v, t in zip(values_of(item), wanted, strict=True)]
        return shaped_as(of, iter(made))

    def cast_to(self, x: HloValue, shape: Sequence[Dim]) -> HloValue:
        """A value with a shape that it has in every run that goes on."""
        if same_sizes(x.shape, shape):
            return x
        for given, wanted in zip(x.shape, shape, strict=True):
            self.sizes.holds(given, wanted, "a size is {0}, not {1}")
        made = HloValue(x.name, tuple(map(simplify, shape)), x.dtype)
        if made.type == x.type:
            return made
        return self.writer.op("stablehlo.convert", [x], [(made.shape, x.dtype)])[0]

    def rule(
        self,
        op: Operator,
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
        values: Sequence[HloValue],
        of: Type,
        at: HloActivation,
    ) -> HloValue | Sequence[HloValue] | None:
        """The operations of an operator, by its rule."""
        if op.name not in RULES:
            return None
        known = {name: self.known(value, at) for name, value in attrs.items()}
        try:
            result = op.type_rule(known, tuple(TensorType(v.shape, v.dtype) for v in values))
        except Invalid as wrong:
            message = f"sizes that are no numbers do not fit: {wrong.message}; say sizes with --dim"
            raise Unsupported(message, label="stablehlo_export.C3") from None
        return RULES[op.name](HloUse(self.writer, self.sizes, op.name, known, tuple(values), result))

    def known(self, value: Any, at: HloActivation) -> Any:
        """An attribute, its sizes in the symbols that have values."""
        if isinstance(value, tuple):
            return tuple(self.dim(v, at) if isinstance(v, Scalar) else v for v in value)
        return self.dim(value, at) if isinstance(value, Scalar) else value

    def call(self, closure: HloClosure, operands: Sequence[HloItem]) -> Task[HloItem]:
        """A call: of a function of the module, as one; of a local one, or for sizes that are no numbers, as what it
        does."""
        flat = [v for item in operands for v in values_of(item)]
        written_here = closure.outer is not None or any(map(holds_function, operands))
        dynamic = any(numbers_of(v.shape) is None for v in flat)
        if written_here or dynamic or id(closure.function) in self.active:
            result: HloItem = yield super().call(closure, operands)
            return result
        key = closure.name, tuple(str(type_of(item)) for item in operands)
        if key not in self.written:
            name = f"{plain_name(closure.name)}_{len(self.written)}"
            self.written[key] = name, self.function(name, closure, [type_of(item) for item in operands])
        name, of = self.written[key]
        leaves = [t for t in occurrences(of, fields_of) if isinstance(t, TensorType)]
        if any(isinstance(d, Scalar) for t in leaves for d in t.shape):
            raise Unsupported(f"{closure.name} gives sizes that only a run knows", label="stablehlo_export.C3")
        made = self.writer.op("func.call", flat, [(t.static_shape, t.dtype) for t in leaves], {"callee": f"@{name}"})
        return shaped_as(of, iter(made))

    def branches(self, node: graph.If, at: HloActivation) -> Task[HloItem]:
        """An If, each side as a region."""
        condition = yield self.value(node.condition, at)
        assert isinstance(condition, HloValue)
        if len(self.writer.blocks) > MOST_DEPTH:
            raise Unsupported(f"branches lie {MOST_DEPTH} deep", label="stablehlo_export.C5")
        made: list[tuple[HloItem, str]] = []
        for part in (node.then, node.otherwise):
            made.append((yield self.region(part, self.inside(at))))
        (first, one), (second, other) = made
        pairs = zip(values_of(first), values_of(second), strict=True)
        if not all(same_sizes(v.shape, w.shape) for v, w in pairs):
            raise Unsupported("the branches give different sizes", label="stablehlo_export.C3")
        types = [(v.shape, v.dtype) for v in values_of(first)]
        if not types:
            return first
        return shaped_as(node.type, iter(self.writer.op("stablehlo.if", [condition], types, {}, [one, other])))

    def region(self, expr: graph.Expr, at: HloActivation, params: Sequence[HloValue] = ()) -> Task[tuple[HloItem, str]]:
        """What a block stands for inside of a region, and the region."""
        self.writer.blocks.append(HloBlock())
        item: HloItem = yield self.body(expr, at)
        if holds_function(item):
            raise Unsupported("a branch gives a function; StableHLO has no word for that", label="stablehlo_export.C1")
        return item, self.ended(item, params)

    def ended(self, item: HloItem, params: Sequence[HloValue]) -> str:
        """The region that is being written, which gives these values."""
        lines, leaves = self.writer.blocks.pop().lines, values_of(item)
        head = [f"^bb0({', '.join(f'{p.name}: {p.type}' for p in params)}):"] if params else []
        types = ", ".join(v.type for v in leaves)
        end = f'"stablehlo.return"({", ".join(v.name for v in leaves)}) : ({types}) -> ()'
        return "{\n" + "\n".join([*head, *lines, end]) + "\n}"


def listed(values: Sequence[HloValue], names: Sequence[str], texts: Sequence[str]) -> str:
    """Parameters or results of a function, by the names that they have, if all have one that a text can hold."""
    plain = all(n.isprintable() and not {'"', "\\"} & set(n) for n in names)
    if not plain or len(names) != len(values) or len(set(names)) != len(names):
        return ", ".join(texts)
    return ", ".join(f'{t} {{assay.name = "{n}"}}' for t, n in zip(texts, names, strict=True))


def message_text(text: str) -> str:
    """A name as part of a message."""
    return "".join(c if c.isprintable() and c not in '"\\{}' else "_" for c in text)


def plain_name(text: str) -> str:
    """A name of a function that every reader takes."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text) or "f"
