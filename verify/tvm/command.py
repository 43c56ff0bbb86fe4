"""`assay check MODEL --backend tvm --per-pass`, `--per-kernel`: inside apache-tvm (specs/verify.md, "Inside a
backend").

MODEL is an ONNX model, which TVM's frontend imports, or a module as TVMScript, which TVM reads itself. Exit codes: 0,
no pass and call that is judged changes the meaning, and what is undecided or not read is told; 1, one does.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx, load_model
from assay.lower.frontends.tvm.objects import Object, unique_name
from assay.lower.frontends.tvm.scalars import VariableTable
from assay.lower.frontends.tvm.types import Types
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid
from assay.semantics.files import read_text
from assay.semantics.module import Module
from assay.semantics.types import Type
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.junit import TestCase, write_junit
from assay.verify.app.terminal import Screen
from assay.verify.app.text_run import run_inputs
from assay.verify.backends.apache_tvm import Tvm
from assay.verify.backends.registry import of_ours
from assay.verify.border.files import require_file_place
from assay.verify.border.inputs import all_dims, complete
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.exits import Exit
from assay.verify.oracle.data import every_code, is_small
from assay.verify.tvm.kernels import judge_calls
from assay.verify.tvm.passes import Judge, verdicts
from assay.verify.tvm.peer import PIPELINES, Array, from_onnx, from_script, frozen, main_of, pipeline_of
from assay.verify.tvm.watch import FINAL, NESTED, Compilation, watch


@dataclass(frozen=True)
class TvmRequest:
    """The options of the command, as they were given."""

    model: Path
    per_pass: bool
    per_kernel: bool
    inputs: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    junit: Path | None = None


def judge_inside(request: TvmRequest, backends: Sequence[str], out: Screen, as_json: bool) -> int:
    """Judge a model inside TVM, by the passes that each backend names (both pipelines of `tvm`), and say so; the exit
    code. Invalid: a backend is not TVM (cli.C3), or TVM has no such passes (backend.C3)."""
    pipelines = pipelines_of(backends)
    if request.junit is not None:
        require_file_place(request.junit)
    cases: list[TestCase] = []
    for pipeline in pipelines:
        pipeline_of(pipeline)
    mod, arguments, meant = load_tvm(request)
    data: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"model": str(request.model), "seed": request.seed, "holds": True, "judged": data}
    with answering(answer):
        for pipeline in pipelines:
            trace = watch(mod, pipeline)
            for lines in judged_inside(request, trace, pipeline, arguments, meant):
                data.append({"pipeline": pipeline, **lines.data})
                cases += [TestCase(f"{pipeline}, {lines.what}", *case) for case in lines.cases]
                answer["holds"] = both(answer["holds"], known(lines.hows), lines.wrong is not None)
                if not as_json:
                    say(out, pipeline, lines)
    if request.junit is not None:
        write_junit(request.junit, f"inside of TVM, {request.model}", cases)
    ends = (
        f"not judged one by one: passes inside of {', '.join(NESTED)}, which compile functions of their own, and those"
        f" from {FINAL} on, where a tensor function takes handles; what they do shows in the stage around them and in"
        " what the compiled code gives. A stage that calls an extern is not read"
    )
    if as_json:
        write_answer({**answer, "note": ends})
    elif request.per_pass:
        out.print(ends)
    return Exit.HOLDS if answer["holds"] else Exit.WRONG if answer["holds"] is False else Exit.UNDECIDED


def pipelines_of(backends: Sequence[str]) -> list[str]:
    """What is judged of the backends `tvm` and `tvm:LIST`: passes and pipelines by name. Invalid (cli.C3): another
    backend."""
    if not backends or any(not isinstance(of_ours(b), Tvm) for b in backends):
        raise Invalid(
            "--per-pass and --per-kernel look inside TVM: --backend tvm, or --backend tvm:PASS,PASS,...", label="cli.C3"
        )
    found = [name for b in backends for name in ([b.partition(":")[2]] if ":" in b else PIPELINES)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class JudgedLines:
    """What is said of one pipeline: of how many things there are verdicts, their words, a line for each that is told,
    the first that is wrong, and all as data."""

    what: str
    hows: tuple[str, ...]
    told: Sequence[str]
    wrong: str | None
    data: dict[str, Any]
    cases: Sequence[tuple[str, str, str]] = ()
    """Each as a test: its name, a word of the ladder of verdicts, what is said."""


def require_none_of(options: Sequence[str]) -> None:
    """Invalid (cli.C3): one of these options is given, of which nothing is known inside of TVM."""
    if options:
        raise Invalid(
            f"{', '.join(options)}: --per-pass and --per-kernel take --inputs, --dim, --seed, --junit and --json alone",
            label="cli.C3",
        )


LADDER = {
    **dict.fromkeys(("changed", "refused", "fails", "wrong", "overwritten"), "wrong"),
    **dict.fromkeys(("undecided", "not read", "not judged", "undefined"), "undecided"),
}
"""What the verdicts inside of TVM are on the ladder; others are right."""


def case_of(name: str, how: str, detail: str) -> tuple[str, str, str]:
    """A verdict as a test."""
    return name, LADDER.get(how, "right"), f"{how}: {detail}"


def judged_inside(
    request: TvmRequest, trace: Compilation, pipeline: str, arguments: list[Any], meant: Module | None
) -> Iterator[JudgedLines]:
    """The verdicts on the passes of a compilation and on the calls of its kernels, as they are asked for."""
    if request.per_pass:
        passes = tuple(verdicts(trace, Judge(arguments, meant)))
        wrong = next((v for v in passes if v.wrong), None)
        told = [str(v) for v in passes if v.how != "same" and (v.how != "begin" or v.detail)]
        idle = trace.idle()
        told += [f"changed nothing: {', '.join(idle)}"] if idle else []
        data: dict[str, Any] = {"passes": [asdict(v) for v in passes], "first": wrong and wrong.name, "idle": idle}
        cases = [case_of(v.name, v.how, v.detail) for v in passes]
        yield JudgedLines("stages", tuple(v.how for v in passes), told, str(wrong) if wrong else None, data, cases)
    if request.per_kernel and trace.failed is not None:
        if not request.per_pass:
            failed = f"{trace.failed.culprit}: fails: {trace.failed.said}"
            cases = [case_of(trace.failed.culprit, "fails", trace.failed.said)]
            yield JudgedLines("calls of kernels", (), [], failed, {"calls": [], "failed": failed}, cases)
    elif request.per_kernel:
        report = judge_calls(trace, arguments, name=pipeline)
        first = report.first
        told = [str(v) for v in report.verdicts if v.how != "right"] + ([report.flow] if report.flow else [])
        data = {"calls": [asdict(v) for v in report.verdicts], "first": first and first.index, "flow": report.flow}
        hows = tuple(v.how for v in report.verdicts)
        cases = [case_of(f"call {v.index} of {v.name}", v.how, v.detail) for v in report.verdicts]
        yield JudgedLines("calls of kernels", hows, told, str(first) if first else None, data, cases)


def known(kinds: Iterable[str]) -> bool:
    """Whether something was shown, nothing is undecided, and both ends were read: the module itself and what is made of
    it."""
    found = list(kinds)
    shown = bool({*found} & {"same", "rounded", "right"}) and "undecided" not in found
    return shown and "not read" not in (found[0], found[-1])


def both(before: bool | None, shown: bool, wrong: bool) -> bool | None:
    """True if all is shown, False if something is wrong, None if neither."""
    if before is False or wrong:
        return False
    return True if before and shown else None


def say(out: Screen, pipeline: str, judged: JudgedLines) -> None:
    """One table as lines: how many verdicts of each kind there are, those that are not plainly right, the first wrong
    one."""
    counts = counted(iter(judged.hows))
    out.print(f"{pipeline}, {len(judged.hows)} {judged.what}" + (f": {counts}" if counts else ""))
    for line in judged.told:
        out.print(f"  {line}")
    if judged.wrong:
        out.print(f"FAILS first: {judged.wrong}")


def counted(kinds: Iterator[str]) -> str:
    """How often each kind occurs, as text."""
    return ", ".join(f"{n} {kind}" for kind, n in Counter(kinds).items())


def load_tvm(request: TvmRequest) -> tuple[Object, list[Any], Module | None]:
    """TVM's module, arguments for its `main`, and what it means where the model says that."""
    if request.model.suffix == ".py":
        mod = from_script(module_text(request.model))
        inputs = run_inputs(main_types(mod), request.inputs, request.seed, request.dims)
        return mod, list(with_codes(inputs, request).values()), None
    taken = with_given_defaults(load_model(request.model), request.inputs, dict(request.dims))
    model, dims = taken.model, all_dims(taken.model, taken.inputs, request.dims)
    meant = import_onnx(model, evaluate=evaluate, dims=dims, source=request.model.name)
    inputs = with_codes(complete(meant.main, taken.inputs, request.seed), request)
    model, left = frozen(model, inputs)
    if len(left) != len(inputs):  # TVM's frontend wants sizes, axes and scalars stored in the model
        meant = import_onnx(model, evaluate=evaluate, dims=dims, source=request.model.name)
    return from_onnx(model), [left[p.name] for p in meant.main.params], meant


