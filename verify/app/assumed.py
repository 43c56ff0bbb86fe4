"""What a run of checks rests on and does not show: `assay verify` prints it (specs/verify.md, "Certificate")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assay.verify.app.check import Line


@dataclass(frozen=True)
class Assumption:
    """Something that is taken to be so: a sentence, and where in the sources it stands. `stages` are the lines that
    rest on it; none: all do."""

    sentence: str
    place: str
    stages: tuple[str, ...] = ()

    def as_data(self) -> dict[str, str]:
        """For JSON."""
        return {"assumed": self.sentence, "place": self.place}


NUMBERED = ("anf", "constants", "schedule", "liveness", "vm", "fuse")
SOLVED = ("constants", "pool", "vm", "legalize", "fuse", "c")

ASSUMPTIONS = (
    Assumption("an operator means what its value in NumPy says", "semantics/ops/"),
    Assumption(
        "a scalar operation means what the scalar table says, a statement what its rule says",
        "semantics/scalar/arithmetic.py; specs/semantics.md",
    ),
    Assumption("Python, NumPy and this machine compute what they say", "pyproject.toml"),
    Assumption(
        "the model's operators are imported as its standard means; how each rule is known: assay prove MODEL --rules",
        "lower/frontends/; verify/frontends/onnx_rules.csv",
        ("import",),
    ),
    Assumption(
        "equal operations on equal operands give equal values, and fail alike",
        "verify/value_numbering/",
        NUMBERED,
    ),
    Assumption(
        "a function of NumPy does to arrays of terms what its rule says, and what holds bit for bit of terms does",
        "verify/operator_terms/rules.py; verify/operator_terms/exact.py",
        ("legalize", "fuse"),
    ),
    Assumption(
        "an operator that is proved for all sizes means what its index notation says; that this is its value in NumPy"
        " is shown at small sizes",
        "semantics/indexed/",
        ("legalize",),
    ),
    Assumption(
        "floats may be added and multiplied in any order where rule M9 says so",
        "specs/semantics.md, M9",
        ("legalize",),
    ),
    Assumption("where z3 says unsat, nothing satisfies the text", "verify/memory/solve.py", SOLVED),
    Assumption(
        "where each buffer lies next to another all its life, none overlap",
        'specs/verify.md, "Memory plans", P2',
        ("pool", "constants"),
    ),
    Assumption(
        "the C compiler, its flags and the C library compute what the C says",
        "verify/c/",
        ("c",),
    ),
    Assumption(
        "what is read back of the C means what the reader says that C11 says",
        "verify/c/reading/",
        ("c",),
    ),
    Assumption(
        "the C is given buffers of the sizes and alignments that its header says, and nobody else writes to them",
        "specs/lower.md; the header",
        ("c",),
    ),
)


def assumed(lines: Iterable[Line]) -> list[Assumption]:
    """What these lines rest on."""
    how = {line.stage: line.evidence.how for line in lines}
    found = [a for a in ASSUMPTIONS if not a.stages or not how.keys().isdisjoint(a.stages)]
    tested = [stage for stage, known in how.items() if known == "tested"]
    if tested:
        names = " and ".join([*([", ".join(tested[:-1])] if tested[1:] else []), tested[-1]])
        found.append(Assumption(f"what was tested alone holds of inputs that were not run: {names}", "the lines above"))
    return found
