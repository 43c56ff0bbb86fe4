"""TVM's passes and pipelines by the names that a person types, and compiling by them (specs/verify.md, "Backends").

plan = plan_of("FoldConstant,FuseOps(1),tirx.transform.UnrollLoop", target)
machine = compile_plan(mod, plan, target)                       # CompileFailed names the pass that fails
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from assay.semantics.errors import Invalid, Unsupported
from assay.verify.app.foreign import Raised, python_object

HOUSES = ("relax.transform", "relax.backend", "tirx.transform", "s_tir.transform", "transform")
"""Where a pass is looked for by its name alone."""
OPTIONS = "PassContext"
WHOLE = "_plan"
"""The pass that runs all others of a plan, as instruments see it."""
LAST = "VMShapeLower"
"""The pass that every way to TVM's machine has: where it has not run, the default pipeline follows."""
LONGEST = 300
"""Characters of what TVM says that are kept."""


@dataclass(frozen=True)
class Step:
    """One pass or pipeline as it was written: its name, and the arguments that it is made with."""

    text: str
    name: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PassPlan:
    """How a module is compiled: passes of Relax and TIR in order, the name of a pipeline of TIR, and the options of
    TVM's PassContext."""

    passes: tuple[Any, ...]
    tir: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)


class CompileFailed(Unsupported):
    """TVM does not compile a module (backend.C2). `within` has the passes that were running, the innermost last; none
    where it was the code generator. `raised` is what TVM raised."""

    def __init__(self, within: Sequence[str], raised: BaseException) -> None:
        self.within, self.raised = tuple(within), Raised(raised)
        super().__init__(f"TVM does not compile this module: {self.part} fails: {self.said}", label="backend.C2")

    @property
    def _named(self) -> list[str]:
        return [n for n in self.within if not n.startswith("_") and n != "sequential"]

    @property
    def culprit(self) -> str:
        """What failed: a pass by its name, or the code generator."""
        return self._named[-1] if self._named else "the code generator"

    @property
    def part(self) -> str:
        """What failed, in words, and the pass around it if that has a name that says something."""
        if not self._named:
            return self.culprit
        return f"the pass {self.culprit}" + (f" inside of {self._named[-2]}" if self._named[1:] else "")

    @property
    def said(self) -> str:
        """What TVM says, on one line."""
        text = str(self.raised)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


# --- what is typed


def steps_of(text: str) -> tuple[Step, ...]:
    """The passes and pipelines of a list such as `FoldConstant,FuseOps(1)`, as Python writes it, with literals alone
    as arguments. Nothing is run. Invalid (backend.C3) where it is not of this form."""
    try:
        tree = ast.parse(f"({text},)", mode="eval").body
        elements = tree.elts if isinstance(tree, ast.Tuple) else []
        if not elements:
            raise ValueError
        return tuple(map(_step, elements))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise Invalid(
            f"{text!r} are no passes of TVM: names with commas between them, and arguments as in Python, literals"
            " alone, such as FoldConstant,FuseOps(fuse_opt_level=1),tirx.transform.UnrollLoop",
            label="backend.C3",
        ) from None


def _step(node: ast.expr) -> Step:
    of = node.func if isinstance(node, ast.Call) else node
    parts: list[str] = []
    while isinstance(of, ast.Attribute):
        parts.append(of.attr)
        of = of.value
    if not isinstance(of, ast.Name):
        raise ValueError
    name = ".".join([of.id, *reversed(parts)])
    if not isinstance(node, ast.Call):
        return Step(name, name)
    options = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg is not None}
    if len(options) != len(node.keywords):
        raise ValueError
    return Step(ast.unparse(node), name, tuple(map(ast.literal_eval, node.args)), options)


# --- what TVM has


def plan_of(steps: Sequence[Step], target: Any) -> PassPlan:
    """What the steps stand for in TVM. Invalid (backend.C3): TVM has no such pass, several of the name, or does not
    make it of these arguments; or there are two pipelines of TIR, or two contexts."""
    passes: list[Any] = []
    others: dict[str, Step] = {}
    for step in steps:
        kind = OPTIONS if step.name == OPTIONS else "TIR" if _is_tir_pipeline(step) else ""
        if kind and kind in others:
            raise Invalid(f"{others[kind].text} and {step.text}: one of these, not two", label="backend.C3")
        if kind:
            others[kind] = step
        else:
            passes.append(_pass(step, target))
    options = _options(others[OPTIONS]) if OPTIONS in others else {}
    return PassPlan(tuple(passes), others["TIR"].name if "TIR" in others else "default", options)


def _tvm() -> Any:
    return importlib.import_module("tvm")


def _relax_pipelines() -> Mapping[str, Any]:
    return importlib.import_module("tvm.relax.pipeline").PIPELINE_MAP  # type: ignore[no-any-return]


def _is_tir_pipeline(step: Step) -> bool:
    if step.name in _relax_pipelines() or step.arguments or step.options:
        return False
    return step.name in importlib.import_module("tvm.tirx.compilation_pipeline").PIPELINE_MAP


