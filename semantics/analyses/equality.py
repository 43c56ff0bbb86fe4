"""Structural equality and hash of expressions, functions and modules (specs/semantics.md, "Equality").

Two programs are equal if they are one up to the names of variables, symbols, type parameters and buffers. Sharing is
identity (rule M2): an evaluation with two parents is not two equal evaluations, unless `sharing=False`. Constants
compare by dtype, shape and bits, wherever else the same data is; attributes by type and bits. A variable that nothing
in the program binds is equal to itself only, unless `map_free=True`. What is equal has one hash, the same in every
process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from assay.semantics.analyses.structure import (
    NAMES,
    Bits,
    Node,
    Opaque,
    View,
    binds,
    differing_fields,
    has_identity,
    labels,
    view,
)
from assay.semantics.bits import digest as content_digest
from assay.semantics.graph import Expr, show_head
from assay.semantics.graph.nodes import Dataflow, Var
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol
from assay.semantics.sets import DisjointSets
from assay.semantics.tensor import Buffer, PrimFunc, Stmt
from assay.semantics.types import FuncType, ShapeType, TensorType, Type, TypeVar, dims, symbols
from assay.semantics.walk import Worklist, fold, post_order, pre_order

_PARTS = ("definitions", "constants", "offsets", "infos")
"""What a module has by name."""


def structural_equal(a: Node, b: Node, *, sharing: bool = True, map_free: bool = False, data: bool = True) -> bool:
    """Whether two nodes, definitions or modules are equal. Without `data`, the contents of constants do not count."""
    return first_difference(a, b, sharing=sharing, map_free=map_free, data=data) is None


def first_difference(
    a: Node, b: Node, *, sharing: bool = True, map_free: bool = False, data: bool = True
) -> str | None:
    """Where two nodes, definitions or modules first differ, wholes before parts: the path and both heads; or None."""
    if not isinstance(a, Module) or not isinstance(b, Module):
        return _Comparison(a, b, sharing, map_free, data).run() if a is not b else None
    a, b = a.resolved(), b.resolved()
    for what in _PARTS:
        left, right = getattr(a, what), getattr(b, what)
        for name in sorted({*left, *right}):
            if name not in left or name not in right:
                return f"{what}[{name!r}]: only the {'first' if name in left else 'second'} has it"
            x, y = left[name], right[name]
            if what != "definitions":
                x, y = _Value(x), _Value(y)
            found = first_difference(x, y, sharing=sharing, map_free=map_free, data=data)
            if found is not None:
                return f"{what}[{name!r}].{found}"
    return None


def structural_hash(a: Node, *, sharing: bool = True, data: bool = True) -> str:
    """32 hexadecimal digits that equal nodes have in common, whatever the process; options as for equality.

    It is as fine as equality, but for free variables, and for the names of variables where `sharing` is False.
    """
    digest = blake2b(digest_size=16)
    if isinstance(a, Module):
        a = a.resolved()
        for what in _PARTS:
            for name, d in sorted(getattr(a, what).items()):
                of = structural_hash(d if what == "definitions" else _Value(d), sharing=sharing, data=data)
                digest.update(repr((what, name, of)).encode())
        return digest.hexdigest()
    tree = _Tree(a, data)
    digest.update(_merkle(tree, _numbering(tree) if sharing else _anonymous))
    if sharing:  # which evaluation is which
        number: dict[int, int] = {}
        for node in tree.order:
            if has_identity(node):
                number[id(node)] = len(number)
        for node in tree.order:
            if id(node) in number:
                digest.update(repr([number.get(id(p), -1) for p in tree.views[id(node)][1]]).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Value:
    """A constant of a module's table, its offset, or how it is stored, as a node."""

    value: Any


