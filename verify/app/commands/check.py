"""`assay check` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.verify.app.commands.declared import (
    Alignment,
    AsJson,
    ConstantPools,
    Devices,
    Dims,
    DumpTo,
    Host,
    InPools,
    Inputs,
    Model,
    Planner,
    Pools,
    Seed,
    Skip,
    held,
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
    pools: Pools = "",
    constant_pools: ConstantPools = "",
    planner: Planner = "exact",
    io_in_pools: InPools = False,
    alignment: Alignment = None,
    on: Devices = [],
    host: Host = "",
    seed: Seed = 0,
    dump: DumpTo = None,
    skip: Skip = [],
    stop_after: Annotated[
        str,
        typer.Option(
            "--stop-after",
            metavar="STAGE",
            help="stop after this line; whom --backend and --expected name is judged all the same",
            show_default=False,
        ),
    ] = "",
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
                " operators"
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
    as_json: AsJson = False,
) -> None:
    """Lower MODEL to C stage by stage, check every stage, prove the memory plan, run and compare."""
    from assay.semantics.module import Module
    from assay.verify.app.check import Check, Line, Lowering
    from assay.verify.app.given import with_inputs
    from assay.verify.app.judging import Judged, isolated
    from assay.verify.app.options import alignment_of, c_name, devices_of, instruments_of, memory_of, stage_of
    from assay.verify.app.report.collect import collect
    from assay.verify.app.report.write import require_place, write as write_report
    from assay.verify.app.showing import show
    from assay.verify.app.terminal import Screen
    from assay.verify.app.text_run import load_either
    from assay.verify.backends import backend as find_backend
    from assay.verify.border.inputs import load
    from assay.verify.border.onnx_containers import containers
    from assay.verify.oracle.accepts import EVERYTHING_KEPT
    from assay.verify.tvm import command as tvm_command

    if per_pass or per_kernel:
        request = tvm_command.Request(
            model, per_pass, per_kernel, load(inputs) if inputs else {}, parse_dims(dim), seed
        )
        raise typer.Exit(tvm_command.inside(request, backend, Screen(), as_json))
    EVERYTHING_KEPT.excluding(exclude)  # before anything long begins
    if report is not None:
        require_place(report)
    for name in backend:
        find_backend(name)
    devices = devices_of(on, host)
    proto, given, dims = load_either(model), load(inputs) if inputs else {}, parse_dims(dim)
    held = {} if isinstance(proto, Module) else containers(proto)
    proto, given, defaults, dims = with_inputs(proto, given, dims, seed, model.name)
    named = None if isinstance(proto, Module) else proto
    judged = (
        [Judged("expected", named, dims, outputs=load(expected), containers=held, excluded=exclude)] if expected else []
    )
    judged += [Judged(name, named, dims, backend=isolated(name), excluded=exclude) for name in backend]
    lowering = Lowering(
        proto,
        c_name(model),
        dims,
        source=model.name,
        memory=memory_of(pools, planner, io_in_pools, constant_pools, alignment_of(alignment)),
        config=devices,
    )
    run = Check(
        lowering, given, seed, judged, defaults, instruments=instruments_of(dump, skip), stop_after=stage_of(stop_after)
    )

    def page(lines: list[Line]) -> None:
        if report is not None:
            write_report(report, collect(model.name, seed, lines, run.modules))

    raise typer.Exit(show(run.lines(), run, as_json, str(model), seed, page))
