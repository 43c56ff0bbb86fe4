"""What a run shows of bytecode beside its values: the words for values and sizes in messages, and the places in the
source (specs/verify.md, "vm").

The source says for each value at which it looks by which label, and under which name; for each size where it got its
value, and what it is called; and for each thing that happens where it stands. Bytecode has to say the same.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from assay.semantics import bytecode as vm, graph
from assay.semantics.bytecode.listing import told_limit
from assay.semantics.errors import Span
from assay.semantics.graph.limits import declared_limits
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, dims, symbols
from assay.semantics.walk import Worklist, post_order
from assay.verify.vm.terms import ValueTerms
from assay.verify.vm.touched import sizes_read
from assay.verify.vm.wrong import Unsound, at

Looks = tuple[str, str]
"""A label, and what a value is called where it is looked at."""
NO_CLAUSE = "no clause matches"
"""The message of a match of which no clause fits."""


def called(label: str) -> str:
    """What a value is called that is looked at under a label; parameters have their own names."""
    return "result" if label == "func.T1" else "the value"


@dataclass
class Said:
    """What one graph function says."""

    looks: dict[int, set[Looks]] = field(default_factory=dict)
    """For the number of a value how it is looked at."""
    first: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    """For a size, as text, by which look it gave which symbol its value."""
    again: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)
    """The same of looks at symbols that had one."""
    places: dict[int, set[Span | None]] = field(default_factory=dict)
    """For the number of a chain of events where its last one may stand."""

    def look(self, terms: ValueTerms, of: Type, value: int, by: Looks, known: Container[Symbol]) -> None:
        """A value is looked at as one of a type, where some symbols are known."""
        for number, _, what in _parts(terms, of, value, by[1]):
            self.looks.setdefault(number, set()).add((by[0], what))
        for told, symbol, what in _told(terms, of, value, by[1]):
            into = self.again if symbol in known else self.first
            into.setdefault(told, set()).add((by[0], what, symbol.name))

    def place(self, events: int, where: Span | None) -> None:
        """Something happens at a place."""
        self.places.setdefault(events, set()).add(where)

    # --- what bytecode says ----------------------------------------------------------------------------------------

    def odd_look(self, terms: ValueTerms, of: vm.MatchType, value: int, function: vm.BytecodeFunction) -> str:
        """What bytecode says otherwise than the source, by label or name, of a value at which it looks, or of a size
        that it binds there; "" if nothing."""
        for number, _, what in _parts(terms, of.type, value, of.what):
            wanted = self.looks.get(number, set())
            if (of.label, what) not in wanted:
                known = " or ".join(f"{w} ({label})" for label, w in sorted(wanted)) or "not at all"
                return f"looks at {what} ({of.label}), and the source looks at it as {known}"
        left = dict.fromkeys(of.binds)
        for told, symbol, what in _told(terms, of.type, value, of.what):
            if symbol not in left:
                continue
            del left[symbol]
            wanted_sizes = self.first.get(told) or self.again.get(told) or set()
            if not any((of.label, what) == w[:2] and names_alike(symbol.name, w[2]) for w in wanted_sizes):
                if names_alike(symbol.name, "_") and not _is_read(symbol, function):
                    continue  # it stands for a size that is compared later
                return f"calls a size {symbol.name} that the source gives no value by {what} ({of.label})"
        return ""

    def check_places(self, function: vm.BytecodeFunction, ran: Mapping[int, Iterable[int]]) -> None:
        """Unsound where something happens at another place in the source. `ran` are the instructions by the number of
        the chain of events that they are the last of."""
        for events, indices in ran.items():
            wanted = self.places.get(events)
            for i in indices:
                if wanted is not None and function.body[i].span not in wanted:
                    where = " or ".join(sorted(str(s or "nowhere") for s in wanted))
                    raise Unsound(f"{at(function, i)} does what the source does at {where}")


def check_words(function: vm.BytecodeFunction, node: graph.Function, captured: int, sizes: Iterable[Symbol]) -> None:
    """Unsound where a function of bytecode calls its parameters, registers or inherited sizes otherwise than its graph
    function, or names a place in which that does not stand."""
    for i, p in enumerate(node.params):
        if function.names.get(captured + i) != p.name:
            raise Unsound(f"{function.name} calls its parameter {p.name} {function.names.get(captured + i, 'nothing')}")
    _check_sizes(function, node, captured, sizes)
    wanted = [(s.name, least, most) for s, least, most in declared_limits(node)]
    if [(s.name, least, most) for s, least, most in function.limits] != wanted:
        told = [", ".join(told_limit(*limit) for limit in some) for some in (function.limits, declared_limits(node))]
        raise Unsound(f"{function.name} is for {told[0] or 'all sizes'}, and the source for {told[1] or 'all sizes'}")
    names, places = _words(node)
    for r, name in function.names.items():
        if not any(name[:k] in names for k in (*(m.start() for m in re.finditer(r"[.]", name)), len(name))):
            raise Unsound(f"{function.name} calls register {r} {name}, which is no name of the source there")
    for i, instruction in enumerate(function.body):
        silent = isinstance(instruction, vm.Kill | vm.Jump) and instruction.span is None
        if instruction.span not in places and not silent:
            raise Unsound(f"{at(function, i)} is at no place of the source's function")


def _check_sizes(function: vm.BytecodeFunction, node: graph.Function, captured: int, sizes: Iterable[Symbol]) -> None:
    """Sizes in the types of a function have the names of the source's."""
    own = (*function.parameters[captured:], function.result)
    for mine, theirs in zip(own, (*(p.type for p in node.params), node.result_type), strict=True):
        for v, s in zip(symbols(mine), symbols(theirs), strict=True):
            if not names_alike(v.name, s.name):
                raise Unsound(f"{function.name} calls the size {s.name} {v.name}")
    around = [s.name for s in sizes]
    for v in function.sizes[: function.inherited]:
        if not any(names_alike(v.name, s) for s in around):
            raise Unsound(f"{function.name} inherits a size {v.name}, and the source has none of that name there")


