"""A second solver's opinion of the texts of a proof: cvc5, where it is installed (specs/verify.md, "Memory plans")."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from assay.semantics.errors import Invalid
from assay.verify.evidence import Evidence, plural, proved, refuted
from assay.verify.memory.solve import Answer, solve

RLIMIT = 100_000_000
"""cvc5's resource limit for one text."""

ANSWERS: tuple[Answer, ...] = ("unsat", "sat", "unknown")


def available() -> bool:
    """Whether cvc5 can be imported."""
    return find_spec("cvc5") is not None


def recheck(text: str) -> Answer:
    """cvc5's answer to a text. Invalid (smt.C1): cvc5 is not installed; (smt.C2): it cannot read the text."""
    try:
        import cvc5
    except ModuleNotFoundError:
        raise Invalid("cvc5 is not installed: pip install 'assay[cvc5]'", label="smt.C1") from None
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("rlimit-per", str(RLIMIT))
    parser = cvc5.InputParser(solver)
    said = ""
    try:
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
        while not (command := parser.nextCommand()).isNull():
            said += command.invoke(solver, parser.getSymbolManager())
    except RuntimeError as wrong:  # the errors of cvc5's own parser and solver
        raise Invalid(f"cvc5 cannot read the text: {wrong}", label="smt.C2") from None
    found = [a for a in ANSWERS if a == said.strip()]
    if not found:
        raise Invalid(f"the text asks cvc5 nothing, or more than once: {said.strip()!r}", label="smt.C2")
    return found[0]


def second_opinion(queries: Mapping[str, str], *, holds: bool = True) -> Evidence:
    """Put the texts of a proof to z3 and to cvc5. Solvers that contradict each other are a failure, so is a text that
    is not `unsat` where the proof `holds`. That cvc5 does not know is said, and is no contradiction."""
    undecided = []
    for name, text in queries.items():
        ours, theirs = solve(text).answer, recheck(text)
        if {ours, theirs} == {"sat", "unsat"}:
            return refuted("proved", f"the solvers disagree on {name}: z3 says {ours}, cvc5 {theirs}", query=name)
        if holds and "sat" in (ours, theirs):
            return refuted("proved", f"{name} is satisfiable, and the plan was called proved", query=name)
        if holds and ours == "unknown":
            return refuted("proved", f"z3 does not decide {name} again", query=name)
        if theirs == "unknown":
            undecided.append(name)
    agreed = plural(len(queries) - len(undecided), "text")
    rest = f"; it does not decide {', '.join(undecided)}" if undecided else ""
    return proved(f"cvc5 agrees on {agreed}{rest}", undecided=tuple(undecided))