# --- one side ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Tree:
    """All nodes below a root, wholes before parts in the order of first occurrence, with head and parts of each."""

    root: Node
    data: bool
    types_are_closed: bool = True
    """Whether a function type with names of its own counts as one node; not where it is the root."""
    order: list[Node] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    bound: set[int] = field(default_factory=set)
    _named: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in pre_order(self.root, lambda n: self.views[id(n)][1]):
            self.views[id(node)] = self._view(node)
            self.order.append(node)
        self._find_bound()

    def _view(self, node: Node) -> View:
        if self.types_are_closed and isinstance(node, FuncType) and self._has_names(node):
            inner = _Tree(node, self.data, types_are_closed=False)
            token, free = _closed(inner)
            return ("FuncType", token), tuple(free)
        return view(node, self.data)

    def _has_names(self, of: FuncType) -> bool:
        """Whether a function type binds anything: its type parameters, and the symbols of its dims."""
        root: Type = of
        for t in post_order(root, lambda t: () if id(t) in self._named else t.children):
            if id(t) not in self._named:
                own = bool(symbols(t)) if isinstance(t, (TensorType, ShapeType)) else isinstance(t, TypeVar)
                own = own or (isinstance(t, FuncType) and bool(t.type_params))
                self._named[id(t)] = own or any(self._named[id(c)] for c in t.children)
        return self._named[id(of)]

    def _find_bound(self) -> None:
        plain: set[int] = set()
        for node in self.order:
            self.bound.update(map(id, binds(node)))
            if isinstance(node, Dataflow):
                self.bound.add(id(node))
            if isinstance(node, (TensorType, ShapeType, Buffer)):
                own = node.shape if isinstance(node, Buffer) else dims(node)
                plain.update(id(d) for d in own if isinstance(d, Symbol))
        if isinstance(self.root, (Expr, Stmt, PrimFunc)):
            outside = [n for n in self.order if isinstance(n, Var) and id(n) not in self.bound]
            plain -= {id(d) for v in outside for d in _own_dims(v.type)}
            self.bound |= plain


def _own_dims(of: Type) -> list[Dim]:
    """The dims of a value of a type; those of a function are bound at its calls."""
    parts = post_order(of, lambda t: () if isinstance(t, FuncType) else t.children)
    return [d for t in parts if isinstance(t, (TensorType, ShapeType)) for d in dims(t)]


def _closed(tree: _Tree) -> tuple[str, list[Node]]:
    """A function type with its own names by number, and the type parameters and symbols that it takes from outside."""
    own = {id(t) for node in tree.order if isinstance(node, FuncType) for t in node.type_params}
    for node in tree.order:
        if isinstance(node, (TensorType, ShapeType)):
            own.update(id(d) for d in dims(node) if isinstance(d, Symbol))
    names = [n for n in tree.order if isinstance(n, NAMES)]
    free = [n for n in names if id(n) not in own]
    number = {id(n): ("own", i) for i, n in enumerate(n for n in names if id(n) in own)}
    number.update((id(n), ("free", i)) for i, n in enumerate(free))
    return _merkle(tree, lambda n: number[id(n)]).hex(), free


# --- hash --------------------------------------------------------------------------------------------------------


def _numbering(tree: _Tree) -> Callable[[Node], tuple[str, int]]:
    """Names by the order of their first occurrence."""
    number: dict[int, int] = {}
    for node in tree.order:
        if isinstance(node, NAMES):
            number[id(node)] = len(number)
    return lambda n: ("bound", number[id(n)]) if id(n) in tree.bound else ("free", -1)


def _anonymous(name: Node) -> tuple[str, int]:
    return ("name", -1)


def _merkle(tree: _Tree, name: Callable[[Node], tuple[str, int]]) -> bytes:
    """A digest of the root from those of its parts."""

    def digested(node: Node, inside: Sequence[bytes]) -> bytes:
        digest = blake2b(digest_size=16)
        for token in tree.views[id(node)][0]:
            digest.update(_bytes(token))
        if isinstance(node, NAMES):
            digest.update(repr(name(node)).encode())
        for part in inside:
            digest.update(part)
        return digest.digest()

    return fold(tree.root, digested, lambda n: tree.views[id(n)][1])


def _bytes(token: Any) -> bytes:
    """The text of a token, the same in every process."""
    if isinstance(token, Bits):
        return content_digest(token.array).encode()
    if isinstance(token, Opaque):
        return type(token.value).__name__.encode()
    if isinstance(token, tuple):
        return b"(" + b",".join(map(_bytes, token)) + b")"
    return repr(token).encode()


# --- both sides --------------------------------------------------------------------------------------------------


