"""Wrong plans of devices, each with a program and the rule that it breaks.

Numbers are those of apache/tvm; "read" means that its source says so. Most are made of the right plan by one change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from assay.lower.devices import plan_devices
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.graph import Expr, Function, OnDevice, device_copy, get, on_device, tuple_of
from assay.semantics.graph.effects import is_copy
from assay.semantics.graph.nodes import Call, Constant, Let, RefCreate, ShapeOf, TupleGetItem, Var
from assay.semantics.module import Definition, Module
from assay.semantics.operator import Operator
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.semantics.walk import post_order, rewrite
from assay.verify.devices import broken_plans, check_devices
from tests.museum.planted import PlantedFault

CPU, GPU = VirtualDevice("cpu", 0, "c"), VirtualDevice("cuda", 0, "cuda")
CONFIG = CompilationConfig((GPU, CPU), CPU, GPU)
ON_CPU, ON_GPU = replace(CPU, scope="global"), replace(GPU, scope="global")

Planner = Callable[[Module, CompilationConfig], Module]


def fault(
    name: str, known: str, verdict: str, program: str, wrong: Planner, again: Planner = plan_devices
) -> PlantedFault:
    """A wrong planner, a program that shows it, and the rule that is broken. `again` is a planner whose second run is
    wrong; otherwise that is the right one."""

    def broken(source: Module, made: tuple[Module, Planner]) -> str | None:
        planned, again = made
        found = broken_plans(source, planned, CONFIG, again)
        evidence = check_devices(source, planned, CONFIG, again)
        assert evidence.holds == (not found) and (not found or evidence.data["verdict"] == found[0].verdict)
        return "; ".join(f"{b.verdict}: {b}" for b in found) or None

    return PlantedFault(
        name,
        f"devices: {verdict}",
        (broken,),
        lambda: parsed(program),
        lambda source: (wrong(source, CONFIG), again),
        lambda source: (checked_plan(source), plan_devices),
        f"{verdict}: ",
        known=known,
    )


def parsed(program: str) -> Module:
    module = parse(program, "fault.py")
    check(module)
    return module


def checked_plan(source: Module) -> Module:
    planned = plan_devices(source, CONFIG)
    check(planned)
    return planned


# --- changes -----------------------------------------------------------------------------------------------------


def everywhere(module: Module, change: Callable[[Expr], Expr]) -> Module:
    """`change` of every node of the graph functions."""
    made: dict[str, Definition] = dict(module.definitions)
    for name, d in module.definitions.items():
        if isinstance(d, Function):
            root: Expr = d
            new = rewrite(root, change)
            assert isinstance(new, Function)
            made[name] = new
    return replace(module, definitions=made)


def plan_then(at: Callable[[Expr, Module], bool], change: Callable[[Expr], Expr]) -> Planner:
    """The right plan with one change, at the first node that is meant."""

    def wrong(module: Module, config: CompilationConfig) -> Module:
        planned = plan_devices(module, config)
        graphs = [d for d in planned.definitions.values() if isinstance(d, Function)]
        meant = next(n for d in graphs for n in post_order(d) if at(n, planned))
        made: dict[str, Definition] = dict(planned.definitions)
        for name, d in planned.definitions.items():
            if isinstance(d, Function):
                new: dict[int, Expr] = {}
                for node in post_order(d):
                    copy = node.with_children([new[id(c)] for c in node.children])
                    new[id(node)] = change(copy) if node is meant else copy
                found = new[id(d)]
                assert isinstance(found, Function)
                made[name] = found
        return replace(planned, definitions=made)

    return wrong


def told_otherwise(change: Callable[[Expr], Expr]) -> Planner:
    """The plan of a program that says something else."""
    return lambda module, config: plan_devices(everywhere(module, change), config)


def moved(name: str, to: VirtualDevice) -> Planner:
    """A variable, and it alone, is elsewhere."""

    def wrong(module: Module, config: CompilationConfig) -> Module:
        new: dict[Var, Var] = {}

        def var(of: Var) -> Var:
            return new.setdefault(of, replace(of, device=to) if of.name == name else of)

        def change(node: Expr) -> Expr:
            match node:
                case Var():
                    return var(node)
                case Let():
                    return replace(node, var=var(node.var))
                case Function():
                    return replace(node, params=tuple(map(var, node.params)))
                case _:
                    return node

        return everywhere(plan_devices(module, config), change)

    return wrong


def kind(*of: type[Expr]) -> Callable[[Expr, Module], bool]:
    return lambda node, module: isinstance(node, of)


def op(name: str) -> Callable[[Expr, Module], bool]:
    return lambda node, module: isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == name


def to_host(node: Expr) -> Expr:
    return replace(node, device=ON_CPU)


def to_gpu(node: Expr) -> Expr:
    return replace(node, device=ON_GPU)


def operand_copied(node: Expr) -> Expr:
    """The first operand is copied to where it is."""
    first, *rest = node.children
    return node.with_children([device_copy(first, first.device), *rest])


def copied_for_each(module: Module, config: CompilationConfig) -> Module:
    """Each use has a copy of its own."""
    planned = plan_devices(module, config)

    def change(node: Expr) -> Expr:
        return node.with_children([replace(c) if is_copy(c, planned) else c for c in node.children])

    return everywhere(planned, change)


def constants_copied(module: Module, config: CompilationConfig) -> Module:
    def change(node: Expr) -> Expr:
        parts = [device_copy(to_host(c), c.device) if isinstance(c, Constant) else c for c in node.children]
        return node.with_children(parts)

    return everywhere(plan_devices(module, config), change)


def whole_tuple_copied(node: Expr) -> Expr:
    """The tuple is copied for one field of it."""
    (field,) = node.children
    assert isinstance(field, TupleGetItem)
    fields = [get(field.value, i) for i in range(2)]
    copies = [device_copy(replace(f, device=field.device), node.device) for f in fields]
    return replace(get(replace(tuple_of(*copies), device=node.device), field.index), device=node.device)


def evaluated_twice(module: Module, config: CompilationConfig) -> Module:
    """A shared value that is annotated at two uses becomes two."""
    return told_otherwise(lambda n: replace(n, value=replace(n.value)) if isinstance(n, OnDevice) else n)(
        module, config
    )


def first_says(module: Module, config: CompilationConfig) -> Module:
    """What is said in the first function is the default of all."""
    first = next(d for d in module.definitions.values() if isinstance(d, Function))
    said = next((n.device for n in (*first.params, *post_order(first)) if n.device != ANYWHERE), config.default)
    return plan_devices(module, replace(config, default=config.canonical(said).place))


def grows(module: Module, config: CompilationConfig) -> Module:
    """What is planned gets one more annotation's worth of copies each time."""
    return plan_then(op("exp"), operand_copied)(module, config)


