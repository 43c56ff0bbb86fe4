"""What there is to explain, and where it stands (specs/verify.md, "explain")."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from assay.semantics.errors import Invalid
from assay.semantics.ops import OPERATORS
from assay.verify import conform, exits
from assay.verify.app.stages import PASSES, STAGES
from assay.verify.explain.chapters import Passage, page_text, passages
from assay.verify.explain.search import search

LABEL = re.compile(r"[\w.]+\.[CT]\d+")
NUMBER = re.compile(r"(?:(\w+)\.)?([A-Z]\d+(?:\.\d+)?[a-z]?)")
QUESTIONS = "specs/semantics.md#questions"
"""Short answers; what has most of the words of such a question is shown after it."""
MOST = 8
"""Passages that one word gets at most."""
MOST_NAMES = 6
"""Names that an unknown word gets."""


@dataclass(frozen=True)
class Explanation:
    """One thing that a word means: its kind, its name, where it stands, and its text in Markdown."""

    kind: str
    name: str
    where: str
    text: str


def explain(word: str) -> list[Explanation]:
    """What a word means, what it is first of all first. Invalid (explain.C1), with the nearest names: nothing is called
    so."""
    wanted = word.strip().strip("`")
    found: list[Explanation] = []
    for part in (_operators, _labels, _numbers, _passes, _codes, _named, _spelled, _holding):
        if part in (_spelled, _holding) and any(one.where != QUESTIONS for one in found):
            break
        for one in part(wanted):
            if all((one.where, one.text) != (other.where, other.text) for other in found):
                found.append(one)
    if not found:
        near = nearest(wanted)
        beside = f"; near it: {', '.join(near)}" if near else ""
        raise Invalid(f"nothing is called {word!r}{beside}", label="explain.C1")
    return found[:MOST]


def nearest(word: str) -> list[str]:
    """Names of things near a word, by letters or because they have it in them."""
    known = {n.lower(): n for n in known_names()}
    inside = [n for low, n in known.items() if len(word) > 2 and word.lower() in low]
    close = [known[n] for n in get_close_matches(word.lower(), known, MOST_NAMES, 0.7)]
    return list(dict.fromkeys([*close, *inside]))[:MOST_NAMES]


@cache
def known_names() -> tuple[str, ...]:
    """All that can be asked for."""
    stages = [s.name for s in (*STAGES, *PASSES)]
    labels = re.findall(r"^\| ([\w.*]+\.[CT]\d+) \|", page_text("labels.md"), re.MULTILINE)
    others = [p.name for p in passages() if len(p.name) < 60]
    return tuple(dict.fromkeys([*OPERATORS, *stages, *labels, *others]))


def _operators(word: str) -> Iterator[Explanation]:
    """The operator of that name, of ours, of ONNX or of TVM, with or without `nn.`."""
    low = word.lower().removeprefix("r.")
    for op in sorted(OPERATORS.values(), key=lambda op: op.name.lower() != low):
        if low in (op.name.lower(), op.name.lower().removeprefix("nn."), op.onnx.lower(), op.relax.lower()):
            where = f"specs/operators/{op.name}.md"
            yield Explanation(
                "operator", op.name, where, page_text(f"operators/{op.name}.md") or f"{op.name}: {op.doc}"
            )


def _labels(word: str) -> Iterator[Explanation]:
    """The label's row, and the passages that name it."""
    if not LABEL.fullmatch(word):
        return
    name, _, number = word.rpartition(".")
    file = _value_file(name)
    for row in page_text("labels.md").splitlines():
        if row.startswith((f"| {word} |", f"| *.{number} |")):
            cells = [c.strip().replace("<br>", "; ") for c in re.split(r"(?<!\\)\|", row)[1:-1]]
            if cells[0] == word or (file and file in cells[2].split("; ")):
                what = "refused before anything runs" if ".C" in word else "a trap of a run"
                message = f"`{cells[1]}`" if cells[1] else "what the caller says"
                text = f"**{word}**: {what}.\n\n- Message: {message}\n- Raised in: `{cells[2]}`"
                yield Explanation("label", word, "specs/labels.md", text)
    named = re.compile(rf"(?<![\w.]){re.escape(word)}(?!\d)")
    if name in OPERATORS and number in OPERATORS[name].constraints:
        text = f"**{word}**: {name} requires: {OPERATORS[name].constraints[number]}."
        yield Explanation("label", word, f"specs/operators/{name}.md", text)
    for p in passages():
        if p.kind != "section" and named.search(p.text):
            yield _of(p)


def _value_file(name: str) -> str:
    """Where the value of an operator that can trap stands; "" for other names. What several say by one line of the
    source, such as `max.T1`, stands in the table of labels as `*.T1`, with these files."""
    op = OPERATORS.get(name)
    return op.value.__module__.removeprefix("assay.").replace(".", "/") + ".py" if op and op.can_trap else ""


