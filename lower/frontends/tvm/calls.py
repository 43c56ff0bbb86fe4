"""Calls out of live TVM objects: operators, tensor functions, extern functions, closures (specs/lower.md, "tvm")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.lower.frontends.tvm.allocation import Allocation
from assay.lower.frontends.tvm.function_state import FunctionState, Steps
from assay.lower.frontends.tvm.kernels import Kernel, KernelUse, is_buffer
from assay.lower.frontends.tvm.memory import Cell, Group, Heap, Held, Value, held
from assay.lower.frontends.tvm.objects import Object, attributes, op_name, plain_value, type_key
from assay.lower.frontends.tvm.types import vdevice
from assay.semantics import graph
from assay.semantics.devices import DLPACK, VirtualDevice
from assay.semantics.errors import Invalid, Unsupported, placed
from assay.semantics.graph import Expr, Var
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.text.relax.ops import from_relax
from assay.semantics.types import FuncType, TensorType, TupleType, Type, flatten

SAME = ("relax.builtin.stop_lift_params", "relax.memory.ensure_zero_offset")
"""Operators whose result is their first operand."""

NUMBERS = ("ir.IntImm", "ir.FloatImm")

VIEWS = ("relax.reshape", "relax.memory.view")
"""Operators whose result is the memory of their operand."""

OF_NOTHING = ("max.C3", "min.C3")
"""What has no value over an axis of the fixed size 0. To TVM that is a program like any other, which traps here when
it runs."""

TIR = ("relax.call_tir", "relax.call_tir_with_grad", "relax.call_tir_inplace")


class Calls:
    """Reads the calls of one graph function; `value` reads an operand."""

    def __init__(self, reader: FunctionState, value: Callable[[Object], Steps]) -> None:
        self.reader = reader
        self.value = value
        self.kernels = reader.signatures.kernels
        self.allocation = Allocation(reader)

    def unsupported(self, what: str) -> Unsupported:
        """The failure (`tvm.C13`) for a call that is not handled."""
        return Unsupported(f"{what} is not handled", where=self.reader.place(), label="tvm.C13")

    def use(self, value: Value) -> Expr:
        """The expression of a value that is used here."""
        return self.reader.use(value)

    def many(self, items: Sequence[Object]) -> Steps:
        """What several expressions stand for, left to right."""
        found: list[Value] = []
        for i in items:
            found.append((yield self.value(i)))
        return found

    # --- by callee -----------------------------------------------------------------------------------------------

    def call(self, o: Object) -> Steps:
        """The value of a call."""
        callee, name = o.op, op_name(o.op)
        args = list(o.args)
        many = self.many
        if name in TIR:
            return (yield self.call_tir(o, args))
        if name == "relax.call_dps_packed":
            inputs = yield many(tuple_fields(args[1]))
            return self.extern(self.extern_name(args[0]), inputs, self.reader.types.read(o.ty_args[0]), pure=True)
        if name == "relax.call_pure_packed" and type_key(args[0]) == "relax.expr.ExternFunc":
            inputs = yield many(args[1:])
            target_name = self.extern_name(args[0])
            return self.extern(target_name, inputs, self.known_type(o, target_name), pure=True)
        if name in ("relax.invoke_pure_closure", "relax.invoke_closure", "relax.call_pure_packed"):
            target = yield self.value(args[0])
            inputs = yield many(tuple_fields(args[1]) if name != "relax.call_pure_packed" else args[1:])
            return self.applied(target, inputs)
        if name == "relax.make_closure":
            function, *captured = yield many([args[0], *tuple_fields(args[1])])
            return self.closure(self.use(function), captured)
        if name == "relax.print":
            inputs = yield many(args[1:])
            return held(graph.print_(*map(self.use, inputs), format=str(plain_value(args[0])), span=self.reader.span()))
        if name == "relax.assert_op":
            condition, *inputs = yield many([args[0], *args[2:]])
            text = str(plain_value(args[1]))
            return held(
                graph.assert_op(self.use(condition), *map(self.use, inputs), format=text, span=self.reader.span())
            )
        if name == "relax.shape_of":
            (whole,) = yield many(args)
            return held(graph.shape_of(self.use(whole), self.reader.span()))
        if name in SAME:
            whole, *_ = yield many(args[:1])
            return whole
        if name == "relax.to_vdevice":
            (whole,) = yield many(args)
            return held(graph.device_copy(self.use(whole), vdevice(o.attrs.dst_vdevice), self.reader.span()))
        if name == "relax.hint_on_device":
            (whole,) = yield many(args)
            return held(self.hint(self.use(whole), o.attrs), [whole])
        if self.allocation.knows(name):
            values = yield many([a for a in args if is_value(a)])
            return self.allocation.call(name, args, values)
        if name == "relax.call_builtin_with_ctx":
            return (yield self.packed(self.extern_name(args[0]), o, tuple_fields(args[1])))
        if name == "relax.vm.call_tir_dyn":
            *tensors, sizes = tuple_fields(args[1])
            return (yield self.destination_passing(self.kernel_name(args[0]), [*tensors, *scalar_args([sizes])]))
        if name:
            return (yield self.operator(name, o))
        if type_key(callee) == "ir.GlobalVar" and self.reader.signatures.is_kernel(str(callee.name_hint)):
            return (yield self.destination_passing(str(callee.name_hint), args))
        if type_key(callee) == "relax.expr.ExternFunc":
            return (yield self.packed(self.extern_name(callee), o, args))
        target = yield self.value(callee)
        inputs = yield many(args)
        return self.applied(target, inputs)

    def hint(self, value: Expr, attrs: Object) -> Expr:
        """Relax's hint: the result lives there; what it is of may come from elsewhere, by a copy."""
        kind = int(attrs.device_type)
        if kind not in DLPACK:
            raise self.unsupported(f"a hint on the type of device {kind}")
        device = VirtualDevice(DLPACK[kind], int(attrs.index), scope=str(attrs.memory_scope))
        return graph.on_device(value, device, constrain_body=False, constrain_result=True, span=self.reader.span())

    def operator(self, name: str, o: Object) -> Steps:
        """An operator of Relax, by the table of operators."""
        operands: list[Any] = []
        parts: list[Value] = []
        for a in o.args:
            if type_key(a) == "ir.Tuple" and a.fields and not any(map(is_value, a.fields)):
                operands.append(tuple(self.reader.types.scalars.dim(f) for f in a.fields))
            elif is_value(a):
                value = yield self.value(a)
                parts.append(value)
                operands.append(self.reader.use(value, view=name in VIEWS))
            elif type_key(a) == "ir.GenericConst":
                operands.append(str(a.value))
            elif type_key(a) in ("ir.StringImm", "ir.FloatImm"):
                operands.append(plain_value(a))
            else:
                operands.append(self.reader.types.scalars.dim(a))
        of, attrs, span = name.removeprefix("relax."), attributes(o.attrs), self.reader.span()
        with placed(self.reader.place()):
            try:
                made = from_relax(of, operands, attrs, span)
            except Invalid as wrong:
                if wrong.label not in OF_NOTHING:
                    raise
                made = from_relax(of, [measured(operands[0]), *operands[1:]], attrs, span)
        # a reshape is a view of its operand's memory once memory is allocated
        return held(made, parts if name in VIEWS else ())

    def applied(self, target: Value, inputs: Sequence[Value]) -> Held:
        """A call of a function of the graph language; its result may be any of its operands."""
        expr = graph.call(self.use(target), *map(self.use, inputs), span=self.reader.span())
        return held(expr, [target, *inputs])

    def closure(self, function: Expr, captured: Sequence[Value]) -> Held:
        """A function of the parameters that are left: what is captured comes last (TVM's make_closure)."""
        assert isinstance(function.type, FuncType)
        left = function.type.params[: len(function.type.params) - len(captured)]
        params = [Var(t, f"arg{i}") for i, t in enumerate(left)]
        body = graph.call(function, *params, *map(self.use, captured), span=self.reader.span())
        return held(graph.function(params, body, pure=function.type.pure), captured)

    # --- tensor functions ----------------------------------------------------------------------------------------

    def call_tir(self, o: Object, args: Sequence[Object]) -> Steps:
        """A destination-passing call; the results are fresh, or in place of operands.

        TVM's parameters are the operands, buffers and scalars as they come, then the results, then further scalars.
        """
        name = self.kernel_name(args[0])
        params = self.kernels.params(name)
        made = tuple(map(self.reader.types.read, o.ty_args))
        result = made[0] if len(made) == 1 else TupleType(made)
        types = flatten(result)
        items, rest = tuple_fields(args[1]), scalar_args(args[2:])
        values: dict[int, Value] = {}
        scalars: list[Dim] = []
        for i, item in enumerate(items):
            if i < len(params) and is_buffer(params[i]):
                values[i] = yield self.value(item)
            else:
                scalars.append(self.reader.types.scalars.dim(item))
        given = {i: self.use(v) for i, v in values.items()}
        scalars += map(self.reader.types.scalars.dim, rest)
        in_place = [-1] * len(types)
        if op_name(o.op) == "relax.call_tir_inplace":
            in_place = [int(i) for i in o.attrs.inplace_indices]
        fresh = [i for i, p in enumerate(params) if i >= len(items) and is_buffer(p)]
        if len(params) != len(items) + len(fresh) + len(rest) or len(fresh) != sum(i < 0 for i in in_place):
            raise self.reader.invalid(
                f"{name} takes {len(params)} parameters; {len(items) + len(rest)} operands, {len(types)} results given",
                "tvm.C14",
            )
        left = iter(fresh)
        outputs = [i if i >= 0 else next(left) for i in in_place]
        changed = tuple(sorted(i for i in in_place if i >= 0))
        kernel = self.kernels.get(name, KernelUse(tuple(sorted(outputs)), changed))
        call = self.kernel_call(kernel, given, dict(zip(outputs, types, strict=True)), scalars, result)
        memory = [self.reader.owners.change(values[i]) if i >= 0 else () for i in in_place]
        if any(i >= 0 and not m for i, m in zip(in_place, memory, strict=True)):
            raise self.changes_constant(name)
        if not changed:
            return Held(call)
        whole = self.reader.bind(f"{self.reader.at}_new", call)
        if len(outputs) == 1 and not isinstance(call.type, TupleType):
            return Held(whole, memory[0])
        parts = [Held(graph.get(whole, kernel.outputs.index(p)), m) for p, m in zip(outputs, memory, strict=True)]
        return Group(tuple(parts))

    def changes_constant(self, name: str) -> Invalid:
        """The failure (`tvm.P8`) for a function that writes into a constant."""
        return self.reader.invalid(f"{name} changes a constant in place: the next run reads other numbers", "tvm.P8")

    def kernel_call(
        self,
        kernel: Kernel,
        given: dict[int, Expr],
        types: dict[int, TensorType],
        scalars: Sequence[Dim],
        result: Type | None = None,
    ) -> Expr:
        """The call of a kernel with operands and result types by the places of TVM's parameters."""
        args = [given[i] for i in kernel.inputs]
        made = [types[i] for i in kernel.outputs]
        if len(scalars) != len(kernel.scalars):
            raise self.reader.invalid(
                f"{kernel.func.name} takes {len(kernel.scalars)} scalars, {len(scalars)} given", "tvm.C14"
            )
        if result is None or len(made) > 1:
            result = TupleType(tuple(made)) if len(made) > 1 or isinstance(result, TupleType) else made[0]
        shapes = [*(t for a in args for t in flatten(a.type)), *made]
        sizes = [self.size_of(kernel, v, shapes) for v in kernel.sizes]
        return graph.call_tir(kernel.func.name, args, result, scalars=[*scalars, *sizes], span=self.reader.span())

    def size_of(self, kernel: Kernel, symbol: Symbol, types: Sequence[TensorType]) -> Dim:
        """The value of a symbol of a kernel that a result's type says."""
        for b, t in zip(kernel.func.params, types, strict=True):
            for d, given in zip(b.shape, t.shape, strict=False):
                if d is symbol:
                    return given
        raise self.unsupported(f"the size {symbol.name} of {kernel.func.name}, which no dim of a parameter is,")

    def destination_passing(self, name: str, args: Sequence[Object]) -> Steps:
        """A call of a kernel on memory that was allocated: its results are what it stores to."""
        params = self.kernels.params(name)
        if len(params) != len(args):
            raise self.reader.invalid(f"{name} takes {len(params)} operands, {len(args)} given", "tvm.C14")
        values: dict[int, Value] = {}
        scalars: list[Dim] = []
        for i, (p, a) in enumerate(zip(params, args, strict=True)):
            if is_buffer(p):
                values[i] = yield self.value(a)
            else:
                scalars.append(self.reader.types.scalars.dim(a))
        outputs = self.kernels.written(name)
        heap = values.get(0)
        if len(values) == 1 and isinstance(heap, Heap):
            self.allocation.compute(self.kernels.plain(name), heap)
            return held(graph.tuple_of())
        cells: dict[int, Cell] = {}
        for i in outputs:
            cell = values[i]
            if not isinstance(cell, Cell) and self.reader.is_constant(cell):
                raise self.changes_constant(name)
            if not isinstance(cell, Cell):
                raise self.unsupported(f"{name}, which stores to {params[i].name}, memory that was not allocated here,")
            cells[i] = cell
        changed = tuple(i for i in outputs if cells[i].value is not None and cells[i].storage.owner is cells[i])
        kernel = self.kernels.get(name, KernelUse(outputs, changed))
        self.allocation.check_apart(name, {i: values[i] for i in kernel.inputs}, cells)
        given = {i: self.use(values[i]) for i in kernel.inputs}
        call = self.kernel_call(kernel, given, {i: c.type for i, c in cells.items()}, scalars)
        return self.written(name, call, [cells[i] for i in kernel.outputs])

    def written(self, name: str, call: Expr, cells: Sequence[Cell]) -> Held:
        """The value of a call, under that name, whose results are written to memory."""
        alone = len(cells) == 1
        whole = self.reader.bind(cells[0].name if alone else name, call)
        for k, cell in enumerate(cells):
            part: Expr = whole if alone else self.reader.bind(cell.name, graph.get(whole, k))
            self.reader.owners.write(cell, part, self.reader.place(), self.reader.depth)
        return held(graph.tuple_of())

    def kernel_name(self, o: Object) -> str:
        """The name of the tensor function that is called; Invalid (`tvm.C14`) if it is none."""
        name = str(getattr(o, "name_hint", ""))
        if type_key(o) != "ir.GlobalVar" or not self.reader.signatures.is_kernel(name):
            raise self.reader.invalid(f"call_tir of {name or type_key(o)}, which is no tensor function", "tvm.C14")
        return name

    def known_type(self, o: Object, name: str) -> Type:
        """The type that a call of an extern function declares for its result."""
        of = o.ty_args[0] if len(o.ty_args) == 1 else o.ty
        if type_key(of) == "ir.Type":
            raise self.unsupported(f"the extern function {name}, whose result has no type,")
        return self.reader.types.read(of)

    # --- extern functions ----------------------------------------------------------------------------------------

    def packed(self, name: str, o: Object, args: Sequence[Object]) -> Steps:
        """A call of a function of TVM's registry. What is given unwritten memory last writes it."""
        if self.allocation.knows(name):
            values = yield self.many([a for a in args if is_value(a)])
            return self.allocation.call(name, args, values)
        if name.startswith("vm.builtin.") or not all(is_value(a) or type_key(a) in NUMBERS for a in args):
            raise self.unsupported(f"the extern function {name}, with what is no tensor,")
        values = yield self.many(args)
        pure = self.reader.force_pure
        fresh = [v for v in values if isinstance(v, Cell) and v.value is None]
        if not fresh:
            return self.extern(name, values, self.known_type(o, name), pure)
        count = len(fresh)
        if values[-count:] != fresh:
            raise self.unsupported(f"the extern function {name} with unwritten memory among its operands")
        types = [c.type for c in fresh]
        made = self.extern(name, values[:-count], types[0] if count == 1 else TupleType(tuple(types)), pure)
        return self.written(name.replace(".", "_"), made.expr, fresh)

    def extern(self, name: str, inputs: Sequence[Value], result: Type, pure: bool) -> Held:
        """Call an extern function of these operands; the result may be in their memory."""
        exprs = [self.use(v) for v in inputs]
        callee = graph.extern(name, [e.type for e in exprs], result, pure=pure)
        return held(graph.call(callee, *exprs, span=self.reader.span()), inputs)

    def extern_name(self, o: Object) -> str:
        """The name of the extern function that is called; Unsupported for any other callee."""
        if type_key(o) != "relax.expr.ExternFunc":
            raise self.unsupported(f"a packed call of {type_key(o)}")
        return str(o.global_symbol)


