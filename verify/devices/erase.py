"""A module without its devices: what planning must give back (rule M8; specs/verify.md, "devices").

Annotations and copies go, fields are open, an instance of a function counts as the function. A tuple is copied field by
field, so a tuple that is made of all fields of one tuple is that tuple, two tuples of the same fields are one, and so
are two projections of one tuple; what is named and then given is the value itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from assay.semantics import graph
from assay.semantics.bits import digest
from assay.semantics.devices import ANYWHERE
from assay.semantics.graph.effects import is_copy
from assay.semantics.graph.patterns import with_variables
from assay.semantics.module import Definition, Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TupleType
from assay.semantics.walk import post_order

INSTANCE = "instance_of"
"""The attribute of a function that is another one at given devices: the name of that one."""


def erase(module: Module) -> Module:
    """`module` without devices: annotations and copies dropped, fields open, instances left out (rule M8.9)."""
    eraser = erased(module)
    definitions: dict[str, Definition] = {}
    for name, d in module.definitions.items():
        if original_of(module, name) == name:
            bare = eraser.bare[id(d)] if isinstance(d, graph.Function) else d
            assert not isinstance(bare, graph.Expr) or isinstance(bare, graph.Function)
            definitions[name] = bare
    return replace(module, definitions=definitions, infos={})


def erased(module: Module) -> Eraser:
    """What the nodes of a module become, instances included."""
    eraser = Eraser(module)
    for d in module.definitions.values():
        if isinstance(d, graph.Function):
            eraser.function(d)
    return eraser


def original_of(module: Module, name: str) -> str:
    """The name of the definition of which the one called `name` is an instance, or of an instance of it; else
    `name`."""
    seen = {name}
    while True:
        found = module.definitions.get(name)
        if found is None or not isinstance(found, (graph.Function, PrimFunc)) or INSTANCE not in found.attrs:
            return name
        name = str(found.attrs[INSTANCE])
        if name in seen:
            return name
        seen.add(name)


@dataclass(eq=False)
class Eraser:
    """What the nodes of a module become."""

    module: Module
    bare: dict[int, graph.Expr] = field(default_factory=dict)
    """The node without devices, by the identity of the node."""
    remade: set[int] = field(default_factory=set)
    """The tuples that are made anew of the fields of another, and the lets that only name what they give."""
    same: dict[tuple[object, ...], graph.Expr] = field(default_factory=dict)
    """Tuples by their fields, projections by their tuple."""
    contents: dict[int, str] = field(default_factory=dict)
    """Digests of the constants that are fields of tuples, by the identity of their data."""

    def function(self, of: graph.Function) -> graph.Function:
        """The function without devices."""
        for node in post_order(of):
            if id(node) not in self.bare:
                self.bare[id(node)] = self.node(node)
        found = self.bare[id(of)]
        assert isinstance(found, graph.Function)
        return found

    def var(self, of: graph.Var) -> graph.Var:
        """The variable without its device, one for each."""
        found = self.bare.get(id(of))
        if found is None:
            found = self.bare[id(of)] = of if of.device == ANYWHERE else replace(of, device=ANYWHERE)
        assert isinstance(found, graph.Var)
        return found

    def part(self, of: graph.Expr) -> object:
        """What is the same for fields that are one value. A constant is that wherever it is: by its contents or its
        name."""
        match of:
            case graph.Constant():
                if id(of.data) not in self.contents:
                    self.contents[id(of.data)] = digest(of.data)
                return self.contents[id(of.data)]
            case graph.GlobalVar():
                return of.name
            case _:
                return id(of)

    def node(self, of: graph.Expr) -> graph.Expr:
        """A node without its device, over children that have none; copies and annotations become their operand."""
        parts = [self.bare[id(c)] for c in of.children]
        if isinstance(of, graph.OnDevice) or is_copy(of, self.module):
            return parts[0]
        new = of.with_children(parts)
        match new:
            case graph.Var():
                return self.var(new)
            case graph.Tuple():
                whole = remade(new)
                if whole is not None:
                    self.remade.add(id(of))
                    return whole
                key: tuple[object, ...] = tuple(map(self.part, new.fields))
                return self.same.setdefault(key, new if new.device == ANYWHERE else replace(new, device=ANYWHERE))
            case graph.TupleGetItem():
                key = ("field", id(new.value), new.index)
                return self.same.setdefault(key, new if new.device == ANYWHERE else replace(new, device=ANYWHERE))
            case graph.Let():
                new = replace(new, var=self.var(new.var))
                if new.body is new.var or (
                    isinstance(new.body, graph.Tuple) and not new.body.fields and _is_unit(new.value)
                ):
                    self.remade.add(id(of))
                    return new.value
            case graph.Function():
                attrs = {k: v for k, v in new.attrs.items() if k != INSTANCE}
                new = replace(new, params=tuple(map(self.var, new.params)), attrs=attrs)
            case graph.Match():
                new = replace(
                    new, clauses=tuple(graph.Clause(with_variables(c.pattern, self.var), c.body) for c in new.clauses)
                )
            case graph.GlobalVar():
                new = replace(new, name=original_of(self.module, new.name))
            case graph.CallTIR():
                new = replace(new, func=original_of(self.module, new.func))
            case _:
                pass
        return new if new.device == ANYWHERE else replace(new, device=ANYWHERE)


def remade(of: graph.Tuple) -> graph.Expr | None:
    """The tuple whose fields, all and in order, are those of `of`; None if there is none."""
    wholes = [f.value if isinstance(f, graph.TupleGetItem) and f.index == i else None for i, f in enumerate(of.fields)]
    first = wholes[0] if wholes else None
    if first is None or not isinstance(first.type, TupleType) or len(first.type.fields) != len(wholes):
        return None
    return first if all(w is first for w in wholes) else None


def _is_unit(node: graph.Expr) -> bool:
    return isinstance(node.type, TupleType) and not node.type.fields


# --- from a value down to what it is a copy of --------------------------------------------------------------------


def under(node: graph.Expr, eraser: Eraser) -> graph.Expr | None:
    """What `node` is when devices do not count: the operand of an annotation, of a copy or of a projection, the tuple
    that is made anew of its fields; None where it is none of these."""
    if isinstance(node, (graph.OnDevice, graph.TupleGetItem)):
        return node.value
    if is_copy(node, eraser.module):
        return node.children[0]
    if isinstance(node, graph.Let) and id(node) in eraser.remade:
        return node.value
    if isinstance(node, graph.Tuple) and id(node) in eraser.remade:
        part: graph.Expr | None = node.fields[0]
        whole = eraser.bare[id(node)]
        while part is not None and eraser.bare[id(part)] is not whole:
            part = under(part, eraser)
        return part
    return None


def value_chain(node: graph.Expr, eraser: Eraser) -> list[graph.Expr]:
    """The nodes from a value up to `node` that are one value but for devices and projections; the value comes first."""
    found = [node]
    while (inner := under(found[-1], eraser)) is not None:
        found.append(inner)
    return found[::-1]


def instances(module: Module) -> Iterator[tuple[str, str]]:
    """The instances of a module, with the names of what they are instances of."""
    for name in module.definitions:
        if (original := original_of(module, name)) != name:
            yield name, original
