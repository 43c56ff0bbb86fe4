"""Basic-block normal form: a value that is used in several blocks is a variable (row A9; specs/lower.md, "bbnf").

A block is a function's body, a branch of an If or the body of a clause. The form is made from A-normal form: a binding
that the pass made, and that only its own block uses, goes back to where it is used. It stays if the order of what can
fail or act would be another. A function in which nothing crosses a block stays the very same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from assay.lower.anf import Converted, function_to_anf
from assay.lower.anf.placement import Placement
from assay.semantics.graph import Expr, Function, If, Let, Match, Var, let_chain
from assay.semantics.graph.effects import acts, can_fail, is_opaque
from assay.semantics.module import Module
from assay.semantics.walk import Worklist


def to_bbnf(module: Module) -> Module:
    """Every graph function of the module in basic-block normal form."""
    changed: dict[str, Function] = {}
    for name, d in module.definitions.items():
        if isinstance(d, Function) and not is_opaque(d) and Placement(d, module).split:
            changed[name] = _Folding(function_to_anf(d, module), module).function()
    return replace(module, definitions={**module.definitions, **changed})


@dataclass(frozen=True, eq=False)
class LetBlock:
    """A block of A-normal form: its lets, and its result."""

    lets: Sequence[Let]
    result: Expr

    @staticmethod
    def of(body: Expr) -> LetBlock:
        """Take a body apart into its chain of lets and its result."""
        return LetBlock(*let_chain(body))


Key: TypeAlias = tuple[int, int]
"""A block: the identity of the value that it is part of, and which of its blocks it is."""


def _blocks(value: Expr) -> dict[Key, Expr]:
    """The blocks inside a bound value."""
    bodies: Sequence[Expr] = ()
    match value:
        case If():
            bodies = (value.then, value.otherwise)
        case Match():
            bodies = [c.body for c in value.clauses]
        case Function() if not is_opaque(value):
            bodies = (value.body,)
    return {(id(value), i): body for i, body in enumerate(bodies)}


def _operands(value: Expr) -> Sequence[Expr]:
    """What a bound value uses in its own block."""
    match value:
        case If():
            return (value.condition,)
        case Match():
            return (value.value,)
        case Function():
            return ()
        case Var():
            return (value,)
        case _:
            return value.children


class _Folding:
    """Puts the bindings of an A-normal function back where they are used."""

    def __init__(self, source: Converted, module: Module) -> None:
        self.source = source
        self.module = module
        self.chains: dict[Key, LetBlock] = {}
        """The blocks, outer before inner."""
        self.kept: set[Var] = set()
        """The variables that keep their lets."""
        self.folded: dict[Var, Expr] = {}
        """What stands for a variable that has no let any more."""
        self.finished: dict[Key, Expr] = {}
        self.effects: set[Key] = set()
        """The blocks in which something can fail or act."""

    def function(self) -> Function:
        root = self.source.function
        self.find(root)
        for key, chain in reversed(self.chains.items()):
            self.finished[key] = self.fold(key, chain)
        return replace(root, body=self.finished[id(root), 0])

    def find(self, root: Function) -> None:
        """Find the blocks, and the variables that keep their lets because of the source or of another block."""
        homes: dict[Var, Key] = {}
        work = Worklist(_blocks(root).items())
        for key, body in work:
            chain = self.chains[key] = LetBlock.of(body)
            homes.update((let.var, key) for let in chain.lets)
            for let in chain.lets:
                work.add(_blocks(let.value).items())
        self.kept = {v for v in homes if v not in self.source.made}
        for key, chain in self.chains.items():
            for let in chain.lets:
                self.kept.update(o for o in _operands(let.value) if isinstance(o, Var) and homes.get(o) != key)
            if isinstance(chain.result, Var) and homes.get(chain.result) != key:
                self.kept.add(chain.result)

    def fold(self, key: Key, chain: LetBlock) -> Expr:
        """A block with the lets that it keeps. The blocks inside it are finished."""
        waiting = _Waiting()
        values: dict[Var, Expr] = {}
        for let in chain.lets:
            value = let.value
            operands = [o for o in _operands(value) if isinstance(o, Var)]
            effect = can_fail(value, self.module) or acts(value)
            if not isinstance(value, Function):
                effect = effect or not self.effects.isdisjoint(_blocks(value))
            if effect:
                self.effects.add(key)
            if not waiting.in_order(operands):
                self.keep(waiting.flush())
            after = waiting.take(operands, let.var)
            values[let.var] = self.rebuilt(value)
            if let.var not in self.kept:
                self.folded[let.var] = values[let.var]
                if effect or after:
                    waiting.add(let.var)
            elif effect or after:
                self.keep(waiting.flush())
        result = chain.result
        if isinstance(result, Var):
            waiting.drop_last(result)
        self.keep(waiting.flush())
        body = self.folded.get(result, result) if isinstance(result, Var) else result
        for let in reversed(chain.lets):
            if let.var in self.kept:
                body = replace(let, type=body.type, value=values[let.var], body=body)
        return body

    def keep(self, variables: Sequence[Var]) -> None:
        self.kept.update(variables)
        for v in variables:
            del self.folded[v]

    def rebuilt(self, value: Expr) -> Expr:
        """A bound value around what stands for its operands now."""

        def now(e: Expr) -> Expr:
            return self.folded.get(e, e) if isinstance(e, Var) else e

        inside = [self.finished[b] for b in _blocks(value)]
        match value:
            case If():
                return value.with_children([now(value.condition), *inside])
            case Match():
                return value.with_children([now(value.value), *inside])
            case Function():
                return value.with_children(inside) if inside else value
            case Var():
                return now(value)
            case _:
                return value.with_children([now(c) for c in value.children])


class _Waiting:
    """The values of a block that have lost their lets, and that fail or act: in the order in which they must be.

    A value that uses the last of them, in their order, evaluates them in that order itself: they leave the list, and it
    comes instead. All others must be evaluated before it: if it keeps its let, they keep theirs.
    """

    def __init__(self) -> None:
        self.units: list[Var] = []
        self.present: set[Var] = set()
        self.within: dict[Var, Var] = {}
        """A value that another evaluates, and that other."""

    def unit(self, var: Var) -> Var | None:
        """The value in the list that evaluates `var`."""
        path = []
        while var in self.within:
            path.append(var)
            var = self.within[var]
        self.within.update((v, var) for v in path)
        return var if var in self.present else None

    def in_order(self, operands: Sequence[Var]) -> bool:
        """Whether the operands that are in the list are the last of it, in its order."""
        direct = [o for o in dict.fromkeys(operands) if o in self.present]
        return not direct or self.units[-len(direct) :] == direct

    def take(self, operands: Sequence[Var], user: Var) -> bool:
        """Take the operands, which are in order, from the list: `user` evaluates them. The result is whether `user`
        has to stay behind something that is or was in the list."""
        after = any(self.unit(o) is not None for o in operands)
        direct = [o for o in dict.fromkeys(operands) if o in self.present]
        if direct:
            del self.units[-len(direct) :]
            self.present.difference_update(direct)
            self.within.update((o, user) for o in direct)
        return after

    def add(self, var: Var) -> None:
        self.units.append(var)
        self.present.add(var)

    def drop_last(self, var: Var) -> None:
        """`var` is the result: it needs no let if it is the last."""
        if self.units and self.units[-1] is var:
            self.present.discard(self.units.pop())

    def flush(self) -> list[Var]:
        """Give all variables that wait, in order, and keep none."""
        units, self.units = self.units, []
        self.present.clear()
        return units
