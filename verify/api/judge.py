"""`assay.judge`: backends judged on a program (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx

from assay.interp import graph
from assay.lower.frontends.onnx.interface import declared_inputs
from assay.lower.frontends.onnx.known import without_meaning
from assay.lower.frontends.torch_export import with_buffers
from assay.semantics.errors import AssayError, Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.types import Type, symbols
from assay.verify.api.check import Backends, Progress, named_backends
from assay.verify.api.programs import (
    Inputs,
    Program,
    at_sizes,
    file_name,
    input_arrays,
    opened_outside,
    output_arrays,
    with_inputs,
    with_original,
)
from assay.verify.app.judgement.judge_report import write_judged
from assay.verify.app.report.write import require_place
from assay.verify.backends import Backend, Isolated, Subject, subject_of_model, subject_of_module
from assay.verify.backends.protocol import Ran, UnreadSubject, attempt, holding, subject_of_program
from assay.verify.border.drawn_texts import drawn_texts, inputs_read
from assay.verify.border.inputs import sized, traps_on
from assay.verify.border.onnx_words import strings_of, text_tensors
from assay.verify.judge.around import Cut, judge_around
from assay.verify.judge.judgement import Judgement
from assay.verify.judge.outcome import BackendVerdict
from assay.verify.judge.recorded import recording_of
from assay.verify.judge.run import JudgeRun
from assay.verify.judge.samples import Sample, input_sets
from assay.verify.judge.two_programs import SecondProgram, require_same_interface, unproved
from assay.verify.oracle.data import Kind, kinds_of
from assay.verify.oracle.declarations import EVERYTHING_KEPT
from assay.verify.trials.fitting import fitting_sizes

Array = np.ndarray[Any, Any]
Recorded: TypeAlias = str | Path | Mapping[str, Any] | Sequence[str | Path | Mapping[str, Any]]
"""What was recorded of runs: .npz files, or arrays by name."""
DEFAULT_KINDS: tuple[Kind, ...] = ("random", "integers", "cancelling", "large", "specials", "ties")
SIZES = ((2, 7, 5, 3, 11, 13), (1, 16, 32, 24, 40, 48), (1, 64, 64), (1, 128, 96), (1, 224, 224), (1,))
"""Sizes that are tried for symbolic dims, in this order: different ones first, so that axes cannot be mixed up."""


def judge(
    model: Program,
    backends: Backends = (),
    inputs: Inputs = None,
    *,
    second: Program | None = None,
    recorded: Recorded = (),
    dims: Mapping[str, int] | None = None,
    kinds: str | Sequence[str] = DEFAULT_KINDS,
    runs: int = 1,
    seed: int = 0,
    exclude: str | Sequence[str] = (),
    sound_only: bool = False,
    page: str | Path | None = None,
    patience: float | None = None,
    on_start: Callable[[Judgement], None] | None = None,
    on_verdict: Callable[[BackendVerdict], None] | None = None,
    progress: Progress | None = None,
) -> Judgement:
    """Judge backends on a program: whether what they give is what its definition allows. Nothing is lowered.

    So are a `second` program, of which it is asked whether it means the same; and what was `recorded` of runs on the
    inputs, outputs and other tensors by name.

    Inputs that are not given are made, `runs` sets of each of `kinds` (see `assay.verify.oracle.data`). Sizes of
    symbolic dims are those of the inputs, or of `dims`, or are chosen. `exclude` names rights that no backend has;
    `page` is a directory for the page of `assay judge --report`, with every tensor that a backend shows.
    `sound_only` leaves out what rests on a model of how correct runs differ. `patience` is how many seconds a backend
    may take for one answer, by default 600. `on_start` gets the judgement while it has
    no verdict yet, `on_verdict` each verdict as it is found.

    Nodes of the main graph whose operator has no meaning here are left out, and what they give is taken as a backend
    gives it.

    Invalid: the program, an input or an option cannot be used. Unsupported: an operator is not known.

    >>> def mine(model, inputs):
    ...     return {"y": numpy.maximum(inputs["x"] @ numpy.array([[1, -1], [2, 0.5], [-3, 1]], "float32"), 0)}
    >>> assay.judge("model.onnx", mine, kinds="random").holds
    True
    """
    EVERYTHING_KEPT.excluding(exclude)
    if page is not None:
        require_place(Path(page))
    chosen_kinds = kinds_of(kinds) or DEFAULT_KINDS
    with named_backends(backends, False, patience) as named:
        if not named and second is None and not recorded:
            raise Invalid("who is judged? Give --backend NAME, a second program or --recorded OUT.npz", label="cli.C3")
        recordings = recorded_arrays(recorded)
        if recordings and (tuple(chosen_kinds) != DEFAULT_KINDS or runs != 1):
            raise Invalid(
                "a recording is of one run, on the inputs that are given: leave out --kinds and --runs",
                label="judge.C2",
            )
        for _, who in named:
            if isinstance(who, Isolated):
                who.require_installed()
        read, original = with_original(model)
        program, _, files = opened_outside(read)
        source = file_name(model)
        given = _with_recorded(program, input_arrays(inputs), recordings)
        reads = inputs_read(program) if isinstance(program, onnx.ModelProto) else []
        others: list[Backend] = [who for _, who in named]
        may_cut = second is None and not recordings
        asked = _Asked(program, given, dims or {}, chosen_kinds, runs, seed, source, original, others, may_cut)
        subject, chosen, made, taken, cut, texts = asked.posed([n for n in reads if n not in given])
        subject = holding(subject, files)
        for name, arrays in recordings.items():
            missing = [p.name for p in subject.module.main.params if p.name not in given]
            if missing:
                raise Invalid(
                    f"--recorded is of a run on inputs: give input {missing[0]!r} with --inputs, or in {name}",
                    label="judge.C2",
                )
            others.append(recording_of(subject, name, arrays))
        found: list[BackendVerdict] = []
        if second is not None:
            name, other = _second(second, subject, made[0].inputs, seed, chosen)
            require_same_interface(subject, other, name)
            if not unproved(subject, other):
                found.append(BackendVerdict(name, proved="proved to be the same for every input of these sizes"))
            else:
                others.append(SecondProgram(name, other))
        begun = Judgement((), chosen, made, subject, seed, source, texts)
        if on_start is not None:
            on_start(begun)
        run = JudgeRun(subject, made, others, source, seed, sound_only, excluded=list(exclude))
        run.detailed = page is not None
        if reads and len(made) == 1:
            run.others, run.unseen = False, "the model is read for these strings alone"
        if progress is not None:
            run.progress = progress
        if on_verdict is not None and found:
            on_verdict(found[0])
        verdicts = run.verdicts() if cut is None else judge_around(cut, subject.dims, made, others, run)
        for verdict in verdicts if others else ():
            found.append(verdict)
            if on_verdict is not None:
                on_verdict(verdict)
        order = [v.name for v in found if v.proved] + [who.name for who in others]
        judgement = replace(begun, verdicts=tuple(sorted(found, key=lambda v: order.index(v.name))))
    if page is not None:
        write_judged(Path(page), judgement)
    return judgement


class _Posed(NamedTuple):
    """A program as a subject, the sizes that were chosen, the sets of inputs, what is given of these, the nodes that
    are left out, and the strings that were chosen."""

    subject: Subject
    chosen: Mapping[str, int]
    samples: tuple[Sample, ...]
    given: Mapping[str, Any]
    cut: Cut | None
    texts: Mapping[str, Array]


@dataclass(frozen=True)
class _Asked:
    """What is to be judged, and on what."""

    program: onnx.ModelProto | Module
    given: Mapping[str, Any]
    dims: Mapping[str, int]
    kinds: Sequence[Kind]
    runs: int
    seed: int
    source: str
    original: bytes
    backends: Sequence[Backend]
    may_cut: bool

    def posed(self, unknown: Sequence[str]) -> _Posed:
        """The program as it is posed. For inputs whose characters are read and `unknown` strings are chosen: the first
        on which it runs."""
        refused: AssayError | None = None
        if isinstance(self.program, onnx.ModelProto):
            for texts in drawn_texts(self.program, unknown, self.given, self.dims, self.seed):
                try:
                    return self._posed(texts)
                except (Invalid, Trap) as why:
                    refused = refused or why
        try:
            return self._posed({})
        except Invalid as why:
            raise (refused or why) from None

    def _posed(self, texts: Mapping[str, Array]) -> _Posed:
        program, given, defaults, sizes = with_inputs(
            self.program, {**self.given, **texts}, self.dims, self.seed, self.source
        )
        original = with_buffers(self.original, defaults) if self.original else b""
        cut = None
        if self.may_cut and isinstance(program, onnx.ModelProto) and (places := without_meaning(program)):
            cut = Cut(program, places)
            subject, chosen = sized_by_run(cut, self.backends, sizes, given, self.seed)
        else:
            subject, chosen = with_chosen_sizes(program, sizes, given, self.source, self.seed, original=original)
        made = tuple(input_sets(subject.module, given, self.kinds, self.runs, self.seed))
        if cut is not None:
            subject = UnreadSubject(cut.model, {**sizes, **chosen})
        return _Posed(subject, chosen, made, given, cut, texts)


def recorded_arrays(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """What was recorded, by the names of the files. Raises what `output_arrays` does."""
    several = recorded if isinstance(recorded, Sequence) and not isinstance(recorded, str) else [recorded]
    found: dict[str, dict[str, Any]] = {}
    for i, each in enumerate(several):
        name = str(each) if isinstance(each, str | Path) else f"recorded {i + 1}"
        found[name] = output_arrays(each)
    return found


def _with_recorded(
    program: onnx.ModelProto | Module, given: dict[str, Any], recordings: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The inputs that are given, and those that recordings hold. Invalid (judge.C2): one holds another input."""
    names = (
        [p.name for p in program.main.params] if isinstance(program, Module) else [i.name for i in program.graph.input]
    )
    found = dict(given)
    for file, arrays in recordings.items():
        for name in names:
            if name in arrays:
                one, two = np.asarray(found.setdefault(name, arrays[name])), np.asarray(arrays[name])
                if (one.shape, one.dtype, one.tobytes()) != (two.shape, two.dtype, two.tobytes()):
                    raise Invalid(
                        f"the recording {file} has another input {name!r} than --inputs or another recording",
                        label="judge.C2",
                    )
    return found


