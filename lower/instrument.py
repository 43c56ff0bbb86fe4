"""Instruments: what looks on while passes run (row A22; specs/lower.md, "Instruments").

An instrument is told of each pass before and after, may leave out a pass that need not run, and sees the modules. It
changes none: a module is a value. `Instruments` holds several, enters all of them before the first pass and leaves them
after the last; `run_passes` runs a pipeline under them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from assay.lower.pipeline import Pass
from assay.semantics.analyses.dump import dump
from assay.semantics.bytecode import Bytecode
from assay.semantics.bytecode.listing import listing
from assay.semantics.errors import Invalid
from assay.semantics.files import directory_at
from assay.semantics.module import Module, Program
from assay.semantics.text.module_printer import write_module


class Instrument:
    """Looks on and does nothing: the base of all instruments. Each method may be overridden."""

    def enter(self) -> None:
        """Called before the first pass."""

    def leave(self) -> None:
        """Called after the last pass, or after one that failed."""

    def should_run(self, module: Module, name: str) -> bool:
        """Whether a pass of that name is to run. A pass runs if no instrument says no; not all may be left out."""
        return True

    def before_pass(self, module: Module, name: str) -> None:
        """A pass is about to run on this module."""

    def after_pass(self, module: Module, name: str) -> None:
        """A pass has made this module. An import is seen only here: there is no module before it."""


class Instruments(AbstractContextManager["Instruments"]):
    """Several instruments as one. A context: those that were entered are left, in the opposite order, whatever
    happens."""

    def __init__(self, *each: Instrument) -> None:
        self.each = each
        self._entered = ExitStack()

    def __enter__(self) -> Instruments:
        with ExitStack() as entered:
            for one in self.each:
                one.enter()
                entered.callback(one.leave)
            self._entered = entered.pop_all()
        return self

    def __exit__(self, *wrong: object) -> None:
        self._entered.close()

    def run(
        self, name: str, run: Callable[[Module | None], Module], module: Module | None, skippable: Collection[str]
    ) -> Module:
        """What a pass makes of a module, or of nothing, seen by each. Invalid (instrument.C1): one that is not
        `skippable` is left out."""
        if module is not None:
            if not all([one.should_run(module, name) for one in self.each]):
                if name not in skippable:
                    raise Invalid(
                        f"the stage {name} cannot be left out; {', '.join(skippable) or 'none'} can",
                        label="instrument.C1",
                    )
                return module
            for one in self.each:
                one.before_pass(module, name)
        made = run(module)
        for one in self.each:
            one.after_pass(made, name)
        return made


def run_passes(
    module: Module,
    passes: Mapping[str, Pass],
    instruments: Iterable[Instrument] = (),
    stop_after: str = "",
    skippable: Collection[str] = (),
) -> Module:
    """The module after all passes, in order; or after that of one name. Instruments may leave out those that are
    `skippable`. Invalid (instrument.C2): there is no pass of that name."""
    if stop_after and stop_after not in passes:
        raise Invalid(f"there is no pass {stop_after}; there are {', '.join(passes)}", label="instrument.C2")
    with Instruments(*instruments) as seen:
        for name, step in passes.items():
            module = seen.run(name, _given(step), module, skippable)
            if name == stop_after:
                break
    return module


def _given(step: Pass) -> Callable[[Module | None], Module]:
    def run(module: Module | None) -> Module:
        assert module is not None
        return step(module)

    return run


class Leaving(Instrument):
    """Leaves out the passes of these names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def should_run(self, module: Module, name: str) -> bool:
        """Refuse the passes that are to be left out."""
        return name not in self.names


class Dump(Instrument):
    """Writes each module to a directory: `03-anf.py`, which `assay run` and `check` take, with its large constants
    beside it; and a planned program or bytecode, which have no text that is read, as `08-liveness.main.txt`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._count = 0

    def enter(self) -> None:
        """Make the directory; Invalid if that fails."""
        with _written(self.directory):
            directory_at(self.directory)

    def after_pass(self, module: Module, name: str) -> None:
        """Write the module as text, and each planned program, or bytecode, as a dump beside it."""
        self._count += 1
        stem = f"{self._count:02}-{name}"
        programs = {n: d for n, d in module.definitions.items() if isinstance(d, Program | Bytecode)}
        rest = {n: d for n, d in module.definitions.items() if n not in programs}
        write_module(replace(module, definitions=rest), self.directory / f"{stem}.py")
        for of, program in programs.items():
            with _written(self.directory):
                text = dump(program) if isinstance(program, Program) else "\n".join(listing(program))
                (self.directory / f"{stem}.{of}.txt").write_text(text + "\n", "utf-8")


@contextmanager
def _written(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as wrong:
        raise Invalid(f"cannot write: {wrong.strerror}", where=str(directory), label="output.C1") from None
