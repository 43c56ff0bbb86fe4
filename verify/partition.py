"""Whether a partition and its engines do what the module says (row R29; specs/verify.md, "Engines").

`check_partition`: with every region written out where it is called, the module computes what it did, by value
numbering. `check_engines`: a run in which every region is judged by itself, on the operands that it was really given,
by the bounds of its operators; the first that lies outside is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.interp import graph
from assay.interp.graph.engines import Engine, EngineRegion, regions, run as run_engines
from assay.semantics.bits import same_bits
from assay.semantics.bounds import Bounded
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Call, Expr, Function, GlobalVar, Let, Var, let
from assay.semantics.graph.effects import acts, can_fail
from assay.semantics.module import Module
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, substitute
from assay.semantics.types import TensorType, symbols, with_dims
from assay.semantics.walk import post_order
from assay.verify.border.inputs import complete
from assay.verify.evidence import Context, Evidence, plural, proved, refuted, tested
from assay.verify.kept import changed_beside, is_same
from assay.verify.legalize import why_outside
from assay.verify.value_numbering import number_function
from assay.verify.value_numbering.nesting import UndecidedNumbering
from assay.verify.value_numbering.terms import Table

Array = np.ndarray[Any, Any]


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether parts became regions, and nothing else has changed."""
    return check_partition(before, after)


def check_partition(source: Module, target: Module) -> Evidence:
    """Whether `target` is `source` with parts of its functions as regions: a proof, for every input."""
    found = [r for r in regions(target) if not is_same(source.definitions.get(r.symbol), r.function)]
    for region in found:
        if region.function is not target.definitions.get(region.symbol):
            return refuted("proved", f"{region.symbol} is not the definition of that name")
        if region.symbol in source.definitions:
            return refuted("proved", f"definition {region.symbol} has changed: it is a region now")
        odd = next((n for n in post_order(region.function) if acts(n) or _may_fail(n, target)), None)
        if odd is not None:
            return refuted("proved", f"{region.symbol} acts or may trap: an engine cannot")
    changed = changed_beside(source, target)
    if changed:
        return refuted("proved", changed)
    whole = {r.symbol: r.function for r in found}
    for name, d in target.definitions.items():
        before = source.definitions.get(name)
        if name in whole or is_same(before, d):
            continue
        if not (isinstance(before, Function) and isinstance(d, Function)):
            return refuted("proved", f"definition {name} has changed")
        if [p.name for p in before.params] != [p.name for p in d.params] or before.attrs != d.attrs:
            return refuted("proved", f"the parameters or attributes of {name} have changed")
        table = Table()
        try:
            one = number_function(before, source, table)
            two = number_function(_written_out(d, whole), target, table)
        except (UndecidedNumbering, Invalid) as why:
            return refuted("proved", f"in {name}: {why}")
        if one.result != two.result or one.events != two.events:
            what = "the result has another value" if one.result != two.result else "something else fails or acts"
            return refuted("proved", f"in {name}: {what} than in the source")
    return proved(f"same value and failures for every input; {plural(len(found), 'region')}", regions=len(found))


def _may_fail(node: Expr, module: Module) -> bool:
    """Calls of the region's own composites do what these do."""
    return not (isinstance(node, Call) and isinstance(node.op, Var)) and can_fail(node, module)


def _written_out(root: Function, whole: Mapping[str, Function]) -> Function:
    """A function with the calls of regions, and of the composites in them, as what they compute."""
    top: Expr = root
    while True:
        order = list(post_order(top))
        parts: dict[Expr, Function] = {
            n.var: n.value
            for n in order
            if isinstance(n, Let) and isinstance(n.value, Function) and "composite" in n.value.attrs
        }
        new: dict[int, Expr] = {}
        again = False
        for node in order:
            callee: Function | None = None
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                callee = whole.get(node.op.name)
            elif isinstance(node, Call) and isinstance(node.op, Var):
                callee = parts.get(node.op)
            if isinstance(node, Let) and isinstance(node.value, Function) and "composite" in node.value.attrs:
                new[id(node)] = new[id(node.body)]  # every call of it is written out
            elif isinstance(node, Call) and callee is not None:
                new[id(node)] = _copied(callee, [new[id(a)] for a in node.args])
                again = True
            else:
                new[id(node)] = node.with_children([new[id(c)] for c in node.children])
        top = new[id(top)]
        if not again:
            assert isinstance(top, Function)
            return top


