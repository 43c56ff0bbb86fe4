"""A pytest plugin that judges backends in your own tests (specs/verify.md, "pytest").

    pytest --assay-backend onnxruntime --assay-backend mine

    @pytest.mark.assay("random", "specials", seed=7, dims={"n": 4}, seconds=30)
    def test_attention(assay_backend):
        assay_backend.check("attention.onnx")

pytest loads this module wherever Assay is installed, used or not. So nothing else of Assay is imported before a test
judges something.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import onnx

    from assay.semantics.module import Module
    from assay.verify.backends import Array, Isolated, Subject
    from assay.verify.oracle import Verdict

OPTION = "--assay-backend"
SECONDS = 60.0
"""How long a backend may take for one answer."""
MARKER = (
    "assay(*kinds, seed=0, dims={}, seconds=60): on what `assay_backend` judges: integers, random, specials,"
    " cancelling, large, ties, by default all of them; dims are the values of symbolic ones, seconds is how long one"
    " answer may take"
)
MARKED = ("seed", "dims", "seconds")
PROPERTY = "assay"
KNOWN = ("right", "open")
"""Verdicts that show something. A test with none of them is skipped: nobody knows."""
UNKNOWN = ("backend.C1", "onnx.C5")
"""Labels of what says nothing against a model or a backend: a tool that is not installed, an operator that nobody has
told of."""
processes = pytest.StashKey[dict[str, "Isolated"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names backends."""
    parser.getgroup("assay").addoption(
        OPTION, metavar="NAME", action="append", default=[], dest="assay_backend",
        help="a backend that tests with the fixture assay_backend judge, such as onnxruntime; may be given several"
        " times",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and make a table for the processes of backends."""
    config.addinivalue_line("markers", MARKER)
    config.stash[processes] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes of backends."""
    for process in config.stash.get(processes, {}).values():
        process.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture `assay_backend` once for each backend that the option names."""
    if "assay_backend" in metafunc.fixturenames:
        names = list(dict.fromkeys(metafunc.config.getoption("assay_backend")))
        if names:
            metafunc.parametrize("assay_backend", names, indirect=True)


@dataclass(frozen=True)
class JudgedBackend:
    """A backend, and on what it is judged. It runs in a process of its own, so that it may die."""

    name: str
    process: Isolated
    kinds: tuple[str, ...]
    seed: int
    dims: Mapping[str, int]
    folder: Callable[[], Path]
    """Makes a directory for a case that is wrong."""
    record: Callable[[str, str], None]

    def check(
        self, program: onnx.ModelProto | Module | Subject | str | Path, inputs: Mapping[str, Array] | None = None
    ) -> dict[str, Verdict]:
        """Run the program, and judge what the backend gives: the verdicts, by the kind of inputs ("given" where all of
        them are), so that `["given"].outcome` may be "right". `program` is an ONNX model, a module of Assay's, or the
        path of either; `inputs` that are not given are made.

        AssertionError: a verdict is wrong, or the backend's process died or took too long. The test is skipped, with
        one line, where the backend is not installed or can run this on no inputs, and where Assay cannot import the
        program. It fails with one line where the program cannot be read. What is undecided or unpredictable is not
        wrong: it is in the verdicts and in pytest's summary.
        """
        __tracebackhide__ = True
        from assay.semantics.errors import Invalid, Unsupported

        try:
            return self._check(program, inputs)
        except (Invalid, Unsupported) as wrong:
            unknown = isinstance(wrong, Unsupported) or wrong.label in UNKNOWN
            named = f"{program}: " if isinstance(program, (str, Path)) and str(program) not in str(wrong) else ""
            line = " ".join(f"{named}{wrong}".split())
        if unknown:
            pytest.skip(f"not judged: {line}")
        pytest.fail(line, pytrace=False)

    def _check(self, program: Any, inputs: Mapping[str, Array] | None) -> dict[str, Verdict]:
        __tracebackhide__ = True
        from assay.semantics.errors import Unsupported
        from assay.verify.backends.protocol import FATAL, OUTCOMES
        from assay.verify.oracle import judge_backend

        subject, inputs, defaults = self._subject(program, dict(inputs or {}))
        verdicts: dict[str, Verdict] = {}
        refused = ""
        for kind, arrays in self._inputs(subject, inputs):
            try:
                verdict = judge_backend(subject, self.process, arrays)
            except Unsupported as wrong:
                if wrong.label in FATAL:
                    self.record(kind, OUTCOMES[wrong.label])
                    raise AssertionError(
                        self._text(kind, wrong.message, program, subject, {**defaults, **arrays})
                    ) from None
                if OUTCOMES.get(wrong.label) != "refused":
                    raise
                refused = wrong.message
                self.record(kind, "refused")
                continue
            self.record(kind, verdict.outcome)
            if verdict.outcome == "wrong":
                raise AssertionError(self._text(kind, _said(verdict), program, subject, {**defaults, **arrays}))
            verdicts[kind] = verdict
        if not verdicts:
            pytest.skip(refused)
        if not any(v.outcome in KNOWN for v in verdicts.values()):
            kind, verdict = next(iter(verdicts.items()))
            pytest.skip(f"{self.name}, {kind} inputs: {verdict}")
        return verdicts

    def _subject(self, program: Any, given: dict[str, Array]) -> tuple[Subject, dict[str, Array], dict[str, Array]]:
        """What is judged, what is given for its inputs, and what for those of the model that have a default."""
        from assay.semantics.module import Module
        from assay.verify.app.text_run import load_either
        from assay.verify.backends import Subject, subject_of_model, subject_of_module
        from assay.verify.border.inputs import sized
        from assay.verify.border.onnx_defaults import with_given_defaults

        if isinstance(program, (str, Path)):
            program = load_either(Path(program))
        match program:
            case Subject():
                return program, given, {}
            case Module():
                return subject_of_module(sized(program, self.dims)), given, {}
            case _:
                taken = with_given_defaults(program, given, self.dims)
                return subject_of_model(taken.model, self.dims), taken.inputs, taken.defaults

    def _inputs(self, subject: Subject, given: dict[str, Array]) -> Iterator[tuple[str, dict[str, Array]]]:
        from assay.verify.oracle import Oracle

        if all(p.name in given for p in subject.module.main.params):
            yield "given", given
            return
        oracle = Oracle(subject.module, seed=self.seed)
        for kind in self.kinds:
            yield kind, oracle.inputs(kind, given=given)  # type: ignore[arg-type]  # a kind that is none is refused there

    def _text(self, kind: str, said: str, program: Any, subject: Subject, inputs: Mapping[str, Array]) -> str:
        """The verdict for people, with the command that makes the case smaller."""
        from assay.verify.border.inputs import save

        folder = self.folder()
        model = (
            Path(program).absolute() if isinstance(program, (str, Path)) and str(program).endswith(".onnx") else None
        )
        if model is None:
            model = folder / "model.onnx"
            model.write_bytes(subject.model.SerializeToString())
        save(folder / "inputs.npz", inputs)
        line = [
            "assay",
            "reduce",
            model,
            "--backend",
            self.name,
            "--inputs",
            folder / "inputs.npz",
            "--output",
            "reduced",
        ]
        about = "the inputs given" if kind == "given" else f"{kind} inputs, seed {self.seed}"
        return f"{self.name}, {about}\n{said}\nmake it smaller: {shlex.join(map(str, line))}"


def _said(verdict: Verdict) -> str:
    lines = [f"{verdict.outcome} ({verdict.layer}): {verdict.detail}"]
    if verdict.worst is not None and str(verdict.worst) not in verdict.detail:
        lines.append(f"worst element: {verdict.worst}")
    if verdict.culprit:
        lines.append(f"the first operator that is wrong: {verdict.culprit}")
    return "\n".join(lines)


@pytest.fixture
def assay_backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> JudgedBackend:
    """Each backend that --assay-backend names, to be judged by `check`."""
    name = getattr(request, "param", None)
    if name is None:
        pytest.skip(f"no backend to judge: give {OPTION} NAME")
    from assay.semantics.errors import Invalid
    from assay.verify.backends import Isolated
    from assay.verify.oracle.data import KINDS, kinds_of

    marker = request.node.get_closest_marker("assay") or pytest.mark.assay().mark
    unknown = [n for n in marker.kwargs if n not in MARKED]
    if unknown:
        pytest.fail(
            f"the marker assay has no {unknown[0]}; it takes kinds of inputs, and {', '.join(MARKED)}", pytrace=False
        )
    given = request.config.stash[processes]
    process = given.setdefault(name, Isolated(name))
    process.seconds = marker.kwargs.get("seconds", SECONDS)
    said = ""
    try:
        kinds = kinds_of(marker.args) or KINDS
        process.require()
    except Invalid as wrong:
        said = str(wrong)
    if said:  # out here, where it is no second exception
        pytest.fail(said, pytrace=False)

    def record(kind: str, outcome: str) -> None:
        request.node.user_properties.append((PROPERTY, f"{name} {kind}: {outcome}"))

    return JudgedBackend(
        name, process, kinds, marker.kwargs.get("seed", 0), marker.kwargs.get("dims", {}),
        lambda: tmp_path_factory.mktemp("assay"), record,
    )  # fmt: skip


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many runs were judged and how; and the tests in which nothing was found right, for they show nothing."""
    counts: Counter[str] = Counter()
    empty: list[str] = []
    reports = [r for some in terminalreporter.stats.values() for r in some if getattr(r, "when", "") == "call"]
    for report in reports:
        outcomes = [str(value).rpartition(": ")[2] for key, value in report.user_properties if key == PROPERTY]
        counts.update(outcomes)
        if outcomes and not report.failed and not set(KNOWN) & set(outcomes):
            empty.append(report.nodeid)
    if counts:
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        terminalreporter.section("assay")
        terminalreporter.line(f"{sum(counts.values())} runs judged: {said}")
        for nodeid in empty:
            terminalreporter.line(f"nothing could be decided in {nodeid}")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """What `assert a == b` shows of two modules or functions: the lines of their texts that differ."""
    module = sys.modules.get("assay.semantics.module")
    if op != "==" or module is None or not all(isinstance(x, (module.Module, module.Function)) for x in (left, right)):
        return None
    lines = list(unified_diff(repr(left).split("\n"), repr(right).split("\n"), "left", "right", lineterm="", n=2))
    said = lines or ["their texts are the same: what differs is left out of them, or they are compared by identity"]
    return [f"{type(left).__name__} == {type(right).__name__}", *said]
