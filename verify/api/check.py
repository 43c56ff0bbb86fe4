"""`assay.check`, `assay.build` and `assay.verify`: a program through every stage, each checked (specs/verify.md, "From
Python")."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import onnx

from assay.lower.c import emit
from assay.lower.frontends.torch_export import with_buffers
from assay.lower.instrument import Instruments
from assay.lower.interfaces import Interface
from assay.lower.pool import Memory
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.verify.api.how import DEFAULTS, How
from assay.verify.api.programs import (
    Array,
    Inputs,
    Program,
    file_name,
    input_arrays,
    of_exported,
    opened,
    output_arrays,
    with_inputs,
    with_original,
)
from assay.verify.app import bound as binding, certificate, check as run, executable, signing
from assay.verify.app.check import CheckRun, Line
from assay.verify.app.judging import JudgedOutputs, isolated
from assay.verify.app.options import alignment_of, c_name, devices_of, instruments_of, memory_of, stage_of
from assay.verify.app.report.collect import collect, judged_lines
from assay.verify.app.report.write import require_place, write_report as write_page
from assay.verify.app.summary import run_summary
from assay.verify.backends.functions import as_backend
from assay.verify.backends.in_process import InProcess
from assay.verify.backends.isolated import Isolated
from assay.verify.backends.protocol import Backend
from assay.verify.border.files import replace_file, require_file_place
from assay.verify.border.inputs import bounds_left, save
from assay.verify.border.onnx_containers import containers
from assay.verify.evidence import holds_all
from assay.verify.exits import Exit, gravest
from assay.verify.memory.second import cvc5_module
from assay.verify.oracle.declarations import EVERYTHING_KEPT
from assay.verify.symbolic import Bounds

Backends: TypeAlias = str | Backend | Callable[..., Any] | Sequence[str | Backend | Callable[..., Any]]
"""Who is judged: by name, or objects of the protocol, or functions of a model and its inputs."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Told the name of the line that is being made, how many of its parts are done, and of how many; 0 if not known."""


