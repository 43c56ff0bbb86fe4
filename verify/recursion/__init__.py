"""The proof that a loop over a stack of frames is the recursion that it was made of (specs/verify.md, "recursion").

Each function over frames is written out as the functions that it serves (`assay.verify.recursion.put_back`), which then
must be those of the source by value numbering: the same value, failures and actions in the same order, for every input
that there are frames for. Nothing is known of the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.lower.recursion.machine import FRAMES
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics import graph
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, Var, free_variables, let_chain
from assay.semantics.graph.effects import acts, can_fail, is_opaque
from assay.semantics.graph.functions import as_function, open_nodes, open_parts
from assay.semantics.graph.matching import Bound, instantiate, match_types
from assay.semantics.module import Definition, Module
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tasks import run_task
from assay.semantics.tensor import Assert, program_order
from assay.semantics.types import same_type, symbols
from assay.semantics.walk import fold, post_order
from assay.verify.evidence import Context, Evidence, plural, proved, refuted
from assay.verify.kept import changed_beside, interface, is_same
from assay.verify.recursion.machine import BrokenRule, FrameFunction, number_of
from assay.verify.recursion.put_back import Entered, PutBack
from assay.verify.simplify import check_simplified


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether a module with loops over frames is the one with recursion, as far as there are frames."""
    wrong = changed_beside(before, after)
    if wrong is not None:
        return refuted("proved", wrong)
    for name, f in before.graphs.items():
        other = after.definitions[name]
        if isinstance(other, Function) and interface(f) != interface(other):
            return refuted("proved", f"{name} has other parameters, results or attributes")
    written = Written(before, after)
    made = written.module()
    there = {*made.definitions, *made.constants}
    unknown = next((n for d in made.graphs.values() for n in _named(d) if n not in there), None)
    found = None if unknown is not None else check_simplified(before, made)
    if found is None or not found.holds:
        said = found.detail if found is not None else f"{unknown} is no function of the source"
        why = "; ".join([said, *written.broken])
        return refuted("proved", why, **(found.data if found is not None else {}))
    if not written.served:
        return proved("nothing recurs but at the end of a function; the same module")
    told = "; ".join(f"{name} in {plural(n, 'part')} and at most {depth} frames" for name, n, depth in written.served)
    return proved(f"{told}: put back, same value, failures and actions for every input that takes no more frames")


def require_frames(source: Module, planned: Module, trap: Trap) -> None:
    """Invalid where a run of the planned program has ended because there are no more frames: then nothing is wrong."""
    for name, kernel in planned.kernels.items():
        if FRAMES not in kernel.attrs or name in source.definitions:
            continue
        said = next((s.message for s in program_order(kernel.body) if isinstance(s, Assert)), "")
        if said and said in trap.what:
            raise Invalid(f"on these inputs {said}", label="recursion.C6")


def _named(function: Function) -> list[str]:
    """The definitions and constants that a function names."""
    nodes = list(post_order(function))
    names = [n.name for n in nodes if isinstance(n, GlobalVar)]
    return names + [n.func for n in nodes if isinstance(n, graph.CallTIR)]


