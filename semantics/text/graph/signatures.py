"""What a graph function says before its body: the parser of signatures (specs/semantics.md, "Text")."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Var
from assay.semantics.scalar import Var as Symbol
from assay.semantics.text.graph.scope import Path
from assay.semantics.text.graph.values import Values
from assay.semantics.text.source import Source
from assay.semantics.text.types_text import Written, exact
from assay.semantics.types import FuncType, Type, TypeVar


@dataclass(frozen=True)
class Signature:
    """What a function says before its body. `symbols` are the names that its annotations introduce."""

    params: tuple[Var, ...]
    names: tuple[str, ...]
    """What the parameters are called in the text."""
    result: Type | None
    written: Written | None
    pure: bool
    private: bool
    type_params: tuple[TypeVar, ...]
    symbols: Mapping[str, Symbol]
    device: VirtualDevice = ANYWHERE
    """Of the function itself: that of its result."""

    @property
    def type(self) -> FuncType | None:
        """The function's type, None where its result is not said."""
        if self.result is None:
            return None
        return FuncType(tuple(p.type for p in self.params), self.result, type_params=self.type_params, pure=self.pure)


class SignatureReader:
    """Reads signatures; what stands in them is read by `values`."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def read(self, node: ast.FunctionDef) -> Signature:
        """Reads a function's decorator, parameters and result; the names that these declare are left again."""
        flags = self._decorator(node)
        a = node.args
        if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults:
            raise self.values.source.error(node, "a function has plain parameters only", "text.C12")
        mark, before = self.values.scope.mark(), set(self.values.scope)
        self.values.declaring = True
        params: list[Var] = []
        own = self._own_names(node)
        texts = tuple(p.arg for p in a.args)
        for i, p in enumerate(a.args):
            if p.arg in texts[:i]:
                raise self.values.source.error(p, f"two parameters are called {p.arg}", "graph.C4")
            if p.annotation is None:
                raise self.values.source.error(
                    p, f'parameter {p.arg} needs a type, such as R.Tensor((n, 4), dtype="float32")', "text.C17"
                )
            written = self.values.type(p.annotation)
            with self.values.at(p.annotation):
                params.append(
                    Var(exact(written), own.get(p.arg, p.arg), device=written.device, span=self.values.source.span(p))
                )
        result: Type | None = None
        out: Written | None = None
        if node.returns is not None:
            out = self.values.type(node.returns)
            with self.values.at(node.returns):
                result = None if out.is_open else exact(out)
        self.values.declaring = False
        made = {n: v for n, v in self.values.scope.items() if n not in before and isinstance(v, Symbol)}
        self.values.scope.leave(mark)
        type_params = self.values.type_vars(flags.get("type_params", ()), node)
        pure = flags.get("pure", True) is not False and not _forced(node)
        device = ANYWHERE if out is None else out.device
        return Signature(tuple(params), texts, result, out, pure, bool(flags.get("private")), type_params, made, device)

    def _own_names(self, node: ast.FunctionDef) -> dict[str, str]:
        """The exact names of parameters that Python cannot say: `A.names({"x_1": "x.1"})` in the body."""
        for stmt in node.body:
            match stmt:
                case ast.Expr(value=ast.Call(func=func, args=[ast.Dict() as given])) if self.values.path(func) == Path(
                    ("A", "names")
                ):
                    return names_of(self.values.source, given)
                case _:
                    continue
        return {}

    def _decorator(self, node: ast.FunctionDef) -> dict[str, Any]:
        for d in node.decorator_list:
            func = d.func if isinstance(d, ast.Call) else d
            if self.values.path(func) == Path(("R", "function")):
                flags = {k.arg or "": self.values.value(k.value) for k in d.keywords} if isinstance(d, ast.Call) else {}
                unknown = set(flags) - {"private", "pure", "check_well_formed", "type_params"}
                if unknown:
                    raise self.values.source.error(d, f"R.function has no argument {sorted(unknown)[0]}", "text.C5")
                return flags
        raise self.values.source.error(node, f"{node.name} is no graph function: @R.function is missing", "text.C12")


def names_of(source: Source, given: ast.Dict) -> dict[str, str]:
    """A dict of names by names, written out."""
    found: dict[str, str] = {}
    for k, v in zip(given.keys, given.values, strict=True):
        match k, v:
            case ast.Constant(value=str(key)), ast.Constant(value=str(value)):
                found[key] = value
            case _:
                raise source.error(given, "A.names takes a dict of names", "text.C6")
    return found


def _forced(node: ast.FunctionDef) -> bool:
    """Whether the function only claims to be pure, as TVM's later stages do."""
    for stmt in node.body:
        match stmt:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="func_attr"), args=[ast.Dict(keys=keys, values=values)])
            ):
                for k, v in zip(keys, values, strict=True):
                    if isinstance(k, ast.Constant) and k.value == "relax.force_pure" and isinstance(v, ast.Constant):
                        return bool(v.value)
            case _:
                continue
    return False
