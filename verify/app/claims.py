"""What a certificate claims beside what is found, and what it does not claim (specs/verify.md, "Certificate")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from assay.semantics.module import Module
from assay.verify.app.check import CheckRun, Line
from assay.verify.c import check_c

PROVABLE = ("legalize", "fuse")
"""The stages of which more is proved with --prove; of the line c texts are kept."""


def proof_lines(check: CheckRun) -> Iterator[Line]:
    """Behind all lines of a check: those that tell of kernels anew, as --prove has them."""
    before: Module | None = None
    check.thorough = True
    for stage in check.stages:
        module = check.modules[stage.name]
        if stage.name in PROVABLE:
            check.begin(stage.name)
            yield check.line("again, with --prove", check.evidence(stage, before or module, module))
        before = module
    if check.source is not None and before is not None:
        check.begin("c")
        yield check.line("again, with --prove", check_c(check.source, before, check.queries)[1])


def misstated(found: dict[str, Any], stated: dict[str, Any]) -> str:
    """The first claim of a manifest that is not what was found. Claims are compared as they are written: 1 is not
    true."""
    for mine, theirs in zip_longest(map(json.dumps, found["lines"]), map(json.dumps, stated["lines"])):
        if mine != theirs:
            line = json.loads(mine or theirs)
            stage = line.get("stage") if isinstance(line, dict) else line
            return f"the manifest says of {stage!s}: {theirs or 'nothing'}; found: {mine or 'nothing'}"
    key = next(k for k in found if json.dumps(found[k]) != json.dumps(stated[k]))
    return f"the manifest says of {key}: {json.dumps(stated[key])}; found: {json.dumps(found[key])}"
