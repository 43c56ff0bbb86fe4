"""What a check says (specs/verify.md, "Evidence")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from assay.semantics.compilation import CompilationConfig
from assay.verify.exits import OF_OUTCOME, Exit

How = Literal["proved", "checked", "tested"]
"""*proved*: for every input, by value numbering or by z3. *checked*: every claim of the stage, on the stage's own
output. *tested*: on the inputs of this run."""


@dataclass(frozen=True)
class Evidence:
    """One verdict. `holds` is None where nothing was shown either way. `detail` says what was shown or, where it does
    not hold, what is wrong and where. `outcome` is the verdict on a backend's run, such as "undecided"; "" for a stage
    of ours.
    """

    how: How
    holds: bool | None
    detail: str
    data: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""

    @property
    def exit(self) -> Exit:
        """The exit code of a command that has only this to say."""
        if self.outcome:
            return OF_OUTCOME[self.outcome]
        if self.holds is None:
            return Exit.UNKNOWN if self.how == "proved" else Exit.UNDECIDED
        return Exit.HOLDS if self.holds else Exit.WRONG

    @property
    def word(self) -> str:
        """What the line of a table says: how it is known, or that it fails, or that it is not known."""
        if self.holds is None:
            return self.outcome or "unknown"
        return ("open" if self.outcome == "open" else self.how) if self.holds else "FAILS"


Did = tuple[str, dict[str, int]]
"""What a stage did: for people, and as numbers."""


@dataclass
class Context:
    """What the checks of one run share: the seed, progress, the texts that were given to z3, and which devices there
    are, as far as that was said."""

    seed: int = 0
    progress: Callable[[int, int], None] = lambda done, total: None
    queries: dict[str, str] = field(default_factory=dict)
    config: CompilationConfig | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """What was said of the pass that is checked."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    thorough: bool = False
    """Whether what takes minutes is proved too."""
    keeps: bool = True
    """Whether the texts of such proofs are kept for somebody: writing them takes as long as deciding them."""

    @property
    def proof_texts(self) -> dict[str, str] | None:
        """Where the texts of proofs of kernels go, if they are kept."""
        return self.queries if self.thorough and self.keeps else None


def proved(detail: str, **data: Any) -> Evidence:
    """Evidence for a claim that is shown for every input."""
    return Evidence("proved", True, detail, data)


def checked(detail: str, **data: Any) -> Evidence:
    """Evidence for a claim that rules alone decide."""
    return Evidence("checked", True, detail, data)


def tested(detail: str, **data: Any) -> Evidence:
    """Evidence for a claim that was seen to hold on the inputs that were run."""
    return Evidence("tested", True, detail, data)


def refuted(how: How, detail: str, **data: Any) -> Evidence:
    """Evidence against a claim."""
    return Evidence(how, False, detail, data)


def unknown(how: How, detail: str, outcome: str = "", **data: Any) -> Evidence:
    """Evidence that decides nothing."""
    return Evidence(how, None, detail, data, outcome)


def of_outcome(outcome: str, detail: str, **data: Any) -> Evidence:
    """What a verdict on a backend's run is worth: it holds where the exit code says so, and is not known where nothing
    is wrong."""
    code = OF_OUTCOME[outcome]
    holds = True if code is Exit.HOLDS else False if code is Exit.WRONG else None
    return Evidence("tested", holds, detail, data, outcome)


def holds_all(found: Iterable[Evidence]) -> bool | None:
    """True if all hold, False if one does not, None if none is known not to and one is not known to."""
    said = [evidence.holds for evidence in found]
    return False if False in said else None if None in said else True


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names for a line: the first ones, and how many more."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 10_000:
            return f"{count} {unit}"
        count = round(count / 1000)
    return f"{count} GB"
