"""Models through TVM, judged inside (specs/verify.md, "Inside a backend"): what differs, where it first does, and why.

    python -m tests.verify.tvm.campaign --seconds 60 --match Conv     # the node models of the onnx package

A *finding* is the first stage whose meaning is another one: the frontend, a pass, or the code generator. A model that
TVM refuses, or that our import does not read, is counted and not a finding.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx
from assay.semantics.errors import AssayError, Invalid
from assay.semantics.module import Module
from assay.verify.tvm.kernels import judge_calls
from assay.verify.tvm.passes import Judge, verdicts
from assay.verify.tvm.peer import PIPELINES, Array, from_onnx, frozen, parameters
from assay.verify.tvm.watch import watch


@dataclass(frozen=True)
class TvmCase:
    """A model with inputs by name."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]


@dataclass(frozen=True)
class Found:
    """A stage of TVM's compilation that gives a model another meaning."""

    case: str
    pipeline: str
    stage: str
    function: str
    detail: str

    def __str__(self) -> str:
        at = f" ({self.function})" if self.function else ""
        return f"{self.case}, {self.pipeline}, {self.stage}{at}: {self.detail}"


@dataclass
class TvmCampaign:
    """What a campaign has seen."""

    found: list[Found] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    """Why models were not judged, by name."""

    def run(self, cases: Iterable[TvmCase], seconds: float, pipelines: Iterable[str] = PIPELINES) -> TvmCampaign:
        """Judge cases until that much CPU time is used."""
        begin = time.process_time()
        for case in cases:
            if time.process_time() - begin > seconds:
                break
            for pipeline in pipelines:
                try:
                    found = list(judge_case(case, pipeline))
                except Invalid as wrong:
                    self.counts["refused"] += 1
                    self.refused[case.name] = str(wrong)
                    break
                self.counts["found" if found else "right"] += 1
                self.found += found
        return self


def judge_case(case: TvmCase, pipeline: str) -> Iterator[Found]:
    """The findings of one model in one pipeline: the first stage, and each kernel call that is wrong.

    Invalid where TVM refuses the model. The model's meaning is that of our own import, where it has one.
    """
    model, inputs = frozen(case.model, case.inputs)
    mod = from_onnx(model)
    try:
        meant: Module | None = import_onnx(model, evaluate=evaluate, source=case.name)
    except AssayError:
        meant = None
    arguments = [inputs[n] for n in parameters(mod)]
    trace = watch(mod, pipeline)
    first = next((v for v in verdicts(trace, Judge(arguments, meant)) if v.how in ("changed", "refused")), None)
    if first is not None:
        name = "the frontend" if first.name == "the module" else first.name
        yield Found(case.name, pipeline, name, first.function, first.detail)
    try:
        wrong = judge_calls(trace, arguments).first
    except Invalid:
        return  # the run itself fails: the first stage says so
    if wrong is not None:
        yield Found(case.name, pipeline, "the kernels", wrong.name, str(wrong))


def node_cases(match: str = "") -> Iterator[TvmCase]:
    """The node models of the onnx package whose inputs are tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    for case in cases:
        if case.model is None:
            continue
        arrays = case.data_sets[0][0] if case.data_sets else ()
        names = [i.name for i in case.model.graph.input]
        whole = all(isinstance(a, (np.ndarray, np.generic)) for a in arrays) and len(arrays) == len(names)
        if whole and match in case.name:
            yield TvmCase(case.name, case.model, dict(zip(names, map(np.asarray, arrays), strict=True)))


def main(argv: list[str] | None = None) -> int:
    """Run the campaign from the command line; the status is 1 if something was found."""
    parser = argparse.ArgumentParser(
        description="Judge the node models of the onnx package in apache-tvm, pass by pass."
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--match", default="")
    parser.add_argument("--pipeline", choices=PIPELINES, action="append")
    parser.add_argument("--part", default="1/1", help="K/N: each Nth case from the Kth on")
    given: Any = parser.parse_args(argv)
    k, n = (int(x) for x in given.part.split("/"))
    cases = [c for i, c in enumerate(node_cases(given.match)) if i % n == k - 1]
    campaign = TvmCampaign().run(cases, given.seconds, given.pipeline or PIPELINES)
    for found in campaign.found:
        sys.stdout.write(f"{found}\n")
    sys.stdout.write(f"{dict(campaign.counts)}\n")
    return 1 if campaign.found else 0


if __name__ == "__main__":
    sys.exit(main())
