"""Import of live TVM modules (specs/lower.md, "tvm").

    module = from_tvm(mod)                        # mod: a tvm.IRModule, at any stage down to flat tensor functions

Only apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post1 is read: TVM renames its nodes in each release. What is
not handled is refused by name. `tvm` need not be installed unless this is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.lower.frontends.tvm.functions import read_function
from assay.lower.frontends.tvm.kernels import Kernels, KernelUse
from assay.lower.frontends.tvm.objects import Object, require_tvm, type_key
from assay.lower.frontends.tvm.scalars import VariableTable
from assay.lower.frontends.tvm.signatures import Signatures
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.module import Definition, Module

__all__ = ["ReadModule", "from_tvm", "read_tvm"]


@dataclass(frozen=True, eq=False)
class ReadModule:
    """A module, and of each of its tensor functions, by name, TVM's name for it and how it is used."""

    module: Module
    uses: Mapping[str, tuple[str, KernelUse]]


def from_tvm(mod: Object) -> Module:
    """The module that a `tvm.IRModule` is. Invalid where it is ill-formed; Unsupported, by name, for what is left."""
    return read_tvm(mod).module


def read_tvm(mod: Object) -> ReadModule:
    """As `from_tvm`, with what is known of the tensor functions."""
    require_tvm()
    if type_key(mod) != "ir.IRModule":
        raise Invalid(f"an IRModule expected, this is a {type_key(mod)}", label="tvm.C17")
    functions = {str(g.name_hint): f for g, f in mod.functions.items()}
    symbols = VariableTable()
    kernels = Kernels(functions, symbols, set(functions))
    signatures = Signatures(functions, symbols, kernels)
    found: dict[str, Definition] = {}
    for name, f in functions.items():
        match type_key(f):
            case "relax.expr.Function":
                found[name] = read_function(signatures, name, f)
            case "tirx.PrimFunc":
                pass  # made where it is called
            case key:
                raise Unsupported(f"the definition {name} is a {key}", label="tvm.C4")
    kernels.rest()
    found.update((k.func.name, k.func) for k in kernels.made.values())
    found.update(kernels.checks)
    return ReadModule(Module(found), {kernel.func.name: key for key, kernel in kernels.made.items()})
