"""What the functions of a TVM module are called with (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.lower.frontends.tvm.kernels import Kernels
from assay.lower.frontends.tvm.objects import Object, attributes, type_key
from assay.lower.frontends.tvm.scalars import VariableTable
from assay.lower.frontends.tvm.types import Types
from assay.semantics.errors import Invalid
from assay.semantics.graph import GlobalVar
from assay.semantics.types import FuncType


@dataclass
class Signatures:
    """The functions of a module by name, and the types of those that are graph functions."""

    module: Mapping[str, Object]
    symbols: VariableTable
    kernels: Kernels
    known: dict[str, FuncType] = field(default_factory=dict)

    def is_kernel(self, name: str) -> bool:
        """Whether the module has a tensor function of this name."""
        return name in self.module and type_key(self.module[name]) == "tirx.PrimFunc"

    def function_type(self, name: str) -> FuncType:
        """The type of the graph function of that name."""
        if name not in self.known:
            self.known[name] = self.of(self.module[name], f"function {name}")
        return self.known[name]

    def global_var(self, name: str, where: str) -> GlobalVar:
        """The name of a graph function, as an expression."""
        if name not in self.module or type_key(self.module[name]) != "relax.expr.Function":
            raise Invalid(f"the module has no graph function {name}", where=where, label="tvm.C12")
        return GlobalVar(self.function_type(name), name)

    def of(self, o: Object, where: str, force_pure: bool = False) -> FuncType:
        """The type that a TVM function declares. A function that TVM was told to take for pure is."""
        types = Types(self.symbols, where)
        params = tuple(types.read(p.ty) for p in o.params)
        pure = force_pure or bool(o.is_pure) or bool(attributes(o.attrs).get("relax.force_pure", False))
        return FuncType(params, types.read(o.ret_ty), pure=pure)