@dataclass(eq=False)
class Written:
    """A module with its functions over frames written out."""

    source: Module
    target: Module
    broken: list[str] = field(default_factory=list)
    """What rules are not kept where something looks like a function over frames."""
    served: list[tuple[str, int, int]] = field(default_factory=list)
    """The functions that were written out, of how many parts, and the frames there are."""

    def module(self) -> Module:
        """What the source's functions are in the target."""
        definitions: dict[str, Definition] = {n: self.target.definitions[n] for n in self.source.definitions}
        changed = {
            n: self.inside(d)
            for n, d in self.target.graphs.items()
            if not is_opaque(d) and not is_same(self.source.definitions.get(n), d)
        }
        definitions.update((n, d) for n, d in changed.items() if n in definitions)
        new = {n for n in changed if n not in definitions}
        whole = replace(self.target, definitions={**self.target.definitions, **changed})
        for name in sorted(new):
            definitions.update(self.of_module(name, whole))
        return replace(self.target, definitions=definitions)

    def of_module(self, name: str, module: Module) -> Mapping[str, Function]:
        """The functions of the module that a new one serves."""
        function = module.definitions[name]
        assert isinstance(function, Function)

        def names(op: Expr) -> bool:
            return isinstance(op, GlobalVar) and op.name == name

        served = {n: d for n, d in module.graphs.items() if n in self.source.definitions and _calls_last(d, names)}
        if not served:
            return {}
        callees: list[tuple[Expr, Function]] = [(GlobalVar(d.type, n, device=d.device), d) for n, d in served.items()]
        machine = FrameFunction(name, function, names, module)
        bodies = self.written(machine, callees, " and ".join(served))
        return {} if bodies is None else dict(zip(served, bodies, strict=True))

    def inside(self, function: Function) -> Function:
        """A function with the functions over frames inside of it written out, the innermost first."""
        root: Expr = function
        lets = {n.var: n for n in open_nodes(function) if isinstance(n, Let) and isinstance(n.value, Function)}
        new: dict[int, Expr] = {}
        written: set[Var] = set()

        def made(node: Expr, parts: list[Expr]) -> Expr:
            now = node if is_opaque(node) else node.with_children(parts)
            new[id(node)] = now
            if isinstance(now, Let) and now.var in written and now.var not in free_variables(now.body):
                return now.body
            if not isinstance(now, Let) or not isinstance(now.value, Function):
                return now
            runs = _last_called(now.value)
            if not isinstance(runs, Var) or runs is now.var or runs not in lets:
                return now
            body = new[id(lets[runs].value)]  # a value comes before what follows its let
            if not isinstance(body, Function) or runs not in free_variables(body):
                return now
            machine = FrameFunction(runs.name, body, lambda op: op is runs, self.target)
            found = self.written(machine, [(now.var, now.value)], now.var.name)
            if found is None:
                return now
            written.add(runs)
            return replace(now, value=found[0])

        return as_function(fold(root, made, open_parts))

    def written(
        self, machine: FrameFunction, callees: Sequence[tuple[Expr, Function]], title: str
    ) -> list[Function] | None:
        """The functions that one over frames serves; None where a rule is broken."""
        try:
            machine.require_one_size()
            entered = [self.entered(machine, callee, f) for callee, f in callees]
            back = PutBack(machine, self.target, entered)
            found = []
            for at, (_, f) in zip(entered, callees, strict=True):
                body = run_task(back.body(at, f.params))
                found.append(_in_sizes(machine, f, body))
            back.require_one_register()
        except BrokenRule as rule:
            self.broken.append(f"{machine.name}: {rule}")
            return None
        self.served.append((title, len(back.parts), machine.depth))
        return found

    def entered(self, machine: FrameFunction, callee: Expr, function: Function) -> Entered:
        """How a function enters the frames. BrokenRule: it does otherwise than at level 0, with each of its parameters
        in one place."""
        lets, _ = let_chain(function.body)
        values = {n.var: n.value for n in lets}
        call = lets[-1].value
        assert isinstance(call, Call)
        for n in lets[:-1]:
            if any(acts(x) or can_fail(x, self.target) for x in post_order(n.value)):
                raise BrokenRule("there is more to do before frames are entered")
        part, level = (number_of(values.get(a, a)) if isinstance(a, Var) else None for a in call.args[:2])
        if part is None or level != 0:
            raise BrokenRule("frames are not entered at level 0, in a part that is known")
        places = []
        for p in function.params:
            at = [j for j, a in enumerate(call.args) if a is p]
            if len(at) != 1:
                raise BrokenRule(f"parameter {p.name} goes to {plural(len(at), 'place')}")
            places += at
        return Entered(part, callee, tuple(places))


def _last_called(function: Function) -> Expr | None:
    """What a function calls as the last thing that it does, where it is one chain."""
    lets, result = let_chain(function.body)
    if not lets or lets[-1].var is not result or not isinstance(lets[-1].value, Call):
        return None
    op = lets[-1].value.op
    return op if isinstance(op, Expr) else None


def _calls_last(function: Function, names: Callable[[Expr], bool]) -> bool:
    op = _last_called(function)
    return op is not None and names(op)


def _in_sizes(machine: FrameFunction, function: Function, body: Expr) -> Function:
    """A function of its own parameters with a body in the sizes of the one over frames."""
    sizes: Bound = {}
    call = let_chain(function.body)[0][-1].value
    assert isinstance(call, Call)
    try:
        match_types([p.type for p in machine.params], [a.type for a in call.args], sizes)
    except Invalid as wrong:
        raise BrokenRule(wrong.message) from None
    own = [symbol for p in machine.params for symbol in symbols(p.type)]
    if len({sizes.get(s) for s in own}) < len({*own}) or not all(isinstance(sizes.get(s), Symbol) for s in own):
        raise BrokenRule(f"a size of {machine.name} is no size of its own of a function that it serves")
    for p, a in zip(machine.params, call.args, strict=True):
        if not same_type(instantiate(p.type, sizes), a.type):
            raise BrokenRule(f"{p.name} is given {a.type}")
    if not same_type(instantiate(machine.function.result_type, sizes), function.result_type):
        raise BrokenRule(f"{machine.name} gives {machine.function.result_type}")
    made = replace(function, body=body)
    other = {s: d for s, d in sizes.items() if s is not d}
    return with_sizes(made, other) if other else made
