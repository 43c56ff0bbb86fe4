"""Options that several commands have, each declared once (specs/verify.md, "Command line")."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import OptionInfo

from assay.semantics.digits import is_size
from assay.semantics.errors import Invalid
from assay.verify.api.how import DEFAULTS
from assay.verify.app.ending import last_words
from assay.verify.app.spending import SECONDS, Terminated, default_memory, parse_memory, parse_seconds, spending
from assay.verify.app.stages import SKIPPABLE

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="an ONNX model, or a module as text: FILE.py (TVMScript), FILE.relay or FILE.mlir (StableHLO); or"
        " FILE.pt2 (torch.export)",
        show_default=False,
    ),
]
Dims = Annotated[list[str], typer.Option("--dim", metavar="NAME=N", help="the value of a symbolic dim")]
SizeBounds = Annotated[
    list[str],
    typer.Option("--bound", metavar="NAME=LEAST..MOST", help="the values of a size, such as n=1.. or n=1..64"),
]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", metavar="IN.npz", help="inputs by name; the others are random")
]
Constants = Annotated[
    Path | None,
    typer.Option(
        "--constants",
        metavar="CONSTANTS.npz",
        help="a file that assay build --vm made: the constants that are bound late",
        show_default=False,
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", help="fixes the inputs that are not given, and the checks' random data", min=0)
]
Patience = Annotated[
    float | None,
    typer.Option(
        "--patience",
        metavar="S",
        help="how long a backend may take for one answer; by default 600 seconds",
        show_default=False,
    ),
]
Prove = Annotated[
    bool,
    typer.Option(
        "--prove", help="prove kernels of any size too, and keep what z3 was asked: some minutes for a large model"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="write the result as JSON")]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="print what does not hold, and in one line what all comes to; no more")
]
Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="write what was found as JUnit's XML, a test for each part"),
]
Pools = Annotated[
    str,
    typer.Option(
        "--pools",
        metavar="NAME[@MEMORY][=LIMIT],...",
        help="the pools, the most wanted first; by default one without a limit",
        show_default=False,
    ),
]
ConstantPools = Annotated[
    str,
    typer.Option(
        "--constant-pools",
        metavar="NAME[@WHERE][=LIMIT],...",
        help="the memories for constants, the most wanted first; by default one table",
        show_default=False,
    ),
]
Planner = Annotated[
    str, typer.Option("--planner", help="tokens, greedy-size, greedy-conflicts, first-fit, hill-climb or exact")
]
Devices = Annotated[
    list[str],
    typer.Option(
        "--on",
        metavar="DEVICE",
        help=(
            "a device that there is, such as cpu, cuda:1 or cuda=cuda -arch=sm_80; the first is where all runs that"
            " need not run elsewhere"
        ),
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="DEVICE",
        help="the device on which shapes and decisions are; by default the only cpu",
        show_default=False,
    ),
]
Alignment = Annotated[
    int | None,
    typer.Option(
        "--alignment",
        metavar="N",
        help=(
            "the bytes to which buffers in pools are aligned, a power of two; by default what their elements need, in a"
            " packed interface 64"
        ),
        show_default=False,
    ),
]
DumpTo = Annotated[
    Path | None,
    typer.Option("--dump", metavar="DIR", help="write the module after each stage, as text", show_default=False),
]
Skip = Annotated[list[str], typer.Option("--skip", metavar="STAGE", help=f"leave out {' or '.join(SKIPPABLE)}")]
Passes = Annotated[
    str,
    typer.Option(
        "--passes",
        metavar="NAME,...",
        help="optional passes, each with its check on its own line; assay passes lists them",
        show_default=False,
    ),
]
ToBytecode = Annotated[bool, typer.Option("--vm", help="lower to bytecode for a virtual machine, not to C")]
InPools = Annotated[bool, typer.Option("--io-in-pools", help="inputs and outputs lie in the pools too")]
MemoryLimit = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="BYTES",
        help="what the run may take, such as 512M or 4G, or none; by default half of what there is",
        show_default=False,
    ),
]
Timeout = Annotated[
    str,
    typer.Option(
        "--timeout", metavar="S", help="the seconds that it may take, or none; by default an hour", show_default=False
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="no colours, as with NO_COLOR=1")]


LOWERING: Mapping[str, Any] = {
    "pools": Pools, "constant_pools": ConstantPools, "planner": Planner, "io_in_pools": InPools, "alignment": Alignment,
    "on": Devices, "host": Host, "dump": DumpTo, "skip": Skip, "passes": Passes, "vm": ToBytecode,
}  # fmt: skip
"""How a command is given each option of `How`, in place of its parameter `how`."""

JOINED = ("pools", "constant_pools", "passes")
"""Options that are lists in one text. Given several times, they are one list."""


HEADINGS: Mapping[str, Sequence[str]] = {
    "Inputs and sizes": ("inputs", "dim", "bound", "seed", "constants", "kinds", "runs", "stream", "repeat"),
    "Memory plan": ("pools", "constant_pools", "planner", "io_in_pools", "alignment"),
    "Lowering": ("on", "host", "skip", "passes", "vm", "interface", "device"),
    "Who is judged": (
        "backend", "expected", "recorded", "exclude", "per_pass", "per_kernel", "patience", "sound_only",
    ),
    "What is written": (
        "output", "dump", "report", "junit", "as_json", "quiet", "no_color", "baseline", "badge", "text", "plot",
    ),
    "Limits": ("memory", "timeout", "threads"),
}  # fmt: skip
"""Under which heading `--help` shows an option that several commands have; the others are what the command is about."""
_HEADING = {name: heading for heading, names in HEADINGS.items() for name in names}


def held(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options --memory and --timeout, and held to them, and with --no-color. Its parameter `how`, if
    it has one, is the options in LOWERING, by name."""
    longest = None if command.__name__ == "fuzz" else SECONDS
    own = signature(command, eval_str=True)
    parameters: list[Parameter] = []
    for p in own.parameters.values():
        options = LOWERING if p.name == "how" else {}
        parameters += [p.replace(name=n, annotation=a, default=dict(DEFAULTS)[n]) for n, a in options.items()] or [p]
    for i, p in enumerate(parameters):
        if p.name in JOINED:
            parameters[i] = p.replace(annotation=Annotated[list[str], *p.annotation.__metadata__], default=[])
    added: list[tuple[str, Any, Any]] = [
        ("memory", "", MemoryLimit), ("timeout", "", Timeout), ("no_color", False, NoColor),
    ]  # fmt: skip
    for name, default, kind in added:
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    parameters = [_grouped(p) for p in parameters]

    @wraps(command)
    def run(*args: Any, memory: str, timeout: str, no_color: bool, **options: Any) -> None:
        if no_color:
            os.environ["NO_COLOR"] = "1"  # for the processes that the command starts too
        most = parse_memory(memory) if memory else default_memory()
        seconds = parse_seconds(timeout) if timeout else longest
        options.update({n: ",".join(filter(None, options[n])) for n in JOINED if n in options})
        if "how" in own.parameters:
            options["how"] = {name: options.pop(name) for name in LOWERING}
        with spending(most, seconds, chosen=bool(timeout), last_words=last_words):
            try:
                command(*args, **options)
            except KeyboardInterrupt as wrong:  # typer would end the process without a word
                end = Terminated(signal.SIGINT)
                end.__dict__.update(wrong.__dict__)
                raise end from wrong

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _grouped(p: Parameter) -> Parameter:
    """An option under its heading."""
    if p.name not in _HEADING or get_origin(p.annotation) is not Annotated:
        return p
    kind, *said = get_args(p.annotation)
    under = [_under(copy(s), _HEADING[p.name]) if isinstance(s, OptionInfo) else s for s in said]
    return p.replace(annotation=Annotated[kind, *under])