def _second(
    program: Program, first: Subject, inputs: Mapping[str, Array], seed: int, chosen: Mapping[str, int]
) -> tuple[str, Subject]:
    """The second program at the sizes of the first, and its name. Invalid (judge.C3): it does not take its inputs."""
    other, source, files = opened_outside(program)
    name = source or "the second program"
    table, texts = first.module.main.attrs.get("strings", ()), text_tensors(first.model)
    given = {n: strings_of(table, a) if n in texts else a for n, a in inputs.items()}
    try:
        other, taken, _, sizes = with_inputs(other, given, {}, seed, source, table)
    except Invalid as why:
        there = ", ".join(f"{p.name}: {p.type}" for p in first.module.main.params)
        other_sizes = "".join(f"; {n}={size} was chosen, others with --dim" for n, size in chosen.items())
        raise Invalid(
            f"{name} does not take the inputs of the first program, {there}: {why.message}{other_sizes}",
            label="judge.C3",
        ) from why
    return name, holding(_subject(other, sizes, source, given=taken), files)


def sized_by_run(
    cut: Cut, backends: Sequence[Backend], sizes: Mapping[str, int], given: Mapping[str, Array], seed: int
) -> tuple[Subject, dict[str, int]]:
    """The inputs alone of a model that our definition cannot run, and sizes that are chosen for them: the first of
    `SIZES` on which a backend runs it, else the first of all."""
    inputs = cut.inputs_only()
    found: list[tuple[Subject, dict[str, int]]] = []
    for some in SIZES:
        subject, chosen = with_chosen_sizes(inputs, sizes, given, "", seed, [some])
        found.append((subject, chosen))
        whole = UnreadSubject(cut.model, {**sizes, **chosen})
        ordinary = next(input_sets(subject.module, given, ["random"], 1, seed))
        if not chosen or any(isinstance(attempt(b, whole, whole.outputs, ordinary.inputs), Ran) for b in backends):
            return found[-1]
    return found[0]


