"""A lowered program whose kernels are dispatched (specs/verify.md, "Kernels for unknown sizes").

runs = DispatchedProgram(lowered, Dispatcher(choices))
runs.beforehand()
runs.run({"x": x})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np

from assay.interp import graph as evaluator, vector, vm
from assay.interp.graph.kernel_calls import flat
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.values import Event, Externs, Value
from assay.semantics.bytecode import InvokeKernel
from assay.semantics.errors import Trap
from assay.semantics.graph import CallTIR, Function
from assay.semantics.instance import sizes_of
from assay.semantics.module import Module
from assay.semantics.scalar import Var, evaluate_dim
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, Type
from assay.semantics.walk import fold_scoped, post_order
from assay.verify.dispatch.cache import BoundedCache
from assay.verify.dispatch.choice import MAIN, Choice
from assay.verify.dispatch.dispatcher import MOST_CALLS, Dispatcher
from assay.verify.dispatch.neutral import PROVING
from assay.verify.dispatch.padding import cut_back, padded, targets
from assay.verify.dispatch.reference import KernelDiffers
from assay.verify.dispatch.whole import WholeProof
from assay.verify.trials.kernels import different

Array = np.ndarray[Any, Any]


def called_functions(module: Module) -> dict[str, PrimFunc]:
    """The tensor functions that the graph functions call which are reached from main, or that bytecode invokes."""
    if module.is_bytecode:
        bodies = [f.body for f in module.bytecode.functions.values()]
        invoked = dict.fromkeys(i.kernel for body in bodies for i in body if isinstance(i, InvokeKernel))
        return {n: module.kernel(n) for n in invoked}
    functions = [d for n, d in module.definitions.items() if isinstance(d, Function) and not n.startswith("group_")]
    names = dict.fromkeys(n.func for f in functions for n in post_order(f) if isinstance(n, CallTIR))
    return {n: module.kernel(n) for n in names}


@dataclass(eq=False)
class DispatchedProgram:
    """A lowered module, or bytecode on the virtual machine, run any number of times, from any number of threads."""

    module: Module
    dispatcher: Dispatcher
    lock: Lock = field(default_factory=Lock)
    compared: BoundedCache[tuple[int, ...], bool] = field(default_factory=lambda: BoundedCache(MOST_CALLS))

    @cached_property
    def choice(self) -> Choice | None:
        """How main is padded, if it is asked for."""
        return self.dispatcher.choices.of_main()

    @cached_property
    def proof(self) -> WholeProof | None:
        """The proof that main may be padded as a whole; None, with a note, where there is none."""
        if self.choice is None:
            return None
        refused = "it is bytecode"
        if not self.module.is_bytecode:
            names = frozenset(n for n, _ in self.choice.sizes)
            with PROVING:
                found = WholeProof(self.module, names, self.dispatcher.why_not_neutral)
                refused = found.refused
            if not refused:
                return found
        rest = "function by function" if self.choice.pattern != MAIN else "as it is"
        self.dispatcher.statistics.note(self.statistics, f"not padded as a whole, {refused}: {rest}")
        return None

    @cached_property
    def statistics(self) -> Any:
        """The counts of main as a whole."""
        return self.dispatcher.statistics.of(MAIN, str(self.choice))

    def beforehand(self) -> None:
        """Compile what is to be compiled before a run, and prove what has to be."""
        self.dispatcher.beforehand(called_functions(self.module))
        _ = self.proof

    def run(
        self, inputs: Mapping[str, Any], externs: Externs | None = None, trace: list[Event] | None = None
    ) -> dict[str, Value]:
        """The outputs by name. Traps as the program does. KernelDiffers: a kernel does something else."""
        try:
            if self.proof is not None and self.choice is not None:
                found = self.run_whole(self.proof, self.choice, inputs)
                if found is not None:
                    return found
            with memory_traps():
                if self.module.is_bytecode:
                    return vm.run(self.module, inputs, execute=self.dispatcher, externs=externs, trace=trace)
                return evaluator.run(self.module, inputs, kernel=self.dispatcher, externs=externs, trace=trace)
        finally:
            with self.lock:
                self.dispatcher.horizon.done += 1

    def run_whole(self, proof: WholeProof, choice: Choice, inputs: Mapping[str, Any]) -> dict[str, Value] | None:
        """The outputs of main at padded sizes, cut back; None where it cannot be."""
        statistics = self.dispatcher.statistics
        main = self.module.main
        evaluator.check_inputs(main, inputs)
        types = {p.name: p.type for p in main.params if isinstance(p.type, TensorType)}
        sizes = sizes_of(types, {n: np.shape(inputs[n]) for n in types})
        found, why = targets(choice, {v.name: n for v, n in sizes.items()})
        target = {v: found.get(v.name, n) for v, n in sizes.items()}
        if not found or not proof.fits(sizes, target):
            statistics.note(self.statistics, why or f"at {_told(sizes)} a size would be less with padding")
            return None
        large = dict(inputs)
        for name, of in types.items():
            large[name] = padded(np.asarray(inputs[name]), tuple(evaluate_dim(d, target) for d in of.shape))
        try:
            kernel = partial(self.dispatcher, is_padded=True)
            with memory_traps():
                made = evaluator.run(self.module, large, kernel=kernel)
        except Trap:
            statistics.note(self.statistics, "it traps on padding: as it is")
            return None
        result = main.func_type.result
        results = cut_results(made, result, sizes)
        self.compared.get(tuple(sizes.values()), partial(self.compare, inputs, results, sizes))
        whole, own = elements(large.values()) + elements(made.values()), elements(inputs.values())
        statistics.count(self.statistics, "padded", elements=whole, wasted=whole - own - elements(results.values()))
        return results

    def compare(self, inputs: Mapping[str, Any], results: Mapping[str, Value], sizes: Mapping[Var, int]) -> bool:
        """Compare what padding gives at some sizes, at its first use, with what the interpreter gives without."""
        with PROVING, memory_traps():
            wanted = evaluator.run(self.module, inputs, kernel=vector.run)
        for name, right in wanted.items():
            for one, other in zip(tensors_in(right), tensors_in(results[name]), strict=True):
                odd = different(one, other)
                if odd:
                    raise KernelDiffers(f"main, padded, at {_told(sizes)} differs in {name}: {odd}")
        self.dispatcher.statistics.count(self.statistics, "checked")
        return True


def cut_results(made: Mapping[str, Value], result: Type, sizes: Mapping[Var, int]) -> dict[str, Value]:
    """Results at padded sizes cut to these sizes, each in its tuples."""
    types: Sequence[Type] = result.fields if isinstance(result, TupleType) else (result,)
    if len(types) != len(made):
        types = (result,)
    return {n: _cut(v, t, sizes) for (n, v), t in zip(made.items(), types, strict=True)}


def _cut(value: Value, of: Type, sizes: Mapping[Var, int]) -> Value:
    """A tensor that is cut, or a tuple of such, which stays one: of one field too."""
    tensors = iter(tensors_in(value))

    def made(part: Type, fields: list[Value]) -> Value:
        if isinstance(part, TupleType):
            return tuple(fields)
        assert isinstance(part, TensorType)
        return cut_back(next(tensors), tuple(evaluate_dim(d, sizes) for d in part.shape))

    return fold_scoped(of, lambda t: t.fields if isinstance(t, TupleType) else (), made)


def tensors_in(value: Value) -> list[Array]:
    """The tensors in a value, left to right."""
    return [np.asarray(v) for v in flat([value])]


def elements(values: Any) -> int:
    """How many elements some values have."""
    return sum(a.size for v in values for a in tensors_in(v))


def _told(sizes: Mapping[Var, int]) -> str:
    return ", ".join(f"{v.name} = {n}" for v, n in sizes.items())
