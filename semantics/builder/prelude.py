"""The data types and functions that programs may count on: lists, options, trees, naturals (specs/semantics.md,
"Prelude"; rows A8 and J18).

`with_prelude(module)` adds those of them that the module refers to; a definition of the module itself under one of
their names must be equal to it. All are written in the language. Numbers are int32 scalars. `hd`, `tl`, `nth`, `update`
and `foldr1` of a list that is too short trap: their matches are partial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from assay.semantics import graph
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.analyses.variables import reachable
from assay.semantics.builder import Builder
from assay.semantics.builder.scopes import FunctionScope
from assay.semantics.dtypes import BOOL, INT32
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Constructor, Expr, GlobalVar, Var
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Definition, Module
from assay.semantics.types import DataDef, DataType, FuncType, TensorType, TupleType, Type, TypeVar

_A, _B, _C = TypeVar("A"), TypeVar("B"), TypeVar("C")
INT = TensorType((), INT32)
BOOLEAN = TensorType((), BOOL)

LIST = DataDef("List", (_A,), {"nil": (), "cons": (_A, DataType("List", (_A,)))})
OPTION = DataDef("Option", (_B,), {"none": (), "some": (_B,)})
TREE = DataDef("Tree", (_C,), {"rose": (_C, DataType("List", (DataType("Tree", (_C,)),)))})

NAT = DataDef("Nat", (), {"zero": (), "succ": (DataType("Nat"),)})

nil, cons = graph.constructor(LIST, "nil"), graph.constructor(LIST, "cons")
none, some = graph.constructor(OPTION, "none"), graph.constructor(OPTION, "some")
rose: Constructor = graph.constructor(TREE, "rose")
zero, succ = graph.constructor(NAT, "zero"), graph.constructor(NAT, "succ")


def list_of(of: Type) -> DataType:
    """The prelude's type of lists whose items are of type `of`."""
    return DataType("List", (of,))


def option_of(of: Type) -> DataType:
    """The prelude's type of what is one value of type `of`, or none."""
    return DataType("Option", (of,))


def tree_of(of: Type) -> DataType:
    """The prelude's type of trees with a value of type `of` at each node."""
    return DataType("Tree", (of,))


def make_list(b: Builder, of: Type, *items: Expr) -> Var:
    """Emits the list of `items`, each of type `of`."""
    made = b.make(LIST, "nil", type_args=(of,))
    for item in reversed(items):
        made = b.make(LIST, "cons", item, made)
    return made


@cache
def prelude() -> Module:
    """A module with all data types and functions of the prelude."""
    b = Builder()
    for data in (LIST, OPTION, TREE, NAT):
        b.data(data)
    _access(b)
    _folds(b)
    _made_from_folds(b)
    _unfolds(b)
    _trees(b)
    _naturals(b)
    made = b.module()
    return made.with_(**{n: _placed(n, d) for n, d in made.definitions.items() if isinstance(d, graph.Function)})


def _placed(name: str, function: graph.Function) -> graph.Function:
    """A function whose nodes stand where messages can say: in the prelude, by its name."""
    span = Span("the prelude", name)
    return rewrite_function(function, lambda n: n if isinstance(n, Var | GlobalVar) else replace(n, span=span))


def prelude_function(name: str) -> GlobalVar:
    """A function of the prelude, to be called from a module that `with_prelude` completes."""
    found = prelude().definitions.get(name)
    if found is None or isinstance(found, DataDef):
        raise Invalid(f"the prelude has no function {name}", label="prelude.C1")
    assert isinstance(found, graph.Function)
    return GlobalVar(found.type, name)


def with_prelude(module: Module) -> Module:
    """The module with what it refers to of the prelude; what it defines itself must be the same object or absent."""
    for name, d in module.definitions.items():
        known = prelude().definitions.get(name, d)
        if known is not d and not structural_equal(known, d):
            raise Invalid(f"the module defines {name}, which is a name of the prelude", label="prelude.C2")
    both = replace(module, definitions={**prelude().definitions, **module.definitions})
    needed = set(reachable(both, list(module.definitions)))
    ours: Mapping[str, Definition] = {n: d for n, d in prelude().definitions.items() if n in needed}
    return replace(module, definitions={**ours, **module.definitions})


# --- the functions -----------------------------------------------------------------------------------------------


def _fn(*types: Type) -> FuncType:
    """The type of a pure function from the first types to the last."""
    return FuncType(types[:-1], types[-1])


