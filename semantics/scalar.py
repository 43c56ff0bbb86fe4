"""The scalar language: dims, indices, constraints and tensor-IR arithmetic (specs/semantics.md, "Scalars").

One language with one meaning. A scalar expression is a tree of `Var`, `Const`, `Apply`, `Cast` and `Load`; what each
operation does to numbers stands once, in `OPERATIONS`, written so that the same entry works on a NumPy scalar, on
an array of lanes and on anything else that overloads Python's operators (z3 terms, symbolic terms).

    n = Var("n")
    (n + 1) * 4 - n                       # overloaded operators build `Apply` nodes
    evaluate((n + 1) * 4 - n, {n: 3})     # 13
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from assay.semantics.dtypes import BOOL, DTYPES, INT64, DType, dtype
from assay.semantics.errors import Crash, Invalid, Trap
from assay.semantics.walk import post_order, rewrite

if TYPE_CHECKING:
    from assay.semantics.tensor import Buffer


@dataclass(frozen=True, eq=False, repr=False)
class Expr:
    """Base of scalar expressions; compared by identity (`same` compares structure)."""

    dtype: DType

    @property
    def children(self) -> Sequence[Expr]:
        return ()

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self

    def __add__(self, other: Number) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Number) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Number) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Number) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Number) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Number) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Number) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Number) -> Expr:
        return apply("div", other, self)

    def __floordiv__(self, other: Number) -> Expr:
        return apply("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> Expr:
        return apply("floordiv", other, self)

    def __mod__(self, other: Number) -> Expr:
        return apply("floormod", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Number) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Number) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Number) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Number) -> Expr:
        return apply("ge", self, other)

    def __bool__(self) -> bool:
        raise Crash(f"the truth of a symbolic expression was asked for: {self}")

    def __repr__(self) -> str:
        return show(self)


Number: TypeAlias = Expr | int | float | bool
Dim: TypeAlias = Expr | int
"""A dimension: a number, or an int64 expression over named symbols (rule M4)."""


@dataclass(frozen=True, eq=False, repr=False)
class Var(Expr):
    """A named unknown: a symbolic dim, a loop variable, a let-bound scalar. Two Vars are equal if they are one."""

    name: str

    def __init__(self, name: str, dtype: DType = INT64) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A literal. `value` is a NumPy scalar of exactly `dtype`, so NaN payloads and the sign of zero stay."""

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class Apply(Expr):
    """An operation of `OPERATIONS` on operands."""

    op: str
    args: tuple[Expr, ...]

    @property
    def children(self) -> Sequence[Expr]:
        return self.args

    def with_children(self, children: Sequence[Expr]) -> Expr:
        if all(a is b for a, b in zip(children, self.args, strict=True)):
            return self
        return apply(self.op, *children)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    """A conversion of value: to float rounds to nearest even, to integer truncates and traps out of range (M5)."""

    arg: Expr

    @property
    def children(self) -> Sequence[Expr]:
        return (self.arg,)

    def with_children(self, children: Sequence[Expr]) -> Expr:
        return self if children[0] is self.arg else cast(children[0], self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Load(Expr):
    """The element of a buffer at indices, one int64 index for each dimension."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def children(self) -> Sequence[Expr]:
        return self.indices

    def with_children(self, children: Sequence[Expr]) -> Expr:
        if all(a is b for a, b in zip(children, self.indices, strict=True)):
            return self
        return Load(self.dtype, self.buffer, tuple(children))


# --- meaning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """One scalar operation: its operand kinds, the dtype of its result, and its meaning on numbers and lanes."""

    name: str
    arity: int
    kinds: tuple[str, ...]
    result: Literal["same", "bool", "bits"]
    meaning: Callable[..., Any]
    doc: str
    symbol: str = ""


ANY = ("bool", "int", "uint", "float")
NUMERIC = ("int", "uint", "float")
WHOLE = ("int", "uint")


_WIDTHS: dict[Any, int] = {d.numpy: d.bits for d in DTYPES.values()}
_NARROW = (DTYPES["int4"].numpy, DTYPES["uint4"].numpy)


def _wrapped(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """`meaning`, its result back in the operands' dtype: ml_dtypes gives int8 for some operations on 4-bit integers."""

    def wrapped(*args: Any) -> Any:
        result = meaning(*args)
        if isinstance(result, (np.ndarray, np.generic)) and result.dtype == np.int8 and args[0].dtype in _NARROW:
            return result.astype(args[0].dtype)
        return result

    return wrapped


def _any(condition: Any) -> bool:
    return bool(np.any(condition))


def _checked_divisor(a: Any, b: Any) -> None:
    if _any(b == 0):
        raise Trap("division by zero", "integer division by zero", label="scalar.T1")


def _floordiv(a: Any, b: Any) -> Any:
    _checked_divisor(a, b)
    return a // b


def _floormod(a: Any, b: Any) -> Any:
    _checked_divisor(a, b)
    return a % b


def _truncdiv(a: Any, b: Any) -> Any:
    _checked_divisor(a, b)
    q, r = a // b, a % b
    return q + ((r != 0) & ((a < 0) != (b < 0)))


def _truncmod(a: Any, b: Any) -> Any:
    return a - b * _truncdiv(a, b)


def _shift(a: Any, b: Any) -> None:
    width = _WIDTHS.get(getattr(a, "dtype", None), 64)
    if _any((b < 0) | (b >= width)):
        raise Trap(
            "shift", f"shift by less than 0 or by {width} or more bits", label="scalar.T2"
        )


def _shl(a: Any, b: Any) -> Any:
    _shift(a, b)
    return a << b


def _shr(a: Any, b: Any) -> Any:
    _shift(a, b)
    return a >> b


def _select(c: Any, a: Any, b: Any) -> Any:
    if isinstance(c, (bool, np.bool_)):
        return a if c else b
    return np.where(c, a, b)


def _bits(to: type) -> Callable[[Any], Any]:
    def reinterpret(a: Any) -> Any:
        return np.asarray(a).view(to)[()]

    return reinterpret


# The rows are the whole of the scalar arithmetic. Integers wrap; a float operation rounds once, to nearest even, in
# its own dtype; min and max propagate NaN and order -0 below +0.
def _max(a: Any, b: Any) -> Any:
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))[()] if _is_float(a) else np.maximum(a, b)


