"""Expressions of the text format: a Python expression becomes a node, a type, a scalar or a plain value
(specs/semantics.md, "Text").

Nothing recurses: parts are read before wholes, left to right, on a stack.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, TYPES, VirtualDevice, kind_of
from assay.semantics.digits import is_size
from assay.semantics.dtypes import DTYPES, INT64, dtype
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Constructor, Expr, GlobalVar, Tuple
from assay.semantics.scalar import Expr as Scalar, Var as Symbol
from assay.semantics.text import constants_text
from assay.semantics.text.graph.scope import DataflowLocal, Kernel, ModuleNames, Path, Scalars
from assay.semantics.text.relax import ops as relax_ops
from assay.semantics.text.relax.build import plain
from assay.semantics.text.scalars import ScalarParser
from assay.semantics.text.scope import Scope
from assay.semantics.text.types_text import Written, exact
from assay.semantics.types import TensorType, TypeVar
from assay.semantics.walk import fold_scoped

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor_divide",
    ast.Pow: "power", ast.Mod: "mod", ast.MatMult: "matmul", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater",
    ast.GtE: "greater_equal", ast.Eq: "equal", ast.NotEq: "not_equal", ast.USub: "negative",
}  # fmt: skip
"""Python's operators on tensors, by what they are in Relax."""


