"""The numbered rules of the chapters, the code that says that it does what they ask, and the programs that show them
(specs/verify.md, "Rules in step")."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.verify.conform.programs import Likeness, ProgramCase, RefusedText
from assay.verify.conform.reader import read_program
from tests.trees import nodes, parsed

ROOMS = ("semantics", "interp", "lower", "verify")
PROGRAMS = Path("verify") / "conform" / "programs"
CITED = re.compile(r"\brules? ((?:M\d+\.\d+[a-z]?)(?:(?:, | and )M\d+\.\d+[a-z]?)*)")
NUMBER = re.compile(r"M\d+\.\d+[a-z]?")
RULE = re.compile(r'^- <a id="([^"]+)"></a>(M\d+\.\d+[a-z]?) (.*(?:\n  .*)*)', re.MULTILINE)
BARE = re.compile(r"^- (M\d+\.\d+[a-z]?) ", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A program that names a rule: its file, its name there, and whether it must fail."""

    file: str
    name: str
    fails: bool


def rules(root: Path) -> dict[str, str]:
    """The text of each numbered rule of specs/semantics.md, by its number. ValueError: one has no anchor, another's, or
    comes twice."""
    text = (root / "specs" / "semantics.md").read_text(encoding="utf-8")
    if bare := BARE.findall(text):
        raise ValueError(f"rules without an anchor: {', '.join(bare)}")
    found: dict[str, str] = {}
    for anchor, number, said in RULE.findall(text):
        if anchor != number.lower() or number in found:
            raise ValueError(f"the anchor of {number} is {anchor}, or it comes twice")
        found[number] = said
    return found


def citations(root: Path) -> dict[str, list[str]]:
    """Where functions and classes of the product cite rules in their docstrings, by rule: `file:name`."""
    found: dict[str, list[str]] = {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            if PROGRAMS in path.relative_to(root).parents:
                continue
            source = path.read_text(encoding="utf-8")
            if not re.search(r"\brules?\s+M\d", source):
                continue
            for name, text in _docstrings(parsed(source)):
                for several in CITED.findall(re.sub(r"\s+", " ", text)):
                    for number in NUMBER.findall(several):
                        found.setdefault(number, []).append(f"{path.relative_to(root)}:{name}")
    return found


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, ast.get_docstring(node) or ""


def programs(root: Path) -> dict[str, list[Shown]]:
    """The programs that name rules, by rule."""
    found: dict[str, list[Shown]] = {}
    for path in sorted((root / PROGRAMS).rglob("*.py")):
        program = read_program(path)
        for one in [*program.cases.values(), *program.claims.values()]:
            for number in one.rules:
                shown = Shown(path.relative_to(root / PROGRAMS).as_posix(), one.name, must_fail(one))
                found.setdefault(number, []).append(shown)
    return found


def must_fail(one: ProgramCase | RefusedText | Likeness) -> bool:
    """Whether a program must fail: it traps, is refused, or has results, or a plan, that another meaning gives."""
    match one:
        case ProgramCase():
            return one.expected.fails
        case RefusedText():
            return True
        case Likeness():
            return not one.equal


def out_of_step(
    known: Mapping[str, str], cited: Mapping[str, list[str]], shown: Mapping[str, list[Shown]]
) -> list[str]:
    """What is missing, in words: rules without code, or without a program that succeeds, or one that fails; and numbers
    that are no rules."""
    faults: list[str] = []
    for number in known:
        if number not in cited:
            faults.append(f"{number}: no function cites it")
        for fails, what in ((False, "succeeds"), (True, "fails")):
            if not any(s.fails is fails for s in shown.get(number, [])):
                faults.append(f"{number}: no program names it that {what}")
    faults += [f"{n}: cited by {cited[n][0]}, and there is no such rule" for n in cited if n not in known]
    others = [n for n in shown if n not in known and n.startswith("M")]
    faults += [f"{n}: named by {shown[n][0].file}, and there is no such rule" for n in others]
    return faults
