"""What is not needed is left out: bindings (row R35) and definitions (row R24; specs/lower.md, "simplify").

A binding goes if its variable is not used, and evaluating its value neither acts nor can fail: not the value itself,
nor anything that would be evaluated with it. What gives a size its value can fail, so it stays. Nothing is inlined, so
nothing moves into or out of a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.semantics.analyses.variables import reachable
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr, Function, Let, Var
from assay.semantics.graph.effects import acts, can_fail
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.module import Module
from assay.semantics.walk import Worklist, post_order


def dead_code(module: Module, entries: Sequence[str] = ("main",)) -> Module:
    """The module without what its entries do not need: dead bindings first, then definitions that nothing reaches."""
    return remove_unreachable(remove_dead_bindings(module), entries)


def remove_dead_bindings(module: Module) -> Module:
    """Every graph function without its dead bindings."""
    return DeadCode(module).run()


def remove_unreachable(module: Module, entries: Sequence[str] = ("main",)) -> Module:
    """The module with what the entries reach: what they call, hand on, match on, or only mention."""
    for name in entries:
        if name not in module.definitions:
            raise Invalid(f"the module has no {name}: an entry is one of its definitions", label="dead_code.C1")
    keep = set(reachable(module, entries))
    definitions = {n: d for n, d in module.definitions.items() if n in keep}
    constants = {n: a for n, a in module.constants.items() if n in keep}
    offsets = {n: o for n, o in module.offsets.items() if n in keep}
    infos = {n: i for n, i in module.infos.items() if n in keep}
    return replace(module, definitions=definitions, constants=constants, offsets=offsets, infos=infos)


class DeadCode:
    """Removes dead bindings. What may go, and what is a use, are methods: so tests can plant faults."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self) -> Module:
        """Remove dead bindings from each function of the module."""
        return self.module.with_(**{n: self.function(d) for n, d in self.module.graphs.items()})

    def removable(self, node: Expr) -> bool:
        """Whether it makes no difference if the node itself is evaluated."""
        return not acts(node) and not can_fail(node, self.module)

    def uses(self, node: Expr) -> Sequence[Expr]:
        """The parts that a node needs if it is needed. A let is looked at apart."""
        return node.children

    def function(self, function: Function) -> Function:
        """A top-level function without its dead bindings."""
        root: Expr = function
        silent: dict[int, bool] = {}  # whether nobody can tell if a node and its operands are evaluated
        for node in post_order(root):
            parts = () if isinstance(node, Function) else node.children
            silent[id(node)] = self.removable(node) and all(silent[id(c)] for c in parts)
        live = self.live(function, silent)

        def change(node: Expr) -> Expr:
            return node.body if isinstance(node, Let) and node.var not in live else node

        return rewrite_function(function, change)

    def live(self, function: Function, silent: dict[int, bool]) -> set[Var]:
        """The let-bound variables whose bindings stay."""
        live: set[Var] = set()
        waiting: dict[Var, Expr] = {}
        work = Worklist[Expr]([function], id)

        def keep(var: Var) -> None:
            if var in waiting:
                live.add(var)
                work.add([waiting.pop(var)])

        for node in work:
            match node:
                case Var():
                    keep(node)
                case Let():
                    waiting[node.var] = node.value
                    work.add([node.body])
                    if not silent[id(node.value)]:
                        keep(node.var)
                case _:
                    work.add(self.uses(node))
        return live
