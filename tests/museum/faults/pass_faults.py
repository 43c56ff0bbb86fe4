"""Wrong ways to fold, share, inline and rebuild, each with the smallest program that shows it.

Numbers are those of apache/tvm. Most move a value to another device: the class of fault for which device planning was
rebuilt there (#9613).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp.graph import evaluate
from assay.lower.anf.copying import fresh_copy
from assay.lower.simplify.common_subexpressions import Sharing
from assay.lower.simplify.dead_code import DeadCode
from assay.lower.simplify.fold import Folding
from assay.lower.simplify.inline import Inlining
from assay.lower.simplify.value_device import device_of_value
from assay.semantics import graph
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Trap
from assay.semantics.graph import Call, Expr, Function, GlobalVar, If, Let, OnDevice, Var
from assay.semantics.graph.scopes import Forest
from assay.semantics.module import Module
from assay.semantics.walk import rewrite
from tests.lower.simplify.simplify_programs import CHIP, HOST, INT, const, on, param, to, whole
from tests.museum.judges import Run, values, well_formed
from tests.museum.planted import PlantedFault

OTHER = VirtualDevice("cuda", 0, "cuda -arch=sm_80", "global")
XS = {"x": np.array([1, 2, 3], "int32")}


def judged(source: Module, made: Module) -> str | None:
    """The static rules, and value numbering."""
    return well_formed(source, made) or values(source, made)


SAYS = {
    "simplify: places": "is it so",
    "simplify: values": "another value",
    "simplify: events": "in the same order",
    "well-formed": "[graph.",
}
"""What each layer says of a fault that it catches."""
RUN = Run(XS)


def fault(
    name: str,
    layer: str,
    wrong: Callable[[Module], Module],
    right: Callable[[Module], Module],
    program: Callable[[], Module],
    known: str = "",
    moves: bool = True,
) -> PlantedFault:
    """A wrong pass, the right one, and a program that shows it. `moves`: no run shows it, for the values are right;
    only where they are is wrong."""
    sees = (judged,) if moves or layer == "well-formed" else (judged, RUN)
    silent = (RUN,) if moves else ()
    return PlantedFault(name, layer, sees, program, wrong, right, SAYS[layer], known=known, silent=silent)


def fold(module: Module) -> Module:
    return Folding(module, evaluate).run()


def folding(kind: type[Folding]) -> Callable[[Module], Module]:
    return lambda m: kind(m, evaluate).run()


# --- the passes ------------------------------------------------------------------------------------------------------


class NoDevice(Folding):
    """The constant says nothing: it is where the default is."""

    def device(self, node: Expr, operands: list[VirtualDevice | None]) -> VirtualDevice | None:
        return ANYWHERE


class WhereTheOperandIs(Folding):
    def device(self, node: Expr, operands: list[VirtualDevice | None]) -> VirtualDevice | None:
        return operands[0] if operands else CHIP


class Unwrapped(Folding):
    def wrapper(self, node: OnDevice, value: Expr) -> Expr:
        return value


class OneSaid(Folding):
    """What two operands say contradicts: one of them is taken."""

    def device(self, node: Expr, operands: list[VirtualDevice | None]) -> VirtualDevice | None:
        return super().device(node, operands) or operands[0]


class OtherBranch(Folding):
    def taken(self, node: If, condition: Any) -> Expr | None:
        return super().taken(replace(node, then=node.otherwise, otherwise=node.then), condition)


class BranchAnywhere(Folding):
    def taken(self, node: If, condition: Any) -> Expr | None:
        return node.then if bool(condition) else node.otherwise


def zero_for_a_trap(module: Module) -> Module:
    def lenient(expr: Expr, of: Module) -> Any:
        try:
            return evaluate(expr, of)
        except Trap:
            return np.zeros(3, "int32")

    return Folding(module, lenient).run()


class AllDevicesAlike(Sharing):
    def place(self, node: Expr) -> VirtualDevice:
        return ANYWHERE


class TargetsIgnored(Sharing):
    def place(self, node: Expr) -> VirtualDevice:
        return replace(node.device, target="")


class FromAnotherBranch(Sharing):
    def serves(self, forest: Forest, at: int, scope: int) -> bool:
        return True


class Annotated(Sharing):
    """Annotations are operations like others; two values that are wanted on two devices become one."""

    def unplaced(self, order: list[Expr]) -> bool:
        return False


class ByValueOnly(Sharing):
    """The sign of zero is lost: constants are compared as numbers."""

    def what(self, node: Expr) -> tuple[Any, ...] | None:
        if isinstance(node, graph.Constant):
            return ("constant", str(node.data.dtype), tuple((node.data + 0).reshape(-1).tolist()))
        return super().what(node)


class ToTheCaller(Inlining):
    """The result of the function is pulled onto the device of its caller."""

    def placed(self, call: Call, function: Function) -> bool:
        return True

    def opened(self, call: Call, function: Function) -> Expr:
        body = super().opened(call, function)
        work: list[Expr] = []
        while isinstance(body, Let):
            work.append(body)
            body = body.body
        body = replace(body, device=call.device)
        for let in reversed(work):
            body = let.with_children([let.children[0], body])
        return body


class Unchecked(Inlining):
    """Arguments are bound to parameters that are elsewhere."""

    def placed(self, call: Call, function: Function) -> bool:
        return device_of_value(function.body) == call.device


class InPlaceOfParameters(Inlining):
    """Arguments stand where the parameters stood, copied to each use: evaluated late, often or never."""

    def opened(self, call: Call, function: Function) -> Expr:
        body = rewrite(
            fresh_copy(function.body, {}),
            lambda n: fresh_copy(call.args[function.params.index(n)], {}) if n in function.params else n,
        )
        return body


class IntoFunctions(DeadCode):
    """inline_into_function: a binding that is used once moves to its use, into a function that runs often (or
    never)."""

    def function(self, function: Function) -> Function:
        lets: dict[Expr, Expr] = {}

        def change(node: Expr) -> Expr:
            return node.body if isinstance(node, Let) and node.var in lets else node

        def collect(node: Expr) -> Expr:
            if (
                isinstance(node, Let)
                and isinstance(node.value, Call)
                and not isinstance(node.value.op, (GlobalVar, Var))
            ):
                lets[node.var] = node.value
            return node

        rewrite(function.body, collect)
        moved = rewrite(function.body, change)
        return replace(function, body=rewrite(moved, lambda n: fresh_copy(lets[n], {}) if n in lets else n))


def fields_dropped(module: Module) -> Module:
    """Nodes are built anew from their parts, without their devices."""

    def change(node: Expr) -> Expr:
        return Call(node.type, node.op, node.args, node.attrs) if isinstance(node, Call) else node

    return replace(
        module, definitions={n: rewrite(d, change) for n, d in module.definitions.items() if isinstance(d, Function)}
    )


# --- programs --------------------------------------------------------------------------------------------------------


def module(body: Callable[[Var], Expr], device: VirtualDevice = HOST, **functions: Function) -> Module:
    x = param("x", device)
    return Module({**functions, "main": whole(graph.function([x], body(x)))})


def add(a: Expr, b: Expr, device: VirtualDevice) -> Expr:
    return on(graph.call("add", a, b), device)


def folded_elsewhere() -> Module:
    return module(lambda x: add(x, to(add(const(1, CHIP), const(2, CHIP), CHIP), HOST), HOST))


def copied() -> Module:
    return module(lambda x: add(to(x, CHIP), to(const(1, HOST), CHIP), CHIP))


def sizes() -> Module:
    def body(x: Var) -> Expr:
        size = on(graph.call("shape_of", to(x, CHIP)), HOST)
        as_int = on(graph.call("astype", size, dtype="int32"), HOST)
        return add(x, on(graph.call("broadcast_to", as_int, shape=(3,)), HOST), HOST)

    return module(body)


def open_module(body: Callable[[Var], Expr]) -> Module:
    x = graph.var("x", INT)
    return Module({"main": graph.function([x], body(x))})


def wrapped() -> Module:
    one, two = (graph.constant(np.full(3, k, "int32")) for k in (1, 2))
    both = graph.on_device(graph.call("add", one, two), CHIP)
    return open_module(lambda x: graph.call("add", x, both))


def contradictory() -> Module:
    one, two = const(1, CHIP), const(2, HOST)
    return open_module(lambda x: graph.call("add", x, graph.call("add", one, two)))


def branches() -> Module:
    def body(x: Var) -> Expr:
        condition = on(graph.constant(np.bool_(True)), HOST)
        return on(graph.if_(condition, add(x, x, HOST), x), HOST)

    return module(body)


def branch_elsewhere() -> Module:
    """Not what a planner writes: the branch is on the chip, the choice on the host."""

    def body(x: Var) -> Expr:
        condition = on(graph.constant(np.bool_(True)), HOST)
        return add(x, on(graph.if_(condition, add(to(x, CHIP), const(1, CHIP), CHIP), x), HOST), HOST)

    return module(body)


def dividing() -> Module:
    quotient = on(graph.call("floor_divide", const(1, HOST), const(0, HOST)), HOST)
    return module(lambda x: add(x, quotient, HOST))


def twice() -> Module:
    return module(lambda x: add(add(x, x, HOST), to(add(to(x, CHIP), to(x, CHIP), CHIP), HOST), HOST))


def same_on_two() -> Module:
    """A constant on two devices."""
    return module(lambda x: add(to(add(to(x, CHIP), const(1, CHIP), CHIP), HOST), const(1, HOST), HOST))


def two_targets() -> Module:
    def body(x: Var) -> Expr:
        one = add(to(x, CHIP), const(1, CHIP), CHIP)
        two = on(graph.call("subtract", to(x, OTHER), const(1, OTHER)), OTHER)
        return add(to(one, HOST), to(two, HOST), HOST)

    return module(body)


def wanted_on_two() -> Module:
    def body(x: Var) -> Expr:
        one, two = (graph.on_device(graph.call("add", x, x), d) for d in (HOST, CHIP))
        return graph.call("add", one, two)

    return open_module(body)


def branching() -> Module:
    def body(x: Var) -> Expr:
        v, w = Var(INT, "v", device=HOST), Var(INT, "w", device=HOST)
        total = on(graph.call("sum", x, axis=None, keepdims=False), HOST)
        less = on(graph.call("less", total, on(graph.constant(np.int32(0)), HOST)), HOST)
        then = on(graph.let(v, add(x, x, HOST), v), HOST)
        otherwise = on(graph.let(w, add(x, x, HOST), w), HOST)
        return on(graph.if_(less, then, otherwise), HOST)

    return module(body)


def zeros() -> Module:
    plus, minus = (on(graph.constant(np.array(z, "float32")), HOST) for z in (0.0, -0.0))
    x = on(graph.var("x", INT), HOST)
    body = on(graph.tuple_of(plus, minus, x), HOST)
    return Module({"main": graph.function([x], body)})


def called(param_on: VirtualDevice, result_on: VirtualDevice, call_on: VirtualDevice) -> Module:
    p = param("p", param_on)
    f = on(graph.function([p], to(add(p, p, param_on), result_on)), HOST)

    def body(x: Var) -> Expr:
        made = on(graph.call(on(GlobalVar(f.type, "f"), HOST), x), call_on)
        return add(x, to(made, HOST), HOST)

    return module(body, f=f)


def ordered() -> Module:
    """The function prints before it uses its parameter; the argument prints when it is evaluated."""
    p = param("p", HOST)
    u, v = (Var(graph.print_().type, n, device=HOST) for n in ("u", "v"))
    f = on(graph.function([p], on(graph.let(u, on(graph.print_(format="inside"), HOST), p), HOST)), HOST)

    def body(x: Var) -> Expr:
        argument = on(graph.let(v, on(graph.print_(format="before"), HOST), x), HOST)
        return on(graph.call(on(GlobalVar(f.type, "f"), HOST), argument), HOST)

    return module(body, f=f)


def once() -> Module:
    """What can fail is evaluated once, before the function is called, and not if it never is."""

    def body(x: Var) -> Expr:
        v = Var(INT, "v", device=HOST)
        g = Var(graph.function([], x).type, "g", device=HOST)
        inner = on(graph.function([], v), HOST)
        quotient = on(graph.call("floor_divide", x, const(0, HOST)), HOST)
        return on(graph.let(v, quotient, on(graph.let(g, inner, x), HOST)), HOST)

    return module(body)


def share(m: Module) -> Module:
    return Sharing(m).run()


def open_calls(m: Module) -> Module:
    return Inlining(m).run()


def same(m: Module) -> Module:
    return DeadCode(m).run()


FAULTS: Sequence[PlantedFault] = [
    fault("a folded constant says no device", "simplify: places", folding(NoDevice), fold, folded_elsewhere,
        known="P#9613"),
    fault("a copy of a constant is the constant where it was", "simplify: places", folding(WhereTheOperandIs), fold,
        copied, known="P#9613"),
    fault("sizes are folded to where the tensor is", "simplify: places", folding(WhereTheOperandIs), fold, sizes,
        known="P#9421"),
    fault("the annotation around a folded call goes", "simplify: places", folding(Unwrapped), fold, wrapped,
        known="P#9345, P#9367"),
    fault("operands on two devices are folded to one of them", "simplify: places", folding(OneSaid), fold,
        contradictory, known="P#9613"),
    fault("the other branch is taken", "simplify: values", folding(OtherBranch), fold, branches, moves=False),
    fault("a branch stands for a choice that is elsewhere", "simplify: values", folding(BranchAnywhere), fold,
        branch_elsewhere, known="P#9613"),
    fault("a trap is folded to zeros", "simplify: values", zero_for_a_trap, fold, dividing, known="P#10465",
        moves=False),
    fault("equal values on two devices are one", "simplify: places", lambda m: AllDevicesAlike(m).run(), share,
        same_on_two, known="P#9613"),
    fault("a target counts for nothing", "simplify: places", lambda m: TargetsIgnored(m).run(), share, two_targets,
        known="P#12088, P#12095"),
    fault("a value of another branch is used", "well-formed", lambda m: FromAnotherBranch(m).run(), share, branching,
        moves=False),
    fault("one value for two annotations", "simplify: places", lambda m: Annotated(m).run(), share, wanted_on_two,
        known="P#9613"),
    fault("zeros of both signs are one constant", "simplify: values", lambda m: ByValueOnly(m).run(), share, zeros,
        known="8509: merged by content", moves=False),
    fault("the result is pulled onto the caller's device", "simplify: values", lambda m: ToTheCaller(m).run(),
        open_calls, lambda: called(HOST, CHIP, HOST), known="P#9613"),
    fault("an argument is bound to a parameter elsewhere", "simplify: values", lambda m: Unchecked(m).run(),
        open_calls, lambda: called(CHIP, HOST, HOST), known="P#9613"),
    fault("arguments are evaluated where the parameters stood",
        "simplify: events", lambda m: InPlaceOfParameters(m).run(), open_calls, ordered, moves=False),
    fault("a binding moves into a function", "simplify: events", lambda m: IntoFunctions(m).run(), same, once,
        known="inline_into_function", moves=False),
    fault("a field copy drops the device", "simplify: places", fields_dropped, same, twice, known="P#9826"),
]  # fmt: skip
