"""Recursion that is not a tail call becomes a loop over a stack of frames (specs/lower.md, "recursion").

Functions that call one another, and have more to do when such a call is done, are cut at these calls into parts
(`assay.lower.recursion.parts`). One new function runs the parts, the number of the next one as its first parameter; it
calls itself as the last thing that it does, so it is planned as a loop (`assay.lower.recursion.machine`). What a part
needs of an earlier one lies in a frame: a row of stacks, which are tensors with a leading axis.
"""

from __future__ import annotations

from dataclasses import replace

from assay.lower.anf import to_anf
from assay.lower.passes import split_blocks
from assay.lower.recursion.groups import RecursiveGroup, circles, local_group, module_group
from assay.lower.recursion.machine import Machine
from assay.lower.recursion.sizes import with_shared_sizes
from assay.lower.simplify.dead_code import remove_unreachable
from assay.semantics import graph
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr, Function, GlobalVar, Let
from assay.semantics.graph.effects import is_opaque
from assay.semantics.graph.functions import as_function, open_nodes, open_parts
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.walk import fold

DEPTH = 64
"""How many frames there are where nothing is said."""
MOST = 10**9
ATTRIBUTE = "recursion_depth"
"""The attribute by which a function says how many there are."""


def frame_recursion(module: Module, depth: str = "") -> Module:
    """The module, in A-normal form, without calls of functions by themselves that are not the last thing that they do,
    as far as main reaches them. `depth` is the greatest number of frames, in place of what functions say.

    Unsupported (recursion.C1 to C4): such a call that cannot be cut. Invalid (recursion.C5): a depth that none has.
    """
    done = Framing(module, int(depth) if depth else None).run()
    return module if done is None else to_anf(done)


def needs_frames(module: Module) -> bool:
    """Whether main reaches recursion that is no tail call. The module need not be in A-normal form."""
    reached = remove_unreachable(module)
    if not circles(reached.graphs) and not any(map(_recursive, reached.graphs.values())):
        return False
    try:
        found = to_anf(reached).graphs
    except (Invalid, Unsupported):
        return False  # the stages say why
    local = any(_local_group(n) for d in found.values() if not is_opaque(d) for n in open_nodes(d))
    return local or any(module_group(c, found).needs_frames() for c in circles(found))


def _recursive(function: Function) -> bool:
    """Whether a function inside of this one names itself."""
    lets = (n for n in open_nodes(function) if isinstance(n, Let))
    return any(isinstance(n.value, Function) and n.var in graph.free_variables(n.value) for n in lets)


def _local_group(node: Expr) -> RecursiveGroup | None:
    """The group of a function inside of another one that needs frames, by its let."""
    if not isinstance(node, Let) or not isinstance(node.value, Function) or is_opaque(node.value):
        return None
    group = local_group(node.var.name, node.var, node.value)
    return group if group.needs_frames() else None


class Framing:
    """One run of the pass. How parts are made is the machine's: so tests can plant faults."""

    machine: type[Machine] = Machine

    def __init__(self, module: Module, depth: int | None = None) -> None:
        self.module = module
        self.depth = depth
        self.definitions: dict[str, Definition] = dict(module.definitions)

    def run(self) -> Module | None:
        """The module with frames; None where nothing needs any."""
        there = remove_unreachable(self.module).graphs
        for name, d in there.items():
            if not is_opaque(d):
                self.definitions[name] = there[name] = self.local(d)
        for names in circles(there):
            group = module_group(names, there)
            if group.needs_frames():
                self.of_module(group)
        same = all(self.definitions[n] is d for n, d in self.module.definitions.items())
        return None if same else replace(self.module, definitions=self.definitions)

    def local(self, function: Function) -> Function:
        """A function with frames for the functions inside of it, the innermost first."""

        def made(node: Expr, parts: list[Expr]) -> Expr:
            new = node if is_opaque(node) else node.with_children(parts)
            group = _local_group(new)
            if group is None:
                return new
            assert isinstance(new, Let) and isinstance(new.value, Function)
            machine = self.machine(group, self.depth_of(group))
            ref = replace(graph.var(f"{new.var.name}_parts", machine.kind), device=machine.device)
            parts_ = machine.function(ref, self.kernel(machine))
            inner = replace(new, value=machine.wrapper(0, ref, new.value))
            return Let(new.type, ref, parts_, inner, device=new.device, dataflow=new.dataflow)

        whole: Expr = function
        done = as_function(fold(whole, made, open_parts))
        return function if done is function else split_blocks(done)

    def of_module(self, group: RecursiveGroup) -> None:
        """Frames for functions of the module that call one another."""
        machine = self.machine(with_shared_sizes(group), self.depth_of(group))
        name = unused(f"{group.title('_')}_parts", self.definitions)
        ref = GlobalVar(machine.kind, name, device=machine.device)
        self.definitions[name] = machine.function(ref, self.kernel(machine))
        for k, (own, function) in enumerate(group.members):
            self.definitions[own] = machine.wrapper(k, ref, function)

    def kernel(self, machine: Machine) -> str:
        """The tensor function that takes a frame, under a name of its own."""
        name = unused(f"{machine.group.title('_')}_frame", self.definitions)
        self.definitions[name] = machine.frame_kernel(name)
        return name

    def depth_of(self, group: RecursiveGroup) -> int:
        """How many frames there are for a group: as the pass was told, or one of its functions says."""
        said = [f.attrs[ATTRIBUTE] for _, f in group.members if ATTRIBUTE in f.attrs]
        for n in said:
            if type(n) is not int or not 0 < n < MOST:
                raise Invalid(
                    f"{ATTRIBUTE} of {group.title()} is {n!r}: a whole number from 1 to {MOST - 1} is wanted",
                    where=group.members[0][1].span,
                    label="recursion.C5",
                )
        return self.depth if self.depth is not None else max(said, default=DEPTH)
