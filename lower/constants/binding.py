"""Contents for constants from outside, and the constants handed over by the caller (row C4; specs/lower.md,
"constants")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.lower.constants.constant_table import Array
from assay.lower.constants.extract import extract_constants
from assay.lower.constants.link import unlink_params
from assay.semantics.bits import frozen
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call, CallTIR, Expr, Function, GlobalVar, Var, call, function, var
from assay.semantics.graph.functions import rewrite_function
from assay.semantics.linked import LINKED
from assay.semantics.module import GROUP, Branch, Definition, Module, Program, Step, with_contents
from assay.semantics.names import unused
from assay.semantics.tensor import AllocateConst, PrimFunc, Stmt, program_order
from assay.semantics.tensor.calls import without_calls
from assay.semantics.tensor.phases import phases
from assay.semantics.types import FuncType, TensorType
from assay.semantics.walk import post_order, rewrite


def bind_constants(module: Module, arrays: Mapping[str, Array]) -> Module:
    """The module with other contents in constants of its table, by name, wherever they are used; at any stage after
    constants. A read-only array is not copied. A constant that was copied to other devices, as
    `NAME@DEVICE`, follows.

    Invalid where the table has no constant of a name (`bind.C1`), or it has another dtype or shape (`bind.C2`).
    """
    constants = dict(module.constants)
    for name, given in arrays.items():
        names = [n for n in constants if n == name or n.startswith(f"{name}@")]
        if name not in constants:
            known = ", ".join(constants) or "none"
            raise Invalid(
                f"the table has no constant {name}; it may have been folded into others; it has {known}",
                label="bind.C1",
            )
        for n in names:
            want, got = _type(constants[n]), _type(given)
            if str(want) != str(got):
                raise Invalid(f"constant {name} is {want}, {got} is given", label="bind.C2")
            constants[n] = frozen(given)
    changed = {n for n, a in constants.items() if a is not module.constants[n]}

    def contents(node: AllocateConst) -> Array | None:
        return constants[node.index] if node.index in changed and node.data is not None else node.data

    kernels = {n: with_contents(d, contents) for n, d in module.kernels.items()}
    return replace(module.with_(**kernels), constants=constants)


def _type(array: Array) -> TensorType:
    return TensorType(array.shape, dtype(array.dtype))


def extract_params(module: Module) -> tuple[Module, dict[str, Array]]:
    """The module with the constants of its table as the first parameters of `main`, in the order of the table, and
    their arrays by the names of these parameters; before liveness or after.

    Tensor functions take what they held, graph functions that main calls what they named. Invalid where the module has
    no main; Unsupported where a planned kernel runs in other phases without its constants (`bind.C3`).
    """
    if isinstance(module.definitions.get("main"), Program):
        return _from_program(module)
    module = _taken_out(extract_constants(unlink_params(module)))
    needs = _needs(module)
    order = [n for n in module.constants if n in needs["main"]] if module.main else []
    graphs = module.graphs
    taken = {v.name for d in graphs.values() for v in (*post_order(d), *d.params) if isinstance(v, Var)}
    names = {n: unused(n, taken) for n in order}
    definitions: dict[str, Definition] = dict(module.definitions)
    for name, d in graphs.items():
        definitions[name] = _given(d, [n for n in module.constants if n in needs[name]], names, needs, module)
    made = replace(module, definitions=definitions, constants={}, infos={}, offsets={})
    return made, {names[n]: module.constants[n] for n in order}


def _needs(module: Module) -> dict[str, set[str]]:
    """The constants that each graph function needs, itself or by what it calls."""
    named = {n: {g.name for g in post_order(d) if isinstance(g, GlobalVar)} for n, d in module.graphs.items()}
    needs = {n: {g for g in some if g in module.constants} for n, some in named.items()}
    changed = True
    while changed:
        changed = False
        for n, some in named.items():
            more = needs[n].union(*(needs[g] for g in some if g in needs))
            changed |= len(more) > len(needs[n])
            needs[n] = more
    return needs


def _given(
    of: Function, own: Sequence[str], names: Mapping[str, str], needs: Mapping[str, set[str]], module: Module
) -> Function:
    """A function that takes its constants, and hands on those of the functions that it names."""
    params = {n: Var(_type(module.constants[n]), names.get(n, n), device=module.info(n).device) for n in own}

    def wider(node: GlobalVar) -> tuple[GlobalVar, list[Var]]:
        """A function with its new type, and what it is given first."""
        callee = module.definitions[node.name]
        assert isinstance(callee, Function)
        first = [params[n] for n in module.constants if n in needs[node.name]]
        kind = replace(callee.func_type, params=(*(p.type for p in first), *callee.func_type.params))
        return replace(node, type=kind), first

    new: dict[int, Expr] = {}
    for node in post_order(of.body):
        if isinstance(node, GlobalVar) and node.name in params:
            new[id(node)] = params[node.name]
        elif isinstance(node, GlobalVar) and needs.get(node.name):  # as a value: what it takes first is in it
            callee, first = wider(node)
            kept = callee.type
            assert isinstance(kept, FuncType)
            rest = [var(f"x{i}", t) for i, t in enumerate(kept.params[len(first) :])]
            new[id(node)] = function(rest, call(callee, *first, *rest))
        elif isinstance(node, Call) and isinstance(node.op, GlobalVar) and needs.get(node.op.name):
            callee, first = wider(node.op)
            new[id(node)] = replace(node, op=callee, args=(*first, *(new[id(a)] for a in node.args)))
        else:
            new[id(node)] = node.with_children([new[id(c)] for c in node.children])
    kind = replace(of.func_type, params=(*(p.type for p in params.values()), *of.func_type.params))
    return replace(of, type=kind, params=(*params.values(), *of.params), body=new[id(of.body)])


def _held(func: PrimFunc) -> tuple[PrimFunc, list[AllocateConst]]:
    """A tensor function with the constants that it holds as its last inputs, and these."""
    found = {s.buffer: s for s in program_order(func.body) if isinstance(s, AllocateConst)}
    if not found:
        return func, []
    body = rewrite(func.body, lambda s: s.body if isinstance(s, AllocateConst) else s)
    # it is not alone any more what it claimed to be
    attrs = {k: v for k, v in func.attrs.items() if k not in ("operator", "attrs", GROUP, LINKED)}
    return replace(func, params=(*func.inputs, *found, *func.outputs), body=body, attrs=attrs), list(found.values())


def _taken_out(module: Module) -> Module:
    """The module with what tensor functions hold as arguments of their calls."""
    definitions: dict[str, Definition] = dict(module.definitions)
    held: dict[str, list[AllocateConst]] = {}
    for d in module.graphs.values():
        for node in post_order(d):
            if isinstance(node, CallTIR) and node.func not in held:
                whole = without_calls(module.kernel(node.func), module.kernels)
                definitions[node.func], held[node.func] = _held(whole)

    def change(node: Expr) -> Expr:
        if not isinstance(node, CallTIR) or not held[node.func]:
            return node
        more = (GlobalVar(_type(s.contents), s.index, device=module.info(s.index).device) for s in held[node.func])
        return replace(node, args=(*node.args, *more))

    definitions |= {name: rewrite_function(d, change) for name, d in module.graphs.items()}
    for name, other in list(definitions.items()):
        if isinstance(other, PrimFunc) and name not in held:  # nobody calls it: it keeps its contents, without a table
            definitions[name] = replace(other, body=rewrite(other.body, _nameless))
    return replace(module, definitions=definitions)


def _nameless(stmt: Stmt) -> Stmt:
    return replace(stmt, data=stmt.contents, index="") if isinstance(stmt, AllocateConst) and stmt.index else stmt


def _from_program(module: Module) -> tuple[Module, dict[str, Array]]:
    """The same of a planned program: its constants are inputs, in memory of the caller."""
    module = module.resolved()
    program = module.program
    definitions: dict[str, Definition] = dict(module.definitions)
    steps: list[Step | Branch] = []
    for step in program.steps:
        if isinstance(step, Step):
            old = module.kernel(step.kernel)
            new, held = _held(old)
            held_names = tuple(s.index for s in held)
            missing = next((s for s in held if s.index not in program.slots), None)
            if missing is not None or (step.phases > 1 and phases(new).count != step.phases):
                what = "has no slot" if missing else "runs in other phases without it"
                name = missing.buffer.name if missing else held[0].buffer.name
                raise Unsupported(
                    f"{step.kernel} holds the constant {name}, which {what}: take it out before liveness",
                    label="bind.C3",
                )
            definitions[step.kernel] = new
            step = replace(step, reads=(*step.reads, *held_names))
        steps.append(step)
    names = [s.name for s in program.placed("constant")]
    slots = {n: replace(s, place="input", offset=None, pool="") if n in names else s for n, s in program.slots.items()}
    pools = tuple(p for p in program.pools if p.kind != "constant")
    sizes = {p.name: program.sizes[p.name] for p in pools if p.name in program.sizes}
    plan = program.plan
    if plan is not None:
        kept = {n: at for n, at in plan.places.items() if n not in names}
        plan = replace(plan, places=kept, sizes={p.name: plan.sizes[p.name] for p in pools if p.name in plan.sizes})
    made = replace(
        program, slots=slots, steps=tuple(steps), inputs=(*names, *program.inputs), pools=pools, sizes=sizes, plan=plan
    )
    definitions["main"] = made
    bare = replace(module, definitions=definitions, constants={}, infos={}, offsets={})
    return bare, {n: module.constants[n] for n in names}
