"""A second solver's opinion of the texts of a proof: cvc5, where it is installed (specs/verify.md, "Memory plans")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from assay.semantics.errors import Invalid
from assay.verify.evidence import Evidence, plural, proved, refuted, unknown
from assay.verify.memory.solve import BEGIN, Answer, questions, solve

RLIMIT = 100_000_000
"""cvc5's resource limit for one text."""

ANSWERS: tuple[Answer, ...] = ("unsat", "sat", "unknown")


def available() -> bool:
    """Whether cvc5 can be imported."""
    return find_spec("cvc5") is not None


def cvc5_module() -> Any:
    """The Python module of cvc5. Invalid (smt.C1): it is not installed."""
    try:
        import cvc5
    except ModuleNotFoundError:
        raise Invalid("cvc5 is not installed: pip install 'assay[cvc5]'", label="smt.C1") from None
    return cvc5


def recheck_text(text: str) -> Answer:
    """cvc5's answer to a text: `unsat` if that is the answer to every question in it, else the gravest other one."""
    return whole_answer(recheck_questions(text))


def recheck_questions(text: str) -> list[Answer]:
    """cvc5's answer to each question of a text.

    Invalid (smt.C1): cvc5 is not installed; (smt.C2): it cannot read the text, or is asked nothing.
    """
    cvc5 = cvc5_module()
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("rlimit-per", str(RLIMIT))
    if BEGIN in text:
        solver.setOption("incremental", "true")
    parser = cvc5.InputParser(solver)
    said = ""
    try:
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
        while not (command := parser.nextCommand()).isNull():
            said += command.invoke(solver, parser.getSymbolManager())
    except RuntimeError as wrong:  # the errors of cvc5's own parser and solver
        raise Invalid(f"cvc5 cannot read the text: {wrong}", label="smt.C2") from None
    return answers(said.split(), len(questions(text)))


def answers(said: Sequence[str], asked: int) -> list[Answer]:
    """The answers that a solver printed. Invalid (smt.C2): there are not as many as questions, or others."""
    if len(said) != asked or not set(said) <= set(ANSWERS):
        raise Invalid(f"{plural(asked, 'answer')} of cvc5 are expected, not {' '.join(said)[:80]!r}", label="smt.C2")
    return [next(a for a in ANSWERS if a == word) for word in said]


def whole_answer(said: Sequence[Answer]) -> Answer:
    """The answer to a text from those to its questions."""
    return next((a for a in ("sat", "unknown", "unsat") if a in said), "unknown")


def second_opinion(queries: Mapping[str, str], *, holds: bool = True) -> Evidence:
    """Put the texts of a proof to z3 and to cvc5. Solvers that contradict each other are a failure, so is a text that
    is not `unsat` where the proof `holds`. What a solver does not know is counted, and is no agreement: then it is
    unknown.
    """
    undecided = []
    count: Counter[str] = Counter()
    for name, text in queries.items():
        said = recheck_questions(text)
        count.update(said)
        ours, theirs = solve(text).answer, whole_answer(said)
        if {ours, theirs} == {"sat", "unsat"}:
            return refuted("proved", f"the solvers disagree on {name}: z3 says {ours}, cvc5 {theirs}", query=name)
        if holds and "sat" in (ours, theirs):
            return refuted("proved", f"{name} is satisfiable, and was called proved", query=name)
        if holds and ours == "unknown":
            undecided.append(name)
        elif theirs == "unknown":
            undecided.append(name)
    agreed = f"cvc5 agrees on {plural(len(queries) - len(undecided), 'text')}"
    total = f"of {plural(count.total(), 'question')} it agrees on {count['unsat']}, leaves {count['unknown']} unknown"
    numbers: dict[str, Any] = {"questions": count.total(), "agrees": count["unsat"], "unknown": count["unknown"]}
    if undecided or not queries:
        what = f"{agreed}; not decided again by both: {', '.join(undecided) or 'there is no text'}; {total}"
        return unknown("proved", what, undecided=tuple(undecided), **numbers)
    return proved(f"{agreed}; {total}, and contradicts none", undecided=(), **numbers)
