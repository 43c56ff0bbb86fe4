"""What a program's text claims beside its runs (specs/verify.md, "Programs with cases"): texts that are refused,
functions that are equal after a stage, how a run fails, and which rules a claim shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from assay.lower.anf import to_anf
from assay.lower.devices import plan_devices
from assay.semantics.analyses.equality import first_difference
from assay.semantics.bytecode import Bytecode
from assay.semantics.compilation import CompilationConfig
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.module import Module, Program
from assay.semantics.rules import check
from assay.semantics.text.module_text import entry_name, parse
from assay.semantics.text.source import Source
from assay.semantics.types import DataDef
from assay.verify.conform.literals import require_plain
from assay.verify.conform.programs import TRAPS, ExpectedResults, Likeness, ProgramText, RefusedText
from assay.verify.devices.erase import erase

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RULE = re.compile(r"(?:[a-z]+\.)?[A-Z]\d+(?:\.\d+)?[a-z]?")
"""The number of a rule: M5.3 of the chapter semantics, interp.E5 and vm.B3 of the others."""
LABEL = re.compile(r"\w+(?:\.\w+)*\.[CT]\d+")
CLAIMS = ("refused", "same", "differs")
STAGES: Mapping[str, Callable[[Module, CompilationConfig | None], Module]] = {
    "anf": lambda module, _: to_anf(module), "devices": plan_devices, "erased": lambda module, _: erase(module),
}  # fmt: skip
"""What may be done to a module before it is looked at."""


def case_name(source: Source, node: ast.expr) -> str:
    """The name of a case or claim. Invalid (case.C2): it is none."""
    name: str = require_plain(source, node, str, "the name of the case")
    if not NAME.fullmatch(name):
        raise source.error(node, "the name of a case is letters, digits and _, as in by_zero", "case.C2")
    return name


def read_rules(source: Source, node: ast.expr) -> tuple[str, ...]:
    """The rules in a text such as "M5.3 M1.2". Invalid (case.C1): one is no number of a rule."""
    found = tuple(require_plain(source, node, str, "the numbers of rules").split())
    for rule in found:
        if not RULE.fullmatch(rule):
            raise source.error(node, f"{rule!r} is no number of a rule, as M5.3 and vm.B4 are", "case.C1")
    return found


def read_failure(source: Source, node: ast.expr, member: str | None) -> ExpectedResults | None:
    """How a run is expected to fail: a trap, refused inputs, nothing that can be said; None where it is not. Invalid
    (case.C1, case.C5): it is not of this form."""
    if member not in ("trap", "invalid", "unpredictable"):
        return None
    assert isinstance(node, ast.Call)
    given = {k.arg: k.value for k in node.keywords}
    takes = {"trap": (1, {"says"}), "invalid": (1, set[str]()), "unpredictable": (0, set[str]())}[member]
    if len(node.args) != takes[0] or given.keys() - takes[1]:
        form = {
            "trap": 'a trap is A.trap("division by zero")', "invalid": 'refused inputs are A.invalid("input.C1")',
            "unpredictable": "A.unpredictable() takes nothing",
        }[member]  # fmt: skip
        raise source.error(node, form, "case.C1")
    if member == "unpredictable":
        return ExpectedResults(unpredictable=True)
    if member == "invalid":
        return ExpectedResults(invalid=_label(source, node.args[0]))
    kind = require_plain(source, node.args[0], str, "the kind of the trap")
    if kind not in TRAPS:
        raise source.error(node.args[0], f"no trap is called so; there are {', '.join(TRAPS)}", "case.C5")
    says = require_plain(source, given["says"], str, "words of the message") if "says" in given else ""
    return ExpectedResults(trap=kind, says=says)


def _label(source: Source, node: ast.expr) -> str:
    label: str = require_plain(source, node, str, "the label of a rule")
    if not LABEL.fullmatch(label):
        raise source.error(node, f"{label!r} is no label, as input.C1 is", "case.C1")
    return label


def read_claim(source: Source, call: ast.Call, module: Module) -> RefusedText | Likeness:
    """A claim beside the cases. Invalid (case.C1, case.C2): it is not of this form."""
    assert isinstance(call.func, ast.Attribute)
    member = call.func.attr
    forms = {
        "refused": 'A.refused("name", """TEXT""", label="graph.C2")',
        "same": 'A.same("name", "f", "g", after="anf")', "differs": 'A.differs("name", "f", "g", after="anf")',
    }  # fmt: skip
    more = {"label", "stage"} if member == "refused" else {"after"}
    takes = {*more, "devices", "rules", "source"}
    given = {k.arg or "": k.value for k in call.keywords}
    count = 2 if member == "refused" else 3
    if len(call.args) != count or given.keys() - takes or (member == "refused" and "label" not in given):
        raise source.error(call.func, f"this is {forms[member]}", "case.C1")
    name = case_name(source, call.args[0])
    rules = read_rules(source, given["rules"]) if "rules" in given else ()
    why: str = require_plain(source, given["source"], str, "a text") if "source" in given else ""
    devices: str = require_plain(source, given["devices"], str, "devices") if "devices" in given else ""
    if member == "refused":
        text: str = require_plain(source, call.args[1], str, "the text of a module")
        stage = _stages(source, given["stage"]) if "stage" in given else ()
        label = _label(source, given["label"])
        return RefusedText(name, text, label, stage, devices, rules, why, source.span(call))
    functions: list[str] = []
    for node in call.args[1:]:
        with source.at(node):
            functions.append(entry_name(module, require_plain(source, node, str, "the name of a function")))
    after = _stages(source, given["after"]) if "after" in given else ()
    return Likeness(name, functions[0], functions[1], member == "same", after, devices, rules, why, source.span(call))


def _stages(source: Source, node: ast.expr) -> tuple[str, ...]:
    found = tuple(require_plain(source, node, str, "the names of stages").split())
    for stage in found:
        if stage not in STAGES:
            raise source.error(node, f"there is no {stage!r} here; there are {', '.join(STAGES)}", "case.C1")
    return found


def read_devices(text: str) -> CompilationConfig | None:
    """The devices in a text such as "llvm; cuda; host llvm; default cuda"; None where it has none. Invalid: one is no
    device, or they do not go together."""
    words = [w.strip() for w in text.split(";") if w.strip()]
    roles = {w.split(" ", 1)[0]: w.split(" ", 1)[1] for w in words if w.startswith(("host ", "default "))}
    devices = [w for w in words if not w.startswith(("host ", "default "))]
    return CompilationConfig.read(devices, roles.get("host"), roles.get("default")) if words else None


# --- whether it is so -------------------------------------------------------------------------------------------------


def claim_faults(program: ProgramText, claim: RefusedText | Likeness) -> list[str]:
    """Where a claim does not hold, in words; nowhere if it does."""
    match claim:
        case RefusedText():
            return _not_refused(claim)
        case Likeness():
            return _other_than_said(program.module, claim)


def _not_refused(claim: RefusedText) -> list[str]:
    try:
        module = parse(claim.text, f"{claim.name} in the text")
        check(module)
        for stage in claim.stages:
            module = STAGES[stage](module, read_devices(claim.devices))
    except (Invalid, Unsupported) as wrong:
        return [] if wrong.label == claim.label else [f"expected is {claim.label}, and it is refused so: {wrong}"]
    return [f"expected is {claim.label}, and the text is a program"]


def _other_than_said(module: Module, claim: Likeness) -> list[str]:
    made = module
    for stage in claim.after:
        made = STAGES[stage](made, read_devices(claim.devices))
    one, other = made.definitions[claim.function], module.definitions[claim.other]
    assert not isinstance(one, Program | Bytecode | DataDef) and not isinstance(other, Program | Bytecode | DataDef)
    difference = first_difference(one, other)
    if claim.equal:
        return [] if difference is None else [f"{claim.function} and {claim.other} differ: {difference}"]
    return [f"{claim.function} and {claim.other} are equal"] if difference is None else []
