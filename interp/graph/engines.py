"""Running parts of a module on an engine from outside (row R29; specs/interp.md, "Engines").

A function with the attribute `compiler` means what its body says; `graph.run` evaluates that. Here an engine runs it
instead. An engine is a Python callable: it is handed the region, with its constants, and the arrays of one call.

    def npu(region: Region, args: Sequence[Array]) -> Array | tuple[Array, ...]: ...
    outputs = run(module, {"x": x}, {"npu": npu})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from assay.interp import graph
from assay.interp.values import Externs, Value
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constant, Expr, Function, GlobalVar, call, extern
from assay.semantics.graph.functions import as_function
from assay.semantics.module import Module
from assay.semantics.walk import fold, post_order

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class EngineRegion:
    """What an engine runs: a function of the module, under its global symbol."""

    compiler: str
    symbol: str
    function: Function
    module: Module

    @property
    def constants(self) -> dict[Expr, Array]:
        """The constants in the region, by node: those that stand in it, and those of the module's table."""
        found: dict[Expr, Array] = {}
        for node in post_order(self.function):
            if isinstance(node, Constant):
                found[node] = node.data
            elif isinstance(node, GlobalVar) and node.name in self.module.constants:
                found[node] = self.module.constants[node.name]
        return found

    @property
    def composites(self) -> list[Function]:
        """The composites that the region calls, in order; each says by its attribute `composite` what it is."""
        return [n for n in post_order(self.function) if isinstance(n, Function) and "composite" in n.attrs]


Engine: TypeAlias = Callable[[EngineRegion, Sequence[Array]], Any]
"""Gives the region's result, a tuple of arrays where it has several. It must not write into what it is handed."""


def regions(module: Module) -> Iterator[EngineRegion]:
    """The functions for other compilers, wherever they stand; each once."""
    seen: dict[int, None] = {}
    for name, d in module.graphs.items():
        for node in post_order(d):
            if isinstance(node, Function) and "compiler" in node.attrs and id(node) not in seen:
                seen[id(node)] = None
                compiler = str(node.attrs["compiler"])
                symbol = name if node is d else f"{compiler}_in_{name}_{len(seen)}"
                yield EngineRegion(compiler, str(node.attrs.get("global_symbol", symbol)), node, module)


def attach(module: Module, engines: Mapping[str, Engine]) -> tuple[Module, Externs]:
    """The module with every region as a call of an extern function, and these functions.

    Invalid where a region has no engine: nothing else runs it instead; or where two have one symbol.
    """
    bodies: dict[int, Expr] = {}
    externs: dict[str, Callable[..., Value]] = {}
    for region in regions(module):
        if region.compiler not in engines:
            known = ", ".join(engines) or "none"
            raise Invalid(
                f"{region.symbol} is for the engine {region.compiler}, which is not given (given: {known});"
                " give it, or evaluate the module without engines",
                label="engine.C1",
            )
        name = f"{region.compiler}:{region.symbol}"
        if name in externs:
            raise Invalid(f"two regions have the global symbol {region.symbol}", label="engine.C2")
        externs[name] = _act(engines[region.compiler], region)
        f = region.function
        bodies[id(f)] = call(extern(name, [p.type for p in f.params], f.result_type, pure=True), *f.params)

    def called(node: Expr, parts: list[Expr]) -> Expr:
        made = bodies.get(id(node))
        if isinstance(node, Function) and made is not None:
            attrs = {k: v for k, v in node.attrs.items() if k != "compiler"}
            return replace(node, body=made, attrs=attrs)
        return node.with_children(parts)

    roots: dict[str, Expr] = {**module.graphs}
    return module.with_(**{n: as_function(fold(root, called)) for n, root in roots.items()}), externs


def run(
    module: Module, inputs: Mapping[str, Any], engines: Mapping[str, Engine], *, externs: Externs | None = None
) -> dict[str, Value]:
    """The outputs of `main`, every region run by its engine; otherwise as `assay.interp.graph.run`.

    What an engine gives must have the region's result type, else the run traps (call.T1).
    """
    attached, own = attach(module, engines)
    return graph.run(attached, inputs, externs={**(externs or {}), **own})


def _act(engine: Engine, region: EngineRegion) -> Callable[..., Value]:
    def act(*args: Value) -> Value:
        arrays = [np.asarray(a) for a in args]
        for a in arrays:
            a.flags.writeable = False
        return engine(region, arrays)

    return act
