"""`assay build` (specs/verify.md, "Command line")."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.lower.interfaces import Interface
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
def build(
    model: Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="where the C text and the certificate go", show_default=False
        ),
    ],
    inputs: Inputs = None,
    dim: Dims = [],
    interface: Annotated[
        Interface, typer.Option("--interface", help="how the C entry and its kernels are called")
    ] = Interface.UNPACKED,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="NAME",
            help="where steps run that name no device; its hooks are called",
            show_default=False,
        ),
    ] = "",
    pools: Pools = "",
    constant_pools: ConstantPools = "",
    planner: Planner = "exact",
    io_in_pools: InPools = False,
    alignment: Alignment = None,
    on: Devices = [],
    host: Host = "",
    dump: DumpTo = None,
    skip: Skip = [],
    seed: Seed = 0,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY.pem", help="sign the certificate with this private Ed25519 key", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check MODEL and, if every line holds, write its C text and the certificate to DIR."""
    from dataclasses import replace
    from functools import partial

    from assay.lower.c import emit
    from assay.semantics.errors import Invalid
    from assay.verify.app import certificate, signing
    from assay.verify.app.check import Check, Line, Lowering
    from assay.verify.app.given import with_inputs
    from assay.verify.app.options import alignment_of, c_name, devices_of, instruments_of, memory_of
    from assay.verify.app.showing import show
    from assay.verify.border.inputs import load
    from assay.verify.exits import Exit, gravest

    certificate.require_writable(output)
    devices = devices_of(on, host)
    if devices is not None and device:
        raise Invalid("--device is for steps that name no device; with --on each of them names one", label="cli.C3")
    signer = signing.signer(sign) if sign is not None else None
    proto, bound = certificate.load_bound(model)
    proto, given, defaults, dims = with_inputs(proto, load(inputs) if inputs else {}, parse_dims(dim), seed, model.name)
    bound = replace(bound, defaults=certificate.digests_of_defaults(defaults), dims=dict(sorted(dims.items())))
    emitter = partial(emit, interface=interface, device=device)
    lowering = Lowering(
        proto,
        c_name(model),
        dims,
        emitter=emitter,
        source=model.name,
        memory=memory_of(pools, planner, io_in_pools, constant_pools, alignment_of(alignment, interface)),
        config=devices,
        digest=lambda m: certificate.header_digest(certificate.module_digest(m), bound, seed),
    )
    run = Check(lowering, given, seed, defaults=defaults, instruments=instruments_of(dump, skip))

    def keep(lines: list[Line]) -> None:
        if gravest(line.evidence.exit for line in lines) is Exit.HOLDS:
            certificate.write(output, run, lines, bound, signer)

    raise typer.Exit(show(run.lines(), run, as_json, str(model), seed, keep))
