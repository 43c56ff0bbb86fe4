"""`assay fuzz`: a campaign on the command line (specs/verify.md, "Fuzzing").

Exit codes: 0, nothing failed; 1, something did, now or in an earlier run of the same corpus that is replayed; 2, the
command cannot be carried out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from assay.semantics.errors import Invalid
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.spending import require_seconds
from assay.verify.app.terminal import Screen
from assay.verify.evidence import plural
from assay.verify.exits import Exit
from assay.verify.fuzz.campaign import Campaign, Plan, replay_corpus, unseen
from assay.verify.fuzz.cases import EXPORTED, SWITCHES, Recipe
from assay.verify.fuzz.cluster import Cluster
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.onnx_names import chosen_operators, examples_of
from assay.verify.fuzz.pool import Pool
from assay.verify.fuzz.targets import FAILURES, GOOD, OURS, target
from assay.verify.fuzz.worker import ExampleReport, failed
from assay.verify.strategies.features import chosen

MOST_LINES = 20
"""So much of what is not drawn any more is said."""
MOST_JOBS = 1_000
"""Workers that one campaign may start."""


@dataclass(frozen=True)
class FuzzRequest:
    """The options of the command, as they were given."""

    backend: str
    operators: str = ""
    features: str | None = None
    size: int = 10
    seconds: float | None = None
    examples: int | None = None
    seed: int = 0
    corpus: Path | None = None
    jobs: int | None = None
    patience: float = 60.0
    cluster: str = ""
    replay: bool = False
    forget: bool = False


def recipe_of(request: FuzzRequest) -> Recipe:
    """What the examples are made of. Invalid: an operator or a feature that there is not, or no room."""
    usual = SWITCHES if request.backend in OURS else EXPORTED
    switches = usual if request.features is None else tuple(n for n in request.features.split(",") if n)
    for name in switches:
        if name not in SWITCHES:
            raise Invalid(f"no feature {name!r}; there are {', '.join(SWITCHES)}", label="strategies.C2")
    if request.size < 1:
        raise Invalid(f"--size is {request.size}; at least 1 is wanted", label="cli.C3")
    if not request.operators:
        return Recipe(chosen(None), request.size, switches)
    mine, others = chosen_operators(request.operators.split(","))
    return Recipe(mine, request.size, switches, examples=tuple((n, examples_of(n)) for n in others))


def fuzz(request: FuzzRequest, out: Screen, as_json: bool) -> int:
    """Run the campaign that was asked for, or replay its corpus; the exit code."""
    target(request.backend)
    corpus = Corpus(request.corpus) if request.corpus is not None else None
    if request.replay:
        if corpus is None:
            raise Invalid("--replay judges the failures of a corpus again: name it with --corpus", label="cli.C3")
        return _replay(corpus, request.backend, out, as_json)
    if request.forget:
        if corpus is None:
            raise Invalid("--forget drops what a corpus has learnt: name it with --corpus", label="cli.C3")
        corpus.forget(request.backend)
    seconds = 60.0 if request.seconds is None and request.examples is None else request.seconds
    plan = Plan(request.backend, recipe_of(request), request.seed, request.examples, seconds)
    if request.jobs is not None and not 1 <= request.jobs <= MOST_JOBS:
        raise Invalid(f"--jobs is {request.jobs}; from 1 to {MOST_JOBS} are wanted", label="cli.C3")
    if request.examples is not None and request.examples < 0:
        raise Invalid(f"--examples is {request.examples}; at least 0 are wanted", label="cli.C3")
    require_seconds("--patience", request.patience)
    if request.seconds is not None:
        require_seconds("--seconds", request.seconds)
    jobs = request.jobs or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else request.jobs or 1
    workers: Pool | Cluster = (
        Cluster(request.cluster, request.patience) if request.cluster else Pool(jobs, request.patience)
    )
    interrupted = False
    try:
        with _progress(out) as tell:
            campaign = Campaign(plan, corpus, tell)
            try:
                campaign.run(workers)
            except KeyboardInterrupt:  # what was found until then is worth as much
                interrupted = True
            except Exception:
                with answering(_as_data(campaign, interrupted)):
                    raise
    finally:
        workers.close()
    _show(campaign, out, as_json, interrupted)
    return _code(campaign.done)


def _code(done: ExampleReport) -> Exit:
    """Of a campaign: wrong where an example failed; undecided where none was found right, for then nothing is known."""
    if failed(done):
        return Exit.WRONG
    return Exit.HOLDS if done.kinds["right"] or done.kinds["open"] else Exit.UNDECIDED


def _holds(done: ExampleReport) -> bool | None:
    code = _code(done)
    return True if code is Exit.HOLDS else False if code is Exit.WRONG else None


def _replay(corpus: Corpus, backend: str, out: Screen, as_json: bool) -> int:
    rows = list(replay_corpus(corpus, backend))
    if as_json:
        replayed = [{"file": r.stored.path.name, "fails": r.still, "detail": r.detail} for r in rows]
        write_answer({"backend": backend, "holds": not any(r.still for r in rows), "replayed": replayed})
    else:
        for r in rows:
            out.print(f"{'still fails' if r.still else 'holds now'}  {r.stored.path.name}: {r.detail}")
        out.print(f"{sum(r.still for r in rows)} of {plural(len(rows), 'failure')} still there")
    return 1 if any(r.still for r in rows) else 0


def summary(campaign: Campaign) -> str:
    """One line that says how far a campaign is."""
    kinds = campaign.done.kinds
    said = [f"{kinds[k]} {k}" for k in (*GOOD, *FAILURES) if kinds[k]]
    wanted = campaign.plan.recipe.names
    met = len(wanted) - len(unseen(campaign.done.operators, wanted))
    rate = f"{campaign.rate:.0f} a second"
    return (
        f"{plural(campaign.before + campaign.judged, 'example')}, {rate}: {', '.join(said) or 'none yet'}; {met} of"
        f" {len(wanted)} operators"
    )


def _as_data(campaign: Campaign, interrupted: bool) -> dict[str, Any]:
    done, plan = campaign.done, campaign.plan
    return {
        "backend": plan.target, "seed": plan.seed, "holds": _holds(done), "examples": campaign.before + campaign.judged,
        "per_second": round(campaign.rate, 1), "interrupted": interrupted, "kinds": dict(done.kinds),
        "operators": dict(done.operators.most_common()),
        "unseen_operators": unseen(done.operators, plan.recipe.names),
        "avoided": {t: campaign.learnt.seen[t].as_data() for t in campaign.learnt.avoided},
        "constructs": dict(done.constructs), "rules": dict(done.layers.most_common()),
        "new": [f.result.as_data() | {"example": f.number} for f in campaign.new],
    }  # fmt: skip


def _show(campaign: Campaign, out: Screen, as_json: bool, interrupted: bool) -> None:
    done = campaign.done
    missing = unseen(done.operators, campaign.plan.recipe.names)
    if as_json:
        write_answer(_as_data(campaign, interrupted))
        return
    out.print(summary(campaign) + (", interrupted" if interrupted else ""))
    for title, counter in (("rules", done.layers), ("besides operators", done.constructs)):
        if counter:
            out.print(f"{title}: " + ", ".join(f"{n} {c}" for n, c in counter.most_common(12)))
    if missing:
        out.print(f"operators never met: {', '.join(missing)}")
    lines = campaign.learnt.lines()
    for line in lines[:MOST_LINES]:
        out.print(f"not drawn any more: {line}")
    if len(lines) > MOST_LINES:
        out.print(f"and {len(lines) - MOST_LINES} more, which --json lists")
    for failure in campaign.new:
        result = failure.result
        by = ", ".join(part for part in (result.where, result.culprit) if part)
        out.print(f"{result.kind} ({by}), example {failure.number}: {result.detail}")
    if campaign.corpus is not None and campaign.new:
        out.print(f"{plural(len(campaign.new), 'new failure')} in {campaign.corpus.directory}")


@contextmanager
def _progress(out: Screen) -> Iterator[Callable[[Campaign], None]]:
    """How far the campaign is: a line on a terminal; elsewhere a line now and then, on the error output."""
    console = Screen(stderr=True)
    last = time.monotonic()
    if not console.is_terminal:

        def say(campaign: Campaign) -> None:
            nonlocal last
            if time.monotonic() - last > 30:
                last = time.monotonic()
                console.print(summary(campaign))

        yield say
        return
    with console.status("starting the workers") as status:

        def tell(campaign: Campaign) -> None:
            nonlocal last
            if time.monotonic() - last > 0.2:
                last = time.monotonic()
                status.update(escape(summary(campaign)))

        yield tell