def _access(b: Builder) -> None:
    """hd, tl, nth, update, length."""
    a = TypeVar("A")
    xs_of = list_of(a)
    with b.function("hd", xs=xs_of, result=a, type_params=(a,)) as f:
        b.result(b.cases(f.xs, ((cons, "head", "_"), lambda head: head), partial=True))
    with b.function("tl", xs=xs_of, result=xs_of, type_params=(a,)) as f:
        b.result(b.cases(f.xs, ((cons, "_", "tail"), lambda tail: tail), partial=True))
    with b.function("nth", xs=xs_of, index=INT, result=a, type_params=(a,)) as f:

        def later(tail: Var, f: FunctionScope = f) -> Var:
            return f(tail, b.subtract(f.index, 1))

        b.result(
            b.choose(
                b.equal(f.index, 0),
                lambda: b.cases(f.xs, ((cons, "head", "_"), lambda head: head), partial=True),
                lambda: b.cases(f.xs, ((cons, "_", "tail"), later), partial=True),
            )
        )
    with b.function("update", xs=xs_of, index=INT, item=a, result=xs_of, type_params=(a,)) as f:

        def replaced(head: Var, tail: Var, f: FunctionScope = f) -> Var:
            return b.choose(
                b.equal(f.index, 0),
                lambda: b.call(cons, f.item, tail),
                lambda: b.call(cons, head, f(tail, b.subtract(f.index, 1), f.item)),
            )

        b.result(b.cases(f.xs, ((cons, "head", "tail"), replaced), partial=True))
    with b.function("length", xs=xs_of, result=INT, type_params=(a,)) as f:
        b.result(
            b.cases(
                f.xs,
                (nil, lambda: b.constant(0, "int32")),
                ((cons, "_", "tail"), lambda tail: b.add(f(tail), 1)),
            )
        )


def _folds(b: Builder) -> None:
    """foldl, foldr, foldr1."""
    a, acc = TypeVar("A"), TypeVar("B")
    with b.function("foldl", f=_fn(acc, a, acc), start=acc, xs=list_of(a), result=acc, type_params=(acc, a)) as f:
        step, start = f["f"], f["start"]
        b.result(
            b.cases(
                f["xs"],
                (nil, lambda: start),
                ((cons, "head", "tail"), lambda head, tail: f(step, b.call(step, start, head), tail)),
            )
        )
    with b.function("foldr", f=_fn(a, acc, acc), start=acc, xs=list_of(a), result=acc, type_params=(acc, a)) as g:
        b.result(
            b.cases(
                g["xs"],
                (nil, lambda: g["start"]),
                (
                    (cons, "head", "tail"),
                    lambda head, tail: b.call(g["f"], head, g(g["f"], g["start"], tail)),
                ),
            )
        )
    with b.function("foldr1", f=_fn(a, a, a), xs=list_of(a), result=a, type_params=(a,)) as h:
        b.result(
            b.cases(
                h["xs"],
                ((cons, "last", (nil,)), lambda last: last),
                ((cons, "head", "tail"), lambda head, tail: b.call(h["f"], head, h(h["f"], tail))),
                partial=True,
            )
        )


def _made_from_folds(b: Builder) -> None:
    """map, filter, sum, rev, concat, zip."""
    a, to, other = TypeVar("A"), TypeVar("B"), TypeVar("C")
    foldl, foldr = b.global_("foldl"), b.global_("foldr")
    with b.function("map", f=_fn(a, to), xs=list_of(a), result=list_of(to), type_params=(a, to)) as f:
        b.result(
            b.cases(
                f["xs"],
                (nil, lambda: b.make(LIST, "nil", type_args=(to,))),
                (
                    (cons, "head", "tail"),
                    lambda head, tail: b.call(cons, b.call(f["f"], head), f(f["f"], tail)),
                ),
            )
        )
    with b.function("filter", f=_fn(a, BOOLEAN), xs=list_of(a), result=list_of(a), type_params=(a,)) as g:

        def kept(head: Var, tail: Var) -> Var:
            rest = g(g["f"], tail)
            return b.choose(b.call(g["f"], head), lambda: b.call(cons, head, rest), lambda: rest)

        b.result(b.cases(g["xs"], (nil, lambda: b.make(LIST, "nil", type_args=(a,))), ((cons, "head", "tail"), kept)))
    with b.function("sum", xs=list_of(INT), result=INT) as h:
        with b.closure("plus", x=INT, y=INT) as plus:
            b.result(b.add(plus["x"], plus["y"]))
        b.result(b.call(foldl, plus, b.constant(0, "int32"), h["xs"]))
    with b.function("rev", xs=list_of(a), result=list_of(a), type_params=(a,)) as r:
        with b.closure("flipped", xs=list_of(a), x=a) as flip:
            b.result(b.call(cons, flip["x"], flip["xs"]))
        b.result(b.call(foldl, flip, b.make(LIST, "nil", type_args=(a,)), r["xs"]))
    with b.function("concat", xs=list_of(a), ys=list_of(a), result=list_of(a), type_params=(a,)) as c:
        with b.closure("before", x=a, xs=list_of(a)) as before:
            b.result(b.call(cons, before["x"], before["xs"]))
        b.result(b.call(foldr, before, c["ys"], c["xs"]))
    pair = TupleType((a, other))
    with b.function("zip", xs=list_of(a), ys=list_of(other), result=list_of(pair), type_params=(a, other)) as z:
        b.result(
            b.cases(
                (z["xs"], z["ys"]),
                (
                    ((cons, "x", "xs"), (cons, "y", "ys")),
                    lambda x, xs, y, ys: b.call(cons, (x, y), z(xs, ys)),
                ),
                ("_", lambda: b.make(LIST, "nil", type_args=(pair,))),
            )
        )