def with_codes(inputs: Mapping[str, Any], request: TvmRequest) -> dict[str, Any]:
    """Inputs in which floats of 8 bits that are not given have every code."""
    rng = np.random.default_rng(request.seed)
    return {
        n: every_code(rng, v.shape, dtype(v.dtype))
        if n not in request.inputs and isinstance(v, np.ndarray) and is_small(dtype(v.dtype))
        else v
        for n, v in inputs.items()
    }


def main_types(mod: Object) -> dict[str, Type]:
    """The types that `main` declares for its parameters, by name; nothing else of the module is read."""
    types, names = Types(VariableTable(), "main"), set[str]()
    return {unique_name(str(p.name), names): types.read(p.ty) for p in main_of(mod).params}


def module_text(path: Path) -> str:
    """The last class or function of a file of TVMScript that has a decorator: TVM reads that alone, nothing is run."""
    try:
        text = read_text(path)
        tree = ast.parse(text)
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as wrong:
        raise Invalid(f"cannot be read as Python: {wrong}", where=str(path), label="text.C1") from None
    found = [n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.decorator_list]
    if not found:
        raise Invalid(
            "there is no module in it: a class with the decorator @I.ir_module", where=str(path), label="text.C1"
        )
    first = min(d.lineno for d in found[-1].decorator_list)
    body = text.splitlines()[first - 1 : found[-1].end_lineno]
    return "\n".join(["# from tvm.script import ir as I, relax as R, tirx as T", *body, ""])