def _options(step: Step) -> Mapping[str, Any]:
    if step.arguments or step.options.keys() - {"opt_level", "required_pass", "disabled_pass", "config"}:
        raise Invalid(
            f"{step.text}: PassContext takes opt_level, required_pass, disabled_pass and config, by name",
            label="backend.C3",
        )
    try:
        _tvm().transform.PassContext(**step.options)
    except Exception as wrong:
        raise _refused(step, wrong) from wrong
    return step.options


def _pass(step: Step, target: Any) -> Any:
    """A pass of TVM, or of somebody's own module."""
    made = _named(step.name, target)
    kind = _tvm().transform.Pass
    if not isinstance(made, kind):
        if not callable(made):
            raise Invalid(f"{step.name} is a {type(made).__name__}, no pass of TVM", label="backend.C3")
        try:
            with target:
                made = made(*step.arguments, **step.options)
        except Exception as wrong:
            raise _refused(step, wrong) from wrong
    elif step.arguments or step.options:
        raise Invalid(f"{step.name} is a pass already, and takes no arguments", label="backend.C3")
    if not isinstance(made, kind):
        raise Invalid(f"{step.text} gives a {type(made).__name__}, no pass of TVM", label="backend.C3")
    return made


def _refused(step: Step, wrong: Exception) -> Invalid:
    return Invalid(f"TVM does not take {step.text}: {str(Raised(wrong))[:LONGEST]}", label="backend.C3")


def _named(name: str, target: Any) -> Any:
    """What TVM has by this name, or Python has. Invalid (backend.C3): neither does, or there are several."""
    if name in _relax_pipelines():
        return _relax_pipelines()[name]
    if name == "cpu":
        return lambda: _tvm().relax.get_default_pipeline(target)
    found = {place: made for place in _places(name) if (made := _at(place)) is not None}
    if len({id(made) for made in found.values()}) > 1:
        raise Invalid(f"{name} may be {' or '.join(found)}: say which", label="backend.C3")
    if found:
        return next(iter(found.values()))
    if "." not in name:
        raise Invalid(_unknown(name), label="backend.C3")
    try:
        return python_object(f"the pass {name}", name)
    except Invalid as wrong:
        raise Invalid(
            f"{_unknown(name)}; nor is there such a Python object: {wrong.message}", label="backend.C3"
        ) from None


def _places(name: str) -> list[str]:
    """Where a name may be: `FuseOps`, `relax.transform.FuseOps`, or as TVM calls its passes, `tirx.UnrollLoop`."""
    if "." not in name:
        return [f"{house}.{name}" for house in HOUSES]
    name = name.removeprefix("tvm.")
    house, _, last = name.rpartition(".")
    return [name, f"{house}.transform.{last}"]


def _at(place: str) -> Any:
    """What the package `tvm` has there; a pass that only its C++ part has, too."""
    found = _tvm()
    for part in place.split("."):
        found = getattr(found, part, None)
    return found if found is not None else _tvm().get_global_func(place, allow_missing=True)


def _unknown(name: str) -> str:
    has = {*_relax_pipelines(), "cpu"}
    for house in HOUSES:
        has.update(n for n in dir(_at(house)) if n[0].isupper())
    near = get_close_matches(name.rpartition(".")[2], sorted(has), 3)
    return f"TVM {_tvm().__version__} has no pass or pipeline {name!r}" + (
        f"; there is {', '.join(near)}" if near else ""
    )


# --- compiling


class Running:
    """An instrument of TVM: which passes run, one inside of the other, and which have ended."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.ended: set[str] = set()

    def run_before_pass(self, module: Any, info: Any) -> None:
        """A pass begins."""
        self.open.append(str(info.name))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """A pass has ended; passes that failed inside of it, and that it went on after, have too."""
        name = str(info.name)
        del self.open[innermost(self.open, name) :]
        self.ended.add(name)


def innermost(running: Sequence[str], name: str) -> int:
    """Where the pass of that name stands among those that run, one inside of the other: the last of its name."""
    return max(i for i, n in enumerate(running) if n == name)


def compile_plan(mod: Any, plan: PassPlan, target: Any, instruments: Sequence[Any] = ()) -> Any:
    """The virtual machine of a module that is compiled by a plan, for the CPU. CompileFailed (backend.C2) where TVM
    does not compile it, which names the pass."""
    tvm = _tvm()
    running = tvm.ir.instrument.pass_instrument(Running)()

    def passes(module: Any, _: Any) -> Any:
        for each in plan.passes:
            module = each(module)
        return module if LAST in running.ended else _relax_pipelines()["default"]()(module)

    whole = tvm.transform.module_pass(passes, opt_level=0, name=WHOLE)
    try:
        with tvm.transform.PassContext(instruments=[running, *instruments], **plan.options):
            code = tvm.compile(mod, target, relax_pipeline=whole, tir_pipeline=plan.tir)
    except Exception as wrong:
        # it raises whatever its parts happen to raise
        raise CompileFailed(running.open, wrong) from wrong
    return tvm.relax.VirtualMachine(code, tvm.cpu())