@dataclass(frozen=True, repr=False)
class Report:
    """What was found: the lines of the table, the first that does not hold last but for those of backends; the inputs
    and outputs by name; the module after each stage that was reached, by its name.

    >>> report = assay.check("model.onnx", stop_after="anf")
    >>> [(line.stage, line.evidence.how) for line in report.lines]
    [('import', 'checked'), ('devices', 'proved'), ('anf', 'proved')]
    >>> report.holds, list(report.modules)
    (True, ['import', 'devices', 'anf'])
    """

    lines: tuple[Line, ...]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    modules: Mapping[str, Module]
    seed: int

    @property
    def holds(self) -> bool | None:
        """True if all lines hold, False if one does not, None if something is not known."""
        return holds_all(line.evidence for line in self.lines)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each backend that was judged, such as "right" or "wrong", by its name."""
        return {line.stage: line.evidence.outcome for line in self.lines if line.evidence.outcome}

    @property
    def exit(self) -> Exit:
        """The exit code of a command that found only this."""
        return gravest(line.evidence.exit for line in self.lines)

    def __repr__(self) -> str:
        """What all lines come to."""
        return f"<Report: {run_summary(self.lines)}>"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        from assay.verify.api.notebook import report_html

        return report_html(self.lines)


def check(
    model: Program,
    inputs: Inputs = None,
    *,
    backends: Backends = (),
    expected: Inputs = None,
    dims: Mapping[str, int] | None = None,
    bounds: Bounds | None = None,
    seed: int = 0,
    exclude: str | Sequence[str] = (),
    stop_after: str = "",
    prove: bool = False,
    patience: float | None = None,
    page: str | Path | None = None,
    on_line: Callable[[Line], None] | None = None,
    progress: Progress | None = None,
    **how: Unpack[How],
) -> Report:
    """Lower a program to C stage by stage, check every stage, prove the memory plan, run and compare.

    Inputs that are not given are random, by `seed`. Each of `backends` is judged: by name in a process of its own, an
    object of the protocol `Backend` in this one; so are the outputs `expected`. A file is judged as the model that it
    is; a module is exported for that. `dims` gives symbolic dims numbers, `bounds` the least and the greatest that they
    may be; what has neither is lowered for all sizes, and run at several. `exclude` names rights that whoever is judged
    does not have; `stop_after` the last line of our own; with `prove` kernels are proved that take minutes; `patience`
    the seconds that a named one may take for an answer (600); `page` a directory for the page of `assay check
    --report`.
    `on_line` gets each line as it is found. The rest are the options of `assay check` by the same names: `pools`,
    `constant_pools`, `planner`, `io_in_pools` and `alignment` of memory, `on` and `host` of devices, `dump` a directory
    for the module after each stage, `skip` stages to leave out, `passes` optional ones.

    Invalid: the program, the inputs or an option cannot be used. Unsupported: a stage cannot take the program.
    EnvironmentFailure: there is no C compiler, a disk is full.

    >>> report = assay.check("model.onnx", dims={"N": 2}, stop_after="legalize")
    >>> report.holds, report.lines[-1].stage
    (True, 'legalize')
    >>> x, y = numpy.ones((1, 3), "float32"), numpy.array([[0.0, 0.625]], "float32")
    >>> assay.check("model.onnx", {"x": x}, expected={"y": y}, stop_after="import").verdicts
    {'expected': 'wrong'}
    """
    EVERYTHING_KEPT.excluding(exclude)  # before anything long begins
    if page is not None:
        require_place(Path(page))
    with named_backends(backends, expected is not None, patience) as others:
        how = {**DEFAULTS, **how}
        require_no_plans(how, "")
        config, passes = devices_of(how["on"], how["host"]), _passes(how)
        read, original = with_original(model)
        program, source = opened(read)[0], file_name(model)
        held = {} if isinstance(program, Module) else containers(program)
        program, given, defaults, sizes = with_inputs(program, input_arrays(inputs), dims or {}, seed, source)
        original = with_buffers(original, defaults) if original else b""
        bounds = bounds_left(bounds or {}, sizes)
        named = None if isinstance(program, Module) else program
        judged: list[JudgedOutputs] = []
        if expected is not None:
            judged.append(
                JudgedOutputs(
                    "expected", named, sizes, outputs=output_arrays(expected), containers=held, excluded=exclude
                )
            )
        for name, who in others:
            judged.append(JudgedOutputs(name, named, sizes, backend=who, excluded=exclude, original=original))
        if page is not None:
            judged = [replace(j, told=[]) for j in judged]
        checked = CheckRun(
            run.Lowering(
                program,
                _c_name(source),
                sizes,
                source=source,
                memory=_memory(how),
                config=config,
                passes=passes,
                inputs=given,
                bounds=bounds,
                vm=how["vm"],
            ),
            given,
            seed,
            judged,
            defaults,
            instruments=_instruments(how),
            stop_after=stage_of(stop_after, passes, how["vm"]),
            or_bytecode=not (stop_after or _of_plans(how)),
            thorough=prove,
            keeps=page is not None,
        )
        found = _found(checked, checked.lines, on_line, progress)
        if page is not None:
            told = judged_lines(judged)
            write_page(Path(page), collect(source, seed, list(found.lines), checked.modules, checked.queries, told))
    return found


def build(
    model: Program,
    directory: str | Path,
    inputs: Inputs = None,
    *,
    dims: Mapping[str, int] | None = None,
    bounds: Bounds | None = None,
    seed: int = 0,
    interface: Interface | str = Interface.UNPACKED,
    device: str = "",
    sign: str | Path | None = None,
    late_constants: str | Path | None = None,
    prove: bool = False,
    on_line: Callable[[Line], None] | None = None,
    progress: Progress | None = None,
    **how: Unpack[How],
) -> Report:
    """Check a program as `check` does and, if every line holds, write its C text and the certificate to `directory`;
    with `vm` its bytecode and the certificate to one file of that name.

    `interface` is how the C entry and its kernels are called; `device` where steps run that name none; `sign` a file
    with a private Ed25519 key; `late_constants` an .npz file for the constants of bytecode, which are then bound when
    it is run; with `prove` the certificate claims what is proved of kernels, and keeps the texts; the rest as for
    `check`. Invalid: as `check`, or the directory is not empty and no
    certificate is in it.

    >>> assay.build("model.onnx", "model.assay", dims={"N": 2}, vm=True).holds
    True
    """
    directory, interface = Path(directory), Interface(interface)
    how = {**DEFAULTS, **how}
    require_no_plans(how, device or ("" if interface is Interface.UNPACKED else interface))
    if late_constants is not None:
        if not how["vm"]:
            raise Invalid("--late-constants is for bytecode: it goes with --vm", label="cli.C3")
        require_file_place(Path(late_constants))
        if Path(late_constants).resolve() == directory.resolve():
            raise Invalid("--late-constants and --output are one file", label="cli.C3")
    require_file_place(directory) if how["vm"] else certificate.require_writable(directory)
    config = devices_of(how["on"], how["host"])
    if config is not None and device:
        raise Invalid("--device is for steps that name no device; with --on each of them names one", label="cli.C3")
    signer = signing.signer(Path(sign)) if sign is not None else None
    program, source, bound = bound_of(model)
    program, given, defaults, sizes = with_inputs(program, input_arrays(inputs), dims or {}, seed, source)
    bounds = bounds_left(bounds or {}, sizes)
    bound = replace(
        bound,
        defaults=binding.digests_of_arrays(defaults),
        dims=dict(sorted(sizes.items())),
        given=tuple(sorted(given)),
        bounds=dict(sorted(bounds.items())),
    )
    lowering = run.Lowering(
        program,
        _c_name(source),
        sizes,
        emitter=partial(emit, interface=interface, device=device),
        source=source,
        memory=_memory(how, interface),
        config=config,
        passes=_passes(how),
        inputs=given,
        bounds=bounds,
        vm=how["vm"],
        digest=lambda m: binding.header_digest(binding.module_digest(m), bound, seed),
    )

    checked = CheckRun(lowering, given, seed, defaults=defaults, instruments=_instruments(how), thorough=prove)
    found = _found(checked, checked.lines, on_line, progress)
    if found.exit is Exit.HOLDS and how["vm"]:
        write = partial(certificate.write_packed, directory, checked, list(found.lines), bound, signer)
        write() if late_constants is None else _with_late(Path(late_constants), checked, write)
    elif found.exit is Exit.HOLDS:
        certificate.write(directory, checked, list(found.lines), bound, signer)
    return found


def _with_late(path: Path, checked: CheckRun, write: Callable[[], None]) -> None:
    """Write the constants that are bound late to a file of their own, and the rest: both, or neither."""
    made = checked.modules["vm"]
    late = {n: made.constants[n] for n in executable.late_names(made)}
    checked.late = executable.digests(late)

    def both(temporary: Path) -> None:
        save(temporary, late)
        write()

    replace_file(path, both)


def verify(
    directory: str | Path | certificate.Stored,
    *,
    model: str | Path | None = None,
    key: str | Path | None = None,
    second: bool = False,
    prove: bool = False,
    constants: Inputs = None,
    on_line: Callable[[Line], None] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check a certificate again, from nothing but the directory; or the file of an executable, with its `constants`
    where they are bound late.

    With `model` it must be of this file, with `key` be signed with the private half of this Ed25519 key; with `second`
    cvc5 decides its proofs too. What it claims of kernels is proved again; with `prove` also what it does not claim.
    Invalid: there is no certificate, or a file of it is not as its manifest says.
    """
    if second:
        cvc5_module()
    holds = signing.verifier(Path(key)) if key is not None else None
    stored = directory if isinstance(directory, certificate.Stored) else stored_at(Path(directory), constants)
    checked = CheckRun(
        stored, stored.given(), stored.seed, defaults=stored.defaults(), kept=stored.inputs(), late=stored.late,
        thorough=stored.prove,
    )  # fmt: skip
    of_model = Path(model) if model is not None else None
    return _found(
        checked, lambda: certificate.lines(stored, checked, holds, of_model, second, prove), on_line, progress
    )