def other_instance(module: Module, config: CompilationConfig) -> Module:
    """An instance that computes something else."""
    planned = plan_devices(module, config)
    made: dict[str, Definition] = dict(planned.definitions)
    name, of = next((n, d) for n, d in made.items() if isinstance(d, Function) and "instance_of" in d.attrs)
    root: Expr = of
    new = rewrite(root, lambda n: n.args[0] if isinstance(n, Call) and len(n.args) == 2 else n)
    assert isinstance(new, Function)
    made[name] = new
    return replace(planned, definitions=made)


# --- programs ----------------------------------------------------------------------------------------------------

T = 'R.Tensor((2, 3), "float32")'


def program(params: str, *body: str, before: str = "", actions: bool = False) -> str:
    typed = re.sub(r"\bT\b", lambda _: T, params)
    head = "@R.function(pure=False)" if actions else "@R.function"
    lines = "\n".join(f"        {line}" for line in body)
    return f"@I.ir_module\nclass M:\n{before}\n    {head}\n    def main({typed}):\n{lines}\n"


BORDER = program(
    "a: T, b: T, c: T, d: T",
    'return R.multiply(A.on_device(R.add(a, b), "cpu"), R.subtract(c, d))',
)
SHARED = program(
    "x: T",
    "with A.graph():",
    "    g = R.exp(x)",
    'return R.add(R.tanh(A.on_device(g, "cpu")), R.negative(A.on_device(g, "cpu")))',
)
BOTH_SAY = program("x: T", "y = R.exp(x)", 'p = A.on(R.tanh(y), "cpu")', 'return A.on(R.add(p, y), "cuda")')
FEW = program(
    "x: T",
    "with A.graph():",
    "    p = R.exp(x)",
    "    q = R.tanh(x)",
    'return (A.on(R.add(p, q), "cpu"), A.on(R.subtract(p, q), "cpu"), A.on(R.negative(x), "cuda"))',
)
CONSTANT = program("x: T", 'return R.add(x, A.on_device(R.const(2, "float32"), "cpu"))')
PLAIN_CONSTANT = program("x: T", 'return R.add(x, R.const(2, "float32"))')
EXPLICIT = program("x: T", 'y = A.on(A.device_copy(x), "cpu")', 'return A.on(R.exp(y), "cuda")')
LETS = program("x: T", 'y = A.on_device(R.exp(x), "cpu")', "z = R.tanh(y)", "return z")
SHAPE = program("x: T", "return R.shape_of(R.exp(x))")
BRANCH = program(
    'c: R.Tensor((), "bool"), x: T, y: T',
    "if R.logical_not(c):",
    "    z = R.exp(x)",
    "else:",
    "    z = R.tanh(y)",
    "return z",
)
WATCHED = program('c: R.Tensor((), "bool"), x: T', "if c:", "    z = R.exp(x)", "else:", "    z = x", "return z")
RESULT = f"""@I.ir_module
class M:
    @R.function
    def main(x: A.on({T}, "cpu")) -> A.on({T}, "cuda"):
        return A.on(R.exp(x), "cpu")
"""
TUPLE = program("x: T, y: T", 't = A.on((x, y), "cpu")', 'return A.on(R.exp(t[1]), "cuda")')
CALL = program(
    "x: T",
    'return A.on(R.exp(M.f(x)), "cuda")',
    before=f'    @R.function\n    def f(k: {T}):\n        return A.on_device(R.tanh(k), "cpu")\n',
)
APART = program(
    "x: T", "return R.exp(x)", before=f'    @R.function\n    def f(k: A.on({T}, "cpu")):\n        return R.tanh(k)\n'
)
CLOSURE = program("x: T", "@R.function", f"def f(k: {T}) -> {T}:", "    return R.add(k, x)", "return f(x)")
CELL = program("x: T", "r = A.ref(x)", 'u = A.write(r, A.on(R.exp(x), "cpu"))', "return A.read(r)", actions=True)
VIEW = program("x: T", "return R.reshape(x, (3, 2))")
DATA = program(
    "x: T",
    "l = L.item(R.exp(x))",
    "return l",
    before=f"    @A.data\n    class L:\n        none = ()\n        item = ({T},)\n",
)
PRIMITIVE = program(
    "x: T, y: T",
    "return M.f(x, y)",
    before=(
        f'    @R.function(private=True)\n    def f(a: {T}, b: {T}):\n        R.func_attr({{"primitive": 1}})\n       '
        " return R.add(a, b)\n"
    ),
)
INSTANCES = program(
    'x: A.on(T, "cpu"), y: A.on(T, "cuda")',
    'return (A.on_device(R.exp(M.f(x)), "cpu", constrain_result=True), A.on_device(R.exp(M.f(y)), "cuda",'
    " constrain_result=True))",
    before=f"    @R.function\n    def f(a: {T}):\n        return R.add(R.exp(a), a)\n",
)
KERNEL = f"""@I.ir_module
class M:
    @T.prim_func
    def f(a: T.Buffer((2, 3), "float32", scope="global.texture"), out: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            out[i, j] = a[i, j]

    @R.function
    def main(x: {T}):
        return R.call_tir(M.f, (A.on_device(R.exp(x), "cpu"),), out_ty={T})
"""