def _under(option: OptionInfo, heading: str) -> OptionInfo:
    option.rich_help_panel = heading
    return option


def parse_dims(given: Iterable[str]) -> dict[str, int]:
    """`NAME=N` options as a mapping."""
    dims: dict[str, int] = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        if not equals or not name or not is_size(number):
            raise Invalid(f"--dim takes NAME=N, such as N=4, N below 2^63, not {text!r}", label="cli.C1")
        if name in dims:
            raise Invalid(f"--dim {name} is given twice", label="cli.C1")
        dims[name] = int(number)
    return dims


def parse_bounds(given: Iterable[str]) -> dict[str, tuple[int | None, int | None]]:
    """`NAME=LEAST..MOST` options, either number left out for no bound."""
    bounds: dict[str, tuple[int | None, int | None]] = {}
    for text in given:
        found = re.fullmatch(r"([^=]+)=(-?[0-9]+)?\.\.(-?[0-9]+)?", text)
        if found is None or not all(is_size((n or "0").lstrip("-")) for n in found.groups()[1:]):
            raise Invalid(
                f"--bound takes NAME=LEAST..MOST, such as n=1.. or n=1..64, not {text!r}", label="symbolic.C2"
            )
        name, low, high = found.groups()
        if name in bounds:
            raise Invalid(f"--bound {name} is given twice", label="symbolic.C2")
        bounds[name] = (None if low is None else int(low), None if high is None else int(high))
    return bounds
