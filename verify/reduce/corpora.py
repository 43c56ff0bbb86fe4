"""A corpus of failures made smaller, one after another (specs/verify.md, "reduce").

What was done is kept in `reduced.json` of the output, so that a run that was interrupted goes on with the next failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.semantics import strict_json
from assay.semantics.errors import AssayError, Crash, EnvironmentFailure, Invalid
from assay.semantics.files import read_text
from assay.semantics.strict_json import typed
from assay.verify.app.terminal import Screen
from assay.verify.border.files import replace_text
from assay.verify.exits import Exit
from assay.verify.fuzz.corpus import Corpus, StoredFailure

DONE = "reduced.json"


def reduce_corpus(
    directory: Path, backend: str, output: Path, one: Callable[[StoredFailure], int], console: Screen,
    cases: list[dict[str, Any]],
) -> list[Exit]:  # fmt: skip
    """Reduce each failure of a corpus that is one of the backend ("": of any), by `one`, which puts what came of it to
    the `cases`, and give their exit codes. Those that an earlier run has reduced are passed over. One that cannot be
    used is told, and the next one follows. Invalid (reduce.C3): there is no such failure."""
    failures = [f for f in Corpus(directory).failures() if backend in ("", f.target)]
    if not failures:
        of = f" of {backend}" if backend else ""
        raise Invalid(
            f"a directory is taken for a corpus, and this has no failure{of}", where=str(directory), label="reduce.C3"
        )
    path = output / DONE
    done = _done(path)
    for stored in failures:
        name = stored.path.name.removesuffix(".json")
        if name in done:
            console.print(f"{name}: done before, exit code {done[name]}")
            cases.append({"name": name, "backend": stored.target, "outcome": "done before", "exit": done[name]})
            continue
        console.print(f"{name}:")
        before = len(cases)
        try:
            code = one(stored)
        except (Crash, EnvironmentFailure):
            raise
        except AssayError as wrong:
            console.print(f"cannot be reduced: {wrong}")
            code = Exit.UNUSABLE
            told = {"name": name, "backend": stored.target, "outcome": "cannot be reduced", "detail": str(wrong)}
            cases[before:] = [told]
        done[name] = cases[-1]["exit"] = int(code)
        replace_text(path, json.dumps(done, indent=1) + "\n")
    return [Exit(done[f.path.name.removesuffix(".json")]) for f in failures]


def _done(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    try:
        data: dict[str, Any] = typed(dict, strict_json.parse_json(read_text(path)))
        return {typed(str, n): int(Exit(typed(int, code))) for n, code in data.items()}
    except (OSError, ValueError) as wrong:
        raise Invalid(f"does not say what was reduced: {wrong}", where=str(path), label="reduce.C4") from None