def _min(a: Any, b: Any) -> Any:
    return np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))[()] if _is_float(a) else np.minimum(a, b)


def _is_float(a: Any) -> bool:
    return dtype(np.asarray(a).dtype).is_float


OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation("add", 2, NUMERIC, "same", lambda a, b: a + b, "sum", "+"),
        Operation("sub", 2, NUMERIC, "same", lambda a, b: a - b, "difference", "-"),
        Operation("mul", 2, NUMERIC, "same", lambda a, b: a * b, "product", "*"),
        Operation("div", 2, ("float",), "same", lambda a, b: a / b, "IEEE quotient", "/"),
        Operation("floordiv", 2, WHOLE, "same", _floordiv, "quotient rounded down; traps at 0", "//"),
        Operation("floormod", 2, WHOLE, "same", _floormod, "remainder with the divisor's sign", "%"),
        Operation("truncdiv", 2, WHOLE, "same", _truncdiv, "quotient rounded to zero; traps at 0"),
        Operation("truncmod", 2, WHOLE, "same", _truncmod, "remainder with the dividend's sign"),
        Operation("neg", 1, NUMERIC, "same", _wrapped(lambda a: -a), "negation", "-"),
        Operation("abs", 1, NUMERIC, "same", _wrapped(lambda a: np.abs(a)), "magnitude"),
        Operation("min", 2, ANY, "same", _wrapped(_min), "the smaller; NaN if either is; -0 below +0"),
        Operation("max", 2, ANY, "same", _wrapped(_max), "the larger; NaN if either is; -0 below +0"),
        Operation("sqrt", 1, ("float",), "same", lambda a: np.sqrt(a), "correctly rounded square root"),
        Operation("rint", 1, ("float",), "same", lambda a: np.rint(a), "nearest integer, ties to even"),
        Operation("floor", 1, ("float",), "same", lambda a: np.floor(a), "rounded down"),
        Operation("ceil", 1, ("float",), "same", lambda a: np.ceil(a), "rounded up"),
        Operation("eq", 2, ANY, "bool", lambda a, b: a == b, "equal", "=="),
        Operation("ne", 2, ANY, "bool", lambda a, b: a != b, "not equal", "!="),
        Operation("lt", 2, ANY, "bool", lambda a, b: a < b, "less", "<"),
        Operation("le", 2, ANY, "bool", lambda a, b: a <= b, "less or equal", "<="),
        Operation("gt", 2, ANY, "bool", lambda a, b: a > b, "greater", ">"),
        Operation("ge", 2, ANY, "bool", lambda a, b: a >= b, "greater or equal", ">="),
        Operation("and", 2, ("bool",), "same", lambda a, b: a & b, "both", "&"),
        Operation("or", 2, ("bool",), "same", lambda a, b: a | b, "either", "|"),
        Operation("not", 1, ("bool",), "same", lambda a: np.logical_not(a), "negation"),
        Operation("bitand", 2, WHOLE, "same", _wrapped(lambda a, b: a & b), "bitwise and", "&"),
        Operation("bitor", 2, WHOLE, "same", _wrapped(lambda a, b: a | b), "bitwise or", "|"),
        Operation("bitxor", 2, WHOLE, "same", _wrapped(lambda a, b: a ^ b), "bitwise exclusive or", "^"),
        Operation("shl", 2, WHOLE, "same", _wrapped(_shl), "shift left; traps at the width or more", "<<"),
        Operation("shr", 2, WHOLE, "same", _wrapped(_shr), "shift right, arithmetic if signed; traps alike", ">>"),
        Operation("select", 3, ANY, "same", _select, "the second if the first holds, else the third; strict"),
        Operation("bits_of", 1, ("float",), "bits", _bits(np.int64), "the float64's bits as int64"),
        Operation("float_of", 1, ("int",), "bits", _bits(np.float64), "the float64 with these int64 bits"),
    )
}
"""Every operation that is exact or correctly rounded."""