def stored_at(path: Path, constants: Inputs = None) -> certificate.Stored:
    """The certificate in a directory or in the file of an executable, whose late constants these are."""
    return certificate.Stored(path, input_arrays(constants))


def require_no_plans(how: How, of_c: str) -> None:
    """Invalid (cli.C3): an option is about memory plans or C, and the lowering is to bytecode."""
    odd = _of_plans(how) if how["vm"] else []
    if odd or (how["vm"] and of_c):
        what = f"--{odd[0].replace('_', '-')}" if odd else "--interface or --device"
        raise Invalid(f"{what} is for C, and --vm is without a plan of memory", label="cli.C3")


def _of_plans(how: How) -> list[str]:
    """The options that are given and are about memory plans."""
    names = ("pools", "constant_pools", "planner", "io_in_pools", "alignment")
    return [n for n in names if how[n] != DEFAULTS[n]]  # type: ignore[literal-required]


def _found(
    checked: CheckRun,
    lines: Callable[[], Iterable[Line]],
    on_line: Callable[[Line], None] | None,
    progress: Progress | None,
) -> Report:
    """All lines, each told as it comes."""
    if progress is not None:
        checked.progress = progress
    done: list[Line] = []
    for line in lines():
        done.append(line)
        if on_line is not None:
            on_line(line)
    return Report(tuple(done), checked.inputs, checked.outputs, checked.modules, checked.seed)


