"""Two reports compared (specs/verify.md, "Two reports").

Times never count. What is worse is what fails now and did not, or is known less well than it was; all else that differs
is told, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal, NamedTuple

from assay.semantics.errors import Invalid
from assay.verify.app.changes.recorded import Recorded, RecordedLine, calls_of_each
from assay.verify.app.judgement.judge_baseline import kind_of
from assay.verify.evidence import plural
from assay.verify.exits import OF_OUTCOME, Exit, gravest
from assay.verify.judge.outcome import GOOD, GRAVEST, SAYS_NOTHING

Weight = Literal["worse", "better", "other"]
PARTS = ("run", "line", "verdict", "finding", "tensor", "kernel", "pool", "step", "buffer")
"""What may have changed, in the order in which it is told."""
FURTHER = 2.0
"""How many times as large an error must be, or as small, for that to be told where the verdict is the same."""


class Change(NamedTuple):
    """One thing that differs: `then` and `now` are "" where it was not there, or is not."""

    part: str
    name: str
    then: str
    now: str
    weight: Weight = "other"
    exit: Exit = Exit.HOLDS
    """What it alone makes the command end with."""


@dataclass(frozen=True)
class Changes:
    """All that differs, in the order of `PARTS`."""

    found: tuple[Change, ...]

    @property
    def exit(self) -> Exit:
        """The exit code: 1 where something fails now and did not, 5 where less is known than was."""
        return gravest(c.exit for c in self.found)

    @property
    def holds(self) -> bool | None:
        """Whether nothing is worse: False where something fails, None where less is known."""
        return {Exit.HOLDS: True, Exit.WRONG: False}.get(self.exit)

    @property
    def said(self) -> str:
        """All of it in a line."""
        if not self.found:
            return "nothing has changed, times aside"
        worse, better, other = ([c for c in self.found if c.weight == w] for w in ("worse", "better", "other"))
        first = f": {', '.join(dict.fromkeys(f'{c.part} {c.name}' for c in worse[:3]))}" if worse else ""
        more = f" and {len(worse) - 3} more" if len(worse) > 3 else ""
        return f"{len(worse)} worse{first}{more}; {len(better)} better, {plural(len(other), 'other change')}"

    def as_data(self) -> dict[str, Any]:
        """The changes as JSON has them."""
        rows = [{"part": c.part, "name": c.name, "then": c.then, "now": c.now, "weight": c.weight} for c in self.found]
        return {"changes": rows, "said": self.said, "holds": self.holds, "exit": int(self.exit)}


def compare_reports(then: Recorded, now: Recorded) -> Changes:
    """What differs. Invalid (diff.C2): one is of `assay check` and the other of `assay judge`."""
    if then.command != now.command:
        raise Invalid(
            f"one is of assay {then.command}, the other of assay {now.command}: two of one command can be compared",
            label="diff.C2",
        )
    found = [
        *_texts("run", then.about, now.about),
        *_lines(then.lines, now.lines),
        *(_verdicts(then.verdicts or {}, now.verdicts or {}) if now.command == "judge" else ()),  # else lines say it
        *_samples(then, now),
        *_findings(then, now),
        *_tensors(then, now),
        *_kernels(then.kernels, now.kernels),
        *_texts("pool", then.pools, now.pools),
        *_steps(then.steps, now.steps),
        *_texts("buffer", then.buffers, now.buffers),
    ]
    return Changes(tuple(found))


def _texts(part: str, then: Mapping[str, str] | None, now: Mapping[str, str] | None) -> Iterator[Change]:
    """What differs in words; nothing where one of the two says nothing."""
    if then is None or now is None:
        return
    for name in dict.fromkeys((*then, *now)):
        one, two = then.get(name, ""), now.get(name, "")
        if one != two:
            yield Change(part, name, one, two)


def _lines(then: Mapping[str, RecordedLine], now: Mapping[str, RecordedLine]) -> Iterator[Change]:
    for name in dict.fromkeys((*then, *now)):
        one, two = then.get(name), now.get(name)
        if one == two:
            continue
        if one is None or two is None:
            fails = two is not None and not two.holds
            weight: Weight = "worse" if fails else "other"
            code = _of_line(two) if fails and two is not None else Exit.HOLDS
            yield Change("line", name, _told(one), _told(two), weight, code)
            continue
        ranks = _rank(one), _rank(two)
        if ranks[1] < ranks[0]:
            yield Change("line", name, _told(one), _told(two), "worse", gravest([_of_line(two), Exit.UNDECIDED]))
        else:
            yield Change("line", name, _told(one), _told(two), "better" if ranks[1] > ranks[0] else "other")


def _rank(line: RecordedLine) -> tuple[int, int, int]:
    """Lines of a greater rank say more for the program: what holds, how grave a verdict is, what is proved."""
    grave = GRAVEST.index(line.outcome) if line.outcome else len(GRAVEST)
    return {False: 0, None: 1, True: 2}[line.holds], grave, int(line.word == "proved")


def _of_line(line: RecordedLine) -> Exit:
    if line.outcome:
        return OF_OUTCOME[line.outcome]
    return {False: Exit.WRONG, None: Exit.UNDECIDED, True: Exit.HOLDS}[line.holds]


def _told(line: RecordedLine | None) -> str:
    return "" if line is None else f"{line.outcome or line.word}: {line.says}"


def _verdicts(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for name in dict.fromkeys((*then, *now)):
        one, two = then.get(name, ""), now.get(name, "")
        if one != two:
            yield _outcome("verdict", name, one, two)


def _outcome(part: str, name: str, then: str, now: str) -> Change:
    """Another verdict: worse where it is graver; one that was not there before, where it is not good."""
    ends = OF_OUTCOME[now] if now else Exit.HOLDS
    if not then or not now:
        return Change(part, name, then, now, "worse" if ends else "other", ends)
    graver = GRAVEST.index(now) - GRAVEST.index(then)
    if graver < 0 and ends:
        return Change(part, name, then, now, "worse", ends)
    return Change(part, name, then, now, "better" if graver > 0 and OF_OUTCOME[then] else "other")


def _samples(then: Recorded, now: Recorded) -> Iterator[Change]:
    """Sets of inputs on which a backend was good and nothing is told now, kinds of them on which it is not judged any
    more, and another operator that is wrong. Sets on which it is wrong are findings."""
    there = {(backend, kind_of(sample)) for backend, sample in now.samples}
    for (backend, sample), one in then.samples.items():
        if not any(b == backend for b, _ in there):
            continue  # its verdict says so
        two, name = now.samples.get((backend, sample)), f"{backend} on {sample}"
        if two is None:
            if one.outcome in GOOD and (backend, kind_of(sample)) not in there:
                yield Change("verdict", name, one.outcome, "", "worse", Exit.UNDECIDED)
        elif one.outcome in GOOD and two.outcome in SAYS_NOTHING:
            yield Change("verdict", name, one.outcome, two.outcome, "worse", Exit.UNDECIDED)
        elif one.outcome in SAYS_NOTHING and two.outcome in GOOD:
            yield Change("verdict", name, one.outcome, two.outcome, "better")
        elif one.outcome == two.outcome and one.culprit != two.culprit:
            yield Change("verdict", name, f"{one.outcome}: {one.culprit}", f"{two.outcome}: {two.culprit}")


def _findings(then: Recorded, now: Recorded) -> Iterator[Change]:
    """What is not right, by place. New ones count where who is judged was judged so before; where it was not, its
    verdict says it."""
    for f in (f for f in now.findings if f not in then.findings):
        yield Change("finding", str(f), "", f.outcome, "worse", OF_OUTCOME[f.outcome])
    for f in (f for f in then.findings if f not in now.findings):
        again = any(
            name == f.backend and (f.kind in ("", sample) or sample.startswith(f.kind)) for name, sample in now.judged
        )
        yield Change("finding", str(f), f.outcome, "", "better" if again else "other")


def _tensors(then: Recorded, now: Recorded) -> Iterator[Change]:
    """Tensors that both reports have: other verdicts, and errors that are much larger or smaller."""
    for key, one in then.tensors.items():
        two = now.tensors.get(key)
        if two is None:
            continue
        name = f"{key[2]} of {key[0]} on {key[1]}"
        if one.outcome != two.outcome:
            yield _outcome("tensor", name, one.outcome, two.outcome)
        elif one.error is not None and two.error is not None:
            low, high = sorted((one.error, two.error))
            if isnan(one.error) != isnan(two.error) or (high > FURTHER * low and high > 1):
                yield Change("tensor", name, f"{one.error:.3g} ulp", f"{two.error:.3g} ulp")


def _kernels(then: Mapping[str, str] | None, now: Mapping[str, str] | None) -> Iterator[Change]:
    for c in _texts("kernel", then, now):
        proofs = [bool(said) and not said.startswith("tested") for said in (c.then, c.now)]
        if c.then and c.now and proofs[0] != proofs[1]:
            worse = proofs[0]
            yield c._replace(weight="worse" if worse else "better", exit=Exit.UNDECIDED if worse else Exit.HOLDS)
        else:
            yield c


def _steps(then: Sequence[str] | None, now: Sequence[str] | None) -> Iterator[Change]:
    if then is None or now is None or list(then) == list(now):
        return
    calls = list(_texts("step", calls_of_each(then), calls_of_each(now)))
    yield from calls
    if not calls:
        at = next(i for i, (one, two) in enumerate(zip(then, now, strict=True)) if one != two)
        yield Change("step", "order of calls", f"step {at} calls {then[at]}", f"step {at} calls {now[at]}")
