"""Bytecode against the graph, at each choice of sizes: the line compare with --vm (specs/verify.md, "compare")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.interp import graph, vm
from assay.semantics.bounds import Bounded
from assay.semantics.bytecode import InvokeKernel
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.module import Module
from assay.verify.app.judging_sizes import SizedRun
from assay.verify.evidence import Evidence, plural, refuted, tested
from assay.verify.trials.sizes import told_point, told_sizes

Array = np.ndarray[Any, Any]


@dataclass
class BytecodeRuns:
    """Runs of bytecode on shadowed memory, each compared with what the graph may give."""

    module: Module
    runs: Sequence[SizedRun]
    progress: Callable[[int, int], None]
    seed: int
    left_out: tuple[str, ...] = ()
    outputs: dict[str, Array] = field(default_factory=dict)
    """Those of the first run."""

    def compare(self) -> tuple[str, Evidence]:
        """The first run that does not hold, else what was found in the first of all."""
        found: list[tuple[str, Evidence]] = []
        for i, run in enumerate(self.runs):
            self.progress(i, len(self.runs))
            did, evidence, outputs = self.one(run)
            if not evidence.holds:
                where = f"at {told_point(run.sizes)}: " if run.sizes else ""
                return "", replace(evidence, detail=where + evidence.detail)
            self.outputs = self.outputs or outputs
            found.append((did, evidence))
        did, evidence = found[0]
        sizes = [r.sizes for r in self.runs if r.sizes]
        more = [f"at {told_sizes(sizes)}"] if sizes else []
        return "; ".join([did, *more, *self.left_out]), evidence

    def one(self, run: SizedRun) -> tuple[str, Evidence, dict[str, Array]]:
        """One run: what it gave, and whether that is what the graph may give."""
        odd: list[str] = []
        calls = 0

        def observe(function: str, number: int, call: InvokeKernel, arrays: Sequence[Array]) -> None:
            nonlocal calls
            calls += 1

        taken = {n: run.inputs[n] for n in self.module.bytecode.inputs}
        try:
            outputs = vm.run(self.module, taken, observe=observe, seed=self.seed)
        except Trap as trap:
            self.require_no_trap(run, trap)
            return "", refuted("tested", f"the bytecode does not run: {trap}"), {}
        possible = run.expected.possible
        if isinstance(possible, Trap):
            return "", refuted("tested", f"the bytecode gives values where the graph fails: {possible}"), {}
        arrays = {n: np.asarray(v) for n, v in outputs.items()}
        wrong = next((f for f in run.expected.findings(arrays).values() if f.wrong), None)
        if wrong is not None:
            odd.append(f"output {wrong.wrong} ({wrong.layer})")
        if odd:
            return "", refuted("tested", f"bytecode: {odd[0]}"), {}
        waived = f"; the graph's bounds are waived: {possible}" if isinstance(possible, Unpredictable) else ""
        said = f"{plural(calls, 'run')} of tensor functions on shadowed memory, results within the graph's bounds"
        return f"{plural(len(arrays), 'output')}{waived}{vacuous(possible)}", tested(said), arrays

    @staticmethod
    def require_no_trap(run: SizedRun, found: Trap) -> None:
        """Invalid where the model itself traps alike on these inputs: then there is nothing to compare."""
        try:
            graph.run(run.module, run.inputs)
        except Trap as own:
            if own.kind == found.kind:
                raise Invalid(
                    f"the model traps on these inputs, give others with --inputs: {own}", label="input.C7"
                ) from None


def vacuous(possible: object) -> str:
    """For how many elements the graph's bounds say nothing: that is told, never passed over."""
    bounded = [b for b in possible.values() if isinstance(b, Bounded)] if isinstance(possible, Mapping) else []
    count = sum(int(np.count_nonzero(b.vacuous)) for b in bounded)
    total = sum(int(b.size) for b in bounded)
    return f"; the graph's bounds are vacuous for {count} of {plural(total, 'element')}" if count else ""
