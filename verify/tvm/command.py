"""`assay check MODEL --backend tvm --per-pass`, `--per-kernel`: inside apache-tvm (specs/verify.md, "Inside a
backend").

MODEL is an ONNX model, which TVM's frontend imports, or a module as TVMScript, which TVM reads itself. Exit codes: 0,
no pass and call that is judged changes the meaning, and what is undecided or not read is told; 1, one does.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from assay.interp.graph import evaluate
from assay.lower.frontends.onnx.model import import_onnx, load_model
from assay.lower.frontends.tvm import from_tvm
from assay.lower.frontends.tvm.objects import Object
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.files import read_text
from assay.semantics.module import Module
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.terminal import Screen
from assay.verify.app.text_run import run_inputs
from assay.verify.border.inputs import all_dims, complete
from assay.verify.border.onnx_defaults import with_given_defaults
from assay.verify.exits import Exit
from assay.verify.tvm.kernels import judge_calls
from assay.verify.tvm.passes import Judge, verdicts
from assay.verify.tvm.peer import PIPELINES, Array, from_onnx, from_script, frozen, relax, tvm_target
from assay.verify.tvm.watch import FINAL, NESTED, watch


@dataclass(frozen=True)
class TvmRequest:
    """The options of the command, as they were given."""

    model: Path
    per_pass: bool
    per_kernel: bool
    inputs: Mapping[str, Array] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0


def judge_inside(request: TvmRequest, backends: Sequence[str], out: Screen, as_json: bool) -> int:
    """Judge a model inside TVM in both of its pipelines, and say so; the exit code."""
    if list(backends) != ["tvm"]:
        raise Invalid("--per-pass and --per-kernel look inside one backend: --backend tvm", label="cli.C3")
    mod, arguments, meant = load_tvm(request)
    data: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"model": str(request.model), "seed": request.seed, "holds": True, "judged": data}
    with answering(answer):
        for pipeline in PIPELINES:
            trace = watch(mod, pipeline)
            if request.per_pass:
                passes = list(verdicts(trace, Judge(arguments, meant)))
                wrong = next((v for v in passes if v.wrong), None)
                data.append(
                    {"pipeline": pipeline, "passes": [asdict(v) for v in passes], "first": wrong and wrong.name}
                )
                lines = [str(v) for v in passes if v.how not in ("same", "begin")]
                say(
                    out,
                    as_json,
                    f"{pipeline}, {len(passes)} stages: {counted(v.how for v in passes)}",
                    lines,
                    str(wrong) if wrong else None,
                )
                answer["holds"] = both(answer["holds"], known(v.how for v in passes), wrong is not None)
            if request.per_kernel:
                report = judge_calls(trace, arguments, name=pipeline)
                first = report.first
                data.append(
                    {
                        "pipeline": pipeline,
                        "calls": [asdict(v) for v in report.verdicts],
                        "first": first and first.index,
                        "flow": report.flow,
                    }
                )
                lines = [str(v) for v in report.verdicts if v.how != "right"] + ([report.flow] if report.flow else [])
                say(
                    out,
                    as_json,
                    f"{pipeline}, {len(report.verdicts)} calls of kernels: {counted(v.how for v in report.verdicts)}",
                    lines,
                    str(first) if first else None,
                )
                answer["holds"] = both(answer["holds"], known(v.how for v in report.verdicts), first is not None)
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


def known(kinds: Iterator[str]) -> bool:
    """Whether something was shown, and nothing is undecided or was not read."""
    found = set(kinds)
    return bool(found & {"same", "rounded", "right"}) and "undecided" not in found


def both(before: bool | None, shown: bool, wrong: bool) -> bool | None:
    """True if all is shown, False if something is wrong, None if neither."""
    if before is False or wrong:
        return False
    return True if before and shown else None


def say(out: Screen, as_json: bool, head: str, lines: Sequence[str], wrong: str | None) -> None:
    """One table as lines: how many verdicts of each kind there are, those that are not plainly right, the first wrong
    one."""
    if as_json:
        return
    for line in (head, *(f"  {line}" for line in lines), *([f"FAILS first: {wrong}"] if wrong else [])):
        out.print(line)


def counted(kinds: Iterator[str]) -> str:
    """How often each kind occurs, as text."""
    return ", ".join(f"{n} {kind}" for kind, n in Counter(kinds).items())


def load_tvm(request: TvmRequest) -> tuple[Object, list[Any], Module | None]:
    """TVM's module, arguments for its `main`, and what it means where the model says that."""
    if request.model.suffix == ".py":
        mod = from_script(module_text(request.model))
        try:
            main = from_tvm(mod).main
        except (
            Unsupported
        ):  # an operator of Relax that our graph language does not have is a tensor function after this
            with tvm_target():
                main = from_tvm(relax().transform.LegalizeOps()(mod)).main
        types = {p.name: p.type for p in main.params}
        inputs = run_inputs(types, request.inputs, request.seed, request.dims)
        return mod, [inputs[p.name] for p in main.params], None
    taken = with_given_defaults(load_model(request.model), request.inputs, dict(request.dims))
    model, dims = taken.model, all_dims(taken.model, taken.inputs, request.dims)
    meant = import_onnx(model, evaluate=evaluate, dims=dims, source=request.model.name)
    inputs = complete(meant.main, taken.inputs, request.seed)
    model, left = frozen(model, inputs)
    if len(left) != len(inputs):  # TVM's frontend wants sizes, axes and scalars stored in the model
        meant = import_onnx(model, evaluate=evaluate, dims=dims, source=request.model.name)
    return from_onnx(model), [left[p.name] for p in meant.main.params], meant


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