class _Comparison:
    """Walks both sides in step. Pairs that wait for nothing are settled at once, uses of names at the end.

    Where `sharing` counts, nodes and names of one side stand for one of the other: a bijection. Where it does not, a
    node may stand for several. Its variables are then related where they are bound. That is enough: classes hold trees
    of one size, so no variable is related to one that is bound further in.
    """

    def __init__(self, a: Node, b: Node, sharing: bool, map_free: bool, data: bool) -> None:
        self.a, self.b = _Tree(a, data), _Tree(b, data)
        self.sharing, self.map_free = sharing, map_free
        self.there: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.classes = DisjointSets[int]()
        """Which nodes have been taken for equal: a node of the first side by its identity, of the second by the
        complement of it, since one object may stand on both sides for different things."""
        self.pairs: list[tuple[Node, Node, int, int]] = []
        self.uses: list[int] = []

    def run(self) -> str | None:
        self.pairs.append((self.a.root, self.b.root, -1, 0))
        work = Worklist([0])
        for at in work:
            x, y = self.pairs[at][:2]
            match self.settle(x, y, at):
                case str() as wrong:
                    return self.show(at, wrong)
                case True:
                    continue
            (head, parts), (other, others) = self.a.views[id(x)], self.b.views[id(y)]
            if head != other or len(parts) != len(others):
                return self.show(at)
            first = len(self.pairs)
            self.pairs += [(p, q, at, i) for i, (p, q) in enumerate(zip(parts, others, strict=True))]
            work.add(range(first, len(self.pairs)))
            if not self.sharing:
                mine, theirs = ([v for v in binds(n) if isinstance(v, Var)] for n in (x, y))
                for v, w in zip(mine, theirs, strict=True):
                    self.classes.join(id(v), ~id(w))
        for at in self.uses:
            x, y = self.pairs[at][:2]
            if self.classes.find(id(x)) != self.classes.find(~id(y)):
                return self.show(at, "another variable")
        return None

    def settle(self, x: Node, y: Node, at: int) -> str | bool:
        """True if this pair is settled, False if its parts remain to be compared, or what is wrong."""
        if type(x) is not type(y):
            return ""
        if isinstance(x, NAMES):
            bound = id(x) in self.a.bound, id(y) in self.b.bound
            if not any(bound):
                if x is y and not self.map_free:
                    return True
                return self.one_to_one(x, y) if self.map_free else "free here, and not the same"
            if not all(bound):
                return "bound here, free there"
            if not self.sharing and isinstance(x, Var):
                self.uses.append(at)
                return not self.classes_pair(x, y)
            return self.one_to_one(x, y)
        if self.sharing and has_identity(x):
            return self.one_to_one(x, y)
        return not self.classes.join(id(x), ~id(y))

    def classes_pair(self, x: Var, y: Var) -> bool:
        """Whether this pair of variables is seen for the first time."""
        key, other = id(x), id(y)
        if self.there.get(key) == other:
            return False
        self.there[key] = other
        return True

    def one_to_one(self, x: Node, y: Node) -> str | bool:
        known, other = self.there.get(id(x)), self.back.get(id(y))
        if known is None and other is None:
            self.there[id(x)], self.back[id(y)] = id(y), id(x)
            return False
        if known == id(y) and other == id(x):
            return True
        return "another variable" if isinstance(x, NAMES) else "shared differently"

    def show(self, at: int, why: str = "") -> str:
        """The path to a pair, and both heads."""
        x, y, up, slot = self.pairs[at]
        path: list[str] = []
        while up >= 0:
            path.append(_label(self.a, self.pairs[up][0], slot))
            _, _, up, slot = self.pairs[up]
        if not why and type(x) is type(y):
            fields = differing_fields(x, y, self.a.data)
            why = "; ".join(f"{name}: {_short(v)} and {_short(w)}" for name, v, w in fields)
        note = f" ({why})" if why else ""
        if (short := len(path)) > 40:  # a path through a long chain says little
            path[20:-20] = [f"... {short - 40} steps ..."]
        return f"{'.'.join(reversed(path)) or 'root'}: {_head(x)} and {_head(y)}{note}"


def _label(tree: _Tree, of: Node, slot: int) -> str:
    names = labels(of)
    # a closed function type has only its free names as parts
    return names[slot] if len(names) == len(tree.views[id(of)][1]) else f"free[{slot}]"


def _head(node: Node) -> str:
    match node:
        case Expr():
            return show_head(node)
        case Scalar() | Buffer():
            return repr(node)
        case Stmt():
            return type(node).__name__
        case _Value():
            return str(node.value) if not hasattr(node.value, "dtype") else repr(Bits(node.value))
        case _:
            text = repr(node)
            return text if len(text) < 100 else type(node).__name__


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
