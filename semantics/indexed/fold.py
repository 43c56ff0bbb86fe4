"""The nodes of index notation that scalars have not, and its text (specs/semantics.md, "Index notation")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.semantics.dtypes import BOOL, INT64, DType
from assay.semantics.errors import Crash
from assay.semantics.scalar import (
    Apply,
    Cast,
    Choice,
    Const,
    Dim,
    Expr,
    Load,
    Number,
    Var,
    apply,
    as_expr,
    neutral,
    operation,
)
from assay.semantics.walk import commas, post_order, spelled


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Accumulator(Var):
    """What a fold has made so far. No size and no index, whatever its dtype is: its arithmetic wraps."""

    def __init__(self, dtype: DType) -> None:
        super().__init__("acc", dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Fold(Expr):
    """`init`, and then, at each place of a box in row-major order, `step` of what there was, called `acc`.

    The variables stand for the place in `step` alone; an extent hangs on none of them.
    """

    parts = "*extents init step"
    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    acc: Accumulator
    init: Expr
    step: Expr

    def inside(self) -> list[Expr]:
        """That the place is in the box."""
        found: list[Expr] = []
        for v, n in zip(self.vars, self.extents, strict=True):
            found += [apply("ge", v, 0), apply("lt", v, n)]
        return found


Term = Callable[..., Expr]


def folded(op: str, names: str, extents: Sequence[Dim], term: Term, of: DType, init: Number | None = None) -> Expr:
    """Terms joined by an operation over a box, from what changes nothing (or `init`) on. `names` has a word for each
    axis, the last stands for all that follow."""
    start = neutral(op, of) if init is None else init if isinstance(init, Expr) else Const(of, of.numpy.type(init))
    return stepped(names, extents, lambda acc, *place: apply(op, acc, term(*place)), start)


def stepped(names: str, extents: Sequence[Dim], step: Term, start: Expr) -> Expr:
    """What `step(acc, *place)` makes of what there was, over a box, from `start` on. Names as of `folded`."""
    *first, last = names.split()
    words = [*first, *(f"{last}{k}" for k in range(len(extents) - len(first)))] if len(extents) > len(first) else first
    if len(extents) == len(first) + 1:
        words = [*first, last]
    variables = tuple(Var(w) for w in words)
    if not variables:
        return step(start)
    acc = Accumulator(start.dtype)
    return Fold(start.dtype, variables, tuple(map(as_expr, extents)), acc, start, step(acc, *variables))


def summed(names: str, extents: Sequence[Dim], term: Term, of: DType) -> Expr:
    """The sum of terms over a box, from +0 on."""
    return folded("add", names, extents, term, of, 0)


# --- text --------------------------------------------------------------------------------------------------------

WORDS = {"add": "sum", "mul": "product", "max": "max", "min": "min", "or": "any", "and": "all"}
SIGNS = {"and": "and", "or": "or", "eq": "==", "ne": "!="}


def notation(expr: Expr) -> str:
    """An element's meaning as it is read: `sum(k < K: a[i, k] * b[k, j])`."""
    return _bare(spelled(expr, _pieces))


def _bare(text: str) -> str:
    """A text without the parentheses around all of what stands between commas, brackets or colons."""
    pairs: dict[int, int] = {}
    open_: list[int] = []
    for k, c in enumerate(text):
        if c == "(":
            open_.append(k)
        elif c == ")":
            pairs[open_.pop()] = k
    dropped: set[int] = set()
    for first, last in pairs.items():
        before, after = text[:first].rstrip()[-1:], text[last + 1 : last + 2]
        if before in ("", "[", "(", ",", ":") and after in ("", "]", ")", ","):
            if before != "(" or after == ")" or text[first - 2 : first - 1].isalnum():
                dropped |= {first, last}
    return "".join(c for k, c in enumerate(text) if k not in dropped)


def _pieces(node: Expr) -> Sequence[Expr | str]:
    match node:
        case Var():
            return [node.name]
        case Const():
            return [_number(node)]
        case Load():
            return [f"{node.buffer.name}[", *commas(node.indices), "]"]
        case Cast():
            return [f"{node.dtype}(", node.arg, ")"]
        case Choice(condition=test, then=then, otherwise=otherwise):
            return ["(", then, " if ", test, " else ", otherwise, ")"]
        case Fold():
            return _fold_pieces(node)
        case Apply(op="select", args=(test, then, otherwise)):
            return ["(", then, " if ", test, " else ", otherwise, ")"]
        case Apply(op="neg", args=(arg,)):
            return ["(-", arg, ")"]
        case Apply():
            sign = SIGNS.get(node.op) or operation(node.op).symbol
            if sign and len(node.args) == 2:
                return ["(", node.args[0], f" {sign} ", node.args[1], ")"]
            return [f"{node.op}(", *commas(node.args), ")"]
        case _:
            raise Crash(f"no such node of index notation: {type(node).__name__}")


def _number(node: Const) -> str:
    if node.dtype is BOOL or node.dtype is INT64:
        return str(node.value)
    value = float(node.value) if node.dtype.is_float else int(node.value)
    return str(int(value)) if value == value and abs(value) < 2**53 and value == int(value) else repr(value)


def _fold_pieces(node: Fold) -> Sequence[Expr | str]:
    box: list[Expr | str] = []
    for v, n in zip(node.vars, node.extents, strict=True):
        box += [f"{v.name} < ", n, ", "]
    step = node.step
    if isinstance(step, Apply) and step.op in WORDS and step.args[0] is node.acc:
        term = step.args[1]
        plain = isinstance(node.init, Const) and bool(node.init.value == neutral(step.op, node.dtype).value)
        first: list[Expr | str] = [] if plain else ["from ", node.init, ", "]
        if not any(n is node.acc for n in post_order(term)):
            return [f"{WORDS[step.op]}(", *first, *box[:-1], ": ", term, ")"]
    return ["fold(acc = ", node.init, "; ", *box[:-1], ": ", step, ")"]
