"""`assay run --passes`: what optional passes make of a model, each checked, on inputs (specs/verify.md, "Optional
passes")."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from assay.interp.graph.engines import Engine
from assay.verify.api.check import check
from assay.verify.app.check import Line
from assay.verify.app.passes import with_passes
from assay.verify.app.run_shown import tell_run
from assay.verify.app.showing import print_line
from assay.verify.app.terminal import Screen
from assay.verify.app.text_run import run_text
from assay.verify.border.inputs import NamedBounds, save
from assay.verify.exits import Exit
from assay.verify.partition import check_engines


def run_passed(
    path: Path,
    inputs: Path | None,
    dims: Mapping[str, int],
    bounds: NamedBounds,
    seed: int,
    passes: str,
    output: Path | None,
    engines: Mapping[str, Engine],
) -> Exit:
    """Print a line for each stage up to the last optional pass and, if all hold, what the module made by it gives;
    before that one about `engines`, if there are some, that run its regions."""
    last = ["import", *(s.name for s in with_passes(passes) if s.behind)][-1]
    screen = Screen()
    told = partial(print_line, screen)
    found = check(path, inputs, dims=dims, bounds=bounds, seed=seed, passes=passes, stop_after=last, on_line=told)
    if found.exit is not Exit.HOLDS:
        return found.exit
    made = found.modules[last]
    given = {p.name: found.inputs[p.name] for p in made.main.params}
    if engines:
        start = time.perf_counter()
        judged = check_engines(made, engines, given, seed)
        told(Line("engines", "", judged, time.perf_counter() - start))
        if not judged.holds:
            return judged.exit
    done = run_text(made, "main", given, seed, {})
    tell_run(replace(done, chosen=done.sizes), screen)  # sizes that were given are numbers in it
    if output is not None:
        save(output, done.outputs)
    return Exit.HOLDS