def _copied(function: Function, args: list[Expr]) -> Expr:
    """The body of a function on arguments, its variables new, its sizes those of the arguments."""
    sizes: dict[Symbol, Dim] = {}
    for p, a in zip(function.params, args, strict=True):
        if isinstance(p.type, TensorType) and isinstance(a.type, TensorType):
            sizes.update((d, n) for d, n in zip(p.type.shape, a.type.shape, strict=True) if isinstance(d, Symbol))

    def typed(node: Expr) -> Expr:
        if not symbols(node.type):
            return node
        here = replace(node, type=with_dims(node.type, lambda d: _sized(d, sizes)))
        return (
            replace(here, attrs={k: _sized(v, sizes) for k, v in here.attrs.items()})
            if isinstance(here, Call)
            else here
        )

    new: dict[int, Expr] = {id(p): a for p, a in zip(function.params, args, strict=True)}
    order = list(post_order(function.body, lambda n: () if isinstance(n, Function) else n.children))
    for node in order:
        if isinstance(node, Let):
            new.setdefault(id(node.var), typed(Var(node.var.type, node.var.name)))
    for node in order:
        if isinstance(node, Let):
            v = new[id(node.var)]
            assert isinstance(v, Var)
            new[id(node)] = let(v, new[id(node.value)], new[id(node.body)])
        elif isinstance(node, Function):
            new[id(node)] = node
        elif id(node) not in new:
            new[id(node)] = typed(node.with_children([new[id(c)] for c in node.children]))
    return new[id(function.body)]


def _sized(value: Any, sizes: Mapping[Symbol, Dim]) -> Any:
    """A dim, or an attribute with dims in it, with numbers or symbols of the caller."""
    if isinstance(value, tuple):
        return tuple(_sized(v, sizes) for v in value)
    return substitute(value, sizes) if isinstance(value, Scalar) else value


def check_engines(
    module: Module, engines: Mapping[str, Engine], given: Mapping[str, Array] | None = None, seed: int = 0
) -> Evidence:
    """Whether every region's engine stays within the bounds of its operators, on one run. Inputs that are not given are
    random, from `seed`; a region that runs several times is judged each time."""
    wrong: list[str] = []
    vacuous = count = 0

    def judged(engine: Engine) -> Engine:
        def run(region: EngineRegion, args: Any) -> Any:
            nonlocal count, vacuous
            handed = [np.array(a) for a in args]
            result = engine(region, args)
            count += 1
            changed = [i for i, (a, b) in enumerate(zip(handed, args, strict=True)) if not same_bits(a, np.asarray(b))]
            if changed:
                wrong.append(f"{region.symbol}: its engine writes into argument {changed[0]}, which it must not")
            names = {p.name: a for p, a in zip(region.function.params, handed, strict=True)}
            reference = Module({**region.module.definitions, "main": region.function}, region.module.constants)
            allowed = list(graph.run(reference, names, bounds=True).values())
            got = list(result) if isinstance(result, (tuple, list)) else [result]
            if len(got) != len(allowed):
                wrong.append(f"{region.symbol} gives {plural(len(got), 'result')}, must be {len(allowed)}")
            for i, (w, g) in enumerate(zip(allowed, got, strict=False)):
                odd = why_outside(w, np.asarray(g))
                if odd:
                    wrong.append(f"{region.symbol}, result {i}: {odd}")
                elif isinstance(w, Bounded):
                    vacuous += int(np.count_nonzero(w.vacuous))
            return result

        return run

    try:
        run_engines(module, complete(module.main, given or {}, seed), {n: judged(e) for n, e in engines.items()})
    except Trap as trap:
        wrong.append(str(trap))
    if wrong:
        return refuted("tested", f"the first that differs: {wrong[0]}")
    said = f"{plural(count, 'call')} of regions, each within its operators' bounds on its own operands"
    return tested(said + (f"; the bounds are vacuous for {plural(vacuous, 'element')}" if vacuous else ""), calls=count)
