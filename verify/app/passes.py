"""The option `--passes`: optional passes in the order of a text, among the stages (specs/verify.md, "Optional
passes").

    inline,fold,anf,common,partition[table=npu:TABLE;compiler=npu],tile

A stage may be named too: what follows it stands behind it. Each pass goes where it may stand first; an order that has
no such place is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from typing import Any

from assay.lower.partition import Composite, partition
from assay.lower.passes import Pass
from assay.lower.recursion import needs_frames
from assay.lower.rewriting.pattern import Pattern
from assay.lower.simplify.bind_params import bind_params
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.semantics.store import contents, require_form
from assay.verify.app.foreign import foreign, python_object
from assay.verify.app.stages import PASSES, STAGES, TO_BYTECODE, VM, Stage

FORMS = {
    "N": "[1-9][0-9]{0,8}", "NAME": ".+", "NAME,...": "[^,]+(,[^,]+)*",
    "MODULE:NAME": "[^:]+:[^:]+", "MODULE:FUNCTION": "[^:]+:[^:]+",
}  # fmt: skip
"""The patterns of the forms that options have; another form, such as `transposed|tiles`, is its own."""
RECURSION = "recursion"
"""The pass that stands in a lowering where the program needs it."""
ENTRY = re.compile(r"(?P<name>[^\[\],]+)(\[(?P<options>[^\]]*)\])?(,|$)")


@cache
def with_passes(text: str, vm: bool = False) -> tuple[Stage, ...]:
    """The stages, those to bytecode if `vm`, with the passes of a text among them. Invalid: an entry that cannot be
    read, or no pass of that name (passes.C1), options that it does not take (passes.C2), an order that cannot be
    (passes.C3)."""
    entries = _entries(text)
    stages = TO_BYTECODE if vm else STAGES
    odd = next((s.name for s in entries if not s.behind and s.name not in [t.name for t in stages]), None)
    if odd is not None:
        goal = "bytecode, with --vm" if vm else "C, without --vm"
        raise Invalid(f"{odd} is no stage of a lowering to {goal}", label="passes.C3")
    return _placed(entries, stages)


def passes_for(module: Module, text: str) -> str:
    """A text of passes, with the one for recursion at its place if the module needs that and it is not named."""
    if not needs_frames(module):
        return text
    entries = _entries(text)
    names = [s.name for s in STAGES]
    if any(s.name == RECURSION for s in entries):
        return text
    anf = names.index("anf")
    late = [names.index(s.behind or s.name) >= anf + (not s.behind) for s in entries]
    behind = [True in late[: i + 1] or any(s.name == "anf" for s in entries[:i]) for i in range(len(entries))]
    at = [*behind, True].index(True)
    return ",".join([*(s.entry for s in entries[:at]), RECURSION, *(s.entry for s in entries[at:])])


def without_pass(text: str, name: str) -> str:
    """A text of passes without those of that name."""
    return ",".join(s.entry for s in _entries(text) if s.name != name)


def _entries(text: str) -> list[Stage]:
    """What a text names, in its order."""
    known = {s.name: s for s in (*STAGES, VM, *PASSES)}
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
        found.append(replace(stage, options=_options(read["options"] or "", stage)))
    return found


def _options(text: str, stage: Stage) -> dict[str, str]:
    """The options in brackets, each once and of its form."""
    takes = ";".join(f"{k}={form}" for k, form in stage.takes.items()) or "nothing"
    found: dict[str, str] = {}
    for option in filter(None, text.split(";")):
        key, _, value = option.partition("=")
        form = stage.takes.get(key)
        if form is None or not re.fullmatch(FORMS.get(form, form), value):
            raise Invalid(f"{stage.name} takes {takes} in brackets, not {option!r}", label="passes.C2")
        if key in found:
            raise Invalid(f"{stage.name} has {key}= twice in brackets", label="passes.C2")
        found[key] = value
    if stage.needed and found.keys() != stage.takes.keys():
        raise Invalid(f"{stage.name} needs {takes} in brackets", label="passes.C2")
    return found


def _placed(entries: Sequence[Stage], stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages, with each pass behind the one before it in `entries`, as early as it may stand."""
    rest = list(stages)
    done: list[Stage] = []

    def there(name: str) -> bool:
        return any(s.name == name and not s.behind for s in done)

    for i, stage in enumerate(entries):
        late = stage.before if stage.behind else stage.name
        if there(late):
            names = [s.name for s in STAGES]
            other = next(s for s in entries[i - 1 :: -1] if names.index(s.behind or s.name) >= names.index(late))
            raise Invalid(
                f"{stage.name} cannot stand behind {other.name}: {_said(stage)}{_instead(entries)}", label="passes.C3"
            )
        while not there(stage.behind or stage.name):
            done.append(rest.pop(0))
        if stage.behind:
            times = sum(s.behind != "" and s.lower == stage.lower for s in done)
            done.append(replace(stage, name=f"{stage.name}-{times + 1}") if times else stage)
    return (*done, *rest)


