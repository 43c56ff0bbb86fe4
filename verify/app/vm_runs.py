"""Bytecode against the graph, at each choice of sizes: the line compare with --vm (specs/verify.md, "compare")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.interp import graph, vector, vm
from assay.interp.values import Event, render
from assay.semantics import budget
from assay.semantics.bounds import Bounded
from assay.semantics.bytecode import InvokeKernel
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.module import Module
from assay.verify.app.judging_sizes import SizedRun
from assay.verify.border.formless import arrays_of, functions_in, outside
from assay.verify.border.inputs import traps_on
from assay.verify.compare import bits_digest
from assay.verify.evidence import Evidence, plural, refuted, tested
from assay.verify.trials.sizes import told_at, told_point, told_sizes
from assay.verify.vm.arms import told_arms

Array = np.ndarray[Any, Any]


@dataclass
class BytecodeRuns:
    """Runs of bytecode on shadowed memory, each compared with what the graph may give."""

    before: Module
    """The graph that the bytecode was made of."""
    module: Module
    runs: Sequence[SizedRun]
    progress: Callable[[int, int], None]
    seed: int
    left_out: tuple[str, ...] = ()
    outputs: dict[str, Array] = field(default_factory=dict)
    """Those of the first run."""
    reached: set[vm.Place] = field(default_factory=set)
    """Where choices and calls went on, in all runs."""

    def compare(self) -> tuple[str, Evidence]:
        """The first run that does not hold, else what was found in the first of all."""
        found: list[tuple[str, Evidence]] = []
        for i, run in enumerate(self.runs):
            self.progress(i, len(self.runs))
            with budget.while_doing(told_at(run.sizes)):
                did, evidence, outputs = self.one(run)
            if not evidence.holds:
                where = f"at {told_point(run.sizes)}: " if run.sizes else ""
                return "", replace(evidence, detail=where + evidence.detail)
            self.outputs = self.outputs or outputs
            found.append((did, evidence))
        did, evidence = found[0]
        sizes = [r.sizes for r in self.runs if r.sizes]
        more = [f"at {told_sizes(sizes)}"] if sizes else []
        told = told_arms(self.module.bytecode, self.reached)
        return "; ".join([did, *more, *self.left_out]), replace(evidence, detail=f"{evidence.detail}{told}")

    def one(self, run: SizedRun) -> tuple[str, Evidence, dict[str, Array]]:
        """One run: what it gave, and whether that is what the graph may give."""
        calls = 0

        def observe(function: str, number: int, call: InvokeKernel, arrays: Sequence[Array]) -> None:
            nonlocal calls
            calls += 1

        taken = {n: run.inputs[n] for n in self.module.bytecode.inputs}
        trace: list[Event] = []
        try:
            outputs = vm.run(self.module, taken, trace=trace, observe=observe, seed=self.seed, reached=self.reached)
        except Trap as trap:
            self.require_no_trap(run, trap)
            return "", refuted("tested", f"the bytecode does not run: {trap}"), {}
        possible = run.expected.possible
        if isinstance(possible, Trap):
            return "", refuted("tested", f"the bytecode gives values where the graph fails: {possible}"), {}
        values = {n: outside(v, self.module) for n, v in outputs.items()}
        arrays = arrays_of(values, self.module)
        odd = self.unlike_graph(taken, arrays, trace)
        if odd:
            return "", refuted("tested", f"bytecode: {odd}"), {}
        wrong = next((f for f in run.expected.findings(values).values() if f.wrong), None)
        if wrong is not None:
            return "", refuted("tested", f"bytecode: output {wrong.wrong} ({wrong.layer})"), {}
        waived = f"; the graph's bounds are waived: {possible}" if isinstance(possible, Unpredictable) else ""
        said = (
            f"{plural(calls, 'run')} of tensor functions on shadowed memory; bit for bit the run of the graph that it"
            " was made of, within the bounds of the source's"
        )
        silent = functions_in(values)
        waived += f"; {', '.join(silent)}: what functions do is not run" if silent else ""
        return f"{plural(len(values), 'output')}{waived}{vacuous(possible)}", tested(said), arrays

    def unlike_graph(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], trace: Sequence[Event]) -> str:
        """Where a run of the graph with the same tensor functions gives other bits, or acts otherwise."""
        wanted: list[Event] = []
        before = graph.run(self.before, inputs, kernel=vector.run, trace=wanted)
        found = arrays_of({n: outside(v, self.before) for n, v in before.items()}, self.before)
        if list(found) != list(outputs):
            return f"it gives {', '.join(outputs)}, and the graph before it {', '.join(found)}"
        for name, array in outputs.items():
            other = found[name]
            of = array.dtype, array.shape
            if of != (other.dtype, other.shape) or bits_digest(array, dtype(of[0])) != bits_digest(other, dtype(of[0])):
                return f"output {name} is not bit for bit what the graph before it gives"
        if [(e.kind, e.name, render("", e.values)) for e in trace] != [
            (e.kind, e.name, render("", e.values)) for e in wanted
        ]:
            return "it does not print or call what the graph before it does"
        return ""

    @staticmethod
    def require_no_trap(run: SizedRun, found: Trap) -> None:
        """Invalid where the model itself traps alike on these inputs: then there is nothing to compare."""
        try:
            graph.run(run.module, run.inputs)
        except Trap as own:
            if own.kind == found.kind:
                raise traps_on(own) from None


def vacuous(possible: object) -> str:
    """For how many elements the graph's bounds say nothing: that is told, never passed over."""
    bounded = [b for b in possible.values() if isinstance(b, Bounded)] if isinstance(possible, Mapping) else []
    count = sum(int(np.count_nonzero(b.vacuous)) for b in bounded)
    total = sum(int(b.size) for b in bounded)
    return f"; the graph's bounds are vacuous for {count} of {plural(total, 'element')}" if count else ""
