"""`assay check` (specs/verify.md, "Command line")."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.verify.app.commands.declared import (
    AsJson,
    Dims,
    Inputs,
    Junit,
    Model,
    Patience,
    Prove,
    Quiet,
    Seed,
    SizeBounds,
    held,
    parse_bounds,
    parse_dims,
)


@held
def check(
    model: Model,
    backend: Annotated[
        list[str],
        typer.Option(
            "--backend",
            help="also judge this backend: onnxruntime, tvm, torch, reference or another; see specs/verify.md",
        ),
    ] = [],
    expected: Annotated[
        Path | None, typer.Option("--expected", metavar="OUT.npz", help="also judge these outputs")
    ] = None,
    inputs: Inputs = None,
    dim: Dims = [],
    bound: SizeBounds = [],
    how: dict[str, Any] = {},
    seed: Seed = 0,
    stop_after: Annotated[
        str,
        typer.Option(
            "--stop-after",
            metavar="STAGE",
            help="stop after this line; whom --backend and --expected name is judged all the same",
            show_default=False,
        ),
    ] = "",
    prove: Prove = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="write a page with the stages and the memory map, DIR/index.html"),
    ] = None,
    exclude: Annotated[
        list[str],
        typer.Option(
            "--exclude",
            metavar="RIGHT",
            help=(
                "a right that nobody who is judged has: kept-wider, to hold tensors of 16 bits in float32 between"
                " operators; or flushes, splits, tf32 or bf16-sums, which a backend may declare"
            ),
        ),
    ] = [],
    per_pass: Annotated[
        bool,
        typer.Option("--per-pass", help="with --backend tvm: judge TVM's module after each of its passes, instead"),
    ] = False,
    per_kernel: Annotated[
        bool,
        typer.Option("--per-kernel", help="with --backend tvm: judge each call of a kernel by TVM's machine, instead"),
    ] = False,
    junit: Junit = None,
    patience: Patience = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Lower MODEL to C stage by stage, check every stage, prove the memory plan, run and compare."""
    from assay.verify.api.check import check as check_program
    from assay.verify.app.showing import show_run
    from assay.verify.app.terminal import Screen
    from assay.verify.border.inputs import load_npz
    from assay.verify.tvm import command as tvm_command

    if per_pass or per_kernel:
        others = {
            "--expected": expected,
            "--stop-after": stop_after,
            "--report": report,
            "--exclude": exclude,
            "--bound": bound,
            "--prove": prove,
        }
        tvm_command.require_none_of([n for n, given in {**others, "--patience": patience}.items() if given])
        request = tvm_command.TvmRequest(
            model, per_pass, per_kernel, load_npz(inputs) if inputs else {}, parse_dims(dim), seed, junit
        )
        raise typer.Exit(tvm_command.judge_inside(request, backend, Screen(), as_json))
    work = partial(
        check_program,
        model,
        inputs,
        backends=backend,
        expected=expected,
        dims=parse_dims(dim),
        bounds=parse_bounds(bound),
        seed=seed,
        exclude=exclude,
        stop_after=stop_after,
        prove=prove,
        patience=patience,
        page=report,
        **how,
    )
    raise typer.Exit(show_run(str(model), seed, as_json, work, junit, quiet=quiet))
