"""Scalar expressions and dims out of live TVM objects (specs/lower.md, "tvm").

TVM's `and`, `or` and `if_then_else` are lazy. Its `Select` may be evaluated either way, and its pipeline makes it lazy
where a branch is unsafe; so it is lazy here wherever a branch can fail. The division of integers rounds to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from assay.lower.frontends.tvm.objects import Object, handle, lanes_of, op_name, prim_dtype, type_key
from assay.semantics import scalar
from assay.semantics.dtypes import BOOL, INT64, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.scalar.failing import tvm_select
from assay.semantics.scalar.intrinsics import INTRINSICS, division
from assay.semantics.tensor import Buffer
from assay.semantics.tensor.places import strides_of
from assay.semantics.walk import Worklist

BINARY = {
    "prim.Add": "add", "prim.Sub": "sub", "prim.Mul": "mul", "prim.Div": "div", "prim.Mod": "truncmod",
    "prim.FloorDiv": "floordiv", "prim.FloorMod": "floormod", "prim.Min": "min", "prim.Max": "max", "prim.EQ": "eq",
    "prim.NE": "ne", "prim.LT": "lt", "prim.LE": "le", "prim.GT": "gt", "prim.GE": "ge", "prim.BitwiseAnd": "bitand",
    "prim.BitwiseOr": "bitor", "prim.BitwiseXor": "bitxor", "prim.LShift": "shl", "prim.RShift": "shr",
}  # fmt: skip
"""Nodes with operands `a` and `b`, and our operation."""

LOGICAL = {"bitand": "and", "bitor": "or", "bitxor": "ne"}
"""What the bitwise operations are on truth values."""

EXTERNAL = ("call_extern", "call_pure_extern")
"""Calls that may stand in an expression."""

FUNCTIONS = frozenset({*INTRINSICS, "if_then_else", "likely", "bitwise_not", "reinterpret"})


@dataclass
class VariableTable:
    """The scalar variable of each TVM variable: one for one, in the types of graph functions and in tensor functions.

    The table is by handle, so the module must live as long as it is used. A size is int64 here, whatever its width in
    TVM: the narrower one is a conversion of it.
    """

    known: dict[int, scalar.Var] = field(default_factory=dict)
    sizes: dict[int, scalar.Expr] = field(default_factory=dict)
    """What stands for a variable that is a size but not int64."""

    def var(self, o: Object, where: str) -> scalar.Var:
        """The variable of a TVM variable: a loop's, a let's, a parameter."""
        found = self.known.get(handle(o))
        if found is None:
            found = self.known[handle(o)] = scalar.Var(str(o.name), prim_dtype(o.ty, where))
        return found

    def size(self, o: Object, where: str) -> scalar.Var:
        """The variable of a TVM variable that is a dim of a shape."""
        found = self.known.get(handle(o))
        if found is not None and found.dtype is INT64:
            return found
        of = prim_dtype(o.ty, where)
        if found is not None or not of.is_integer:
            raise Unsupported(
                f"{o.name}, of dtype {of}, is a dim and a variable of the body", where=where, label="tvm.C3"
            )
        found = self.known[handle(o)] = scalar.Var(str(o.name), INT64)
        if of is not INT64:
            self.sizes[handle(o)] = scalar.cast(found, of)
        return found


@dataclass
class Scalars:
    """Reads the scalar expressions of one function, which messages name by `where`."""

    symbols: VariableTable
    where: str
    buffers: Callable[[Object], Buffer]
    """The buffer of a TVM buffer variable."""
    given: dict[int, scalar.Expr] = field(default_factory=dict)
    """What stands for a variable here instead of itself."""
    done: dict[int, scalar.Expr] = field(default_factory=dict)
    vectors: dict[int, tuple[scalar.Var, ...]] = field(default_factory=dict)
    """The names of the lanes of vectors that have names."""
    packed: dict[Buffer, int] = field(default_factory=dict)
    """Buffers whose elements are vectors, and how many lanes those have: their last dimension."""
    external: Callable[[Object], scalar.Expr] | None = None
    """What the call of an extern gives within an expression, where there may be one."""
    lane: int = 0
    """Which lane of vectors is read, of `lanes`."""
    lanes: int = 1

    def each_lane(
        self, o: Object, indices: Sequence[Object], lanes: int
    ) -> list[tuple[scalar.Expr, tuple[scalar.Expr, ...]]]:
        """A vector of that many lanes and the indices of its places, one lane after another."""
        found = []
        for lane in range(lanes):
            with self.reading(lane, lanes):
                found.append((self.expr(o), tuple(map(self.index, indices))))
        return found

    @contextmanager
    def reading(self, lane: int, lanes: int) -> Iterator[None]:
        """Within this, that lane of vectors is read."""
        outer = self.done, self.lane, self.lanes
        self.done, self.lane, self.lanes = {}, lane, lanes
        try:
            yield
        finally:
            self.done, self.lane, self.lanes = outer

    def element(self, buffer: Buffer, indices: Sequence[Object]) -> tuple[scalar.Expr, ...]:
        """The place of an element of a buffer; where elements are vectors, of the lane that is read."""
        own = self.packed.get(buffer, 1)
        self.check_rank(buffer, len(indices) + (own > 1))
        if own == 1:
            return tuple(map(self.index, indices))
        if self.lanes % own:
            raise self.unsupported(f"{self.lanes} lanes of {buffer!r}, whose elements have {own},")
        with self.reading(self.lane // own, self.lanes // own):
            found = tuple(map(self.index, indices))
        return (*found, scalar.const(self.lane % own))

    def name_lanes(self, o: Object) -> tuple[scalar.Var, ...]:
        """A name for each lane of a vector that a TVM variable stands for."""
        lanes = lanes_of(o.ty)[1]
        made = tuple(scalar.Var(f"{o.name}_{k}", prim_dtype(o.ty, self.where, lanes)) for k in range(lanes))
        self.vectors[handle(o)] = made
        return made

    def dtype(self, o: Object) -> DType:
        """The dtype of an expression, or of a lane of it."""
        return prim_dtype(o.ty, self.where, self.lanes)

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`tvm.C4`) for a scalar expression that is not handled."""
        return Unsupported(f"{what} is not handled", where=self.where, label="tvm.C4")

    def dim(self, o: Object) -> scalar.Dim:
        """A dim of a shape: a number, or an int64 expression of sizes."""
        match type_key(o):
            case "ir.IntImm":
                return int(o.value)
            case "int":
                return int(o)
            case "ir.Var":
                given = self.given.get(handle(o))
                return self.symbols.size(o, self.where) if given is None else scalar.simplify(scalar.cast(given, INT64))
            case _:
                for v in variables_of(o):
                    self.symbols.size(v, self.where)
                return scalar.simplify(scalar.cast(self.expr(o), INT64))

    def index(self, o: Object) -> scalar.Expr:
        """An index of a buffer."""
        return as_index(self.expr(o))

    def expr(self, root: Object) -> scalar.Expr:
        """The expression of a TVM expression; what is shared there is shared here."""
        work = Worklist([(root, False)])
        for o, ready in work:
            if handle(o) in self.done:
                continue
            if not ready:
                if (found := self.whole(o)) is not None:
                    self.done[handle(o)] = found
                    continue
                if type_key(o) == "prim.Let":
                    # the variable stands for the value; it is bound before the body is looked at
                    if handle(o.value) not in self.done:
                        work.add([(o.value, False), (o, False)])
                        continue
                    self.given[handle(o.var)] = self.done[handle(o.value)]
                work.add([*((part, False) for part in subexpressions(o)), (o, True)])
                continue
            try:
                made = self.build(o, [self.done[handle(p)] for p in subexpressions(o)])
            except Unsupported as wrong:
                raise wrong.at(self.where) from None
            except Invalid as wrong:
                # TVM has the operation on dtypes on which we do not
                raise Unsupported(wrong.message, where=self.where, label="tvm.C4") from None
            self.done[handle(o)] = made
        return self.done[handle(root)]

    def whole(self, o: Object) -> scalar.Expr | None:
        """What is read at once, without reading its parts before; None for the rest."""
        match type_key(o):
            case "ir.Call" if self.external is not None and self.lanes == 1 and function_name(o) in EXTERNAL:
                return self.external(o)
            case "ir.Call" if function_name(o) not in FUNCTIONS:
                raise self.unsupported(f"the function {callee(o)} of scalars")
            case "ir.TensorLoad" if (buffer := self.buffers(o.source)) in self.packed:
                return scalar.Load(buffer.dtype, buffer, self.element(buffer, list(o.indices)))
            case "prim.Shuffle":
                return self.shuffled(o)
            case _:
                return None

    def build(self, o: Object, args: Sequence[scalar.Expr]) -> scalar.Expr:
        """One node, its parts given."""
        key = type_key(o)
        match key:
            case "ir.IntImm":
                return scalar.const(int(o.value), self.dtype(o))
            case "ir.FloatImm":
                return scalar.const(float(o.value), self.dtype(o))
            case "ir.Var":
                number = handle(o)
                if number in self.vectors:
                    return self.vectors[number][self.lane]
                found = self.given.get(number, self.symbols.sizes.get(number))
                return self.symbols.var(o, self.where) if found is None else found
            case "prim.Cast":
                return scalar.cast(args[0], self.dtype(o))
            case "prim.Broadcast" if self.lanes > 1:
                return args[0]
            case "prim.Ramp" if self.lanes > 1:
                base, stride = args
                return base + stride * scalar.const(self.lane, stride.dtype)
            case "prim.Select":
                return tvm_select(condition(args[0]), *args[1:])
            case "prim.Let":
                return args[-1]
            case "ir.TensorLoad":
                buffer = self.buffers(o.source)
                self.check_rank(buffer, len(args))
                return scalar.Load(buffer.dtype, buffer, tuple(map(as_index, args)))
            case "ir.Call":
                return self.call(o, args)
            case "prim.And":
                return scalar.both(condition(args[0]), condition(args[1]))
            case "prim.Or":
                return scalar.either(condition(args[0]), condition(args[1]))
            case "prim.Not":
                return scalar.apply("not", condition(args[0]))
            case "prim.BitwiseNot":
                return flipped(args[0])
            case _ if key in BINARY:
                return self.binary(BINARY[key], *args)
            case _:
                raise self.unsupported(key)

    def shuffled(self, o: Object) -> scalar.Expr:
        """The lane that is read of lanes of vectors, which count through."""
        which = list(o.indices)
        if len(which) != self.lanes or type_key(which[self.lane]) != "ir.IntImm":
            raise self.unsupported("a choice of lanes that is not constant")
        lane = int(which[self.lane].value)
        for vector in o.vectors:
            lanes = lanes_of(vector.ty)[1]
            if lane < lanes:
                with self.reading(lane, lanes):
                    return self.expr(vector)
            lane -= lanes
        raise self.unsupported("a choice of a lane that is not there")

    def binary(self, op: str, a: scalar.Expr, b: scalar.Expr) -> scalar.Expr:
        """Apply a binary operation as TVM means it: div of integers truncates, and bools take logical operations."""
        if a.dtype.is_integer and op == "div":
            op = "truncdiv"
        if scalar.operation(op).has("divides"):
            return division(op, a, b)
        if a.dtype is BOOL and op in LOGICAL:
            op = LOGICAL[op]
        return scalar.apply(op, a, b)

    def call(self, o: Object, args: Sequence[scalar.Expr]) -> scalar.Expr:
        """A function of numbers by name."""
        match short := function_name(o):
            case "if_then_else" if len(args) == 3:
                return scalar.choice(condition(args[0]), *args[1:])
            case "likely":
                return args[0]
            case "bitwise_not":
                return flipped(args[0])
            case "reinterpret":
                return scalar.reinterpret(args[0], self.dtype(o))
            case _:
                return INTRINSICS[short](args)

    def check_rank(self, buffer: Buffer, given: int) -> None:
        """Unsupported unless a buffer is accessed with as many indices as it has axes."""
        if given != len(buffer.shape):
            raise self.unsupported(f"access of {buffer!r} with {given} indices")


