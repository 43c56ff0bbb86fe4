"""Instances of graph functions, so that calls on different devices need no copies (rules M8, V21; specs/lower.md,
"devices").

The planner gives a function one domain for all its calls. A *general* function can do without: it says nothing of
devices, nor does anything that it calls, and it takes and gives tensors. Each call of one is looked at as if the
function were its own (`assay.lower.devices.general`), so that the solver says where it wants its operands and its
result: its *signature*. Calls with several signatures get an instance for each, fixed on it until all are made.
Functions that call one another are one unit, with one domain for all calls inside (recursion stays monomorphic), and
are copied as a whole. So it is with types in ML: a definition is general for what stands outside of it. Local functions
stay monomorphic.

It ends. Each round settles at least one unit: the first, callers before callees, whose callers are all settled. A
settled unit is never looked at again: only a caller of it that is not settled could get instances, and thus make new
calls of it. So there are at most as many rounds as units. A round makes at most one instance of a unit for each
signature of its calls, and a signature names only devices of the plan: with d of them there are at most d ** (p + 1)
for p parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from assay.lower.anf.copying import fresh_copy
from assay.lower.devices.constraints import Tensors
from assay.lower.devices.general import Links, Signature, links_of, signatures
from assay.lower.devices.scopes import INSTANCE
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, CallTIR, Expr, Function, GlobalVar, OnDevice, Var
from assay.semantics.graph.effects import is_copy, is_opaque
from assay.semantics.graph.functions import as_function
from assay.semantics.graph.nodes import bound_by
from assay.semantics.module import Definition, Module
from assay.semantics.names import unused
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import ShapeType
from assay.semantics.walk import Worklist, components, fold, post_order, reached, rewrite


def planned_with_instances(module: Module, config: CompilationConfig, plan: Callable[[Module], Module]) -> Module:
    """`module` planned by `plan`, the planner for functions with one domain each; with instances of its functions where
    there are fewer copies then, or no plan without. Copies are counted in the text of what can be reached."""
    try:
        planned = plan(module)
    except Invalid as wrong:
        source = _Instances(module, config).run() if wrong.label == "devices.C1" else None
        if source is None:
            raise
        return plan(source)
    count = copies(planned)
    source = _Instances(module, config).run() if count else None
    if source is None:
        return planned
    other = plan(source)
    return other if copies(other) < count else planned


def copies(module: Module) -> int:
    """The number of copies between devices in the graph functions that can be reached."""
    functions = module.graphs
    live = _reached(functions, {n: _named(d, functions) for n, d in functions.items()})
    return sum(
        is_copy(n, module) for f in sorted(live) if not is_opaque(functions[f]) for n in post_order(functions[f])
    )


class _Instances:
    """Makes the module with instances of functions for the devices of their calls. The originals stay, though nothing
    may call them any more. An instance has the attribute `instance_of`, and is fixed on its signature while others are
    made.
    """

    def __init__(self, module: Module, config: CompilationConfig) -> None:
        self.module, self.config = module, config
        self.taken = {*module.definitions, *module.constants}
        self.functions: dict[str, Function] = {}
        self.named: dict[str, list[str]] = {}
        self.sites: dict[str, list[tuple[int, str]]] = {}
        """The calls of global functions in each function: by identity, and who is called."""
        self.read(module.definitions)
        units = components(self.named)
        self.unit_of = {n: u for u in units for n in u}
        self.waiting = self.general(units)
        """The general units that are not settled, callees first."""
        self.links: Links = {}

    def read(self, definitions: Mapping[str, Definition]) -> None:
        """Functions that are new, or have changed."""
        new = {n: d for n, d in definitions.items() if isinstance(d, Function)}
        self.functions.update(new)
        for n, d in new.items():
            self.named[n] = _named(d, self.functions)
            nodes = post_order(d) if self.named[n] else ()
            calls = ((id(c), c.op.name) for c in nodes if isinstance(c, Call) and isinstance(c.op, GlobalVar))
            self.sites[n] = [(c, of) for c, of in calls if of in self.functions]

    def run(self) -> Module | None:
        if not self.waiting:
            return None
        self.links = links_of(self.module, self.config, self.waiting, self.calls(self.functions))
        before = self.module
        while self.waiting:
            self.round()
        new = {n: _opened(d) for n, d in self.functions.items() if n not in before.definitions}
        return self.module.with_(**new) if new else None

    def calls(self, callers: Iterable[str]) -> dict[int, tuple[str, str]]:
        """The calls of waiting functions from outside of their units, by identity: caller and called."""
        general = {n for u in self.waiting for n in u}
        found: dict[int, tuple[str, str]] = {}
        for name in sorted(callers):
            own = self.unit_of.get(name, ())
            found.update((c, (name, of)) for c, of in self.sites[name] if of in general and of not in own)
        return found

    def round(self) -> None:
        calls = self.calls(_reached(self.functions, self.named))
        by_unit: dict[tuple[str, ...], list[int]] = {u: [] for u in self.waiting}
        for call, (_, of) in calls.items():
            by_unit[self.unit_of[of]].append(call)
        waits = {n for u in self.waiting for n in u}
        ready: list[int] = []
        for unit in reversed(self.waiting):  # callers first
            if any(calls[c][0] in waits for c in by_unit[unit]):
                continue
            if len(by_unit[unit]) > 1:
                ready += by_unit[unit]
            else:
                waits -= {*unit}  # one call: one signature
        settled = {self.unit_of[calls[c][1]] for c in ready}
        if ready:
            module = self.around({calls[c][0] for c in ready})
            fresh = {c: of for c, (_, of) in calls.items() if of in module.definitions}
            found = signatures(module, self.config, fresh, self.links)
            self.split({c: (*calls[c], found[c]) for c in ready})
        self.waiting = [u for u in self.waiting if u not in settled and waits.intersection(u)]

    def around(self, callers: set[str]) -> Module:
        """As much of the module as says where things are in these functions. An instance is fixed on its signature, so
        only its unit counts; what else it names is general, each call for itself."""
        general = {n for u in self.waiting for n in u}
        needed = {*callers}
        work = Worklist(callers)
        for name in work:
            if INSTANCE not in self.functions[name].attrs:
                return self.module
            for n in self.named[name]:
                if n not in needed:
                    needed.add(n)
                    work.add([n] if n not in general else [])
        definitions = {n: d for n, d in self.module.definitions.items() if n in needed or not isinstance(d, Function)}
        return replace(self.module, definitions=definitions)

    def split(self, calls: Mapping[int, tuple[str, str, Signature]]) -> None:
        """Instances for the calls of units that have several signatures."""
        wanted: dict[tuple[str, ...], dict[tuple[str, Signature], list[int]]] = {}
        for call, (_, of, signature) in calls.items():
            wanted.setdefault(self.unit_of[of], {}).setdefault((of, signature), []).append(call)
        targets: dict[int, str] = {}
        made: dict[str, Definition] = {}
        for unit, each in sorted(wanted.items()):
            for of, signature in sorted(each, key=repr) if len(each) > 1 else ():
                names = {n: self.free(f"{n}_{_words(signature)}") for n in unit}
                for n in unit:
                    made[names[n]] = _instance(self.functions[n], n, names, signature if n == of else None)
                targets.update((c, names[of]) for c in each[of, signature])
        for name in {calls[c][0] for c in targets}:
            made[name] = _redirected(self.functions[name], targets)
        if made:
            self.module = self.module.with_(**dict(sorted(made.items())))
            self.read(made)

    def free(self, base: str) -> str:
        name = unused(base, self.taken)
        self.taken.add(name)
        return name

    # --- which functions are general -----------------------------------------------------------------------------

    def general(self, units: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """The units that can be wherever their operands are, callees first. A function may be used only to be
        called."""
        found: dict[tuple[str, ...], None] = {}
        for unit in units:
            below = {n for f in unit for n in self.named[f]} - {*unit}
            if all(self.unit_of[n] in found for n in below) and all(self.is_general(self.functions[n]) for n in unit):
                found[unit] = None
        return list(found)

    def is_general(self, func: Function) -> bool:
        tensors = Tensors()
        types = (*func.func_type.params, func.func_type.result)
        if INSTANCE in func.attrs or not all(isinstance(t, ShapeType) or tensors(t) is not None for t in types):
            return False
        if is_opaque(func):  # it is not entered
            return all(e.device == ANYWHERE for e in (*func.params, func.body, func)) and not isinstance(func.body, Var)
        called = {id(n.op) for n in post_order(func) if isinstance(n, Call)}
        return not any(self.says(n, id(n) in called) for n in post_order(func))

    def says(self, node: Expr, called: bool) -> bool:
        """Whether a node says where something is. The main memory says nothing here: all kernels are there."""
        if node.device != ANYWHERE or any(v.device != ANYWHERE for v in bound_by(node)):
            return True
        match node:
            case OnDevice():
                return node.wanted != ANYWHERE and (node.constrain_body or node.constrain_result)
            case GlobalVar():
                return (node.name in self.functions and not called) or self.module.info(node.name).device != ANYWHERE
            case CallTIR():
                kernel = self.module.definitions.get(node.func)
                return isinstance(kernel, PrimFunc) and any(b.scope not in ("", GLOBAL) for b in kernel.params)
            case _:
                return False


def _instance(func: Function, name: str, names: Mapping[str, str], signature: Signature | None) -> Function:
    """A function of new nodes that calls the instances of its unit, fixed on a signature if there is one."""
    devices = signature[:-1] if signature else (ANYWHERE,) * len(func.params)
    params = tuple(replace(p, device=d) for p, d in zip(func.params, devices, strict=True))
    body = fresh_copy(func.body, dict(zip(func.params, params, strict=True)))
    body = rewrite(body, lambda n: replace(n, name=names.get(n.name, n.name)) if isinstance(n, GlobalVar) else n)
    if signature and is_opaque(func):  # its body is not entered: where that is says where the result is
        body = replace(body, device=signature[-1])
    attrs = {k: names[name] if k == "global_symbol" and v == name else v for k, v in func.attrs.items()}
    made = replace(func, params=params, body=body, attrs={**attrs, INSTANCE: name})
    return replace(made, device=signature[-1]) if signature else made  # what it gives is there; its body need not be


def _opened(func: Function) -> Function:
    """An instance that is no longer fixed. A signature is what calls want; where the body is, and what it takes, is
    best said for the whole module at once."""
    params = tuple(replace(p, device=ANYWHERE) for p in func.params)
    body = fresh_copy(func.body, dict(zip(func.params, params, strict=True)))
    body = replace(body, device=ANYWHERE) if is_opaque(func) else body
    return replace(func, params=params, body=body, device=ANYWHERE)


def _redirected(func: Function, targets: Mapping[int, str]) -> Function:
    """A function in which calls, by identity, are calls of other functions."""

    def redirected(node: Expr, parts: list[Expr]) -> Expr:
        made = node.with_children(parts)
        if id(node) in targets:
            assert isinstance(made, Call) and isinstance(made.op, GlobalVar)
            made = replace(made, op=replace(made.op, name=targets[id(node)]))
        return made

    root: Expr = func
    return as_function(fold(root, redirected))


def _words(of: Signature) -> str:
    """A signature for a name: the device, or each of them where they differ."""
    each = [_word(d) for d in of]
    return each[0] if len({*each}) == 1 else "_".join([*each[:-1], "to", each[-1]])


def _word(device: VirtualDevice) -> str:
    words = [
        device.type or "any",
        str(device.id) if device.id > 0 else "",
        device.scope if device.scope != GLOBAL else "",
    ]
    return "_".join(re.sub(r"\W", "_", w) for w in words if w)


# --- which function names which ------------------------------------------------------------------------------------


def _named(func: Function, functions: Mapping[str, Function]) -> list[str]:
    """The functions of the module that a function names where the planner looks."""
    if is_opaque(func):
        return []
    found = {n.name for n in post_order(func) if isinstance(n, GlobalVar) and n.name in functions}
    return sorted(found)


def _reached(functions: Mapping[str, Function], named: Mapping[str, Sequence[str]]) -> set[str]:
    """The functions that may run: those that no instance replaces, the entry, and what they name."""
    replaced = {str(f.attrs[INSTANCE]) for f in functions.values() if INSTANCE in f.attrs}
    found = {n for n, f in functions.items() if n == "main" or (n not in replaced and INSTANCE not in f.attrs)}
    return set(reached(found, named.__getitem__))
