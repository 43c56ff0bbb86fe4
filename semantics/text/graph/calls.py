"""Calls of the text format: what `R.name(...)` and `A.name(...)` stand for (specs/semantics.md, "Text").

`R` is Relax as TVM prints it. `A` has what TVMScript lacks: nodes of the graph form, references, data types, devices.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, DLPACK, VirtualDevice
from assay.semantics.graph import Bind, Constructor, Dataflow, Expr, Fields, GlobalVar, Made, Pattern, Var, Wildcard
from assay.semantics.ops import OPERATORS
from assay.semantics.scalar import Expr as Scalar
from assay.semantics.text import constants_text
from assay.semantics.text.external_data import stored
from assay.semantics.text.graph.scope import Kernel, Path
from assay.semantics.text.graph.values import Values
from assay.semantics.text.relax import ops as relax_ops
from assay.semantics.text.relax.build import attribute, plain
from assay.semantics.text.types_text import Written, exact
from assay.semantics.types import FuncType, TupleType, Type, TypeVar

TYPES = ("Tensor", "Tuple", "Shape", "Callable", "Object", "Any")
_OUT = ("out_ty", "out_sinfo")
_TYPES = ("ty_args", "sinfo_args", "type_args")


class Calls:
    """Reads the calls of both prefixes, `R.name(...)` and `A.name(...)`, whose arguments `values` reads."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.module, self.source, self.scope = values.module, values.source, values.scope
        self.blocks: dict[int, Dataflow] = {}
        values.prefixes = {"R": self.relax, "A": self.house}

    # --- Relax ---------------------------------------------------------------------------------------------------

    def relax(self, node: ast.Call, name: str, args: list[Any], given: dict[str, Any]) -> Any:  # noqa: C901  (a case for each kind of node)
        """What `R.name(...)` stands for: a type, an expression or a plain value."""
        if name in TYPES:
            return self._type(node, name, args, given)
        span = self.source.span(node)
        match name:
            case "const":
                value, of = self.arguments(node, args, given, "value", "dtype?")
                data = (
                    value if isinstance(value, np.ndarray) and of is None else constants_text.literal_array(value, of)
                )
                return graph.constant(data, span=span)
            case "shape":
                return graph.shape(*self.values.dims(node.args[0] if node.args else node), span=span)
            case "tuple":
                self.arguments(node, [], given)
                return graph.tuple_of(
                    *(self.values.as_expr(a, n) for a, n in zip(args, node.args, strict=True)), span=span
                )
            case "TupleGetItem":
                value, index = self.arguments(node, args, given, "tuple_value", "index")
                return graph.get(self.values.as_expr(value, node), index, span=span)
            case "prim_value" | "str" | "dtype":
                (value,) = self.arguments(node, args, given, "value")
                return value
            case "shape_of":
                (value,) = self.arguments(node, args, given, "expr")
                return graph.shape_of(self.values.as_expr(value, node), span=span)
            case "match_cast":
                value, of = self.arguments(node, args, given, "value", "ty|struct_info")
                value = self.values.as_expr(value, node)
                return graph.match_cast(value, exact(self.values.as_type(of, node)), span=span)
            case "print":
                format_ = given.pop("format", "")
                self.arguments(node, [], given)
                return graph.print_(*self.exprs(node, args), format=str(format_), span=span)
            case "assert_op":
                return self._assert(node, args, given)
            case "call_tir" | "call_tir_with_grad":
                return self._call_tir(node, args, given)
            case "call_packed" | "call_pure_packed" | "call_dps_packed":
                return self._packed(node, name, args, given)
            case "invoke_closure" | "invoke_pure_closure":
                closure, operands, _ = self.arguments(node, args, given, "closure", "args", "ty_args|sinfo_args?")
                operands = self.values.as_expr(operands, node)
                fields = operands.fields if isinstance(operands, graph.Tuple) else [operands]
                return graph.call(self.values.as_expr(closure, node), *fields, span=span)
            case "hint_on_device":
                return self._hint(node, args, given)
            case "to_vdevice":
                value, to = self.arguments(node, args, given, "data", "dst_vdevice")
                return graph.device_copy(self.values.as_expr(value, node), self.values.device(to, node), span)
            case "device":
                kind, index = self.arguments(node, args, given, "device_type", "index?")
                if not isinstance(kind, int) or kind not in DLPACK:
                    raise self.source.error(
                        node, f"{kind!r} is no number of a type of device; there are {DLPACK}", "text.C6"
                    )
                return VirtualDevice(DLPACK[kind], index if isinstance(index, int) else 0)
            case "Prim":
                raise self.source.unsupported(node, "parameters that are plain scalars are not handled", "text.C17")
            case "null_value":
                raise self.source.unsupported(node, "R.null_value() has no meaning here", "text.C7")
            case _:
                operands, attrs = relax_ops.bind_arguments(name, args, given)
                for value in operands:
                    if isinstance(value, Kernel):
                        self.values.as_expr(value, node)
                return relax_ops.from_relax(name, operands, attrs, span)

    def arguments(self, node: ast.Call, args: Sequence[Any], given: dict[str, Any], *names: str) -> list[Any]:
        """Arguments by place or name; a name that ends in ? may be missing, one with | has two spellings."""
        if len(args) > len(names):
            raise self.source.error(node, f"{len(names)} arguments expected, {len(args)} given", "text.C5")
        found: list[Any] = list(args)
        rest = dict(given)
        for name in names[len(args) :]:
            spellings = name.rstrip("?").split("|")
            there = [s for s in spellings if s in rest]
            if not there and not name.endswith("?"):
                raise self.source.error(node, f"the argument {spellings[0]} is missing", "text.C5")
            found.append(rest.pop(there[0]) if there else None)
        if rest:
            raise self.source.error(node, f"unknown argument {next(iter(rest))}", "text.C5")
        return found

    def exprs(self, node: ast.Call, args: Sequence[Any]) -> list[Expr]:
        """The arguments as graph expressions."""
        return [self.values.as_expr(a, n) for a, n in zip(args, node.args, strict=True)]

    def _assert(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Expr:
        format_ = given.pop("format", "")
        values = given.pop("format_args", None)
        self.arguments(node, [], given)
        condition, *rest = self.exprs(node, args) or [self.values.as_expr(None, node)]
        if values is not None:
            rest = [self.values.as_expr(v, node) for v in (values if isinstance(values, (tuple, list)) else (values,))]
        return graph.assert_op(condition, *rest, format=str(format_), span=self.source.span(node))

    def _call_tir(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Expr:
        for key in ("te_grad_name", "te_grad_kwargs"):
            given.pop(key, None)
        func, operands, out, scalars = self.arguments(node, args, given, "gvar", "args", "|".join(_OUT), "tir_vars?")
        if not isinstance(func, Kernel):
            raise self.source.error(
                node.args[0] if node.args else node, "a tensor function of the module expected", "text.C4"
            )
        exprs: list[Expr] = []
        numbers: list[Any] = []
        if isinstance(operands, graph.Tuple):
            operands = operands.fields
        for v in operands if isinstance(operands, (tuple, list)) else [operands]:
            if isinstance(v, (int, Scalar)) and not isinstance(v, bool):
                numbers.append(plain(v))
            else:
                exprs.append(self.values.as_expr(v, node))
        if scalars is not None:
            numbers += scalars.dims if isinstance(scalars, graph.ShapeExpr) else plain(scalars)
        return graph.call_tir(func.name, exprs, self.out_type(out, node), scalars=numbers, span=self.source.span(node))

    def out_type(self, out: Any, node: ast.AST) -> Type:
        """A result type: one, or a list of them for several results."""
        if isinstance(out, (list, tuple)):
            return TupleType(tuple(exact(self.values.as_type(t, node)) for t in out))
        return exact(self.values.as_type(out, node))

    def _packed(self, node: ast.Call, name: str, args: list[Any], given: dict[str, Any]) -> Expr:
        if not args:
            raise self.source.error(node, "the name of the function is missing", "text.C5")
        func, *operands = args
        if isinstance(func, Path) or not isinstance(func, str):
            raise self.source.error(node, f"R.{name} takes the name of a function first", "text.C4")
        keys = _OUT if name == "call_dps_packed" else _TYPES
        out = next((given.pop(k) for k in keys if k in given), None)
        if name == "call_dps_packed":
            if out is None and len(operands) == 2:
                out = operands.pop()
            given_args = operands[0] if operands else given.pop("args", ())
            operands = list(given_args) if isinstance(given_args, (tuple, list)) else [given_args]
        if given:
            raise self.source.error(node, f"unknown argument {next(iter(given))}", "text.C5")
        if out is None:
            raise self.source.error(node, f"R.{name} needs {keys[0]}, the type of its result", "text.C5")
        if isinstance(out, (list, tuple)) and name != "call_dps_packed" and len(out) == 1:
            (out,) = out
        exprs = [self.values.as_expr(v, node) for v in operands]
        callee = graph.extern(func, [e.type for e in exprs], self.out_type(out, node), pure=name != "call_packed")
        span = self.source.span(node)
        return graph.call(replace(callee, span=span), *exprs, span=span)

    # --- types ---------------------------------------------------------------------------------------------------

    def _type(self, node: ast.Call, name: str, args: list[Any], given: dict[str, Any]) -> Written:
        places = [*node.args, *(k.value for k in node.keywords)]
        nodes = dict(zip([*range(len(args)), *given], places, strict=True))
        match name:
            case "Tensor":
                if args and isinstance(args[0], str) and len(args) == 1 and not given:
                    return Written("tensor", dtype=self.values.written_dtype(args[0], node))
                shape, of, device, ndim = self.arguments(node, args, given, "shape?", "dtype?", "vdevice?", "ndim?")
                dims: Any = None
                if shape is not None:
                    dims = self.values.dims(nodes[0] if args else nodes["shape"])
                elif isinstance(ndim, int) and ndim >= 0:
                    dims = (None,) * ndim
                if dims is not None and ndim is not None and ndim not in (-1, len(dims)):
                    raise self.source.error(node, f"ndim is {ndim}, but the shape has {len(dims)} sizes", "text.C6")
                return Written(
                    "tensor",
                    dims=dims,
                    dtype=self.values.written_dtype(of, node),
                    device=self.values.device(device, node),
                )
            case "Shape":
                values, ndim = self.arguments(node, args, given, "values?", "ndim?")
                if values is not None:
                    return Written("shape", dims=self.values.dims(nodes[0] if args else nodes["values"]))
                return Written("shape", dims=(None,) * ndim if isinstance(ndim, int) and ndim >= 0 else None)
            case "Tuple":
                self.arguments(node, [], given)
                fields = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
                parts = tuple(self.values.as_type(f, node) for f in fields)
                return Written("tuple", parts=parts, device=self._one_device(parts, node))
            case "Callable":
                return self._callable(node, args, given)
            case _:
                return Written("object")

    def _one_device(self, parts: Sequence[Written], node: ast.AST) -> VirtualDevice:
        """The device of a tuple: that of its fields, as far as TVM says one."""
        found = ANYWHERE
        for p in parts:
            both = found.join(p.device)
            if both is None:
                message = (
                    f"a tuple whose fields live on {found} and {p.device} is not handled: a tuple lives on one device"
                )
                raise self.source.unsupported(node, message, "text.C7")
            found = both
        return found

    def _callable(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Written:
        wanted = ("params?", "ret?", "purity?", "derive_func?", "type_params?")
        params, ret, purity, _, type_params = self.arguments(node, args, given, *wanted)
        if params is None or ret is None:
            return Written("func", parts=None)
        items = params if isinstance(params, (tuple, list)) else (params,)
        parts = (*(self.values.as_type(p, node) for p in items), self.values.as_type(ret, node))
        return Written(
            "func", parts=parts, pure=purity is not False, type_params=self.values.type_vars(type_params or (), node)
        )

    # --- the house's own -----------------------------------------------------------------------------------------

    def house(self, node: ast.Call, name: str, args: list[Any], given: dict[str, Any]) -> Any:
        """What `A.name(...)` stands for: a type, an expression, a device or a plain value."""
        span = self.source.span(node)
        one: dict[str, Callable[..., Expr]] = {
            "ref": graph.ref,
            "read": graph.read,
            "write": graph.write,
            "if_": graph.if_,
        }
        match name:
            case "ref" | "read" | "write" | "if_":
                self.arguments(node, [], given)
                count = {"write": 2, "if_": 3}.get(name, 1)
                if len(args) != count:
                    raise self.source.error(node, f"A.{name} takes {count} arguments, {len(args)} given", "text.C5")
                return one[name](*self.exprs(node, args), span=span)
            case "tensor":
                of, shape, text = self.arguments(node, args, given, "dtype", "shape", "data")
                return graph.constant(constants_text.from_house(of, shape, text), span=span)
            case "stored":
                of, shape, offset, digest = self.arguments(node, args, given, "dtype", "shape", "offset", "sha256")
                return graph.constant(stored(self.module.tensors, of, shape, offset, digest), span=span)
            case "Ref":
                (of,) = self.arguments(node, args, given, "value")
                return Written("ref", parts=(self.values.as_type(of, node),))
            case "on":
                return self._on(node, args, given)
            case "on_device":
                return self._on_device(node, args, given)
            case "extern":
                func, of = self.arguments(node, args, given, "name", "type")
                type_ = exact(self.values.as_type(of, node))
                if not isinstance(type_, FuncType) or not isinstance(func, str):
                    raise self.source.error(node, "A.extern takes a name and an R.Callable", "text.C6")
                return graph.ExternFunc(type_, func, span=span)
            case "global_":
                func, of = self.arguments(node, args, given, "name", "type")
                if isinstance(func, GlobalVar):
                    func = func.name
                if not isinstance(func, str):
                    raise self.source.error(node, "A.global_ takes a name of the module and a type", "text.C6")
                return GlobalVar(exact(self.values.as_type(of, node)), self.module.exact.get(func, func), span=span)
            case "let":
                var, value, body, block = self.arguments(node, args, given, "var", "value", "body", "block?")
                mark = None if block is None else self.blocks.setdefault(block, Dataflow())
                return graph.let(
                    self._var(var, node),
                    self.values.as_expr(value, node),
                    self.values.as_expr(body, node),
                    span=span,
                    dataflow=mark,
                )
            case "function":
                return self._function(node, args, given)
            case "match":
                return self._match(node, args, given)
            case "made":
                made, *fields = args or [None]
                self.arguments(node, [], given)
                if not isinstance(made, Constructor):
                    raise self.source.error(node, "A.made takes a constructor first", "text.C6")
                return Made(made, tuple(self._pattern(f, node) for f in fields))
            case _ if name in OPERATORS:
                attrs = {k: attribute(v) for k, v in given.items()}
                return graph.call(OPERATORS[name], *self.exprs(node, args), span=span, **attrs)
            case _:
                raise self.source.error(node.func, f"there is no A.{name}", "text.C3")

    def _var(self, value: Any, node: ast.AST) -> Var:
        if not isinstance(value, Var):
            raise self.source.error(node, "the name of a variable expected: v = A.var(type)", "text.C4")
        return value

    def _on(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Any:
        value, *parts = self.arguments(node, args, given, "value", "type?", "id?", "target?", "scope?")
        device = self.device_of(parts, node)
        if isinstance(value, (Written, Path, TypeVar)):
            return replace(self.values.as_type(value, node), device=device)
        named = node.args[0] if node.args else node.keywords[0].value
        if isinstance(value, Var):
            message = (
                f"{value.name} lives where it is bound: write A.on(type, ...) there, or A.on_device({value.name}, ...)"
                " here"
            )
            raise self.source.error(node, message, "text.C19")
        if isinstance(named, ast.Name) and named.id in self.scope:
            raise self.source.error(
                node, f"{named.id} has its device where it is named: {named.id} = A.on(..., ...)", "text.C19"
            )
        return self.values.on(self.values.as_expr(value, node), device)

    def device_of(self, parts: list[Any], node: ast.AST) -> VirtualDevice:
        """A device by its name, or from a type, an id, a target and a scope."""
        kind, number, target, scope = parts
        numbers = type(number) in (int, type(None))
        if any(not isinstance(p, (str, type(None))) for p in (kind, target, scope)) or not numbers:
            message = (
                'a device is a name such as "cuda:0", or a type, an id, a target and a scope: "cuda", 0, "cuda",'
                ' "global"'
            )
            raise self.source.error(node, message, "text.C6")
        if ":" in (kind or "") and number is None and target is None:
            found = self.values.device(kind, node)
            return found if scope is None else self.joined(found, VirtualDevice(scope=scope), node)
        if ":" in (kind or ""):
            raise self.source.error(
                node, f"{kind!r} is the name of a device; nothing but a scope can follow it", "text.C6"
            )
        with self.values.at(node):
            return VirtualDevice(kind or "", -1 if number is None else number, target or "", scope or "")

    def joined(self, a: VirtualDevice, b: VirtualDevice, node: ast.AST) -> VirtualDevice:
        """The device with all that both say; Invalid (device.C3) where they contradict each other."""
        both = a.join(b)
        if both is None:
            raise self.source.error(node, f"this lives on {a}, and cannot live on {b}", "device.C3")
        return both

    def _on_device(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Expr:
        wanted = ("value", "type?", "id?", "target?", "scope?", "constrain_body?", "constrain_result?")
        value, *parts, body, result = self.arguments(node, args, given, *wanted)
        device = self.device_of(parts, node)
        if not isinstance(body, (bool, type(None))) or not isinstance(result, (bool, type(None))):
            raise self.source.error(node, "constrain_body and constrain_result are True or False", "text.C6")
        return graph.on_device(
            self.values.as_expr(value, node),
            device,
            constrain_body=body is not False,
            constrain_result=result is True,
            span=self.source.span(node),
        )

    def _hint(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Expr:
        """Relax's hint: the result lives there; what it is of may come from elsewhere, by a copy."""
        value, device, scope = self.arguments(node, args, given, "data", "dst_vdevice|device", "memory_scope?")
        if not isinstance(device, VirtualDevice):
            raise self.source.error(node, "a device is wanted: R.device(device_type=1, index=0)", "text.C6")
        device = self.joined(device, VirtualDevice(scope="global" if scope is None else str(scope)), node)
        return graph.on_device(
            self.values.as_expr(value, node),
            device,
            constrain_body=False,
            constrain_result=True,
            span=self.source.span(node),
        )

    def _function(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Expr:
        wanted = ("params", "body", "ret", "pure?", "type_params?", "attrs?")
        params, body, ret, pure, type_params, attrs = self.arguments(node, args, given, *wanted)
        if not isinstance(params, (tuple, list)):
            raise self.source.error(node, "A.function takes a tuple of variables first", "text.C6")
        if attrs is not None and not isinstance(attrs, dict):
            raise self.source.error(node, "attrs is a dict", "text.C6")
        made = graph.function(
            [self._var(p, node) for p in params],
            self.values.as_expr(body, node),
            exact(self.values.as_type(ret, node)),
            type_params=self.values.type_vars(type_params or (), node),
            pure=pure is not False,
            span=self.source.span(node),
        )
        return replace(made, attrs={k: attribute(v) for k, v in (attrs or {}).items()})

    def _match(self, node: ast.Call, args: list[Any], given: dict[str, Any]) -> Expr:
        partial = bool(given.pop("partial", False))
        self.arguments(node, [], given)
        if not args or not all(isinstance(c, tuple) and len(c) == 2 for c in args[1:]):
            raise self.source.error(node, "A.match takes a value and pairs of a pattern and a body", "text.C5")
        clauses = [(self._pattern(p, node), self.values.as_expr(b, node)) for p, b in args[1:]]
        return graph.match(self.values.as_expr(args[0], node), *clauses, partial=partial, span=self.source.span(node))

    def _pattern(self, value: Any, node: ast.AST) -> Pattern:
        match value:
            case Path(parts=("A", "any")):
                return Wildcard()
            case Var():
                return Bind(value)
            case tuple():
                return Fields(tuple(self._pattern(v, node) for v in value))
            case Made():
                return value
            case _:
                raise self.source.error(
                    node, "no pattern: A.any, a variable, a tuple or A.made(constructor, ...)", "text.C4"
                )
