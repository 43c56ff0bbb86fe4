"""Scalar expressions of the text format: the parser (specs/semantics.md, "Text").

    names = {"n": n, "A": buffer_a}                           # what stands for scalars and buffers here
    expr = ScalarParser(source, names).expr(node)             # an `Expr`; `node` is an `ast.expr`

A plain number has no dtype: it takes that of the other operand, as in TVM, and alone that of `integer` (int32 in tensor
functions, int64 in shapes of graph functions) or float32. Operands of different widths are brought to the wider one.
Nothing recurses; what Python's own parser takes can be any number of operators deep.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np

from assay.semantics import scalar
from assay.semantics.digits import is_size
from assay.semantics.dtypes import BOOL, DTYPES, INT32, DType
from assay.semantics.errors import Invalid
from assay.semantics.scalar.failing import tvm_select
from assay.semantics.tensor import Buffer
from assay.semantics.text.scalars.operations import BINARY, FUNCTIONS, Operations, Value
from assay.semantics.text.source import Source
from assay.semantics.walk import fold_scoped, occurrences

T = TypeVar("T")
Scope: TypeAlias = Mapping[str, "scalar.Expr | Buffer"]
MODULES = ("T", "tir", "tirx", "ty", "R", "I")
"""The names that `tvm.script`'s modules are imported as, unless the text says otherwise."""

EXTERNAL = ("call_extern", "call_pure_extern")
"""Calls that may stand in an expression."""

_OPERATOR_SIZES = {"&&": 2, "||": 2, "~": 1, "if_then_else": 3, "select": 3, "likely": 1, "ceildiv": 2}