def _words(node: graph.Function) -> tuple[set[str], set[Span | None]]:
    """The names of values in a graph function, those of functions inside too, and all places."""
    names: set[str] = set()
    places: set[Span | None] = set()
    root: graph.Expr = node
    for part in post_order(root):
        places.add(part.span)
        match part:
            case graph.Var():
                names.add(part.name)
            case graph.Let():
                names.add(part.var.name)
            case graph.Function():
                names.update(p.name for p in part.params)
            case graph.Match():
                names.update(v.name for c in part.clauses for v in c.vars)
            case _:
                pass
    return names, places


def names_alike(found: str, wanted: str) -> bool:
    """Whether a name is one, or one with the number that tells it from others of the same."""
    return found == wanted or re.fullmatch(re.escape(wanted) + "_[1-9][0-9]*", found) is not None


def _is_read(symbol: Symbol, function: vm.BytecodeFunction) -> bool:
    return any(symbol in sizes_read(i) for i in function.body)


def _parts(terms: ValueTerms, of: Type, value: int, what: str) -> Iterator[tuple[int, Type, str]]:
    """The tensors and shapes in a value, left to right, with what each is called."""
    work = Worklist[tuple[int, Type, str]]([(value, of, what)])
    for number, t, name in work:
        if isinstance(t, TupleType):
            work.add([(terms.part(number, i), f, f"{name}.{i}") for i, f in enumerate(t.fields)])
        elif isinstance(t, TensorType | ShapeType):
            yield number, t, name


def _told(terms: ValueTerms, of: Type, value: int, what: str) -> Iterator[tuple[str, Symbol, str]]:
    """The symbols that stand alone in a type, where each does first: the size of the value there, as text."""
    seen: set[Symbol] = set()
    for number, t, name in _parts(terms, of, value, what):
        for want, have in zip(dims(t), dims(terms.type_of(number)), strict=True):
            if isinstance(want, Symbol) and want not in seen:
                seen.add(want)
                yield terms.text_of(have), want, name