def measured(x: Expr) -> Expr:
    """A tensor whose sizes that are 0 are known when the program runs."""
    assert isinstance(x.type, TensorType)
    sizes = tuple(d if d != 0 else Symbol(f"none{k}") for k, d in enumerate(x.type.shape))
    return graph.match_cast(x, TensorType(sizes, x.type.dtype), x.span)


def tuple_fields(o: Object) -> list[Object]:
    """The operands that a tuple, or a single expression, hands over."""
    return list(o.fields) if type_key(o) == "ir.Tuple" else [o]


def scalar_args(rest: Sequence[Object]) -> list[Object]:
    """The scalars that a call_tir hands over besides."""
    found: list[Object] = []
    for o in rest:
        match type_key(o):
            case "relax.expr.ShapeExpr":
                found += list(o.values)
            case "ir.Tuple":
                found += list(o.fields)
            case _:
                found.append(o)
    return found


def is_value(o: Object) -> bool:
    """Whether an operand is a value of the graph language: not a number, a text or a dtype."""
    match type_key(o):
        case "ir.StringImm" | "ir.IntImm" | "ir.FloatImm":
            return False
        case "ir.GenericConst":
            return hasattr(o.value, "numpy")
        case "ir.Var":
            return type_key(o.ty) != "ir.PrimType"
        case key:
            return not key.startswith("prim.")