def _unfolds(b: Builder) -> None:
    """unfoldr, unfoldl, compose, iterate."""
    a, seed, c = TypeVar("A"), TypeVar("B"), TypeVar("C")
    step = _fn(seed, option_of(TupleType((seed, a))))
    with b.function("unfoldr", f=step, seed=seed, result=list_of(a), type_params=(seed, a)) as f:
        b.result(
            b.cases(
                b.call(f["f"], f["seed"]),
                (none, lambda: b.make(LIST, "nil", type_args=(a,))),
                ((some, ("seed", "item")), lambda seed, item: b.call(cons, item, f(f["f"], seed))),
            )
        )
    with b.function("unfoldl", f=step, seed=seed, result=list_of(a), type_params=(seed, a)) as g:
        b.result(b.call(b.global_("rev"), b.call(b.global_("unfoldr"), g["f"], g["seed"])))
    composed = _fn(a, c)
    with b.function("compose", f=_fn(seed, c), g=_fn(a, seed), result=composed, type_params=(a, seed, c)) as h:
        with b.closure("composed", x=a) as both:
            b.result(b.call(h["f"], b.call(h["g"], both["x"])))
        b.result(both)
    with b.function("iterate", f=_fn(a, a), times=INT, result=_fn(a, a), type_params=(a,)) as i:

        def same() -> Expr:
            with b.closure("identity", x=a) as identity:
                b.result(identity["x"])
            return identity.ref

        b.result(
            b.choose(
                b.equal(i["times"], 0),
                same,
                lambda: b.call(b.global_("compose"), i["f"], i(i["f"], b.subtract(i["times"], 1))),
            )
        )


def _trees(b: Builder) -> None:
    """tmap, size."""
    a, to = TypeVar("A"), TypeVar("B")
    with b.function("tmap", f=_fn(a, to), tree=tree_of(a), result=tree_of(to), type_params=(a, to)) as f:

        def mapped(root: Var, children: Var) -> Var:
            with b.closure("below", tree=tree_of(a)) as below:
                b.result(f(f["f"], below["tree"]))
            return b.call(rose, b.call(f["f"], root), b.call(b.global_("map"), below, children))

        b.result(b.cases(f["tree"], ((rose, "root", "children"), mapped)))
    with b.function("size", tree=tree_of(a), result=INT, type_params=(a,)) as g:

        def counted(children: Var) -> Var:
            with b.closure("one", tree=tree_of(a)) as one:
                b.result(g(one["tree"]))
            sizes = b.call(b.global_("map"), one, children)
            return b.add(b.call(b.global_("sum"), sizes), 1)

        b.result(b.cases(g["tree"], ((rose, "_", "children"), counted)))


def _naturals(b: Builder) -> None:
    """nat, count, nat_add: numbers as chains of succ."""
    with b.function("nat", n=INT, result=NAT.type) as f:
        b.result(
            b.choose(
                b.less(f["n"], 1),
                lambda: b.make(NAT, "zero"),
                lambda: b.make(NAT, "succ", f(b.subtract(f["n"], 1))),
            )
        )
    with b.function("count", x=NAT.type, result=INT) as g:
        b.result(
            b.cases(
                g["x"],
                (zero, lambda: b.constant(0, "int32")),
                ((succ, "before"), lambda before: b.add(g(before), 1)),
            )
        )
    with b.function("nat_add", x=NAT.type, y=NAT.type, result=NAT.type) as h:
        b.result(
            b.cases(
                h["x"],
                (zero, lambda: h["y"]),
                ((succ, "before"), lambda before: b.make(NAT, "succ", h(before, h["y"]))),
            )
        )
