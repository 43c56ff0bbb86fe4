"""`assay fuzz`: a campaign on the command line (specs/verify.md, "Fuzzing").

Exit codes: 0, nothing failed; 1, something did, now or in an earlier run of the same corpus that is replayed; 2, the
command cannot be carried out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from assay.semantics.errors import Invalid
from assay.verify import children
from assay.verify.app.answers import answering, write_answer
from assay.verify.app.spending import require_seconds
from assay.verify.app.terminal import Screen
from assay.verify.evidence import plural
from assay.verify.exits import Exit
from assay.verify.fuzz.campaign import Campaign, Plan, Standing, replay_corpus, unseen
from assay.verify.fuzz.cases import EXPORTED, SWITCHES, Recipe, fitting
from assay.verify.fuzz.cluster import Cluster
from assay.verify.fuzz.corpus import Corpus
from assay.verify.fuzz.onnx_names import chosen_operators, examples_of
from assay.verify.fuzz.pool import Pool
from assay.verify.fuzz.targets import FAILURES, GOOD, OURS, require_target
from assay.verify.fuzz.worker import ExampleReport, failed
from assay.verify.strategies.features import chosen

MOST_LINES = 20
"""So much of what is not drawn any more is said."""
MOST_JOBS = 1_000
"""Workers that one campaign may start."""


@dataclass(frozen=True)
class FuzzRequest:
    """The options of the command, as they were given."""

    backends: tuple[str, ...]
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
    usual = SWITCHES if set(request.backends) <= set(OURS) else EXPORTED
    switches = usual if request.features is None else tuple(n for n in request.features.split(",") if n)
    for name in switches:
        if name not in SWITCHES:
            raise Invalid(f"no feature {name!r}; there are {', '.join(SWITCHES)}", label="strategies.C2")
    if request.size < 1:
        raise Invalid(f"--size is {request.size}; at least 1 is wanted", label="cli.C3")
    if not request.operators:
        return Recipe(chosen(None), request.size, switches)
    mine, others = chosen_operators(request.operators.split(","))
    switches = fitting(switches, mine) if request.features is None else switches
    return Recipe(mine, request.size, switches, examples=tuple((n, examples_of(n)) for n in others))


def fuzz(request: FuzzRequest, out: Screen, as_json: bool) -> int:
    """Run the campaign that was asked for, or replay its corpus; the exit code."""
    for name in request.backends:
        require_target(name)
    corpus = Corpus(request.corpus) if request.corpus is not None else None
    if request.replay:
        if corpus is None:
            raise Invalid("--replay judges the failures of a corpus again: name it with --corpus", label="cli.C3")
        return _replay(corpus, request, out, as_json)
    if request.forget:
        if corpus is None:
            raise Invalid("--forget drops what a corpus has learnt: name it with --corpus", label="cli.C3")
        corpus.forget(request.backends)
    seconds = 60.0 if request.seconds is None and request.examples is None else request.seconds
    plan = Plan(
        request.backends, recipe_of(request), request.seed, request.examples, seconds, patience=request.patience
    )
    if request.jobs is not None and not 1 <= request.jobs <= MOST_JOBS:
        raise Invalid(f"--jobs is {request.jobs}; from 1 to {MOST_JOBS} are wanted", label="cli.C3")
    if request.examples is not None and request.examples < 0:
        raise Invalid(f"--examples is {request.examples}; at least 0 are wanted", label="cli.C3")
    require_seconds("--patience", request.patience)
    if request.seconds is not None:
        require_seconds("--seconds", request.seconds)
    jobs = request.jobs or children.cores()
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
    return _code(campaign.standings.values())


def _code(standings: Iterable[Standing]) -> Exit:
    """Of targets: wrong where an example failed; undecided where none was found right of one, for then nothing is known
    of it."""
    dones = [s.done for s in standings]
    if any(map(failed, dones)):
        return Exit.WRONG
    return Exit.HOLDS if all(d.kinds["right"] or d.kinds["open"] for d in dones) else Exit.UNDECIDED


def _holds(standings: Iterable[Standing]) -> bool | None:
    code = _code(standings)
    return True if code is Exit.HOLDS else False if code is Exit.WRONG else None


def _replay(corpus: Corpus, request: FuzzRequest, out: Screen, as_json: bool) -> int:
    rows = list(replay_corpus(corpus, *request.backends, patience=request.patience))
    if as_json:
        replayed = [{"file": r.stored.path.name, "fails": r.still, "detail": r.detail} for r in rows]
        names = list(request.backends)
        who: dict[str, Any] = {"backend": names[0]} if len(names) == 1 else {"backends": names}
        write_answer(who | {"holds": not any(r.still for r in rows), "replayed": replayed})
    else:
        for r in rows:
            out.print(f"{'still fails' if r.still else 'holds now'}  {r.stored.path.name}: {r.detail}")
        out.print(f"{sum(r.still for r in rows)} of {plural(len(rows), 'failure')} still there")
    return 1 if any(r.still for r in rows) else 0


def summary(campaign: Campaign) -> str:
    """One line that says how far a campaign is; of several targets it counts the judgements together."""
    wanted = campaign.plan.recipe.names
    met = len(wanted) - len(unseen(campaign.done.operators, wanted))
    rate = f"{campaign.rate:.0f} a second" if campaign.rate >= 9.5 else f"{campaign.rate:.2g} a second"
    several = f" by {len(campaign.standings)} targets" if len(campaign.standings) > 1 else ""
    return (
        f"{plural(campaign.before + campaign.judged, 'example')}{several}, {rate}: {_kinds(campaign.done)}; {met} of"
        f" {len(wanted)} operators"
    )


def _kinds(done: ExampleReport) -> str:
    return ", ".join(f"{done.kinds[k]} {k}" for k in (*GOOD, *FAILURES) if done.kinds[k]) or "none yet"


def _besides(campaign: Campaign) -> list[str]:
    """The operators that were called, though nobody asked for them."""
    recipe = campaign.plan.recipe
    return [] if recipe.examples else sorted(set(campaign.done.operators) - set(recipe.names))


def _as_data(campaign: Campaign, interrupted: bool) -> dict[str, Any]:
    """A campaign as JSON: what came of one target stands beside what is said of all, of several in a list."""
    done, plan, standings = campaign.done, campaign.plan, campaign.standings.values()
    each = [_standing_data(s) for s in standings]
    drawn = next(iter(standings)).done
    return (each[0] if len(each) == 1 else {"backends": each}) | {
        "seed": plan.seed, "holds": _holds(standings), "examples": campaign.before + campaign.judged,
        "per_second": round(campaign.rate, 1), "interrupted": interrupted,
        "operators": dict(drawn.operators.most_common()),
        "unseen_operators": unseen(done.operators, plan.recipe.names), "other_operators": _besides(campaign),
        "constructs": dict(drawn.constructs),
    }  # fmt: skip


def _standing_data(standing: Standing) -> dict[str, Any]:
    """What came of one target, as JSON."""
    done, learnt = standing.done, standing.learnt
    return {
        "backend": standing.target, "holds": _holds([standing]), "kinds": dict(done.kinds),
        "avoided": {t: learnt.seen[t].as_data() for t in learnt.avoided}, "rules": dict(done.layers.most_common()),
        "new": [f.result.as_data() | {"example": f.number} for f in standing.new],
    }  # fmt: skip


def _show(campaign: Campaign, out: Screen, as_json: bool, interrupted: bool) -> None:
    missing = unseen(campaign.done.operators, campaign.plan.recipe.names)
    if as_json:
        write_answer(_as_data(campaign, interrupted))
        return
    out.print(summary(campaign) + (", interrupted" if interrupted else ""))
    if missing:
        out.print(f"operators never met: {', '.join(missing)}")
    if besides := _besides(campaign):
        out.print(f"and, to stay inside domains or for a feature: {', '.join(besides)}")
    standings = list(campaign.standings.values())
    _counted("besides operators", standings[0].done.constructs, out)
    for standing in standings:
        if len(standings) > 1:
            out.print(f"{standing.target}: {_kinds(standing.done)}")
        _show_standing(standing, MOST_LINES // len(standings), out)
    if campaign.corpus is not None and campaign.new:
        out.print(f"{plural(len(campaign.new), 'new failure')} in {campaign.corpus.directory}")


def _show_standing(standing: Standing, most: int, out: Screen) -> None:
    """What came of one target, with so many lines of what is not drawn for it any more."""
    _counted("rules", standing.done.layers, out)
    lines = standing.learnt.lines()
    for line in lines[:most]:
        out.print(f"not drawn any more: {line}")
    if len(lines) > most:
        out.print(f"and {len(lines) - most} more, which --json lists")
    for failure in standing.new:
        result = failure.result
        by = ", ".join(part for part in (result.where, result.culprit) if part)
        out.print(f"{result.kind} ({by}), example {failure.number}: {result.detail}")


def _counted(title: str, counter: Counter[str], out: Screen) -> None:
    if counter:
        out.print(f"{title}: " + ", ".join(f"{n} {c}" for n, c in counter.most_common(12)))


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
