"""Constants made by compilation: packed, transposed (row C6; specs/lower.md, "constants made").

What makes a constant is written in operators, so it has a meaning of its own: `pack` lets tensor functions read a
constant in another layout and hands them the operators that lay it so. `make_constants` then evaluates what is
constant, and says of each constant that it makes which one it comes from, and by which function.
`assay.verify.constants.made` holds both to it. A constant that is not needed any more goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from assay.lower.constants.constant_table import ConstantTable
from assay.lower.constants.extract import trimmed
from assay.lower.loops import schedule
from assay.lower.loops.layout import Layout
from assay.lower.loops.tiles import COLUMNS, FEATURES
from assay.lower.simplify.fold import Evaluate, Folding, Value
from assay.semantics import graph
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call, CallTIR, Constant, Expr, Function, GlobalVar, Let, Var
from assay.semantics.graph.effects import is_opaque
from assay.semantics.module import GROUP, PLAIN, ConstantInfo, Definition, Module
from assay.semantics.names import unused
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order, rewrite

Array = np.ndarray[Any, Any]
Choose = Callable[[CallTIR, PrimFunc, int], Layout | None]
"""In which layout a tensor function is to read its operand of that number, which is constant; None as it is."""

LAYS = "layout"
"""The attribute of a function that lays a constant in another order."""


@dataclass(frozen=True, eq=False)
class Made:
    """Where a constant comes from: `definition` of `operands`, which have `names` in the table of the module before, or
    "" where they stood in its graph."""

    definition: Function
    names: tuple[str, ...]
    operands: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Packed:
    """A tensor function that reads its operand `param` as `definition` lays it; else it is `kernel`."""

    kernel: str
    param: int
    definition: Function


# --- evaluating ------------------------------------------------------------------------------------------------------


def make_constants(module: Module, evaluate: Evaluate) -> tuple[Module, dict[str, Made]]:
    """What can be computed from constants is computed, into the module's table; and where each such constant comes
    from.

    What would take more bytes than it is made of is left, so that a weight that was made smaller stays small. The rules
    of `assay.lower.simplify.fold` hold: nothing that traps, nothing on another device.
    """
    making = _Making(module, evaluate)
    result = making.run()
    result = trimmed(replace(result, constants=making.table.arrays, infos=making.table.infos))
    return result, {n: m for n, m in making.made.items() if n in result.constants}


class _Making(Folding):
    small = 0

    def __init__(self, module: Module, evaluate: Evaluate) -> None:
        super().__init__(module, evaluate)
        self.table = ConstantTable(module)
        self.made: dict[str, Made] = {}

    def operands(self, node: Expr) -> Sequence[Expr]:
        return node.args if _lays(node) else super().operands(node)

    def can_fold(self, node: Expr, operands: list[Value]) -> bool:
        return _lays(node) or super().can_fold(node, operands)

    def constant(self, node: Expr, value: Array, device: VirtualDevice, held: Callable[[Expr], Expr]) -> Expr:
        made = self.origin(node, held)
        if made is None:
            return super().constant(node, value, device, held)
        name = self.table.add(value, self.info(made))
        self.made.setdefault(name, made)
        return GlobalVar(node.type, name, device=device, span=node.span)

    def info(self, made: Made) -> ConstantInfo:
        """Stored as what it is made of, where that is stored in one way."""
        infos = [self.module.info(n) for n in made.names if n]
        alike = infos and all((i.section, i.device) == (infos[0].section, infos[0].device) for i in infos)
        return replace(infos[0], alignment=max(i.alignment for i in infos)) if alike else PLAIN

    def origin(self, node: Expr, held: Callable[[Expr], Expr]) -> Made | None:
        """How a constant expression is computed; None if it is not from constants alone, but from sizes."""
        if _lays(node):
            leaf = held(node.args[0])
            if isinstance(leaf, (Constant, GlobalVar)):
                assert isinstance(node.op, Function)
                return Made(node.op, *self.leaves([leaf]))
        new: dict[int, Expr] = {}
        params: dict[Expr, Var] = {}
        for part in post_order(node, lambda n: () if isinstance(n, Function) else [held(c) for c in n.children]):
            if isinstance(part, Constant) or isinstance(part, GlobalVar) and part.name in self.module.constants:
                params[part] = graph.var(f"c{len(params)}", part.type)
                new[id(part)] = params[part]
            elif isinstance(part, Var):
                return None
            else:
                new[id(part)] = part.with_children([new[id(held(c))] for c in part.children]) if part.children else part
                if isinstance(part, Function):
                    new[id(part)] = part
        if not params:
            return None
        return Made(graph.function(list(params.values()), _bare(new[id(node)])), *self.leaves(list(params)))

    def leaves(self, found: Sequence[Expr]) -> tuple[tuple[str, ...], tuple[Array, ...]]:
        names = tuple(n.name if isinstance(n, GlobalVar) else "" for n in found)
        arrays = [
            n.data if isinstance(n, Constant) else self.module.constants[m] for n, m in zip(found, names, strict=True)
        ]
        return names, tuple(arrays)


def _lays(node: Expr) -> TypeGuard[Call]:
    return isinstance(node, Call) and isinstance(node.op, Function) and LAYS in node.op.attrs


def _bare(body: Expr) -> Expr:
    """A definition says what a value is, not where."""

    def change(node: Expr) -> Expr:
        if isinstance(node, graph.OnDevice):
            return node.value
        return replace(node, device=VirtualDevice()) if not isinstance(node, Var) else node

    return rewrite(body, change)


# --- packing ---------------------------------------------------------------------------------------------------------


def laid(of: TensorType, layout: Layout) -> Function:
    """A function of one tensor that lays it out, in operators: zeros at the end of axes, cut axes in two, another
    order."""
    x = graph.var("x", of)
    more, split, axes = layout.steps(of.static_shape)
    value: Expr = x
    if any(more):
        value = graph.call("nn.pad", value, pad_width=(*(0 for _ in more), *more))
    value = graph.call("reshape", value, shape=tuple(split))
    made = graph.function([x], graph.call("permute_dims", value, axes=tuple(axes)))
    return replace(made, attrs={LAYS: str(layout)})


def pack(module: Module, choose: Choose) -> tuple[Module, dict[str, Packed]]:
    """The calls of tensor functions whose constant operands `choose` wants in another layout read them so.

    Each such operand becomes a call of a function that lays it out, which `make_constants` evaluates; the tensor
    function is a new one, and by name it is said what it was. An original that is called elsewhere stays.
    """
    packing = _Packing(module, choose)
    changed = {
        n: packing.function(d) for n, d in module.definitions.items() if isinstance(d, Function) and not is_opaque(d)
    }
    definitions = {**module.definitions, **changed, **packing.kernels}
    called = {
        n.func for d in definitions.values() if isinstance(d, Function) for n in post_order(d) if isinstance(n, CallTIR)
    }
    gone = {p.kernel for p in packing.packed.values()} - called
    return replace(module, definitions={n: d for n, d in definitions.items() if n not in gone}), packing.packed


class _Packing:
    def __init__(self, module: Module, choose: Choose) -> None:
        self.module, self.choose = module, choose
        self.kernels: dict[str, Definition] = {}
        self.packed: dict[str, Packed] = {}
        self.known: dict[tuple[str, int, Layout], str] = {}
        self.definitions: dict[tuple[str, Layout], Function] = {}

    def function(self, function: Function) -> Function:
        order = list(post_order(function))
        lets = {n.var: n.value for n in order if isinstance(n, Let)}

        def is_constant(node: Expr) -> bool:
            while isinstance(node, Var) and node in lets:
                node = lets[node]
            return isinstance(node, Constant) or isinstance(node, GlobalVar) and node.name in self.module.constants

        def change(node: Expr) -> Expr:
            if not isinstance(node, CallTIR):
                return node
            func, args = node.func, list(node.args)
            for i, arg in enumerate(node.args):
                layout = None
                if is_constant(arg):
                    layout = self.choose(node, self.module.kernel(node.func), i)
                if layout is not None:
                    if func != node.func:
                        raise Unsupported(f"{node.func} has two operands to lay out: one at a time", label="made.C3")
                    func = self.kernel(node.func, i, layout, arg)
                    definition = self.packed[func].definition
                    args[i] = Call(definition.result_type, definition, (arg,), device=arg.device, span=arg.span)
            return node if func == node.func else replace(node, func=func, args=tuple(args))

        root: Expr = function
        made = rewrite(root, change)
        assert isinstance(made, Function)
        return made

    def kernel(self, name: str, param: int, layout: Layout, arg: Expr) -> str:
        """The name of the tensor function that reads its operand so. It no longer claims to be the operator: that has
        the operand as it was."""
        key = (name, param, layout)
        if key not in self.known:
            assert isinstance(arg.type, TensorType)
            of = self.definitions.setdefault((str(arg.type), layout), laid(arg.type, layout))
            old = self.module.kernel(name)
            new = schedule(old).layout(old.params[param].name, layout).func
            self.known[key] = unused(f"{name}_packed", self.module.definitions, self.kernels)
            attrs = {k: v for k, v in new.attrs.items() if k not in ("operator", "attrs", GROUP)}
            self.kernels[self.known[key]] = replace(new, name=self.known[key], attrs=attrs)
            self.packed[self.known[key]] = Packed(name, param, of)
        return self.known[key]


def for_tiles(call: CallTIR, kernel: PrimFunc, param: int) -> Layout | None:
    """A layout for `assay.lower.loops.tiles`: what one tile of a product or convolution reads lies together."""
    shape, claim = kernel.params[param].shape, str(kernel.attrs.get("operator", ""))
    if claim == "matmul" and param == 1 and len(shape) == 2 and isinstance(shape[1], int) and shape[1] >= COLUMNS:
        return Layout((1, 0), ((1, COLUMNS),))
    if claim.startswith("nn.conv") and param == 1 and isinstance(shape[0], int) and shape[0] >= FEATURES:
        return Layout(tuple(range(len(shape))), ((0, FEATURES),))
    return None


def transposed(call: CallTIR, kernel: PrimFunc, param: int) -> Layout | None:
    """The second operand of a product of matrices, column after column."""
    is_weight = kernel.attrs.get("operator") == "matmul" and param == 1 and len(kernel.params[1].shape) == 2
    return Layout((1, 0)) if is_weight else None


def packing(
    module: Module, evaluate: Evaluate, layout: str = "transposed"
) -> tuple[Module, dict[str, Made], dict[str, Packed]]:
    """The module with the constant second operands of products, and for "tiles" of convolutions too, laid out so; where
    each constant that is made comes from, and what each packed tensor function was. Invalid (made.C4): no such
    layout."""
    if layout not in LAYOUTS:
        raise Invalid(f"a layout is {' or '.join(LAYOUTS)}, not {layout!r}", label="made.C4")
    packed, kernels = pack(module, LAYOUTS[layout])
    result, made = make_constants(packed, evaluate)
    return result, made, kernels


def pack_weights(module: Module, evaluate: Evaluate, layout: str = "transposed") -> Module:
    """The module that `packing` gives."""
    return packing(module, evaluate, layout)[0]


LAYOUTS: Mapping[str, Choose] = {"transposed": transposed, "tiles": for_tiles}