@dataclass
class ScalarParser:
    """Reads scalar expressions where `names` are in scope; the mapping may change between two readings."""

    source: Source
    names: Scope
    integer: DType = INT32
    """The dtype of a plain whole number on its own."""
    modules: Collection[str] = MODULES
    lanes: int = 1
    lane: int = 0
    """Which lane of vectors is read, of how many."""
    external: Callable[[ast.Call], scalar.Expr] | None = None
    """What the call of an extern gives within an expression, where there may be one."""
    vectors: dict[str, tuple[scalar.Expr, ...]] = field(default_factory=dict)
    """Names of vectors, and their lanes."""
    packed: dict[Buffer, int] = field(default_factory=dict)
    """Buffers whose elements are vectors, and how many lanes those have: their last dimension."""

    def __post_init__(self) -> None:
        self.operations = Operations(self.integer)

    def each_lane(self, lanes: int, read: Callable[[], T]) -> list[T]:
        """What `read` gives for each lane of a vector."""
        outer = self.lanes, self.lane
        found = []
        for lane in range(lanes):
            self.lanes, self.lane = lanes, lane
            found.append(read())
        self.lanes, self.lane = outer
        return found

    def lanes_of(self, root: ast.expr) -> int:
        """How many lanes the vector has that an expression or an index is; 1 for a scalar."""
        for node in occurrences(root, lambda n: [c for c in ast.iter_child_nodes(n) if isinstance(c, ast.expr)]):
            match node:
                case ast.Call() if self.module_member(node.func) in ("Ramp", "Broadcast"):
                    return self._count(node, node.args[-1] if node.args else node)
                case ast.Call(args=[_, ast.List(elts=which)]) if self.module_member(node.func) == "Shuffle":
                    return len(which)
                case ast.Slice():
                    first, last = self.operations.matched(
                        [0 if e is None else self.value(e) for e in (node.lower, node.upper)]
                    )
                    step = 1 if node.step is None else self._count(node, node.step)
                    width = scalar.simplify(last - first)
                    if not isinstance(width, int) or width < 1:
                        raise self.source.error(node, "a vector of elements has a constant number of lanes", "text.C6")
                    return -(-width // step)
                case ast.Name() if node.id in self.vectors:
                    return len(self.vectors[node.id])
                case ast.Subscript(value=ast.Name()) if (own := self.lanes_in(node.value)) > 1:
                    return own * self.lanes_of(node.slice)
                case ast.Name() if self.lanes_in(node) > 1:
                    return self.lanes_in(node)
        return 1

    def lanes_in(self, node: ast.expr) -> int:
        """How many lanes the elements of a buffer have; 1 for what is no buffer of vectors."""
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        return self.packed.get(found, 1) if isinstance(found, Buffer) else 1

    def _count(self, node: ast.AST, number: ast.AST) -> int:
        if not (isinstance(number, ast.Constant) and type(number.value) is int and number.value > 0):
            raise self.source.error(node, "a number of lanes is a positive literal", "text.C6")
        return int(number.value)

    def expr(self, node: ast.expr, of: DType | None = None) -> scalar.Expr:
        """The expression that `node` is. A plain number becomes `of`; anything else must have that dtype, if given."""
        value = self.value(node)
        with self.source.at(node):
            result = self.operations.typed(value, of)
        if of is not None and result.dtype is not of:
            raise self.source.error(node, f"{of} expected, this is {result.dtype}", "text.C6")
        return result

    def dim(self, node: ast.expr) -> scalar.Expr | int:
        """A dim of a shape: a number, or an expression; a string is read as an expression (TVM quotes sums)."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = self.quoted(node)
        value = self.value(node)
        if isinstance(value, scalar.Const) and value.dtype.is_integer:
            return int(value.value)
        if isinstance(value, scalar.Expr) and value.dtype.is_integer:
            return self.sized(node, value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.source.error(node, "a dim is a whole number or an integer expression", "text.C6")

    def sized(self, node: ast.AST, dim: scalar.Expr) -> scalar.Expr:
        """The dim. Invalid (text.C6): it is a number that there is not."""
        if why := scalar.without_value(dim):
            raise self.source.error(node, f"this size has no value: {why}", "text.C6")
        return dim

    def quoted(self, node: ast.Constant) -> ast.expr:
        """The expression inside a string, its nodes placed where the string stands."""
        try:
            inside = ast.parse(str(node.value).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self.source.error(node, f"no expression: {node.value!r}", "text.C6") from None
        for part in ast.walk(inside):
            ast.copy_location(part, node)
        self.source.require_numbers(inside)
        return inside

    # --- the walk ------------------------------------------------------------------------------------------------

    def value(self, root: ast.expr) -> Value:
        """What `root` stands for, parts first and left to right."""

        def build(node: ast.expr, operands: list[Value]) -> Value:
            try:
                return self._build(node, operands)
            except Invalid as wrong:
                self.source.locate(wrong, node)
            except OverflowError:
                raise self.source.error(node, "this number is too large", "text.C6") from None

        return fold_scoped(root, self._operands, build)

    def _operands(self, node: ast.expr) -> Sequence[ast.expr]:
        match node:
            case ast.BinOp():
                return (node.left, node.right)
            case ast.UnaryOp():
                return (node.operand,)
            case ast.BoolOp():
                return node.values
            case ast.Compare():
                return (node.left, *node.comparators)
            case ast.IfExp():
                return (node.test, node.body, node.orelse)
            case ast.Subscript() if self.lanes_in(node.value) > 1:
                return ()
            case ast.Subscript(slice=ast.Tuple(elts=elements)):
                return self._indices(elements)
            case ast.Subscript():
                return self._indices([node.slice])
            case ast.Call() if self.module_member(node.func) in ("Ramp", "Broadcast"):
                return node.args[:-1]
            case ast.Call() if self.module_member(node.func) in EXTERNAL:
                return ()
            case ast.Call(args=[ast.List(elts=parts), _]) if self.module_member(node.func) == "Shuffle":
                return parts if all(self.lanes_of(p) == 1 for p in parts) else ()
            case ast.Call():
                operands = [a for a in node.args if not _is_text(a)]
                if isinstance(node.func, ast.Attribute) and self.module_member(node.func) is None:
                    operands.insert(0, node.func.value)  # a method: `x.astype("int8")`
                return operands
            case _:
                return ()

    def _indices(self, elements: Sequence[ast.expr]) -> Sequence[ast.expr]:
        found: list[ast.expr] = []
        for e in elements:
            if isinstance(e, ast.Starred) or (isinstance(e, ast.Slice) and self.lanes == 1):
                raise self.source.unsupported(
                    e, "an index is one number here; vectors of elements are only stored as such", "text.C8"
                )
            if not isinstance(e, ast.Slice):
                found.append(e)
                continue
            if self.lanes_of(e) != self.lanes:
                raise self.source.error(e, f"{self.lanes} lanes expected", "text.C6")
            first = e.lower or ast.copy_location(ast.Constant(0), e)
            step = 1 if e.step is None else self._count(e, e.step)
            place = ast.copy_location(ast.Constant(self.lane * step), e)
            found.append(first if self.lane == 0 else ast.copy_location(ast.BinOp(first, ast.Add(), place), e))
        return found

    def module_member(self, node: ast.expr) -> str | None:
        """`name` for `T.name` (also `T.s_tir.name`), where T is one of the script's modules; else None."""
        if not isinstance(node, ast.Attribute):
            return None
        inner = node.value
        if isinstance(inner, ast.Attribute) and inner.attr in ("s_tir", "tirx"):
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.modules and inner.id not in self.names:
            return node.attr
        return None

    def _build(self, node: ast.expr, args: list[Value]) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() as plain):
                return plain
            case ast.Name():
                return self._name(node)
            case ast.BinOp() if type(node.op) in BINARY:
                return self.operations.binary(BINARY[type(node.op)], *args)
            case ast.UnaryOp(op=ast.USub()):
                return -args[0] if not isinstance(args[0], bool) else -int(args[0])
            case ast.UnaryOp(op=ast.UAdd()):
                return args[0]
            case ast.UnaryOp(op=ast.Not()):
                return scalar.apply("not", self.operations.condition(args[0]))
            case ast.UnaryOp(op=ast.Invert()):
                return self.operations.apply("~", args)
            case ast.BoolOp():
                join = scalar.both if isinstance(node.op, ast.And) else scalar.either
                result = self.operations.condition(args[0])
                for other in args[1:]:
                    result = join(result, self.operations.condition(other))
                return result
            case ast.Compare():
                return self._compare(node, args)
            case ast.IfExp():
                return self.operations.apply("if_then_else", args)
            case ast.Subscript() if self.lanes_in(node.value) > 1:
                return self._packed(node)
            case ast.Subscript():
                return self._load(node, args)
            case ast.Call() if self.external is not None and self.module_member(node.func) in EXTERNAL:
                return self.external(node)
            case ast.Call():
                return self._call(node, args)
            case _:
                raise self.source.error(node, "no scalar expression", "text.C4")

    def _name(self, node: ast.Name) -> Value:
        found = self.names.get(node.id)
        if node.id in self.vectors:
            if len(self.vectors[node.id]) != self.lanes:
                raise self.source.error(node, f"{node.id} has {len(self.vectors[node.id])} lanes", "text.C6")
            return self.vectors[node.id][self.lane]
        if found is None:
            raise self.source.error(node, f"nothing is called {node.id} here", "text.C3")
        if isinstance(found, Buffer) and found in self.packed and len(found.shape) == 2 and found.shape[0] == 1:
            return self._packed(ast.copy_location(ast.Subscript(node, ast.copy_location(ast.Constant(0), node)), node))
        if isinstance(found, Buffer) and found.shape == (1,):
            # TVM writes a buffer of one element so
            return scalar.Load(found.dtype, found, (scalar.const(0, self.integer),))
        if isinstance(found, Buffer):
            raise self.source.error(node, f"{node.id} is a buffer; an element is {node.id}[...]", "text.C4")
        return found

    def _load(self, node: ast.Subscript, args: list[Value]) -> scalar.Expr:
        return self.element(node, [self.operations.typed(a) for a in args])

    def _packed(self, node: ast.Subscript) -> scalar.Load:
        """The lane that is read of an element of a buffer of vectors, or of several of them."""
        own, outer = self.lanes_in(node.value), (self.lanes, self.lane)
        if self.lanes == 1:
            raise self.source.unsupported(node, "an element is a vector here, which is only stored as such", "text.C8")
        if self.lanes % own:
            raise self.source.error(node, f"{self.lanes} lanes expected, each element has {own}", "text.C6")
        lane = self.lane % own
        self.lanes, self.lane = self.lanes // own, self.lane // own
        parts = self._indices(node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
        found = self.element(node, [self.operations.typed(self.value(p)) for p in parts], lane)
        self.lanes, self.lane = outer
        return found

    def element(self, node: ast.Subscript, indices: Sequence[scalar.Expr], lane: int = 0) -> scalar.Load:
        """The buffer element that a subscript names; of one that is a vector, a lane."""
        if not isinstance(node.value, ast.Name):
            raise self.source.error(node.value, "the name of a buffer expected", "text.C4")
        buffer = self.names.get(node.value.id)
        if buffer is None:
            raise self.source.error(node.value, f"nothing is called {node.value.id} here", "text.C3")
        if not isinstance(buffer, Buffer):
            raise self.source.error(node.value, f"{node.value.id} is a scalar, which has no elements", "text.C4")
        if buffer in self.packed:
            indices = (*indices, scalar.const(lane, self.integer))
        if len(indices) != len(buffer.shape):
            more = int(buffer in self.packed)
            message = (
                f"buffer {buffer.name} has {len(buffer.shape) - more} dimensions, {len(indices) - more} indices given"
            )
            raise self.source.error(node, message, "text.C5")
        for i in indices:
            if not i.dtype.is_integer:
                raise self.source.error(node, f"an index is an integer, not {i.dtype}", "text.C6")
        return scalar.Load(buffer.dtype, buffer, tuple(indices))

    def _compare(self, node: ast.Compare, args: list[Value]) -> Value:
        result: scalar.Expr | None = None
        for op, a, b in zip(node.ops, args, args[1:], strict=False):
            if type(op) not in BINARY:
                raise self.source.error(node, "this comparison is none of scalars", "text.C4")
            one = self.operations.typed(self.operations.binary(BINARY[type(op)], a, b))
            result = one if result is None else scalar.both(result, one)
        assert result is not None
        return result

    # --- functions -----------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, args: list[Value]) -> Value:
        name = self.module_member(node.func)
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name is None:
            if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and len(texts) == 1:
                return scalar.cast(self.operations.typed(args[0]), self.dtype_of(node, texts[0]))
            if isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "abs"):
                return self.operations.apply(node.func.id, args)
            raise self.source.error(node.func, f"no function of scalars: {ast.unparse(node.func)}", "text.C4")
        name = _SHORT.get(name, name)
        if name in DTYPES:
            return self._number(node, DTYPES[name], texts, args)
        if name in ("Ramp", "Broadcast", "Shuffle"):
            return self._vector(node, name, args)
        if name in _TYPED:
            rest = _TYPED[name]
            if len(texts) != 1 or len(args) != bool(rest):
                raise self.source.error(node, f"T.{name} takes a dtype{rest}", "text.C5")
            return self._typed_call(node, name, self.dtype_of(node, texts[0]), *args)
        sizes = _OPERATOR_SIZES.get(FUNCTIONS.get(name, ""))
        if name not in FUNCTIONS:
            raise self.source.unsupported(node.func, f"T.{name} is not handled in scalar expressions", "text.C7")
        if texts or node.keywords:
            # a span or annotations, which TVM's own printer never writes
            raise self.source.error(node, f"T.{name} takes scalars only", "text.C5")
        if sizes is not None and len(args) != sizes:
            raise self.source.error(node, f"T.{name} takes {sizes} operands, {len(args)} given", "text.C5")
        if name == "Select":
            then, otherwise = self.operations.matched(args[1:])
            first = node.args[0]
            strict = isinstance(first, ast.Call) and self.module_member(first.func) == "likely"
            return (scalar.select if strict else tvm_select)(self.operations.condition(args[0]), then, otherwise)
        return self.operations.apply(FUNCTIONS[name], args)

    def _vector(self, node: ast.Call, name: str, args: list[Value]) -> Value:
        """The lane that is read of a vector."""
        if name == "Shuffle":
            return self._shuffle(node, args)
        if self.lanes != self._count(node, node.args[-1]) or node.keywords or len(args) != (2 if name == "Ramp" else 1):
            what = "vectors are only stored as such" if self.lanes == 1 else f"{self.lanes} lanes expected"
            raise self.source.unsupported(node, f"T.{name} has no place here: {what}", "text.C8")
        if name == "Broadcast":
            return args[0]
        base, step = self.operations.matched(args)
        return base + step * scalar.const(self.lane, step.dtype)

    def _shuffle(self, node: ast.Call, args: list[Value]) -> Value:
        """`T.Shuffle([a, b], [3, 0])`: lanes of vectors, which count through, or of scalars."""
        match node.args:
            case [ast.List(elts=parts), ast.List(elts=which)] if len(which) == self.lanes:
                lane = int(getattr(which[self.lane], "value", 0))
            case _:
                raise self.source.unsupported(
                    node, "T.Shuffle has no place here: vectors are only stored as such", "text.C8"
                )
        if args:
            return args[lane]
        for p in parts:
            lanes = self.lanes_of(p)
            if lane < lanes:
                outer = self.lanes, self.lane
                self.lanes, self.lane = lanes, lane
                found = self.value(p)
                self.lanes, self.lane = outer
                return found
            lane -= lanes
        raise self.source.error(node, "there is no such lane", "text.C6")

    def _number(self, node: ast.Call, of: DType, texts: list[str], args: list[Value]) -> Value:
        """`T.float32(x)`: a literal of that dtype, or a conversion."""
        if len(texts) + len(args) != 1 or node.keywords:
            raise self.source.error(node, f"T.{of}(...) takes one number", "text.C5")
        if texts:
            try:
                return scalar.const(float(texts[0]), of)
            except ValueError:
                raise self.source.error(node, f"no number: {texts[0]!r}", "text.C6") from None
        (value,) = args
        if isinstance(value, scalar.Expr):
            return scalar.cast(value, of)
        if of is BOOL:
            return scalar.const(bool(value), BOOL)
        return scalar.const(int(value) if of.is_integer and not isinstance(value, float) else value, of)

    def dtype_of(self, node: ast.AST, name: str) -> DType:
        """A dtype by its name in the text."""
        if self.lanes > 1 and name.endswith(f"x{self.lanes}") and name.rpartition("x")[0] in DTYPES:
            name = name.rpartition("x")[0]
        if name not in DTYPES:
            if any(name.startswith(d) and name[len(d) :].lstrip("x").isdigit() for d in DTYPES):
                raise self.source.unsupported(node, f"vectors such as {name} are not handled", "text.C8")
            raise self.source.error(node, f"no such dtype: {name}", "text.C6")
        return DTYPES[name]

    def _typed_call(self, node: ast.Call, name: str, of: DType, *args: Value) -> Value:
        match name:
            case "Cast" | "cast":
                return scalar.cast(self.operations.typed(args[0]), of)
            case "reinterpret":
                return self._reinterpret(node, self.operations.typed(args[0]), of)
            case "max_value" if of.is_integer:
                return scalar.const(of.max, of)
            case "min_value" if of.is_integer:
                return scalar.const(of.min, of)
            case "max_value" | "min_value":
                largest = float(np.asarray(of.max))
                return scalar.const(largest if name == "max_value" else -largest, of)
            case "infinity":
                return scalar.const(np.inf, of)
            case _:
                value = args[0]
                return scalar.cast(value, of) if isinstance(value, scalar.Expr) else scalar.const(value, of)

    def _reinterpret(self, node: ast.Call, value: scalar.Expr, of: DType) -> scalar.Expr:
        """The bits of a value as another dtype."""
        try:
            return scalar.reinterpret(value, of)
        except Invalid as wrong:
            raise self.source.error(node, wrong.message, "text.C6") from None


_SHORT = {"boolean": "bool", "bf16": "bfloat16"} | {
    f"{kind[0]}{bits}": f"{kind}{bits}"
    for kind in ("int", "uint", "float")
    for bits in (8, 16, 32, 64)
    if f"{kind}{bits}" in DTYPES
}
_TYPED = {
    **dict.fromkeys(("Cast", "cast", "reinterpret"), " and a value"),
    **dict.fromkeys(("IntImm", "FloatImm", "const"), " and a number"),
    **dict.fromkeys(("max_value", "min_value", "infinity"), ""),
}
"""Functions that take a dtype, and what they take beside."""


def vector_type(name: str) -> tuple[DType, int] | None:
    """The dtype and the lanes of vectors such as float32x4; None for what names none."""
    element, cross, lanes = name.rpartition("x")
    return (DTYPES[element], int(lanes)) if element in DTYPES and cross and is_size(lanes) else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