FAULTS: tuple[PlantedFault, ...] = (
    fault("a copy is missing", "", "operand", BORDER, plan_then(lambda n, m: is_copy(n, m), lambda n: n.children[0])),
    fault("a copy for each use", "read; its tests ask for it", "double copy", SHARED, copied_for_each),
    fault("a copy to where the value is", "", "idle copy", BORDER, plan_then(op("add"), operand_copied)),
    fault("a rewrite drops the device", "P#9826", "open", BORDER,
        plan_then(op("add"), lambda n: replace(n, device=ANYWHERE))),
    fault("the scope stays open", "", "open", BORDER,
        plan_then(op("add"), lambda n: replace(n, device=n.device.place))),
    fault("an annotation stays", "", "left", BORDER,
        plan_then(op("subtract"), lambda n: replace(on_device(n, ON_GPU), device=n.device))),
    fault("the host is taken for the default", "", "default",
        BORDER, lambda m, c: plan_devices(m, replace(c, default=c.host))),
    fault("an annotation is ignored", "", "annotation", BORDER,
        told_otherwise(lambda n: n.value if isinstance(n, OnDevice) else n)),
    fault("a device that is said is ignored", "P#12088", "annotation", BOTH_SAY,
        told_otherwise(lambda n: replace(n, device=ANYWHERE) if isinstance(n, Call) else n)),
    fault("a constant under an annotation is not seen", "P#9345, P#9367", "annotation", CONSTANT,
          told_otherwise(lambda n: n.value if isinstance(n, OnDevice) else n)),
    fault("a constant is copied", "", "constant", PLAIN_CONSTANT, constants_copied),
    fault("a copy of the user is dropped", "", "annotation", EXPLICIT,
          told_otherwise(lambda n: n.args[0] if isinstance(n, Call) and isinstance(n.op, Operator) and n.op.name
              == "device_copy" else n)),
    fault("a value moves into another lexical device", "P#9613", "let", LETS, plan_then(op("exp"), to_gpu)),
    fault("a folded value leaves the device of its let", "P#9613", "let", LETS, moved("y", ON_GPU)),
    fault("shapes off the host", "P#9421", "host", SHAPE, plan_then(kind(ShapeOf), to_gpu)),
    fault("a condition off the host", "", "host", BRANCH,
        plan_then(lambda n, m: is_copy(n, m), lambda n: n.children[0])),
    fault("what the host alone looks at is not on it", "", "default", WATCHED,
          lambda m, c: plan_devices(
              parse(WATCHED.replace('R.Tensor((), "bool")', 'A.on(R.Tensor((), "bool"), "cuda")')), c)),
    fault("a function does not give its result where it says", "", "function", RESULT,
        plan_then(lambda n, m: is_copy(n, m), lambda n: n.children[0])),
    fault("branches on two devices", "", "branch", BRANCH, plan_then(op("tanh"), to_host)),
    fault("an open input of two devices", "P#15090 (I#15019)", "copies", FEW,
          told_otherwise(lambda n: replace(n, device=GPU) if isinstance(n, Call) and isinstance(n.op, Operator)
              and n.op.name in ("exp", "tanh") else n)),
    fault("a field of a tuple is elsewhere", "", "tuple", TUPLE, moved("x", ON_GPU)),
    fault("a tuple is copied for one field of it", "", "projection", TUPLE,
        plan_then(lambda n, m: is_copy(n, m) and isinstance(n.children[0], TupleGetItem), whole_tuple_copied)),
    fault("a failed trial leaves a parameter moved", "read", "call", CALL, moved("k", ON_GPU)),
    fault("a closure is not where its result is", "", "function", CLOSURE,
        plan_then(lambda n, m: isinstance(n, Function) and n.params[0].name == "k", to_host)),
    fault("a value is written to a cell elsewhere", "", "reference", CELL, plan_then(kind(RefCreate), to_gpu)),
    fault("a view is in another memory", "", "view", VIEW,
        plan_then(op("reshape"), lambda n: replace(n, device=replace(n.device, scope="global.texture")))),
    fault("a field of a data value is elsewhere", "", "tuple", DATA, plan_then(op("exp"), to_host)),
    fault("a primitive function runs in two places", "", "function", PRIMITIVE, moved("a", ON_CPU)),
    fault("a new scope does not reach a copy that is there", "P#11662", "scope", KERNEL,
          plan_then(lambda n, m: is_copy(n, m), lambda n: replace(n, device=replace(n.device, scope="global")))),
    fault("the second run copies more", "P#11662", "second run", SHARED, plan_devices, grows),
    fault("a shared value becomes two", "", "erasure", SHARED, evaluated_twice),
    fault("the first function that is visited decides", "read", "default", APART, first_says),
    fault("an instance computes something else", "", "instance", INSTANCES, other_instance),
)  # fmt: skip
