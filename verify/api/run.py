"""`assay.run`: a program by its definition (specs/verify.md, "From Python")."""

from __future__ import annotations

from collections.abc import Mapping

from assay.interp.values import Externs
from assay.semantics.errors import Invalid
from assay.semantics.module import Module
from assay.verify.api.programs import Array, Inputs, Program, input_arrays, opened
from assay.verify.app.onnx_run import ModelRun
from assay.verify.app.program_run import ProgramRun
from assay.verify.app.text_run import run_text
from assay.verify.border.inputs import NamedBounds as Bounds, all_dims
from assay.verify.border.map_inputs import with_rows
from assay.verify.border.onnx_defaults import with_given_defaults


def run(
    program: Program,
    inputs: Inputs = None,
    *,
    dims: Mapping[str, int] | None = None,
    bounds: Bounds | None = None,
    seed: int = 0,
    function: str | None = None,
    externs: Externs | None = None,
) -> dict[str, Array]:
    """The outputs by name, by the definition of each operator; a value that is no tensor is named by its parts.

    Inputs that are not given are random, by `seed`; sizes are those of the inputs, or of `dims`, or the
    first that are tried, within `bounds`, at which the program runs. `function` is what is run of a module or a text:
    its main, or the only one. `externs` are Python functions for those that the program does not define. Trap: the run
    fails as the rules say. Invalid: the program or an input cannot be used.

    >>> assay.run("model.onnx", {"x": numpy.ones((1, 3), "float32")})
    {'y': array([[0. , 0.5]], dtype=float32)}
    """
    done = ran(program, inputs, dims or {}, bounds or {}, seed, function, externs)
    if done.trap is not None:
        raise done.trap
    return done.outputs


def ran(
    program: Program,
    inputs: Inputs,
    dims: Mapping[str, int],
    bounds: Bounds,
    seed: int,
    function: str | None = None,
    externs: Externs | None = None,
) -> ProgramRun:
    """The run of a program, whether it traps or not."""
    model, source = opened(program)
    given = input_arrays(inputs)
    if isinstance(model, Module):
        return run_text(model, function, given, seed, dims, externs, bounds)
    if function is not None or externs:
        raise Invalid("a function and externs are for a module, and this is an ONNX model", label="cli.C3")
    found = with_given_defaults(*with_rows(model, given), dims)
    sizes = all_dims(found.model, found.inputs, dims)
    return ModelRun(found.model, found.inputs, sizes, source).run(seed, bounds)
