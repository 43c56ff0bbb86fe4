"""How a type that is wanted meets the type that is given: calls, casts, declared results (rule M4; specs/semantics.md,
"Types").

A plain symbol of the wanted type takes the given dim; every other dim must not be provably different. What cannot be
shown is checked by the run, at entry and on return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from assay.semantics.errors import Invalid
from assay.semantics.scalar import Dim, Expr, Var, apply, provably_equal, simplify, substitute, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.telling import Apart
from assay.semantics.types import (
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    dims,
    free_type_vars,
    same_type,
    symbols,
    with_dims,
)
from assay.semantics.walk import Worklist, post_order, rewrite

Bound: TypeAlias = dict[Var | TypeVar, Dim | Type]
"""What symbols and type parameters stand for."""


def match_types(want: Sequence[Type], got: Sequence[Type], bound: Bound, type_params: Sequence[TypeVar] = ()) -> None:
    """Bind the symbols and `type_params` of `want` so that it becomes `got`; Invalid, with both, where it cannot.

    A tensor's dims must not be provably different. What is inside a reference or a data type must be equal, for no run
    looks there; a function must serve where the wanted one would.
    """
    found = run_task(_match(want, got, bound, type_params, _Served()))
    if found is not None:
        raise found.invalid()


@dataclass(eq=False)
class _Served:
    """Which functions serve for which, of those that were asked. It keeps the types, so that identities stay theirs."""

    answers: dict[tuple[int, int], tuple[FuncType, Type, bool]] = field(default_factory=dict)


Place: TypeAlias = Literal["open", "closed", "function"]
"""Where a part of a type stands: a run looks there; inside a reference or a data type; or inside a function type, whose
dims are its own."""
Path: TypeAlias = "tuple[Path | None, int]"
"""Which part of an argument: the way to the whole it is in, and its number there."""


@dataclass(frozen=True, eq=False)
class _Mismatch:
    """A part of an argument that is not what is wanted. It is put into words only for a message that is shown."""

    what: Path
    got: Type
    want: Type

    def invalid(self) -> Invalid:
        steps: list[str] = []
        at: Path | None = self.what
        while at is not None:
            at, i = at
            steps.append(str(i))
        words = Apart((self.got, self.want))
        said = f"is {words.type(self.got)}, expected {words.type(self.want)}{words.note}"
        return Invalid(f"argument {'.'.join(reversed(steps))} {said}", label="call.C7")


def _match(
    want: Sequence[Type], got: Sequence[Type], bound: Bound, type_params: Sequence[TypeVar], served: _Served
) -> Task[_Mismatch | None]:
    """The first part that does not match, if there is one."""
    later: list[tuple[Dim, Dim, Type, Type, Path]] = []
    closed: list[tuple[Type, Type, Path]] = []
    work = Worklist[tuple[Type, Type, Path, Place]](
        ((w, g, (None, i), "open") for i, (w, g) in enumerate(zip(want, got, strict=True))),
        lambda pair: (id(pair[0]), id(pair[1]), pair[3]),
    )
    for w, g, what, place in work:
        if w is g and not symbols(w) and not free_type_vars(w):
            continue
        inside = place
        match w, g:
            case TypeVar(), _ if w in type_params:
                found = bound.setdefault(w, g)
                assert not isinstance(found, (Expr, int))
                if not same_type(found, g):
                    return _Mismatch(what, g, instantiate(w, bound))
                continue
            case (TensorType(), TensorType()) | (ShapeType(), ShapeType()):
                wanted, given = dims(w), dims(g)
                same = not isinstance(w, TensorType) or not isinstance(g, TensorType) or w.dtype is g.dtype
                if not same or len(wanted) != len(given):
                    return _Mismatch(what, g, instantiate(w, bound))
                for a, b in zip(wanted, given, strict=True) if place != "function" else ():
                    if isinstance(a, Var) and a not in bound:
                        bound[a] = b
                    else:
                        later.append((a, b, w, g, what))
                continue
            case (TupleType(), TupleType()) | (ObjectType(), ObjectType()):
                pass
            case FuncType(), FuncType():
                if place == "open":
                    closed.append((w, g, what))
                if not set(type_params) & set(free_type_vars(w)):
                    continue
                inside = "function"
            case (RefType(), RefType()) | (DataType(), DataType()):
                if place == "open":
                    closed.append((w, g, what))
                    inside = "closed"
            case _:
                if w is g:
                    continue
                return _Mismatch(what, g, instantiate(w, bound))
        if len(w.children) != len(g.children):
            return _Mismatch(what, g, instantiate(w, bound))
        parts = enumerate(zip(w.children, g.children, strict=True))
        work.add((a, b, (what, i), inside) for i, (a, b) in parts)
    for a, b, w, g, what in later:  # when every plain symbol is bound
        if provably_different(instantiate_dim(a, bound), b):
            return _Mismatch(what, g, instantiate(w, bound))
    for w, g, what in closed:
        of = instantiate(w, bound)
        fits = (yield _serves(g, of, served)) if isinstance(g, FuncType) else same_type(of, g)
        if not fits:
            return _Mismatch(what, g, of)
    return None


def serves(given: FuncType, want: Type) -> bool:
    """Whether a function of type `given` can be called wherever one of type `want` is."""
    return run_task(_serves(given, want, _Served()))


def _serves(given: FuncType, want: Type, served: _Served) -> Task[bool]:
    if not isinstance(want, FuncType) or len(given.params) != len(want.params) or (want.pure and not given.pure):
        return False
    key = id(given), id(want)
    if key not in served.answers:
        answer = bool((yield _can_be_called(given, want, served)))
        served.answers[key] = given, want, answer
    return served.answers[key][2]


def _can_be_called(given: FuncType, want: FuncType, served: _Served) -> Task[bool]:
    # where there are names: what follows renames them, so that parts which were shared are no longer; nor would it know
    # type parameters that stand in the result alone
    if (given.type_params or symbols(given)) and same_type(replace(want, pure=given.pure), given):
        return True
    bound: Bound = {}
    if (yield _match(given.params, want.params, bound, given.type_params, served)) is not None:
        return False
    result = instantiate(given.result, bound)
    return bool((yield _compatible(want.result, result, want.params, want.type_params, served)))


def compatible(want: Type, got: Type, scope: Sequence[Type] = (), type_params: Sequence[TypeVar] = ()) -> bool:
    """Whether a value of type `got` may be one of type `want`: no dim is provably different.

    Symbols of `scope` have values already; other plain symbols of `want` take what they meet.
    """
    return run_task(_compatible(want, got, scope, type_params, _Served()))


def _compatible(
    want: Type, got: Type, scope: Sequence[Type], type_params: Sequence[TypeVar], served: _Served
) -> Task[bool]:
    bound: Bound = {s: s for t in scope for s in symbols(t)}
    bound.update((t, t) for t in type_params)
    return (yield _match([want], [got], bound, (), served)) is None


def provably_different(a: Dim, b: Dim) -> bool:
    """Whether two dims differ for all values of their symbols, as far as linear arithmetic shows."""
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    difference = simplify(apply("sub", a, b))
    return isinstance(difference, int) and difference != 0


def instantiate_dim(dim: Dim, bound: Mapping[Var | TypeVar, Dim | Type]) -> Dim:
    """A dim with the dims that `bound` has for its symbols; those that it does not have stay."""
    if not isinstance(dim, Expr):
        return dim
    known: dict[Var, Dim] = {}
    for v in variables(dim):
        to = bound.get(v, v)
        assert isinstance(to, (int, Expr))
        known[v] = to
    return simplify(substitute(dim, known))


def instantiate(of: Type, bound: Mapping[Var | TypeVar, Dim | Type], fresh: bool = False) -> Type:
    """`of` with symbols and type parameters replaced. With `fresh`, symbols that have no value get new names, and so
    does a dim that speaks of one which no dim is."""
    if fresh:
        of = _told(of, bound)
        bound = {**{s: Var(s.name) for s in symbols(of) if s not in bound}, **bound}
    if not any(s in bound for s in symbols(of)) and not any(t in bound for t in free_type_vars(of)):
        return of
    if any(isinstance(v, TypeVar) for v in bound):

        def leaf(t: Type) -> Type:
            to = bound.get(t, t) if isinstance(t, TypeVar) else t
            assert not isinstance(to, (int, Expr))
            return to

        # types are replaced first: what they stand for is in the caller's symbols, which have no entry in `bound`
        of = rewrite(of, lambda t: _dims_replaced(t, bound))
        return rewrite(of, leaf)
    return with_dims(of, lambda d: instantiate_dim(d, bound))


def _told(of: Type, bound: Mapping[Var | TypeVar, Dim | Type]) -> Type:
    """`of` with a symbol for each dim that is computed from one without a value: what it was computed from nobody could
    tell who has a value of this type, but where another dim is that symbol."""
    without = {s for s in symbols(of) if s not in bound}
    if without:
        without -= {d for t in post_order(of) for d in dims(t) if isinstance(d, Var)}
    if not without:
        return of
    return with_dims(of, lambda d: Var("d") if isinstance(d, Expr) and without & set(variables(d)) else d)


def _dims_replaced(t: Type, bound: Mapping[Var | TypeVar, Dim | Type]) -> Type:
    match t:
        case TensorType():
            return TensorType(tuple(instantiate_dim(d, bound) for d in t.shape), t.dtype)
        case ShapeType():
            return ShapeType(tuple(instantiate_dim(d, bound) for d in t.dims))
        case _:
            return t


def join(types: Sequence[Type], opens: bool = False) -> Type:
    """The one type of values that come from several places: a dim in which they may differ is a fresh symbol.

    Invalid where ranks, dtypes or kinds differ, or a dim certainly does, unless that `opens` it as well.
    """
    first, *rest = types
    for other in rest:
        first = _join(first, other, opens)
    return first


def _join(a: Type, b: Type, opens: bool) -> Type:
    if same_type(a, b):
        return a
    known: dict[tuple[int, int], Dim] = {}
    made: dict[tuple[int, int], Type] = {}

    def meet(p: Dim, q: Dim) -> Dim:
        if provably_equal(p, q):
            return p
        if not opens and provably_different(p, q):
            raise Invalid(f"{a} and {b}")
        return known.setdefault((id(p), id(q)), Var(p.name if isinstance(p, Var) else "d"))

    work = Worklist([(a, b, False)])
    for x, y, ready in work:
        if (id(x), id(y)) in made:
            continue
        match x, y:
            case TensorType(), TensorType() if x.dtype is y.dtype and x.ndim == y.ndim:
                made[id(x), id(y)] = TensorType(tuple(map(meet, x.shape, y.shape)), x.dtype)
            case ShapeType(), ShapeType() if len(x.dims) == len(y.dims):
                made[id(x), id(y)] = ShapeType(tuple(map(meet, x.dims, y.dims)))
            case FuncType(), FuncType() if same_type(replace(x, pure=y.pure), y):
                made[id(x), id(y)] = replace(x, pure=x.pure and y.pure)
            case TupleType(), TupleType() if len(x.fields) == len(y.fields):
                parts = list(zip(x.fields, y.fields, strict=True))
                if ready:
                    made[id(x), id(y)] = x.with_children([made[id(p), id(q)] for p, q in parts])
                else:
                    work.add([*((p, q, False) for p, q in parts), (x, y, True)])
            case _ if same_type(x, y):
                made[id(x), id(y)] = x
            case _:
                raise Invalid(f"{a} and {b}")
    return made[id(a), id(b)]
