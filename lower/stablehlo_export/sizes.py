"""Sizes that are no numbers, as values of the text (specs/lower.md, "Export").

A symbol is measured where it first stands alone: `get_dimension_size` of a parameter of main. What is computed of
symbols is arithmetic on scalars of int64. Each is written once, in the outermost region that has all that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.lower.stablehlo_export.writer import HloBlock, HloValue, HloWriter, compare_text
from assay.semantics.dtypes import BOOL, INT32, INT64
from assay.semantics.errors import Unsupported
from assay.semantics.ops.sizes import never_negative
from assay.semantics.scalar import Apply, Const, Dim, Expr, Var, provably_equal, simplify, variables
from assay.semantics.scalar.structure import Interner
from assay.semantics.walk import fold

_PLAIN = {
    "add": "add", "and": "and", "max": "maximum", "min": "minimum", "mul": "multiply", "or": "or", "sub": "subtract",
    "truncdiv": "divide", "neg": "negate",
}  # fmt: skip
_COMPARED = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


class HloSizes:
    """The symbols that have values, and the sizes that were computed of them."""

    def __init__(self, writer: HloWriter) -> None:
        self._writer = writer
        self._from: dict[Var, tuple[HloValue, int, HloBlock]] = {}
        self._number = Interner()

    # --- where symbols come from

    def measure(self, symbol: Var, value: HloValue, axis: int) -> bool:
        """Let a symbol be the size of an axis of a value, the first one; whether this is that."""
        is_first = symbol not in self._from
        if is_first:
            self._from[symbol] = value, axis, self._writer.block
        return is_first

    def has(self, d: Dim) -> bool:
        """Whether all symbols of a size have values."""
        return all(v in self._from for v in variables(d))

    def _size_of(self, value: HloValue, axis: int) -> HloValue:
        attrs = {"dimension": f"{axis} : i64"}
        (size,) = self._writer.op("stablehlo.get_dimension_size", [value], [((), INT32)], attrs)
        return self._scalar("convert", size)

    # --- what is computed of them

    def scalar(self, d: Dim) -> HloValue:
        """A size as a scalar of int64. Unsupported (stablehlo_export.C3) where it is not known."""
        d = simplify(d)
        if isinstance(d, int):
            return self._writer.constant(d, INT64)
        with self._writer.within(self._block([d])):
            return fold(d, self._node)

    def vector(self, sizes: Sequence[Dim]) -> HloValue:
        """Sizes as a vector of int64."""
        sizes = [simplify(d) for d in sizes]
        if all(isinstance(d, int) for d in sizes):
            return self._writer.constant(sizes, INT64)
        with self._writer.within(self._block(sizes)):
            return self._once(("sizes", *map(self._number, sizes)), lambda: self._joined(sizes))

    def holds(self, a: Dim, b: Dim, message: str) -> None:
        """Write that two sizes are equal, unless it is shown: what runs the text may stop where they are not. The
        message names them as {0} and {1}."""
        if provably_equal(a, b):
            return
        one, two = self.scalar(a), self.scalar(b)
        self.asserted([self._compared("eq", one, two), one, two], message)

    def asserted(self, given: Sequence[HloValue], message: str) -> None:
        """Write that the first of some values is true; the message names the others as {0}, {1} and so on."""
        attrs = {"call_target_name": '"shape_assertion"', "has_side_effect": "true", "api_version": "2 : i32"}
        self._writer.op("stablehlo.custom_call", given, [], attrs, notes=f'error_message = "{message}"')

    def _joined(self, sizes: Sequence[Dim]) -> HloValue:
        """Numbers that stand side by side are one constant."""
        parts: list[HloValue] = []
        numbers: list[int] = []
        for d in sizes:
            if isinstance(d, int):
                numbers.append(d)
                continue
            if numbers:
                parts.append(self._writer.constant(numbers, INT64))
                numbers = []
            one = self.scalar(d)
            parts += self._writer.op("stablehlo.reshape", [one], [((1,), INT64)])
        if numbers:
            parts.append(self._writer.constant(numbers, INT64))
        if len(parts) == 1:
            return parts[0]
        attrs = {"dimension": "0 : i64"}
        return self._writer.op("stablehlo.concatenate", parts, [((len(sizes),), INT64)], attrs)[0]

    def _block(self, sizes: Sequence[Dim]) -> HloBlock:
        """The innermost of the blocks in which the symbols are measured."""
        blocks = [self._measured(v)[2] for d in sizes for v in variables(d)]
        return max(blocks, key=self._writer.blocks.index, default=self._writer.block)

    def _measured(self, symbol: Var) -> tuple[HloValue, int, HloBlock]:
        found = self._from.get(symbol)
        if found is None or found[2] not in self._writer.blocks:
            raise Unsupported(
                f"the size {symbol.name} stands alone in no type where it could be measured; say sizes with --dim",
                label="stablehlo_export.C3",
            )
        return found

    def _node(self, node: Expr, parts: Sequence[HloValue]) -> HloValue:
        key = "size", self._number(node)
        match node:
            case Const():
                return self._writer.constant(int(node.value), INT64)
            case Var():
                value, axis, block = self._measured(node)
                with self._writer.within(block):
                    return self._once(key, lambda: self._size_of(value, axis))
            case _:
                return self._once(key, lambda: self._applied(node, parts))

    def _applied(self, node: Expr, parts: Sequence[HloValue]) -> HloValue:
        match node:
            case Apply(op="floordiv"):
                if all(never_negative(a) for a in node.args):
                    return self._scalar("divide", *parts)
                return self._scalar("divide", self._scalar("subtract", parts[0], self._rest(node, parts)), parts[1])
            case Apply(op="floormod"):
                return self._rest(node, parts)
            case Apply(op="select"):
                return self._writer.op("stablehlo.select", parts, [((), INT64)])[0]
            case Apply(op=op) if op in _COMPARED:
                return self._compared(op, *parts)
            case Apply(op=op) if op in _PLAIN:
                return self._scalar(_PLAIN[op], *parts)
            case _:
                raise Unsupported(
                    f"the size {node} is computed by what the export does not know; say sizes with --dim",
                    label="stablehlo_export.C3",
                )

    def _rest(self, node: Apply, parts: Sequence[HloValue]) -> HloValue:
        """What is left of a division that is rounded down: it has the sign of the divisor."""
        rest = self._scalar("remainder", *parts)
        if all(never_negative(a) for a in node.args):
            return rest
        return self._scalar("remainder", self._scalar("add", rest, parts[1]), parts[1])

    def _compared(self, op: str, a: HloValue, b: HloValue) -> HloValue:
        attrs = {"comparison_direction": compare_text(_COMPARED[op])}
        return self._writer.op("stablehlo.compare", [a, b], [((), BOOL)], attrs)[0]

    def _scalar(self, name: str, *args: HloValue) -> HloValue:
        of = args[0].dtype if name in ("and", "or") else INT64
        return self._writer.op(f"stablehlo.{name}", args, [((), of)])[0]

    def _once(self, key: tuple[object, ...], made: Callable[[], HloValue]) -> HloValue:
        """What is made in this block, or was before."""
        known = self._writer.block.known
        if key not in known:
            known[key] = made()
        return known[key]