def with_chosen_sizes(
    program: onnx.ModelProto | Module,
    sizes: Mapping[str, int],
    given: Mapping[str, Array],
    source: str,
    seed: int,
    among: Sequence[Sequence[int]] = SIZES,
    original: bytes = b"",
) -> tuple[Subject, dict[str, int]]:
    """A program whose symbolic dims are numbers, and those of them that were chosen: the first `among` these on which
    it runs, else some that what it asserts of them allows. Invalid (judge.C1), or what all fail with: there is none."""
    if isinstance(program, Module):
        types: Iterable[Type] = [p.type for p in program.main.params]
    else:
        types = declared_inputs(program.graph)[0].values()
    open_ = list(dict.fromkeys(s for t in types for s in symbols(t) if s.name not in sizes))
    free = [s.name for s in open_]
    if not free:
        return _subject(program, sizes, source, original, given), {}
    wrong: list[AssayError] = []
    rows = (dict(zip(free, chain(r[:1], cycle(r[1:] or r)), strict=False)) for r in among)
    for chosen in chain(rows, _by_facts(program, sizes, source, free, wrong, given)):
        try:
            subject = _subject(program, {**sizes, **chosen}, source, original, given)
            ordinary = next(input_sets(subject.module, given, ["random"], 1, seed))
            graph.run(subject.module, ordinary.inputs)
        except (Invalid, Trap) as why:
            wrong.append(why)
            continue
        return subject, chosen
    if len({why.message for why in wrong}) == 1:  # whatever the sizes are
        if isinstance(wrong[0], Trap):
            raise traps_on(wrong[0])
        raise wrong[0]
    raise Invalid(
        f"no sizes were found on which it runs; say them with --dim, for {', '.join(free)}: {wrong[0]}",
        label="judge.C1",
    )


