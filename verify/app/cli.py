"""The command line: `assay check`, `run`, `build`, `verify`, `prove`, `plan`, `fuzz` (specs/verify.md, "Command line").

The commands are in `assay.verify.app.commands`. Exit codes are those of `assay.verify.exits`, in every command.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Annotated, Any

import typer

from assay.semantics.errors import EnvironmentFailure
from assay.verify import children
from assay.verify.app.answers import begin, one_answer
from assay.verify.app.commands.backends import backends
from assay.verify.app.commands.build import build
from assay.verify.app.commands.check import check
from assay.verify.app.commands.conform import conform
from assay.verify.app.commands.diff import diff
from assay.verify.app.commands.doctor import doctor
from assay.verify.app.commands.explain import explain
from assay.verify.app.commands.export import export
from assay.verify.app.commands.fuzz import fuzz
from assay.verify.app.commands.judge import judge
from assay.verify.app.commands.operators import operators
from assay.verify.app.commands.passes import passes
from assay.verify.app.commands.plan import plan
from assay.verify.app.commands.prove import prove
from assay.verify.app.commands.reduce import reduce
from assay.verify.app.commands.run import run
from assay.verify.app.commands.verify import verify
from assay.verify.app.ending import fail
from assay.verify.app.spending import Terminated, endings
from assay.verify.app.terminal import Screen, streams
from assay.verify.exits import Exit

COLLECTED = 20_000, 20, 50
"""How often the collector of cycles looks, by its three ages: there is hardly ever one in programs, and looking as
often as Python does by itself took an eighth of a check."""

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Say what a tensor program means, lower it to C, and prove each step.",
)


def say_version(wanted: bool) -> None:
    """The answer to --version; nothing else is done."""
    if wanted:
        from importlib.metadata import version  # it takes longer than all of --help

        Screen().print(f"assay {version('assay')}")
        raise typer.Exit


@app.callback()
def before(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=say_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options that stand before a command."""
    begin(context.invoked_subcommand or "error")


for command in (
    check, judge, run, build, export, verify, prove, reduce, plan, fuzz, conform, diff, backends, passes, operators,
    explain, doctor,
):  # fmt: skip
    app.command()(command)


@cache
def command_line() -> Any:
    """What reads the words of a command: made once in a process, for it takes as long as a small command does."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; whatever a person can cause gets one line and no traceback. With --json standard output has
    one object all the same."""
    code: int | str | None = Exit.HOLDS
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTED)
    try:
        with streams(), endings():
            try:
                with children.nothing_left(), one_answer():
                    command_line()()
            except SystemExit as done:
                code = done.code
            except (Exception, KeyboardInterrupt, Terminated) as wrong:  # noqa: BLE001  (told, each with its exit code)
                code = fail(wrong)
    except EnvironmentFailure as wrong:
        code = fail(wrong)
    finally:
        gc.set_threshold(*before)
    sys.exit(code)