def callee(o: Object) -> str:
    """What a call calls, for messages and tables."""
    return op_name(o.op) or str(getattr(o.op, "name_hint", getattr(o.op, "global_symbol", type_key(o.op))))


def function_name(o: Object) -> str:
    """The function of scalars that a call calls, without TVM's prefix."""
    return callee(o).removeprefix("tirx.").removeprefix("prim.")


def subexpressions(o: Object) -> Sequence[Object]:
    """The expressions that a TVM expression is made of, in the order of their evaluation."""
    match type_key(o):
        case "ir.IntImm" | "ir.FloatImm" | "ir.Var" | "ir.StringImm":
            return ()
        case "prim.Cast" | "prim.Broadcast":
            return (o.value,)
        case "prim.Ramp":
            return (o.base, o.stride)
        case "prim.Select":
            return (o.condition, o.true_value, o.false_value)
        case "prim.Let":
            return (o.value, o.body)
        case "ir.TensorLoad":
            return list(o.indices)
        case "ir.Call":
            return [a for a in o.args if type_key(a) != "ir.StringImm"]
        case "prim.Not" | "prim.BitwiseNot":
            return (o.a,)
        case key if key in BINARY or key in ("prim.And", "prim.Or"):
            return (o.a, o.b)
        case _:
            return ()


