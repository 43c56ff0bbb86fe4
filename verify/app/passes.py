"""The option `--passes`: optional passes in the order of a text, among the stages (specs/verify.md, "Optional
passes").

    inline,fold,anf,common,partition[table=npu:TABLE;compiler=npu],tile

A stage may be named too: what follows it stands behind it. Each pass goes where it may stand first; an order that has
no such place is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from assay.lower.partition import partition
from assay.lower.passes import Pass
from assay.lower.simplify.bind_params import bind_params
from assay.semantics.errors import AssayError, Invalid
from assay.semantics.module import Module
from assay.verify.app.stages import PASSES, STAGES, Stage
from assay.verify.app.text_run import python_object

ENTRY = re.compile(r"(?P<name>[^\[\],]+)(\[(?P<options>[^\]]*)\])?(,|$)")


@cache
def with_passes(text: str) -> tuple[Stage, ...]:
    """The stages with the passes of a text among them. Invalid: an entry that cannot be read, or no pass of that name
    (passes.C1), options that it does not take (passes.C2), an order that cannot be (passes.C3)."""
    return _placed(_entries(text))


def _entries(text: str) -> list[Stage]:
    """What a text names, in its order."""
    known = {s.name: s for s in (*STAGES, *PASSES)}
    found: list[Stage] = []
    at = 0
    while at < len(text):
        read = ENTRY.match(text, at)
        if read is None:
            raise Invalid(f"--passes takes NAME[KEY=VALUE;...],..., not {text[at:]!r}", label="passes.C1")
        at = read.end()
        stage = known.get(read["name"].strip())
        if stage is None:
            raise Invalid(
                f"there is no pass {read['name'].strip()!r}: assay passes lists {', '.join(s.name for s in PASSES)}",
                label="passes.C1",
            )
        options = dict(_option(o, stage) for o in (read["options"] or "").split(";") if o)
        found.append(replace(stage, options=options) if options else stage)
    return found


def _option(text: str, stage: Stage) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or key not in stage.takes:
        takes = ", ".join(f"{k}=..." for k in stage.takes) or "nothing"
        raise Invalid(f"{stage.name} takes {takes} in brackets, not {text!r}", label="passes.C2")
    return key, value


def _placed(entries: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages, with each pass behind the one before it in `entries`, as early as it may stand."""
    rest = list(STAGES)
    done: list[Stage] = []

    def there(name: str) -> bool:
        return any(s.name == name and not s.behind for s in done)

    for stage in entries:
        late = stage.before if stage.behind else stage.name
        if there(late):
            order = sorted(entries, key=_last)
            raise Invalid(
                f"{stage.name} cannot stand behind {entries[entries.index(stage) - 1].name}:"
                f" {_said(stage)}; an order that can be is --passes {','.join(s.name for s in order)}",
                label="passes.C3",
            )
        while not there(stage.behind or stage.name):
            done.append(rest.pop(0))
        if stage.behind:
            times = sum(s.behind != "" and s.lower == stage.lower for s in done)
            done.append(replace(stage, name=f"{stage.name}-{times + 1}") if times else stage)
    return (*done, *rest)


def _last(stage: Stage) -> int:
    """The number of the last stage behind which a pass may stand."""
    names = [s.name for s in STAGES]
    return names.index(stage.before) * 2 - 1 if stage.behind else names.index(stage.name) * 2


def _said(stage: Stage) -> str:
    if stage.behind:
        return f"it stands behind {stage.behind} and before {stage.before}"
    names = [s.name for s in STAGES]
    return f"the stages come in the order {', '.join(names)}"


# --- passes that are handed more ------------------------------------------------------------------------------


def bind_inputs(module: Module, inputs: Mapping[str, Any], params: str = "") -> Module:
    """The module with the inputs given as constants: all of them, or those in the list `params`."""
    names = params.split(",") if params else list(inputs)
    missing = next((n for n in names if n not in inputs), None)
    if missing is not None:
        raise Invalid(f"bind takes the values of inputs that are given; --inputs has no {missing}", label="passes.C2")
    return bind_params(module, {n: inputs[n] for n in names})


def partition_by(module: Module, table: str = "", compiler: str = "") -> Module:
    """What `table`, MODULE:NAME of a list of `assay.lower.partition.Composite`, finds becomes functions for
    `compiler`."""
    if not table or not compiler:
        raise Invalid("partition[table=MODULE:NAME;compiler=NAME] names a table and a compiler", label="passes.C2")
    found: Any = python_object("--passes partition", table)
    return partition(module, compiler, list(found))


def run_own(module: Module, run: str = "") -> Module:
    """What the pass MODULE:FUNCTION makes of the module. Invalid: what it raises, or gives, is no module."""
    if not run:
        raise Invalid("own[run=MODULE:FUNCTION] names a function from a module to a module", label="passes.C2")
    own: Pass = python_object("--passes own", run)
    try:
        made: Any = own(module)
    except AssayError:
        raise
    except Exception as wrong:  # noqa: BLE001  it is not our code, and may raise anything
        raise Invalid(f"{run} raised {type(wrong).__name__}: {wrong}", label="passes.C4") from None
    if not isinstance(made, Module):
        raise Invalid(f"{run} gave {type(made).__name__}, not a module", label="passes.C4")
    return made