def _instead(entries: Sequence[Stage]) -> str:
    """What a refusal says of an order that can be: nothing where a stage is named twice, for then there is none."""
    stages = [s.name for s in entries if not s.behind]
    if len({*stages}) < len(stages):
        return ""
    return f"; an order that can be is --passes {','.join(s.entry for s in sorted(entries, key=_last))}"


def _last(stage: Stage) -> int:
    """The number of the last stage behind which a pass may stand."""
    names = [s.name for s in STAGES]
    return names.index(stage.before) * 2 - 1 if stage.behind else names.index(stage.name) * 2


def _said(stage: Stage) -> str:
    if stage.behind:
        return f"it stands behind {stage.behind} and before {stage.before}"
    names = [s.name for s in STAGES]
    return f"the stages come once each, in the order {', '.join(names)}"


# --- passes that are handed more ------------------------------------------------------------------------------


def bind_inputs(inputs: Mapping[str, Any], params: str = "") -> Pass:
    """The pass that makes inputs given constants: all of them, or those in the list `params`. Invalid: there are none,
    or one of the list is not there."""
    if not inputs:
        raise Invalid("bind makes constants of inputs that are given: give some with --inputs", label="passes.C2")
    names = params.split(",") if params else list(inputs)
    missing = next((n for n in names if n not in inputs), None)
    if missing is not None:
        raise Invalid(f"bind takes the values of inputs that are given; --inputs has no {missing}", label="passes.C2")
    return lambda module: bind_params(module, {n: inputs[n] for n in names})


def partition_by(table: str, compiler: str) -> Pass:
    """The pass by which what `table`, MODULE:NAME of a list of `assay.lower.partition.Composite`, finds becomes
    functions for `compiler`. Invalid: it is no such list."""
    found: Any = python_object("--passes partition", table)
    if not isinstance(found, list | tuple) or not all(map(_is_composite, found)):
        raise Invalid(f"--passes partition: {table} is no list of Composites", label="cli.C4")
    rows = [replace(c, accepts=_guarded(table, c.accepts)) for c in found]
    return lambda module: partition(module, compiler, rows)


def _is_composite(row: Any) -> bool:
    return isinstance(row, Composite) and isinstance(row.name, str) and isinstance(row.pattern, Pattern)


def _foreign(name: str) -> AbstractContextManager[None]:
    """Code of the user's, which is named so, runs in here."""
    return foreign(lambda raised: Invalid(f"{name} raised {raised}", label="passes.C4"))


def _guarded(name: str, act: Callable[..., bool]) -> Callable[..., bool]:
    """A user's predicate; what it raises is Invalid."""

    def call(*args: Any) -> bool:
        with _foreign(name):
            return act(*args)

    return call


def run_own(run: str) -> Pass:
    """The pass MODULE:FUNCTION of the user's own. Invalid: it is no function; what it raises; what it gives is no
    module, or none of the form that the classes of modules declare; it has changed the module that it was given, so
    that nothing is left to compare with."""
    own: Pass = python_object("--passes own", run)
    if not callable(own):
        raise Invalid(f"--passes own: {run} is {type(own).__name__}, no function", label="cli.C4")

    def step(module: Module) -> Module:
        before = contents(module)
        with _foreign(run):
            made: Any = own(module)
        if _contents(module) != before:
            what = f"{run} changed the module that it was given: a pass leaves that alone, and returns another one"
            raise Invalid(what, label="passes.C4")
        if not isinstance(made, Module):
            raise Invalid(f"{run} gave {type(made).__name__}, not a module", label="passes.C4")
        try:
            with _foreign(run):  # what it made may hold classes of its own
                require_form(made)
            made.main  # noqa: B018
        except Invalid as wrong:
            raise Invalid(f"{run} gave no well-formed module: {wrong.message}", label="passes.C4") from None
        return made

    return step


def _contents(module: Module) -> str:
    """What a module says after a pass of the user's had it in hand; nothing if it has become unreadable."""
    try:
        return contents(module)
    except Exception:  # noqa: BLE001  whatever was put into it
        return ""
