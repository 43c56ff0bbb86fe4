"""A planned module at given sizes (specs/verify.md, "Sizes that are tried")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.graph import CallTIR, Expr, Function
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.graph.matching import Bound
from assay.semantics.instance import at, input_types, is_symbolic, replaced, sizes_of, sizes_of_call, sizes_of_step
from assay.semantics.module import GROUP, Branch, Definition, Measure, Module, Step, walk
from assay.semantics.names import unused
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, flatten
from assay.semantics.walk import post_order
from assay.verify.trials.sizes import Sizes, claimed_attributes, kernel_at, numbers_in


def module_at(module: Module, inputs: Mapping[str, Any], measured: Mapping[Symbol, int] | None = None) -> Module:
    """A planned module at the sizes of inputs: every size, offset and tensor function in numbers, and groups too. What
    is called at several sizes is there for each. Itself where it has no symbols. What a run measures stays open, or has
    the values `measured`.

    Invalid: the inputs do not fit, or have sizes outside of the program's limits.
    """
    program = module.program
    if not is_symbolic(program) and not any(symbols_left(k) for k in module.kernels.values()):
        return module
    values = sizes_of(input_types(program), {n: np.shape(inputs[n]) for n in program.inputs})
    return _AtSizes(module).run({**values, **(measured or {})})


class SizedSteps:
    """The steps of a run of a planned module in numbers: it is shown what the steps leave, and so what is measured."""

    def __init__(self, module: Module, inputs: Mapping[str, Any]) -> None:
        self.module = module
        self.values: dict[Symbol, int] = {}
        """The sizes that were measured so far."""
        self.told: dict[str, list[tuple[Symbol, ...]]] = {}
        """By slot the symbols that are measured by it."""
        measures = [s for s in module.program.steps if isinstance(s, Measure)]
        self.measures = bool(measures)
        for s in measures:
            for name in s.reads:
                self.told.setdefault(name, []).append(s.symbols)
        self.conditions: dict[str, bool] = {s.condition: False for s in module.program.steps if isinstance(s, Branch)}
        """What the slots hold that choices are made by."""
        values = any(s.values for s in measures)
        self._way = walk(module.program.steps, lambda _, s: self.conditions[s.condition]) if values else None
        self._made = _AtSizes(module, made=dict(module.definitions))
        for name in (*self.told, *self.conditions):
            if name in inputs or name in module.constants:
                self.see(name, inputs[name] if name in inputs else module.constants[name])

    def come_to(self, index: int) -> None:
        """The run has come to a step, and past what sets sizes on the way."""
        for number in self._way or ():
            item = self.module.program.steps[number]
            if isinstance(item, Measure) and item.values:
                sizes = [self.size(d) for d in item.values]
                self.values.update((v, n) for v, n in zip(item.symbols, sizes, strict=True) if isinstance(n, int))
            if number == index:
                return

    def see(self, name: str, contents: Any) -> None:
        """A slot holds this."""
        if name in self.conditions:
            self.conditions[name] = bool(np.asarray(contents))
        for symbols in self.told.get(name, ()):
            self.values.update(zip(symbols, np.asarray(contents).reshape(-1).tolist(), strict=True))

    def size(self, dim: Dim) -> Dim:
        """A dim in numbers."""
        return replaced(dim, self.values) if self.measures else dim

    def type(self, slot: str) -> TensorType:
        """The type of a slot in numbers."""
        of = self.module.program.slots[slot].type
        return of if of.is_static else TensorType(tuple(map(self.size, of.shape)), of.dtype)

    def kernel(self, step: Step) -> tuple[PrimFunc, Module]:
        """The tensor function of a step in numbers, and a module with it and its group."""
        kernel = self.module.kernel(step.kernel)
        if not self.measures or not symbols_left(kernel):
            return kernel, self.module
        self._made.values = self.values
        found = {v: self.size(d) for v, d in sizes_of_step(step, kernel).items()}
        name = self._made.kernel(kernel, found)
        made = replace(self.module, definitions=self._made.made)
        return made.kernel(name), made


@dataclass(eq=False)
class _AtSizes:
    module: Module
    values: Sizes = field(default_factory=dict)
    made: dict[str, Definition] = field(default_factory=dict)
    known: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def run(self, values: Sizes) -> Module:
        self.values = values  # a claim may be in symbols that no buffer of the tensor function has
        program = at(self.module.program, values)
        kept = {n: d for n, d in self.module.definitions.items() if not isinstance(d, PrimFunc)}
        self.made = {**kept, **{n: k for n, k in self.module.kernels.items() if not symbols_left(k)}}
        left = {i: s for i, s in enumerate(program.steps) if isinstance(s, Step) and self.is_open(s)}
        for s in left.values():  # their names are taken first
            kernel = self.module.kernel(s.kernel)
            group = self.module.group(kernel)
            called = () if group is None else (n.func for n in post_order(group.body) if isinstance(n, CallTIR))
            self.made |= {kernel.name: kernel, **{name: self.module.kernel(name) for name in called}}
        steps = tuple(self.step(s) if isinstance(s, Step) and i not in left else s for i, s in enumerate(program.steps))
        self.made["main"] = replace(program, steps=steps)
        return replace(self.module, definitions=self.made)

    def is_open(self, step: Step) -> bool:
        """Whether a run measures a size of a step: it keeps its tensor function."""
        kernel = self.module.kernel(step.kernel)
        sizes = sizes_of_step(step, kernel)
        return not all(isinstance(sizes[s], int) for s in symbols_left(kernel))

    def step(self, step: Step) -> Step:
        kernel = self.module.kernel(step.kernel)
        return replace(step, kernel=self.kernel(kernel, sizes_of_step(step, kernel)), scalars=(), dims=())

    def kernel(self, kernel: PrimFunc, given: Mapping[Symbol, Any]) -> str:
        """The name of a tensor function at sizes, which is made where it is new."""
        sizes = {s: int(given[s]) for s in symbols_left(kernel)}
        if not sizes:
            return kernel.name
        key = kernel.name, tuple(sizes.values())
        if key not in self.known:
            name = self.known[key] = unused(kernel.name, self.made)
            attrs = {k: claimed_attributes(kernel) if k == "attrs" else v for k, v in kernel.attrs.items()}
            attrs = {k: numbers_in(v, {**self.values, **sizes}) for k, v in attrs.items()}
            new = replace(kernel_at(kernel, sizes), name=name, attrs=attrs)
            group = self.module.group(kernel)
            if group is not None:
                new = replace(new, attrs={**attrs, GROUP: self.group(group, new, sizes)})
            self.made[name] = new
        return self.known[key]

    def group(self, group: Function, kernel: PrimFunc, sizes: Sizes) -> str:
        """The name of a group at the sizes of its tensor function."""
        told = dict(sizes)
        for p, b in zip(group.params, kernel.inputs, strict=True):
            (of,) = flatten(p.type)
            told |= {d: n for d, n in zip(of.shape, b.static_shape, strict=True) if isinstance(d, Symbol)}

        def change(node: Expr) -> Expr:
            if not isinstance(node, CallTIR):
                return node
            member = self.module.kernel(node.func)
            return replace(node, func=self.kernel(member, sizes_of_call(node, member)), scalars=())

        numbers: Bound = {s: n for s, n in told.items()}
        made = rewrite_function(with_sizes(group, numbers), change)
        name = unused(kernel.attrs.get(GROUP, "group"), self.made)
        self.made[name] = made
        return name


def symbols_left(kernel: PrimFunc) -> tuple[Symbol, ...]:
    """The symbols and scalars of a tensor function."""
    found = [d for b in kernel.params for d in b.shape if isinstance(d, Symbol)]
    return tuple(dict.fromkeys([*kernel.scalars, *found]))