def _numbers(word: str) -> Iterator[Explanation]:
    """The rules of that number, of one chapter where it is said, with the programs that show them."""
    said = NUMBER.fullmatch(word[:1].upper() + word[1:] if word[1:2].isdigit() else word)
    if said is None:
        return
    chapter, number = said.groups()
    for p in passages():
        if p.kind == "rule" and p.name == number and chapter in (None, p.page.removesuffix(".md")):
            text = p.text
            shown = list(_programs(number))
            if shown and p.page == "semantics.md":
                text += "\n\nPrograms (`assay conform --suite assay`):\n\n" + "\n".join(shown)
            yield Explanation("rule", number, p.where, text)
    for p in passages():
        if p.kind == "section" and p.name.split(" ")[0] == number:
            yield _of(p)


def _programs(number: str) -> Iterator[str]:
    """Items of a list: the programs that name a rule, what they must come to, and why."""
    for path in sorted((Path(str(conform.__file__)).parent / "programs" / "rules").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if number not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                given = {k.arg: k.value for k in node.value.keywords}
                rules = given.get("rules")
                if isinstance(rules, ast.Constant) and number in str(rules.value).split():
                    name = ast.literal_eval(node.value.args[0])
                    why = ast.literal_eval(given["source"]) if "source" in given else ""
                    yield f"- {path.stem}/{name}: `{_expected(node.value, given)}`" + (f", {why}" if why else "")


def _expected(call: ast.Call, given: dict[str | None, ast.expr]) -> str:
    if "expect" in given:
        return ast.unparse(given["expect"])
    assert isinstance(call.func, ast.Attribute)
    label = f" by {ast.literal_eval(given['label'])}" if "label" in given else ""
    after = f" after {ast.literal_eval(given['after'])}" if "after" in given else ""
    return f"{call.func.attr}{label}{after}"


def _passes(word: str) -> Iterator[Explanation]:
    """The stage or optional pass of that name, and its sections."""
    for stage in (*STAGES, *PASSES):
        if stage.name == word:
            place = (
                f"optional, behind {stage.behind} and before {stage.before}" if stage.behind else "of every lowering"
            )
            text = f"**{stage.name}** is a stage, {place}.\n\n- Ensures: {stage.ensures}\n- Checked: {stage.how}"
            yield Explanation("pass", stage.name, "verify/app/stages.py", text)


def _codes(word: str) -> Iterator[Explanation]:
    """The exit code of that number or name, with what its source says of it."""
    body = next(n for n in ast.parse(inspect.getsource(exits)).body if isinstance(n, ast.ClassDef)).body
    for assigned, said in itertools.pairwise(body):
        match assigned, said:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(why))):
                code = exits.Exit[name]
                if word == str(int(code)) or word.upper() == name:
                    verdicts = [v for v, c in exits.OF_OUTCOME.items() if c is code]
                    text = f"Exit code **{int(code)}**: {why}"
                    text += f"\n\nVerdicts that end with it: {', '.join(verdicts)}." if verdicts else ""
                    yield Explanation("exit code", str(int(code)), "verify/exits.py", text)


def _named(word: str) -> Iterator[Explanation]:
    """Rows and sections of that name, whatever the case; rows of the glossary first."""
    low = word.lower()
    stages = {s.name for s in (*STAGES, *PASSES)}
    rows = [p for p in passages() if p.kind == "row" and p.name.lower() == low]
    rows = [p for p in rows if low not in stages or p.anchor != "stages"]  # what the pass says itself
    yield from map(_of, sorted(rows, key=lambda p: p.page != "glossary.md"))
    for p in passages():
        if p.kind in ("section", "guide") and low in (
            p.name.lower(),
            p.name.lower().partition(" ")[2] if p.name[1:2].isdigit() else "",
        ):
            yield _of(p)


def _spelled(word: str) -> Iterator[Explanation]:
    """The operators that another language spells so, by the tables of their pages."""
    spelling = re.compile(rf"`(?:[\w.]+\.)?{re.escape(word)}`", re.IGNORECASE)
    for op in OPERATORS.values():
        text = page_text(f"operators/{op.name}.md")
        table = text.partition("## In other languages")[2].partition("\n## ")[0]
        if spelling.search(table):
            yield Explanation("operator", op.name, f"specs/operators/{op.name}.md", text)


def _holding(words: str) -> Iterator[Explanation]:
    """What has most of several words."""
    for p in search(words):
        yield Explanation(p.kind, p.name, p.where, p.text)


def _of(p: Passage) -> Explanation:
    return Explanation("word" if p.kind == "row" else p.kind, p.name, p.where, p.text)