def _memory(how: How, interface: Interface = Interface.UNPACKED) -> Memory:
    alignment = alignment_of(how["alignment"], interface)
    return memory_of(how["pools"], how["planner"], how["io_in_pools"], how["constant_pools"], alignment)


def _passes(how: How) -> str:
    return how["passes"] if isinstance(how["passes"], str) else ",".join(how["passes"])


def _instruments(how: How) -> Instruments:
    return instruments_of(Path(how["dump"]) if how["dump"] is not None else None, how["skip"])


def bound_of(program: Program) -> tuple[onnx.ModelProto | Module, str, binding.Bound]:
    """What `opened` gives, and what binds a certificate to it: digests of its files, or of what was handed over."""
    if isinstance(program, str | Path):
        model, bound = binding.load_bound(Path(program))
        return model, Path(program).name, bound
    if not isinstance(program, onnx.ModelProto):
        module = program if isinstance(program, Module) else of_exported(program)[0]
        return module, "", binding.Bound(binding.module_digest(module))
    return program, "", binding.Bound(hashlib.sha256(program.SerializeToString(deterministic=True)).hexdigest())


@contextmanager
def named_backends(
    backends: Backends, expected: bool, patience: float | None = None
) -> Iterator[list[tuple[str, Backend]]]:
    """Those that are judged, each with its name; behind this their processes have ended. Invalid: there is no such
    backend (backend.C3), an object is none, or has the name of another (backend.C4)."""
    with ExitStack() as processes:
        yield _named(backends, {"expected"} if expected else set(), patience, processes)


def _named(
    backends: Backends, taken: set[str], patience: float | None, processes: ExitStack
) -> list[tuple[str, Backend]]:
    found: list[tuple[str, object, Backend]] = []
    for each in backends if isinstance(backends, Sequence) and not isinstance(backends, str) else [backends]:
        who: Isolated | InProcess
        if isinstance(each, str):
            who = processes.enter_context(isolated(each, patience))
            who.require()
        else:
            who = InProcess(as_backend(each, "an entry of backends=", getattr(each, "__name__", ""), False))
        name = who.name
        if name in taken and all((name, each) != other[:2] for other in found):
            raise Invalid(f"two that are judged have the name {name!r}; give each its own", label="backend.C4")
        taken.add(name)
        found.append((name, each, who))
    return [(name, who) for name, _, who in found]


def _c_name(source: str) -> str:
    return c_name(Path(source or "model"))