TRANSCENDENTAL: dict[str, Operation] = {}
"""Operations whose value is *an* implementation within a bound; `assay.semantics.transcendental` fills this table."""


def operation(name: str) -> Operation:
    """The row of that name."""
    if name in OPERATIONS:
        return OPERATIONS[name]
    if name in TRANSCENDENTAL:
        return TRANSCENDENTAL[name]
    raise Invalid(f"unknown scalar operation {name}", label="scalar.C1")


def convert(value: Any, to: DType) -> Any:
    """`value` (NumPy scalar or lanes) as `to`: rule M5. Float to integer truncates; NaN and out of range trap."""
    value = np.asarray(value)
    source = dtype(value.dtype)
    if source is to:
        return value[()]
    if source.is_float and to.is_integer:
        whole = np.trunc(value.astype(np.float64))
        if _any(~((whole >= float(to.min)) & (whole < float(to.max) + 1.0))):
            raise Trap(
                "cast", f"{source} value is NaN or out of the range of {to}", label="scalar.T3"
            )
        return whole.astype(to.numpy)[()]
    return _rounded(value, to)[()]


def _rounded(value: Any, to: DType) -> Any:
    """The array `value` as `to`; to a float it is rounded once, to nearest even.

    ml_dtypes goes by way of float32 and so would round twice. What float32 cannot hold is handed over rounded to odd:
    that keeps on which side of every tie of a narrower type it lies.
    """
    with np.errstate(all="ignore"):
        held = value.dtype.kind not in "fiu" or value.dtype.itemsize < 4 or value.dtype == np.float32
        if held or not to.is_float or to.numpy.isbuiltin == 1:
            return value.astype(to.numpy)
        wide = value.astype(np.float64)
        if value.dtype.kind in "iu":
            odd_float64 = ((value >> 11) | ((value & 2047) != 0)).astype(np.float64) * 2048.0
            wide = np.where(np.abs(wide) < 2.0**53, wide, odd_float64)
        near = wide.astype(np.float32)
        inside = np.where(np.abs(near) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
        odd = (inside.view(np.uint32) | np.uint32(1)).view(np.float32)
        return np.where((near == wide) | np.isnan(wide), near, odd).astype(to.numpy)


# --- construction ------------------------------------------------------------------------------------------------


def const(value: Number | Any, of: DType | str = INT64) -> Const:
    """The literal `value` of dtype `of`; Invalid where an integer dtype does not have it."""
    of = dtype(of)
    number: Any = value.value if isinstance(value, Const) else value
    if of.is_integer and not _is_one_of(number, of):
        raise Invalid(f"{number} does not fit {of}", label="scalar.C2")
    return Const(of, _rounded(np.asarray(number), of)[()])


def _is_one_of(number: Any, of: DType) -> bool:
    try:
        whole = int(number)
    except (OverflowError, ValueError):  # an infinity, NaN
        return False
    return bool(whole == number) and of.min <= whole <= of.max


def _lift(args: Sequence[Number]) -> tuple[Expr, ...]:
    typed = [a.dtype for a in args if isinstance(a, Expr) and a.dtype is not BOOL]
    like = typed[0] if typed else (BOOL if any(isinstance(a, Expr) for a in args) else INT64)
    return tuple(a if isinstance(a, Expr) else const(a, like) for a in args)


def apply(op: str, *args: Number) -> Expr:
    """The typed application of `op`. Python numbers take the dtype of the other operand (int64 if there is none).

    Constant integer operands are folded, and x+0, x*1, x*0 and the like vanish for integers; nothing is done to floats.
    """
    row = operation(op)
    exprs = _lift(args)
    if len(exprs) != row.arity:
        raise Invalid(f"{op} takes {row.arity} operands, {len(exprs)} given", label="scalar.C3")
    data = exprs[1:] if op == "select" else exprs
    if op == "select" and exprs[0].dtype is not BOOL:
        raise Invalid(f"select: the condition is {exprs[0].dtype}, not bool", label="scalar.C4")
    first = data[0].dtype
    if any(a.dtype is not first for a in data):
        names = ", ".join(str(a.dtype) for a in data)
        raise Invalid(f"{op}: operands of one dtype expected, got {names}", label="scalar.C5")
    if first.kind not in row.kinds:
        raise Invalid(f"{op} is not defined on {first}", label="scalar.C6")
    if row.result == "bool":
        result = BOOL
    elif row.result == "bits":
        result = INT64 if first.is_float else dtype("float64")
    else:
        result = first
    if first.is_integer:
        folded = _fold_integers(op, exprs, result)
        if folded is not None:
            return folded
    return Apply(result, op, exprs)


def _fold_integers(op: str, args: tuple[Expr, ...], result: DType) -> Expr | None:
    if all(isinstance(a, Const) for a in args) and op not in ("bits_of", "float_of"):
        try:
            with np.errstate(over="ignore"):
                value = operation(op).meaning(*(a.value for a in args if isinstance(a, Const)))
        except Trap:
            return None
        return Const(result, np.asarray(value).astype(result.numpy)[()])
    if len(args) == 2:
        a, b = args
        left = int(a.value) if isinstance(a, Const) else None
        right = int(b.value) if isinstance(b, Const) else None
        match op:
            case "add" if left == 0:
                return b
            case ("add" | "sub") if right == 0:
                return a
            case "mul" if left == 1:
                return b
            case ("mul" | "floordiv" | "truncdiv") if right == 1:
                return a
            case "mul" if left == 0 or right == 0:
                return const(0, result)
            case ("floormod" | "truncmod") if right == 1:
                return const(0, result)
    return None


def cast(arg: Number, to: DType | str) -> Expr:
    """`arg` converted to `to`; nothing where it has that dtype already."""
    to = dtype(to)
    (arg,) = _lift([arg])
    return arg if arg.dtype is to else Cast(to, arg)


def select(condition: Number, then: Number, otherwise: Number) -> Expr:
    (condition,) = _lift([condition])
    then, otherwise = _lift([then, otherwise])
    return apply("select", condition, then, otherwise)


# --- evaluation --------------------------------------------------------------------------------------------------


def evaluate(
    expr: Number,
    env: Mapping[Var, Any],
    load: Callable[[Buffer, tuple[Any, ...]], Any] | None = None,
) -> Any:
    """The value of `expr` with variables from `env` and buffer elements from `load`: one operation after another.

    Works on NumPy scalars and, equally, on arrays of lanes. Sharing is respected: a shared node is computed once.
    """
    if not isinstance(expr, Expr):
        return expr
    value: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for node in post_order(expr):
            args = [value[id(c)] for c in node.children]
            match node:
                case Const():
                    result = node.value
                case Var():
                    try:
                        result = env[node]
                    except KeyError:
                        raise Invalid(f"unbound scalar variable {node.name}", label="scalar.C7") from None
                case Apply():
                    result = operation(node.op).meaning(*args)
                case Cast():
                    result = convert(args[0], node.dtype)
                case Load():
                    if load is None:
                        raise Crash(f"{node} has no meaning without memory")
                    result = load(node.buffer, tuple(args))
                case _:
                    raise Crash(f"no such scalar node: {type(node).__name__}")
            value[id(node)] = result
    return value[id(expr)]


def evaluate_dim(dim: Dim, env: Mapping[Var, int]) -> int:
    """The number that a dim stands for."""
    if isinstance(dim, int):
        return dim
    return int(evaluate(dim, {v: np.int64(n) for v, n in env.items()}))


# --- structure ---------------------------------------------------------------------------------------------------


def substitute(expr: Expr, by: Mapping[Var, Number]) -> Expr:
    """`expr` with variables replaced."""

    def change(node: Expr) -> Expr:
        if isinstance(node, Var) and node in by:
            new = by[node]
            return new if isinstance(new, Expr) else const(new, node.dtype)
        return node

    return rewrite(expr, change)


def variables(expr: Number) -> list[Var]:
    """The variables of an expression, in the order of their first occurrence."""
    return [n for n in post_order(expr) if isinstance(n, Var)] if isinstance(expr, Expr) else []


class Interner:
    """Numbers expressions so that two get one number exactly if they have the same structure."""

    def __init__(self) -> None:
        self._table: dict[tuple[Any, ...], int] = {}
        self._number: dict[int, int] = {}
        self._seen: list[Expr] = []  # keeps what is numbered alive, so that no other node gets its identity

    def __call__(self, expr: Number) -> int:
        if not isinstance(expr, Expr):
            expr = const(expr, INT64 if isinstance(expr, int) else "float64")
        number = self._number
        if id(expr) in number:
            return number[id(expr)]
        for node in post_order(expr, lambda n: () if id(n) in number else n.children):
            if id(node) in number:
                continue
            self._seen.append(node)
            args = tuple(number[id(c)] for c in node.children)
            head: tuple[Any, ...]
            match node:
                case Var():
                    head = ("var", node)
                case Const():
                    head = ("const", node.dtype.name, node.value.tobytes())
                case Apply():
                    head = ("apply", node.op, node.dtype.name)
                case Cast():
                    head = ("cast", node.dtype.name)
                case Load():
                    head = ("load", id(node.buffer))
                case _:
                    raise Crash(f"no such scalar node: {type(node).__name__}")
            number[id(node)] = self._table.setdefault((*head, *args), len(self._table))
        return number[id(expr)]


def same(a: Number, b: Number) -> bool:
    """Whether two expressions have the same structure."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        number = Interner()
        return number(a) == number(b)
    return a == b


LINEAR = ("add", "sub", "neg", "mul")
"""The operations that `linear` looks into."""


def linear(expr: Number) -> tuple[dict[Expr, int], int] | None:
    """`expr` as a sum of integer multiples of atoms plus a constant, ({atom: factor}, constant).

    Atoms are variables and whatever is not itself a sum or a constant multiple; atoms of the same structure are one.
    Factors and constant wrap as the dtype does. None where the expression is not of integer dtype.
    """
    if not isinstance(expr, Expr):
        return ({}, int(expr)) if isinstance(expr, int) else None
    if not expr.dtype.is_integer:
        return None
    number = Interner()
    atom_of: dict[int, Expr] = {}
    form: dict[int, tuple[dict[Expr, int], int]] = {}
    least, count = int(expr.dtype.min), 1 << expr.dtype.bits

    def wrap(k: int) -> int:
        return (k - least) % count + least

    def atom(node: Expr) -> tuple[dict[Expr, int], int]:
        return {atom_of.setdefault(number(node), node): 1}, 0

    def combine(
        x: tuple[dict[Expr, int], int], y: tuple[dict[Expr, int], int], factor: int
    ) -> tuple[dict[Expr, int], int]:
        terms = dict(x[0])
        for a, k in y[0].items():
            terms[a] = wrap(terms.get(a, 0) + factor * k)
        return {a: k for a, k in terms.items() if k}, wrap(x[1] + factor * y[1])

    for node in post_order(expr, lambda n: n.children if isinstance(n, Apply) and n.op in LINEAR else ()):
        zero: tuple[dict[Expr, int], int] = ({}, 0)
        match node:
            case Const() if node.dtype.is_integer:
                form[id(node)] = ({}, int(node.value))
            case Apply(op="add" | "sub" as op, args=(a, b)):
                form[id(node)] = combine(form[id(a)], form[id(b)], 1 if op == "add" else -1)
            case Apply(op="neg", args=(a,)):
                form[id(node)] = combine(zero, form[id(a)], -1)
            case Apply(op="mul", args=(a, b)) if not form[id(a)][0]:
                form[id(node)] = combine(zero, form[id(b)], form[id(a)][1])
            case Apply(op="mul", args=(a, b)) if not form[id(b)][0]:
                form[id(node)] = combine(zero, form[id(a)], form[id(b)][1])
            case _:
                form[id(node)] = atom(node)
    return form[id(expr)]


def simplify(expr: Dim) -> Dim:
    """A dim in canonical form: a number where it is constant, else its atoms in order of first occurrence."""
    if not isinstance(expr, Expr):
        return expr
    form = linear(expr)
    if form is None:
        return expr
    terms, constant = form
    if not terms:
        return constant
    result: Number = 0
    for a, k in terms.items():
        result = a * k if isinstance(result, int) else result + a * k
    if constant:
        result = result + constant
    assert isinstance(result, Expr)
    return result


def provably_equal(a: Dim, b: Dim) -> bool:
    """Whether two dims are equal for all values of their symbols, as far as linear arithmetic shows."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    left: Number = a if isinstance(a, Expr) else const(a)
    return simplify(apply("sub", left, b)) == 0


# --- text --------------------------------------------------------------------------------------------------------


def show(expr: Number) -> str:
    """The expression as TVMScript writes it."""
    if not isinstance(expr, Expr):
        return str(expr)
    text: list[str] = []
    rest: list[Expr | str] = [expr]
    while rest:
        node = rest.pop()
        if isinstance(node, str):
            text.append(node)
        else:
            rest.extend(reversed(_pieces(node)))
    return "".join(text)


def _pieces(node: Expr) -> list[Expr | str]:
    """What a node is written as: its text around its operands."""
    match node:
        case Var():
            return [node.name]
        case Const():
            return [str(node.value) if node.dtype in (INT64, BOOL) else f"T.{node.dtype}({node.value})"]
        case Apply():
            symbol = operation(node.op).symbol
            if symbol and len(node.args) == 2:
                return ["(", node.args[0], f" {symbol} ", node.args[1], ")"]
            if symbol:
                return [f"({symbol}", node.args[0], ")"]
            return [f"T.{node.op}(", *_commas(node.args), ")"]
        case Cast():
            return [f'T.Cast("{node.dtype}", ', node.arg, ")"]
        case Load():
            return [f"{node.buffer.name}[", *_commas(node.indices), "]"]
        case _:
            raise Crash(f"no such scalar node: {type(node).__name__}")


def _commas(parts: Sequence[Expr]) -> list[Expr | str]:
    return [piece for i, part in enumerate(parts) for piece in ((", ", part) if i else (part,))]
