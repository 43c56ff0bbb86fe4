"""The walks, folds and rewriters over every tree and over graphs of names (specs/semantics.md, "Walks").

None recurses, so a chain of 100,000 nodes is as good as one of ten. A node with several parents is visited once:
sharing is identity (rule M2). What says so visits it each time that it is met.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter, is_
from typing import Any, Generic, Protocol, TypeVar, cast


class Tree(Protocol):
    """A node that knows its parts, which are of the same language. Nodes are compared by identity."""

    @property
    def children(self) -> Sequence[Any]:
        """The parts of the node, in order."""


class Node(Tree, Protocol):
    """A node that can be built anew around other parts. Nodes are immutable."""

    def with_children(self, children: Sequence[Any]) -> Any:
        """The same node around other parts; itself where all parts are the same objects."""
        ...


R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")
N = TypeVar("N", bound=Node)
H = TypeVar("H", bound=Hashable)
K = TypeVar("K")
V = TypeVar("V")
Children = Callable[[T], Sequence[T]]


class TreeNode(Generic[S]):
    """Base of nodes that are dataclasses. `parts` names the fields that hold a node's parts, in order; one that holds a
    tuple of parts has a star."""

    parts = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "parts" in vars(cls):  # made once for each class, since every walk asks it at each node
            type.__setattr__(cls, "children", property(_reader(cls.parts.split())))

    @property
    def children(self) -> Sequence[S]:
        """The parts of the node, in the order in which `with_children` takes them."""
        return ()

    def with_children(self, children: Sequence[S]) -> S:
        """The same node around other parts; itself where all parts are the same objects."""
        node: Any = self
        old = self.children
        return node if len(children) == len(old) and all(map(is_, children, old)) else self.rebuilt(children)

    def rebuilt(self, children: Sequence[S]) -> S:
        """The same node around parts of which some are other objects."""
        names = self.parts.split()
        rest, many = iter(children), len(children) - len(names) + 1
        node: Any = self
        made: S = replace(node, **{n.lstrip("*"): tuple(islice(rest, many)) if "*" in n else next(rest) for n in names})
        return made


def _reader(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """What reads the parts of a node from fields of these names."""
    match names:
        case []:
            return lambda node: ()
        case [name]:
            read = attrgetter(name.lstrip("*"))
            return read if "*" in name else lambda node: (read(node),)
        case _ if "*" not in "".join(names):
            return attrgetter(*names)
    reads = [_reader([name]) for name in names]
    return lambda node: tuple(part for read in reads for part in read(node))


_children: Callable[[Any], Sequence[Any]] = attrgetter("children")


class Worklist(Generic[T]):
    """What is still to be looked at, depth first. A loop over it takes one item after another, and adds more:

        work = Worklist([root])
        for node in work:
            scope.enter(node)
            work.on_leave(scope.leave, node)  # a call, when all that is added from here on is done
            work.add(node.children)  # the next items, left to right

    With a `key`, an item whose key was met before is left out. All items that were met stay alive, so that `id` is
    a key.
    """

    def __init__(self, items: Iterable[T], key: Callable[[T], Hashable] | None = None) -> None:
        self._rest: list[Any] = [*items][::-1]
        self._key = key
        self._met: dict[Hashable, T] = {}

    def add(self, items: Iterable[T]) -> None:
        """These come next, in their order, before what is left."""
        self._rest += [*items][::-1]

    def on_leave(self, call: Callable[..., object], *args: Any) -> None:
        """`call(*args)` when all is done that is added after this."""
        self._rest.append(_Leave(call, args))

    def __iter__(self) -> Iterator[T]:
        rest, key, met = self._rest, self._key, self._met
        while rest:
            item = rest.pop()
            if type(item) is _Leave:
                item.call(*item.args)
                continue
            if key is not None:
                if (k := key(item)) in met:
                    continue
                met[k] = item
            yield item


def scoped(table: dict[K, V], key: K, value: V) -> Callable[[], None]:
    """Bind a key of a table for a scope; the call of the result ends it, and what the key stood for before is back."""
    shadows, before = key in table, table.get(key)
    table[key] = value

    def leave() -> None:
        del table[key]
        if shadows:
            table[key] = cast(V, before)

    return leave


class _Leave:
    """A call that waits among the items of a worklist."""

    __slots__ = ("args", "call")

    def __init__(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.call = call
        self.args = args


def ids(items: Iterable[object]) -> tuple[int, ...]:
    """The identities of several things: the key of a walk over two trees in step."""
    return tuple(map(id, items))


def post_order(root: T, children: Children[T] | None = None) -> Iterator[T]:
    """Every node below `root` once, parts before wholes, parts left to right; `root` comes last.

    `children` may leave parts out (a callable that returns () for a node does not enter it).
    """
    parts = children or _children
    stack: list[tuple[T, Iterator[T]]] = [(root, iter(parts(root)))]
    opened = {id(root)}
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if id(child) in opened:
                continue
            opened.add(id(child))
            if inside := parts(child):
                stack.append((child, iter(inside)))
                break
            yield child
        else:
            stack.pop()
            yield node


def pre_order(root: T, children: Children[T] | None = None) -> Iterator[T]:
    """Every node below `root` once, wholes before parts, parts left to right. The parts of a node are asked for when
    the next one is wanted."""
    parts = children or _children
    work = Worklist([root], id)
    for node in work:
        yield node
        work.add(parts(node))


def occurrences(root: T, children: Children[T] | None = None) -> Iterator[T]:
    """As `pre_order`, but a node comes as often as it stands in a whole."""
    parts = children or _children
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(parts(node)))


def path_to(root: T, goal: T, children: Children[T] | None = None) -> list[T]:
    """The nodes from `root` down to `goal`, both of them, on the first way there is; none where there is no way."""
    parts = children or _children
    path: list[T] = []
    work = Worklist([root])
    for node in work:
        path.append(node)
        if node is goal:
            return path
        work.on_leave(path.pop)
        work.add(parts(node))
    return []


def fold(root: T, make: Callable[[T, list[R]], R], children: Children[T] | None = None) -> R:
    """What `make` gives for `root`, from a node and what it gave for the parts of the node. Each node is made once.

    `children` gives the same parts each time that it is asked.
    """
    parts = children or _children
    made: dict[int, R] = {}
    for node in post_order(root, parts):
        made[id(node)] = make(node, [made[id(c)] for c in parts(node)])
    return made[id(root)]


def fold_scoped(root: T, enter: Callable[[T], Sequence[T]], leave: Callable[[T, list[R]], R]) -> R:
    """As `fold`, but a node is made as often as it stands in a whole: in each scope for itself.

    `enter` is called once on the way down and gives the parts, `leave` on the way up, with what was made of them.
    """
    made: list[R] = []

    def close(node: T, start: int) -> None:
        made[start:] = [leave(node, made[start:])]

    work = Worklist([root])
    for node in work:
        work.on_leave(close, node, len(made))
        work.add(enter(node))
    return made[0]


def rewrite(root: N, change: Callable[[N], N]) -> N:
    """`root` with `change` applied to every node, parts first; what is shared stays shared."""

    def changed(node: N, parts: list[N]) -> N:
        return change(node.with_children(parts))

    return fold(root, changed)


def depending(root: N, leaf: Callable[[N], bool]) -> set[int]:
    """The nodes below `root`, by identity, that are a `leaf` or have one below them."""
    found: set[int] = set()
    for node in post_order(root):
        if leaf(node) or any(id(c) in found for c in node.children):
            found.add(id(node))
    return found


def reached(starts: Iterable[H], following: Callable[[H], Iterable[H]]) -> dict[H, None]:
    """What the starts lead to, and they themselves, in the order in which it is met depth first. Equal is the same."""
    work = Worklist(starts, lambda item: item)
    found: dict[H, None] = {}
    for item in work:
        found[item] = None
        work.add(following(item))
    return found


def needed_first(starts: Iterable[H], needs: Callable[[H], Iterable[H]]) -> list[H]:
    """What the starts need, and they themselves, each behind what it needs but for what needs it too. Equal is the
    same."""
    work = Worklist(starts, lambda item: item)
    found: list[H] = []
    for item in work:
        work.on_leave(found.append, item)
        work.add(needs(item))
    return found


def components(named: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """The names that reach one another, each group sorted; those that are named come before those that name them
    (Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    on: set[str] = set()
    units: list[tuple[str, ...]] = []
    for root in sorted(named):
        if root in number:
            continue
        stack: list[tuple[str, Iterator[str]]] = [(root, iter(named[root]))]
        number[root] = low[root] = len(number)
        open_.append(root)
        on.add(root)
        while stack:
            at, rest = stack[-1]
            for n in rest:
                if n not in number:
                    number[n] = low[n] = len(number)
                    open_.append(n)
                    on.add(n)
                    stack.append((n, iter(named[n])))
                    break
                if n in on:
                    low[at] = min(low[at], number[n])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[at])
                if low[at] == number[at]:
                    unit = [open_.pop()]
                    while unit[-1] != at:
                        unit.append(open_.pop())
                    on -= {*unit}
                    units.append(tuple(sorted(unit)))
    return units


def spelled(root: T, pieces: Callable[[T], Sequence[T | str]]) -> str:
    """The text of a tree. `pieces` gives for a node what it is written as, left to right: texts, and parts."""

    def inside(piece: T | str) -> Sequence[T | str]:
        return () if isinstance(piece, str) else pieces(piece)

    start: T | str = root
    return "".join(p for p in occurrences(start, inside) if isinstance(p, str))


def commas(parts: Sequence[T]) -> list[T | str]:
    """Pieces of a text: the parts with commas between them."""
    return [piece for part in parts for piece in (", ", part)][1:]