def variables_of(root: Object) -> list[Object]:
    """The variables of a TVM expression without lets."""
    work = Worklist([root] if type_key(root) != "int" else [], handle)
    found: list[Object] = []
    for o in work:
        found += [o] if type_key(o) == "ir.Var" else []
        work.add(p for p in subexpressions(o) if type_key(p) != "int")
    return found


def as_index(value: scalar.Expr) -> scalar.Expr:
    """A whole number as int64."""
    return scalar.const(int(value.value)) if isinstance(value, scalar.Const) else scalar.cast(value, INT64)


def condition(value: scalar.Expr) -> scalar.Expr:
    """A truth value: whole numbers hold unless they are 0."""
    return value if value.dtype is BOOL else scalar.apply("ne", value, scalar.const(0, value.dtype))


def flipped(value: scalar.Expr) -> scalar.Expr:
    """All bits of a value inverted; of a bool, its negation."""
    if value.dtype is BOOL:
        return scalar.apply("not", value)
    ones = -1 if value.dtype.kind == "int" else value.dtype.max
    return scalar.apply("bitxor", value, scalar.const(ones, value.dtype))


def compact(shape: Sequence[scalar.Dim]) -> list[scalar.Dim]:
    """The strides of a dense row-major array of that shape, in elements."""
    return list(map(scalar.simplify, strides_of(shape)))