def _by_facts(
    program: onnx.ModelProto | Module,
    sizes: Mapping[str, int],
    source: str,
    free: Sequence[str],
    wrong: Sequence[AssayError],
    given: Mapping[str, Array],
) -> Iterator[dict[str, int]]:
    """Sizes at which what the program asserts of them holds; none where it fails whatever they are, as far as it was
    tried, or is refused without numbers."""
    if len({why.message for why in wrong}) == 1:
        return
    try:
        module = _subject(program, sizes, source, given=given).module
    except Invalid:
        return
    there = [s for p in module.main.params for s in symbols(p.type)]
    for found in fitting_sizes(module, [s for s in dict.fromkeys(there) if s.name in free]):
        yield {s.name: n for s, n in found.items()}


def _subject(
    program: onnx.ModelProto | Module,
    sizes: Mapping[str, int],
    source: str,
    original: bytes = b"",
    given: Mapping[str, Array] | None = None,
) -> Subject:
    if isinstance(program, Module):
        if not source.endswith(".py"):
            return subject_of_program(at_sizes(program, sizes, original), original)
        try:
            return subject_of_module(sized(program, sizes))
        except Unsupported as why:
            if why.label.startswith("onnx_export."):
                hint = f"TVM takes a text as it is: assay check {source} --backend tvm --per-pass"
                raise Unsupported(f"{why.message}; {hint}", where=why.where, label=why.label) from None
            raise
    return subject_of_model(program, sizes, source, given)
