"""Faults of memory scopes, most of them of the real system (ApplyDeviceConstraints leaves let aliases and allocations
in the old scope; P#11662: a new scope stops at a copy that is there). Each is planted in what the right pass made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from assay.lower.devices import plan_devices
from assay.semantics.analyses.equality import structural_equal
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, CallTIR, Expr, Function
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tensor import Alias, Block, Buffer, Call as Invocation, PrimFunc, Stmt, Store, program_order
from assay.semantics.tensor.mapping import Mapper
from assay.semantics.walk import post_order, rewrite
from assay.verify.devices.scopes_check import check_scopes
from tests.lower.devices.scope_programs import DOUBLE, TWICE, functions
from tests.museum.judges import of_evidence
from tests.museum.planted import PlantedFault

CUDA = VirtualDevice("cuda", 0, "cuda")
CONFIG = CompilationConfig((CUDA, VirtualDevice("cpu", 0, "llvm")), VirtualDevice("cpu", 0, "llvm"), CUDA)

MAIN = """
    @R.function
    def main(x: A.on(R.Tensor((4,), "float32"), "cuda", -1, "", "A"), y: A.on(R.Tensor((4,), "float32"), "cuda", -1, \
"", "A")):
        u = R.call_tir(Module.twice, (x, y), out_ty=R.Tensor((4,), "float32"))
        v = R.call_tir(Module.twice, (u, y), out_ty=R.Tensor((4,), "float32"))
        return A.on_device(v, "cuda", -1, "", "B", constrain_body=True, constrain_result=True)
"""


def program() -> Module:
    """Twice is given A and what it gave itself; its second parameter is a texture, so y is copied."""
    return functions(DOUBLE, TWICE, MAIN)


def right(module: Module) -> Module:
    return plan_devices(module, CONFIG)


def _instances(module: Module, change: Callable[[PrimFunc], PrimFunc]) -> Module:
    """The module with each instance changed."""
    return module.with_(**{n: change(f) for n, f in module.kernels.items() if "instance_of" in f.attrs})


def _left(pick: Callable[[Stmt], list[Buffer]], scope: str = "") -> Callable[[Module], Module]:
    """In each instance these buffers of each statement stay in a scope."""

    def change(func: PrimFunc) -> PrimFunc:
        those = [b for s in program_order(func.body) for b in pick(s)]
        mapper = Mapper(buffers={b: replace(b, scope=scope) for b in those})
        return replace(func, body=mapper.run(func.body))

    return lambda module: _instances(module, change)


def _statements(change: Callable[[Stmt], Stmt]) -> Callable[[Module], Module]:
    return lambda module: _instances(module, lambda f: replace(f, body=rewrite(f.body, change)))


def aliases(stmt: Stmt) -> list[Buffer]:
    return [stmt.view.buffer] if isinstance(stmt, Alias) else []


def matches(stmt: Stmt) -> list[Buffer]:
    return [v.buffer for v in stmt.views] if isinstance(stmt, Block) else []


def allocations(stmt: Stmt) -> list[Buffer]:
    return (
        list(stmt.allocated) if isinstance(stmt, Block) else [stmt.buffer] if type(stmt).__name__ == "Allocate" else []
    )


def originals_called(stmt: Stmt) -> Stmt:
    return replace(stmt, function="double") if isinstance(stmt, Invocation) else stmt


def other_index(stmt: Stmt) -> Stmt:
    return (
        replace(stmt, indices=tuple(reversed(stmt.indices)), value=stmt.value + stmt.value)
        if isinstance(stmt, Store)
        else stmt
    )


def _main(change: Callable[[Expr], Expr]) -> Callable[[Module], Module]:
    def plant(module: Module) -> Module:
        root: Expr = module.main
        made = rewrite(root, change)
        assert isinstance(made, Function)
        return module.with_(main=made)

    return plant


def stopped(node: Expr) -> Expr:
    """A copy that is there stays in the scope that it had before."""
    if isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "device_copy":
        return replace(node, device=replace(node.device, scope="global"))
    return node


def one_for_all(module: Module) -> Module:
    """The table of instances forgets the signature: the first serves all."""
    first = next(n.func for n in post_order(module.main) if isinstance(n, CallTIR))
    return _main(lambda n: replace(n, func=first) if isinstance(n, CallTIR) else n)(module)


def never(module: Module) -> Module:
    """Scopes do not flow in: the functions as they were are called."""
    return _main(lambda n: replace(n, func="twice") if isinstance(n, CallTIR) else n)(module)


def scopes(source: Module, made: Module) -> str | None:
    return of_evidence(check_scopes(source, made))


def planned_again(source: Module, made: Module) -> str | None:
    """Whether planning again changes the module."""
    try:
        return None if structural_equal(plan_devices(made, CONFIG), made) else "a second run changes the module"
    except Invalid as refused:
        return str(refused)


def fault(name: str, note: str, damage: Callable[[Module], Module], said: str, again: bool = False) -> PlantedFault:
    """A change of what the right pass made. `again`: planning again changes the module, which shows the fault too."""
    judges = (scopes, planned_again) if again else (scopes,)
    return PlantedFault(name, "scopes", judges, program, lambda m: damage(right(m)), right, said, note=note)


FAULTS = (
    fault("aliases open", "let aliases keep the open scope", _left(aliases), "its memory"),
    fault("aliases global", "let aliases keep the main memory", _left(aliases, "global"), "its memory"),
    fault("matches", "a match of a block keeps the old scope", _left(matches, "global"), "its memory"),
    fault("allocations", "allocations keep the old scope", _left(allocations), "open scope"),
    fault("calls", "what is called is no instance", _statements(originals_called), "handed to double"),
    fault("body", "the instance computes something else", _statements(other_index), "an instance of double"),
    fault("copies", "P#11662: the new scope stops at a copy", _main(stopped), "what it is given in global", again=True),
    fault("one for all", "instances are told apart by name alone", one_for_all, "what it is given in", again=True),
    fault("never", "no instance is called", never, "open scope", again=True),
)
