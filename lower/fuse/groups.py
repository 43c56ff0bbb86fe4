"""Which calls of tensor functions become one: groups of a let chain (row R23; specs/lower.md, "fuse").

As in Relay and Relax, a call is fused with its immediate post-dominator, the first binding through which all its uses
go, if every call on a way to it may be in one kernel, on one device and in the same storage scopes: anchors (products,
convolutions) first, then maps of indices. So a
group has one result, and whoever else uses a value of it prevents it. Whatever may trap, acts, chooses, or is no call
of a tensor function is in no group and ends one. A value that no parameter has part in is left for constant folding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay.semantics.alias import device_of
from assay.semantics.analyses.op_pattern import OpPattern, Patterns, patterns
from assay.semantics.graph import CallTIR, Constant, Expr, GlobalVar, Var
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.module import Module
from assay.semantics.tensor.copying import claims_copy
from assay.semantics.types import TensorType
from assay.semantics.walk import Worklist

Binding = tuple[Var, Expr]


@dataclass(frozen=True)
class Limits:
    """How large a group may become: calls in it, and values that it takes."""

    calls: int = 64
    operands: int = 48


@dataclass(eq=False)
class _Node:
    """A binding: its class, its class as the last of its group, and who uses it how."""

    var: Var
    value: Expr
    patterns: Patterns | None
    group: OpPattern
    uses: list[tuple[int, OpPattern]] = field(default_factory=list)
    outside: bool = False
    parent: int | None = None
    way: OpPattern = OpPattern.ELEMENTWISE
    """The worst use on the way to the post-dominator `parent`."""


def groups(
    chain: Sequence[Binding], escaping: Callable[[Var], bool], fixed: set[Var], module: Module, limits: Limits
) -> list[list[int]]:
    """The groups of a let chain with more than one call, in the order of their results: indices in order, the last one
    is the result.

    `escaping` says whether something outside the chain's own calls uses a variable. `fixed` are the variables that
    are known to be constant before the chain; what the chain adds to them is entered.
    """
    return _Chain(chain, escaping, fixed, module, limits).run()


class _Chain:
    def __init__(
        self, chain: Sequence[Binding], escaping: Callable[[Var], bool], fixed: set[Var], module: Module, limits: Limits
    ) -> None:
        self.limits = limits
        self.module = module
        self.nodes: list[_Node] = []
        self.leader = list(range(len(chain)))
        self.members: dict[int, list[int]] = {i: [i] for i in range(len(chain))}
        place: dict[Var, int] = {}
        for i, (var, value) in enumerate(chain):
            if _is_fixed(value, fixed):
                fixed.add(var)
            found = self.fusible(value, module) if var not in fixed else None
            node = _Node(var, value, found, found.whole if found else OpPattern.OPAQUE, outside=escaping(var))
            self.nodes.append(node)
            used = [value] if isinstance(value, Var) else value.children  # another name of a value is a use of it
            how = found.operands if found is not None else (OpPattern.OPAQUE,) * len(used)
            for child, kind in zip(used, how, strict=True):
                if isinstance(child, Var) and child in place:
                    self.nodes[place[child]].uses.append((i, kind))
            place[var] = i
        for i in reversed(range(len(chain))):
            self.dominate(i)

    def fusible(self, value: Expr, module: Module) -> Patterns | None:
        """The classes of a call that may be in a group."""
        if not isinstance(value, CallTIR) or any(not isinstance(a.type, TensorType) for a in value.args):
            return None
        kernel = module.kernel(value.func)
        if kernel_can_trap(kernel) or claims_copy(kernel):
            return None
        found = patterns(kernel)
        return found if found.whole <= OpPattern.ANCHOR else None

    # --- post-dominators ---------------------------------------------------------------------------------------------

    def dominate(self, i: int) -> None:
        """The binding through which all uses of `i` go; none if one goes elsewhere, or if it is too far away."""
        node = self.nodes[i]
        if node.outside or not node.uses:
            return
        (at, worst), *others = node.uses
        for use, kind in others:
            met = self.meet(at, use)
            if met is None:
                return
            at, on_the_way = met
            worst = max(worst, kind, on_the_way)
        node.parent, node.way = at, worst

    def meet(self, a: int, b: int) -> tuple[int, OpPattern] | None:
        """The first binding on the ways of both, and the worst use before it."""
        worst = OpPattern.ELEMENTWISE
        for _ in range(2 * self.limits.calls):
            if a == b:
                return a, worst
            a, b = min(a, b), max(a, b)
            parent = self.nodes[a].parent
            if parent is None:
                return None
            worst = max(worst, self.nodes[a].way)
            a = parent
        return None

    def between(self, i: int, last: int) -> list[int] | None:
        """Every binding on a way from `i` to `last`, but for these two; None if they are too many for a group."""
        found: dict[int, None] = {}
        work = Worklist([use for use, _ in self.nodes[i].uses])
        for at in work:
            if at == last or at in found:
                continue
            found[at] = None
            if len(found) > self.limits.calls:
                return None
            work.add(use for use, _ in self.nodes[at].uses)
        return list(found)

    # --- groups
    # --------------------------------------------------------------------------------------------------------

    def run(self) -> list[list[int]]:
        for late in (False, True):
            for i in range(len(self.nodes)):
                self.try_to_fuse(i, late)
        return sorted((sorted(m) for m in self.members.values() if len(m) > 1), key=lambda m: m[-1])

    def try_to_fuse(self, i: int, late: bool) -> None:
        """Fuse a binding and what is between with its post-dominator, where the classes allow it."""
        node = self.nodes[i]
        last = node.parent
        if (
            last is None
            or node.patterns is None
            or self.nodes[last].patterns is None
            or self.find(i) == self.find(last)
        ):
            return
        kind = self.nodes[self.find(i)].group
        if late != (kind is OpPattern.INJECTIVE):
            return
        inner = self.between(i, last)
        if inner is None or any(self.nodes[j].patterns is None for j in inner):
            return
        on_the_way = [self.nodes[self.find(j)].group for j in inner]
        end = self.nodes[self.find(last)].group
        match kind:
            case OpPattern.ANCHOR:
                # its elements are there, one by one, when what follows looks at them
                good = node.way is OpPattern.ELEMENTWISE and max([end, *on_the_way]) <= OpPattern.BROADCAST
            case OpPattern.ELEMENTWISE | OpPattern.BROADCAST:
                good = node.way <= OpPattern.REDUCTION and max(on_the_way, default=kind) <= OpPattern.INJECTIVE
            case OpPattern.INJECTIVE:
                good = max([end, *on_the_way]) <= OpPattern.INJECTIVE
            case _:
                good = False
        if good:
            self.join([i, *inner, last])

    def find(self, i: int) -> int:
        """The last binding of the group that `i` is in."""
        while self.leader[i] != i:
            self.leader[i] = self.leader[self.leader[i]]
            i = self.leader[i]
        return i

    def join(self, some: Sequence[int]) -> None:
        leaders = sorted({self.find(i) for i in some})
        members = [m for leader in leaders for m in self.members[leader]]
        anchors = sum(self.nodes[leader].group is OpPattern.ANCHOR for leader in leaders)
        values = [self.nodes[m] for m in members]
        own = {n.var for n in values}
        taken = {id(a) for n in values for a in n.value.children if a not in own}
        devices = {device_of(n.var, n.value) for n in values}
        too_large = len(members) > self.limits.calls or len(taken) > self.limits.operands
        if too_large or anchors > 1 or len(devices) > 1 or not self.one_scope(values):
            return
        last = leaders[-1]
        self.nodes[last].group = max(self.nodes[leader].group for leader in leaders)
        for leader in leaders[:-1]:
            self.leader[leader] = last
            del self.members[leader]
        self.members[last] = members

    def one_scope(self, values: Sequence[_Node]) -> bool:
        """Whether the calls agree on the storage scope of each value that they make or take."""
        said: dict[Expr, str] = {}
        for n in values:
            assert isinstance(n.value, CallTIR)
            kernel = self.module.kernel(n.value.func)
            if isinstance(n.value.type, TensorType):
                said.setdefault(n.var, kernel.outputs[0].scope)
            for a, b in zip(n.value.args, kernel.inputs, strict=True):
                if said.setdefault(a, b.scope) != b.scope:
                    return False
        return True


def _is_fixed(value: Expr, fixed: set[Var]) -> bool:
    """Whether a value is surely constant: of constants, and no effect. What folding leaves is no loss."""
    if isinstance(value, Var):
        return value in fixed
    if isinstance(value, (Constant, GlobalVar)):
        return isinstance(value.type, TensorType)
    return isinstance(value, CallTIR) and all(isinstance(a, (Constant, GlobalVar)) or a in fixed for a in value.args)