class Values:
    """Reads expressions where the names of `scope` stand for something."""

    def __init__(self, module: ModuleNames, scope: Scope[Any]) -> None:
        self.module = module
        self.source = module.source
        self.scope = scope
        modules = [n for n, root in module.aliases.items() if root in "TRI"]
        self.scalars = ScalarParser(module.source, Scalars(scope), INT64, modules)
        self.declaring = False
        """Whether an unknown name in a string is a new symbol: so it is in signatures."""
        self.prefixes: dict[str, Callable[[ast.Call, str, list[Any], dict[str, Any]], Any]] = {}
        """What reads `R.name(...)` and `A.name(...)`, by the prefix: `Calls` does."""

    # --- what is wanted ------------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> Expr:
        """The graph expression that `node` is; a Python tuple is a tuple of values."""
        return self.as_expr(self.value(node), node)

    def as_expr(self, value: Any, node: ast.AST) -> Expr:
        """A value as a graph expression: a tuple or list becomes a tuple; else Invalid (text.C4)."""
        if isinstance(value, Expr):
            return value
        if isinstance(value, (tuple, list)):
            return graph.tuple_of(*(self.as_expr(v, node) for v in value), span=self.source.span(node))
        if isinstance(value, Kernel):
            message = f"a tensor function is called by R.call_tir, as in R.call_tir(cls.{value.name}, (x,), out_ty=...)"
            raise self.source.error(node, message, "text.C4")
        what = (
            "a number" if isinstance(value, (int, float, Scalar)) else "a type" if isinstance(value, Written) else None
        )
        hint = '; a scalar tensor is R.const(1.0, "float32")' if what == "a number" else ""
        raise self.source.error(node, f"an expression is wanted, this is {what or 'none'}{hint}", "text.C4")

    def type(self, node: ast.expr) -> Written:
        """The type that `node` is."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = self.scalars.quoted(node)
        return self.as_type(self.value(node), node)

    def as_type(self, value: Any, node: ast.AST) -> Written:
        """A value as a type that is written; Unsupported (text.C17) where it is none."""
        match value:
            case Written():
                return value
            case TypeVar():
                return Written("typevar", type_params=(value,))
            case Path(parts=("R", "Tensor")):
                return Written("tensor")
            case Path(parts=("R", "Tuple")):
                return Written("tuple")  # TVM writes the empty tuple so
            case Path(parts=("R", "Shape")):
                return Written("shape")
            case Path(parts=("R", "Object" | "Any")):
                return Written("object")
            case Path(parts=("R", "Callable")):
                return Written("func", parts=None)
            case Path(parts=("data", name)):
                return Written("data", name=self.module.data[name].name)
            case None:
                return Written("tuple")
            case _:
                raise self.source.unsupported(
                    node, 'a type is wanted, such as R.Tensor((n, 4), dtype="float32")', "text.C17"
                )

    def type_vars(self, value: Any, node: ast.AST) -> tuple[TypeVar, ...]:
        """A list of type parameters; Invalid (text.C6) where it has anything else."""
        if not isinstance(value, (tuple, list)) or not all(isinstance(t, TypeVar) for t in value):
            raise self.source.error(node, "type_params is a tuple of type parameters", "text.C6")
        return tuple(value)

    # --- the walk ------------------------------------------------------------------------------------------------

    def value(self, root: ast.expr) -> Any:
        """What `root` stands for, parts first and left to right."""

        def build(node: ast.expr, parts: list[Any]) -> Any:
            try:
                return self._build(node, parts)
            except Invalid as wrong:
                self.locate(wrong, node)

        return fold_scoped(root, self._parts, build)

    def locate(self, wrong: Invalid, node: ast.AST) -> NoReturn:
        """Raise `wrong` with its line and a caret; a constructor knows the place, but not the line."""
        if isinstance(wrong.where, Span) and wrong.where.source == self.source.file and "\n" not in wrong.message:
            wrong.where = None
        self.source.locate(wrong, node)

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Failures inside get the line of `node`, if they have none."""
        try:
            yield
        except Invalid as wrong:
            self.locate(wrong, node)

    def path(self, node: ast.expr) -> Path | None:
        """The name with dots that a node is, None where it is none or starts with no known module."""
        return self.module.path(node, self.scope)

    def _parts(self, node: ast.expr) -> Sequence[ast.expr]:
        match node:
            case ast.Call():
                for a in node.args:
                    if isinstance(a, ast.Starred):
                        raise self.source.error(a, "the arguments must be written out", "text.C5")
                for k in node.keywords:
                    if k.arg is None:
                        raise self.source.error(k.value, "the arguments must be written out", "text.C5")
                    if any(k.arg == o.arg and k is not o for o in node.keywords):
                        raise self.source.error(node, f"the argument {k.arg} is given twice", "text.C5")
                path = self.path(node.func)
                if path is not None and path.parts[0] == "T":
                    return ()
                head = [] if path is not None or self._plain_name(node) else [node.func]
                return [*head, *node.args, *(k.value for k in node.keywords)]
            case ast.Tuple() | ast.List():
                return node.elts
            case ast.Dict():
                if any(k is None for k in node.keys):
                    raise self.source.error(node, "the entries must be written out", "text.C5")
                return [*(k for k in node.keys if k is not None), *node.values]
            case ast.Subscript() if not self._is_metadata(node):
                inside = self.path(node.value)
                if inside is not None and inside.parts[0] == "data":
                    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                return [node.value]
            case ast.BinOp() | ast.Compare() | ast.UnaryOp() if self._on_tensors(node):
                if isinstance(node, ast.Compare):
                    return [node.left, *node.comparators]
                return [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
            case _:
                return ()

    def _plain_name(self, node: ast.Call) -> bool:
        return (
            isinstance(node.func, ast.Name)
            and node.func.id in ("float", "int", "bool")
            and node.func.id not in self.scope
        )

    def _is_metadata(self, node: ast.Subscript) -> bool:
        inner = node.value
        return isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name) and inner.value.id == "metadata"

    def _on_tensors(self, node: ast.expr) -> bool:
        """Whether an operator of Python has a tensor among its operands."""
        return any(isinstance(n, ast.Name) and isinstance(self.scope.get(n.id), Expr) for n in ast.walk(node)) or any(
            isinstance(n, ast.Call) and (p := self.path(n.func)) is not None and p.parts[0] in ("R", "A", "module")
            and p.parts[1:] not in (("prim_value",),)
            for n in ast.walk(node)
        )  # fmt: skip

    def _build(self, node: ast.expr, parts: list[Any]) -> Any:
        match node:
            case ast.Constant():
                if isinstance(node.value, (bytes, complex)) or node.value is Ellipsis:
                    raise self.source.error(node, "this constant has no meaning here", "text.C4")
                return node.value
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Tuple():
                return tuple(parts)
            case ast.List():
                return list(parts)
            case ast.Dict():
                half = len(parts) // 2
                return dict(zip(map(plain, parts[:half]), parts[half:], strict=True))
            case ast.Subscript():
                return self._subscript(node, parts)
            case ast.Call():
                return self._call(node, parts)
            case ast.BinOp() | ast.Compare() | ast.UnaryOp() if parts:
                op = node.ops[0] if isinstance(node, ast.Compare) else node.op
                name = OPERATORS.get(type(op))
                if name is None or len(parts) > 2:
                    raise self.source.unsupported(node, "this operator of Python is not handled on tensors", "text.C7")
                exprs = self._same_dtype([p if isinstance(p, (int, float)) else self.as_expr(p, node) for p in parts])
                return relax_ops.from_relax(name, exprs, {}, self.source.span(node))
            case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.BoolOp() | ast.IfExp():
                return self.scalars.value(node)
            case ast.JoinedStr():
                raise self.source.error(node, "a text that is computed has no meaning here", "text.C4")
            case _:
                raise self.source.error(node, "no expression of a graph function", "text.C4")

    def _same_dtype(self, values: list[Any]) -> list[Any]:
        """Plain numbers beside a tensor as scalars of its dtype."""
        of = next((v.type.dtype for v in values if isinstance(v, Expr) and isinstance(v.type, TensorType)), None)
        return [v if isinstance(v, Expr) or of is None else graph.constant(v, of.name) for v in values]

    def _name(self, node: ast.Name) -> Any:
        found = self.scope.get(node.id)
        if isinstance(found, DataflowLocal):
            raise self.source.error(
                node, f"R.output does not name {node.id}, which ends with its dataflow block", "text.C3"
            )
        if found is not None:
            return found
        path = self.path(node)
        if path is not None:
            return path
        if node.id in self.module.globals or node.id in self.module.kernels:
            return self.global_(node.id, node)
        raise self.source.error(node, f"nothing is called {node.id} here", "text.C3")

    def _attribute(self, node: ast.Attribute) -> Any:
        path = self.path(node)
        if path is None:
            raise self.source.error(node, f"nothing is called {ast.unparse(node)} here", "text.C3")
        match path.parts:
            case ("module", name):
                return self.global_(name, node)
            case ("data", name, made):
                return self.constructor(name, made, node)
            case ("np", name):
                return name if name in DTYPES else path
            case _:
                return path

    def global_(self, name: str, node: ast.AST) -> Any:
        """The function of the module that has this name in the text; Invalid (text.C3) where there is none."""
        exact_name = self.module.exact.get(name, name)
        if exact_name in self.module.kernels:
            return Kernel(exact_name)
        if exact_name not in self.module.globals:
            known = ", ".join([*self.module.globals, *sorted(self.module.kernels)]) or "nothing"
            raise self.source.error(node, f"the module has no {name}; it has {known}", "text.C3")
        return GlobalVar(self.module.globals[exact_name], exact_name, span=self.source.span(node))

    def constructor(self, name: str, made: str, node: ast.AST) -> Constructor:
        """The constructor `made` of the data type that is called `name` in the text."""
        return replace(graph.constructor(self.module.data[name], made), span=self.source.span(node))

    def _subscript(self, node: ast.Subscript, parts: list[Any]) -> Any:
        if self._is_metadata(node):
            index = self.scalars.dim(node.slice)
            if not isinstance(index, int) or not 0 <= index < len(self.module.metadata):
                message = (
                    f"the section metadata, which holds the constants, has no entry {ast.unparse(node.slice)}: print"
                    " the module with script(show_meta=True)"
                )
                raise self.source.error(node, message, "text.C15")
            return graph.constant(self.module.metadata[index], span=self.source.span(node))
        inside = self.path(node.value)
        if inside is not None and inside.parts[0] == "data":
            args = tuple(self.as_type(p, node) for p in parts)
            return Written("data", parts=args, name=self.module.data[inside.parts[1]].name)
        value = self.as_expr(parts[0], node.value)
        index = self.scalars.dim(node.slice)
        if not isinstance(index, int):
            raise self.source.error(node.slice, "a field of a tuple has a number", "text.C6")
        if isinstance(value, Tuple) and isinstance(node.value, ast.Call) and 0 <= index < len(value.fields):
            made = self.path(node.value.func)
            if made is not None and made.parts[0] == "R" and made.parts[1:] != ("tuple",):
                return value.fields[index]  # one result of an operator that has several
        return graph.get(value, index, span=self.source.span(node))

    # --- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, parts: list[Any]) -> Any:
        path = self.path(node.func)
        if path is not None and path.parts[0] == "T":
            return self.scalars.value(node)
        names = [k.arg for k in node.keywords]
        if self._plain_name(node):
            return self._number(node, parts)
        if path is None:
            callee, *parts = parts
            return self.apply(node, self.as_expr(callee, node.func), parts, names)
        args = parts[: len(node.args)]
        given = {str(n): v for n, v in zip(names, parts[len(node.args) :], strict=True)}
        match path.parts:
            case ("module", name):
                callee = self.global_(name, node.func)
                if isinstance(callee, Kernel):
                    message = (
                        "a direct call of a tensor function is not handled; the module before CallTIRRewrite has"
                        " R.call_tir"
                    )
                    raise self.source.unsupported(node, message, "text.C7")
                return self.apply(node, callee, parts, names)
            case ("data", name, made):
                return self.apply(node, self.constructor(name, made, node.func), parts, names)
            case ("R" | "A" as prefix, *rest):
                return self.prefixes[prefix](node, ".".join(rest), args, given)
            case ("np", name):
                return self._numpy(node, name, args, given)
            case _:
                raise self.source.unsupported(node, f"{ast.unparse(node.func)} is not handled", "text.C7")

    def _number(self, node: ast.Call, parts: list[Any]) -> Any:
        assert isinstance(node.func, ast.Name)
        kinds: dict[str, Callable[[Any], Any]] = {"float": float, "int": int, "bool": bool}
        try:
            (value,) = parts
            return kinds[node.func.id](value)
        except (ValueError, TypeError, OverflowError):
            raise self.source.error(node, "no number", "text.C6") from None

    def _numpy(self, node: ast.Call, name: str, args: list[Any], given: dict[str, Any]) -> Any:
        of = given.get("dtype", args[1] if name in ("array", "asarray") and len(args) > 1 else None)
        if name in ("array", "asarray") and args:
            return constants_text.literal_array(args[0], None if of is None else str(of))
        if name in DTYPES and len(args) == 1:
            return constants_text.literal_array(args[0], name)
        raise self.source.unsupported(node, f"np.{name} is not handled: write the values as a list", "text.C7")

    def apply(self, node: ast.Call, callee: Expr, args: list[Any], names: Sequence[str | None]) -> Expr:
        """A call of a function of the module, a closure or a constructor."""
        type_args: Sequence[Any] = ()
        if names and names[-1] == "type_args":
            if not isinstance(args[-1], (tuple, list)):
                raise self.source.error(node, "type_args is a tuple of types", "text.C6")
            type_args, names, args = [exact(self.as_type(t, node)) for t in args[-1]], names[:-1], args[:-1]
        if names:
            raise self.source.error(
                node, f"a function takes its arguments by place, not by name: {names[0]}", "text.C5"
            )
        exprs = [self.as_expr(a, n) for a, n in zip(args, node.args, strict=True)]
        return graph.call(callee, *exprs, type_args=type_args, span=self.source.span(node))

    # --- parts that several calls have ---------------------------------------------------------------------------

    def dims(self, node: ast.expr) -> tuple[Any, ...]:
        """The dims of a list or tuple; None for `_`. In a signature a string may name a new symbol."""
        if not isinstance(node, (ast.Tuple, ast.List)):
            value = self.value(node)
            if isinstance(value, graph.ShapeExpr):
                return value.dims
            raise self.source.error(node, "a shape is a tuple of sizes, such as (n, 4)", "text.C6")
        return tuple(self._dim(e) for e in node.elts)

    def _dim(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and self.declaring:
            for n in ast.walk(self.scalars.quoted(node)):
                if isinstance(n, ast.Name) and n.id not in self.scope and n.id not in self.module.aliases:
                    self.scope.declare(n.id, Symbol(n.id))
        value = self.scalars.dim(node)
        if isinstance(value, Scalar) and value.dtype is not INT64:
            raise self.source.error(node, f"a size is int64, not {value.dtype}", "text.C6")
        if isinstance(value, int) and value < 0:
            raise self.source.error(node, f"{value} is no size", "text.C6")
        return value

    def device(self, value: Any, node: ast.AST) -> VirtualDevice:
        """A device by its name: one that the module declares, one of TVM's such as "llvm:0" or "llvm:0:global", which
        counts those that the module lists, or a type and an id, such as "cuda:1"."""
        if value is None:
            return ANYWHERE
        if isinstance(value, VirtualDevice):
            return value
        if not isinstance(value, str):
            raise self.source.error(node, 'a virtual device is named such as "llvm:0"', "text.C6")
        if value in self.module.named_devices:
            return self.module.named_devices[value]
        kind, _, rest = value.partition(":")
        number, _, scope = rest.partition(":")
        if not kind or (rest and not is_size(number)):
            known = ", ".join(map(repr, self.module.named_devices))
            message = f'{value!r} is no device, such as "cuda:0"' + (
                f", and none of the module's, {known}" if known else ""
            )
            raise self.source.error(node, message, "text.C6")
        same = [d for d in self.module.devices if kind_of(d.target) == kind]
        at = int(number or 0)
        if not same:
            of = TYPES.get(kind, kind)
            with self.at(node):
                return VirtualDevice(of, int(number) if number else -1, kind if of != kind else "", scope)
        if at >= len(same):
            raise self.source.error(node, f"the module has {len(same)} virtual devices of {kind}", "text.C6")
        return same[at]

    def written_dtype(self, value: Any, node: ast.AST) -> Any:
        """The dtype that a value names, None where it is left open; Invalid (text.C6) where it is no name."""
        if value is None or value in ("", "void"):
            return None
        if not isinstance(value, str):
            raise self.source.error(node, 'a dtype is named, such as "float32"', "text.C6")
        with self.at(node):
            return dtype(value) if value in DTYPES else dtype({"boolean": "bool"}.get(value, value))

    def on(self, node: Expr, device: VirtualDevice) -> Expr:
        """The node with a device; itself where nothing is said of one."""
        return node if device == ANYWHERE else replace(node, device=device)
