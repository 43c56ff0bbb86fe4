"""The museum of wrong A-normal forms: each mistake, the smallest program that shows it, and which check catches it.

Where a mistake was made by others, `upstream` says where: P#n is a merged pull request of apache/tvm, I#n an issue,
X what was found by running its passes. Mistakes are switches of `tests.museum.naive_anf`, or edits of a right form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from assay.semantics.devices import VirtualDevice
from assay.semantics.graph import (
    Call,
    Constant,
    Dataflow,
    Expr,
    Function,
    If,
    Let,
    Print,
    RefRead,
    RefWrite,
    Var,
    read,
)
from assay.semantics.module import Module
from assay.semantics.walk import rewrite
from assay.verify.anf import check_anf
from tests.museum import anf_programs as programs
from tests.museum.anf_programs import PAIR, S
from tests.museum.judges import Run, of_evidence
from tests.museum.naive_anf import naive_anf
from tests.museum.planted import PlantedFault

Check = Literal["shape", "value", "events", "function", "work", "order", "module", "device", "type"]
Step = tuple[Var, Expr]


def judge(source: Module, made: Module) -> str | None:
    return of_evidence(check_anf(source, made))


def fault(
    name: str,
    note: str,
    caught_by: Check,
    says: str,
    program: Callable[[], Module],
    wrong: Callable[[Module], Module],
    upstream: str = "",
    inputs: Mapping[str, Any] | None = None,
) -> PlantedFault:
    """A mistake: what it is, the check and the words that refuse it, the program, the wrong pass, and who made it.

    On `inputs` the two programs give different observations; where there are none, no run can tell.
    """
    judges = (judge,) if inputs is None else (judge, Run(inputs))
    return PlantedFault(name, f"anf: {caught_by}", judges, program, wrong, naive_anf, says, known=upstream, note=note)


def switch(fault: str) -> Callable[[Module], Module]:
    return lambda module: naive_anf(module, fault)


def steps_of(f: Function) -> tuple[list[Step], Expr]:
    """The bindings of a function's own chain, and its result."""
    steps, body = [], f.body
    while isinstance(body, Let):
        steps.append((body.var, body.value))
        body = body.body
    return steps, body


def chain(steps: Sequence[Step], result: Expr) -> Expr:
    for v, value in reversed(steps):
        result = Let(result.type, v, value, result)
    return result


def edit(change: Callable[[list[Step], Expr], tuple[Sequence[Step], Expr]]) -> Callable[[Module], Module]:
    """A right form with the bindings of `main`'s own chain changed."""

    def transform(module: Module) -> Module:
        right = naive_anf(module)
        main = right.main
        return right.with_(main=replace(main, body=chain(*change(*steps_of(main)))))

    return transform


def nodes(change: Callable[[Expr], Expr]) -> Callable[[Module], Module]:
    """A right form with each node of `main` changed."""
    return lambda module: (right := naive_anf(module)).with_(main=rewrite(right.main, change))


def is_call(node: Expr, name: str) -> bool:
    return isinstance(node, Call) and getattr(node.op, "name", "") == name


def numbers(**given: Any) -> dict[str, Any]:
    base = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 7 - np.float32(0.25)}
    return {k: v for k, v in {**base, **given}.items() if v is not None}


def flag(value: bool) -> np.ndarray[Any, Any]:
    return np.array(value)


FAR = np.array([0, 7])
"""Indices of which the second is out of range."""
NEAR = np.array([1, 0])

# --- edits -----------------------------------------------------------------------------------------------------------


def only_reads_first(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The read of each branch becomes one read before the If."""
    *before, (v, branch) = steps
    assert isinstance(branch, If)
    reader = read(before[-1][0])
    early = Var(reader.type, "early")

    def late(body: Expr) -> Expr:
        inside: list[Step] = []
        while isinstance(body, Let):
            if type(body.value) is not type(reader):
                inside.append((body.var, body.value))
            body = body.body
        return chain(inside, early)

    changed = replace(branch, then=late(branch.then), otherwise=late(branch.otherwise))
    return [*before, (early, reader), (v, changed)], result


def speculated(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What the then branch binds is bound before the If."""
    *before, (v, branch) = steps
    assert isinstance(branch, If)
    inside: list[Step] = []
    body = branch.then
    while isinstance(body, Let):
        inside.append((body.var, body.value))
        body = body.body
    return [*before, *inside, (v, replace(branch, then=body))], result


def without(kind: Callable[[Expr], bool]) -> Callable[[Module], Module]:
    return edit(lambda steps, result: ([s for s in steps if not kind(s[1])], result))


def twice(kind: Callable[[Expr], bool]) -> Callable[[Module], Module]:
    """What is bound is evaluated once more."""

    def change(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
        more = [[(v, e), (Var(v.type, v.name + "_again"), replace(e))] if kind(e) else [(v, e)] for v, e in steps]
        return [s for part in more for s in part], result

    return edit(change)


def forget_alias(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The binding of a name to a name goes, its uses stay."""
    return [s for s in steps if not isinstance(s[1], Var)], result


def cast_later(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The cast comes after what uses its symbol."""
    first, second, *rest = steps
    return [second, first, *rest], result


def inlined(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The first binding of a name to a name is dropped, and replaced where the pass looked: not inside functions."""
    (v, w), *rest = steps
    outside = [(a, e.with_children([w if c is v else c for c in e.children])) for a, e in rest]
    return outside, result


def one_read(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """The second read of a cell takes the value of the first."""
    reads = [s for s in steps if isinstance(s[1], RefRead)]
    return [(v, reads[0][0] if (v, e) == reads[1] else e) for v, e in steps], result


def one_cell(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """Two cells of one value become one."""
    (r, made), (q, _), *rest = steps
    return [(r, made), (q, r), *rest], result


def into_closure(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What only the closure uses is bound inside it: again at each call."""
    first, (g, f), *rest = steps
    assert isinstance(f, Function)
    return [(g, replace(f, body=chain([first], f.body))), *rest], result


def out_of_closure(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What the closure evaluates first is evaluated where the closure is made."""
    (g, f), *rest = steps
    assert isinstance(f, Function) and isinstance(f.body, Let)
    return [(f.body.var, f.body.value), (g, replace(f, body=f.body.body)), *rest], result


def one_constant(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    constants = [s for s in steps if isinstance(s[1], Constant)]
    return [(v, constants[0][0] if (v, e) == constants[1] else e) for v, e in steps], result


def same_attributes(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """Calls of one operator on one operand become one, whatever their attributes."""
    (a, e), (b, _), *rest = steps
    return [(a, e), (b, a), *rest], result


def other_function(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """A function that calls itself calls its neighbour."""
    (g, other), (f, loop), *rest = steps
    return [(g, other), (f, rewrite(loop, lambda n: g if n is f else n)), *rest], result


def no_device(node: Expr) -> Expr:
    return node if isinstance(node, Var) else replace(node, device=VirtualDevice())


def let_adrift(node: Expr) -> Expr:
    return replace(node, device=VirtualDevice("cpu", 0)) if isinstance(node, Let) else node


def mark_all(module: Module) -> Module:
    """The dataflow block takes in what acts."""
    right, mark = naive_anf(module), Dataflow()
    return right.with_(main=rewrite(right.main, lambda n: replace(n, dataflow=mark) if isinstance(n, Let) else n))


def no_place(node: Expr) -> Expr:
    return replace(node, span=None) if is_call(node, "take") else node


def swapped(node: Expr) -> Expr:
    return node.with_children(node.children[::-1]) if is_call(node, "subtract") else node


def another_view(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    (v, e), *_ = steps
    assert isinstance(e, Call)
    return [(v, replace(e, args=e.args, attrs={"shape": (6, 1)}))], result


def helper_changes(module: Module) -> Module:
    right = naive_anf(module)
    helper = right.definitions["helper"]
    assert isinstance(helper, Function)
    return right.with_(helper=replace(helper, attrs={"inline": True}))


def helper_goes(module: Module) -> Module:
    right = naive_anf(module)
    return replace(right, definitions={k: v for k, v in right.definitions.items() if k != "helper"})


def data_changes(module: Module) -> Module:
    return naive_anf(module).with_(Pair=replace(PAIR, constructors={"pair": (S, S)}))


def leaves_scope(steps: list[Step], result: Expr) -> tuple[Sequence[Step], Expr]:
    """What a branch has bound is used after it."""
    *before, (v, branch) = steps
    assert isinstance(branch, If) and isinstance(branch.then, Let)
    return [*before, (v, branch)], branch.then.var


def renamed_parameter(module: Module) -> Module:
    right = naive_anf(module)
    x = right.main.params[0]
    other = Var(x.type, "another")
    params = (other, *right.main.params[1:])
    return right.with_(main=replace(rewrite(right.main, lambda n: other if n is x else n), params=params))


X = numbers()
ONE = {"x": np.int32(4)}

FAULTS: Sequence[PlantedFault] = [
    fault(
        "let as an operand",
        "a let inside an expression stays an operand",
        "shape",
        "not atomic",
        programs.let_in_operand,
        switch("lets stay operands"),
        "P#10078",
    ),
    fault(
        "shared across blocks",
        "a value that two branches use is not bound outside: each evaluates it",
        "work",
        "bound in the then branch",
        programs.shared_by_branches,
        switch("no homes"),
        "I#7416",
    ),
    fault(
        "hoisted needlessly",
        "what one branch alone uses is evaluated before the If",
        "work",
        "the source evaluates it in the then branch",
        programs.only_one_branch,
        switch("home is the top"),
        "I#2253",
    ),
    fault(
        "free variable",
        "an alias is inlined, but not inside closures",
        "shape",
        "used before it is bound",
        programs.alias_in_closure,
        edit(inlined),
        "I#2665",
    ),
    fault(
        "early read",
        "reads of both branches become one read before the If, although one branch writes first",
        "events",
        "refread",
        programs.read_after_write,
        edit(only_reads_first),
        "X",
        numbers(c=flag(True)),
    ),
    fault(
        "reads merged",
        "two reads with a write between them become one",
        "events",
        "refread",
        programs.reads_and_writes,
        edit(one_read),
        "X",
        ONE,
    ),
    fault(
        "speculated failure",
        "what can fail is evaluated although no path demands it",
        "events",
        "take",
        programs.may_fail,
        switch("failures are pure, home is the top"),
        "R",
        numbers(c=flag(False), i=FAR),
    ),
    fault(
        "speculated loop",
        "a call that may not end is evaluated before the If",
        "events",
        "f()",
        programs.may_not_end,
        edit(speculated),
        "R",
    ),
    fault(
        "failures swapped",
        "operands are evaluated right to left: another one fails first",
        "events",
        "take",
        programs.two_failures,
        switch("operands right to left"),
        "R",
        numbers(i=FAR, j=FAR),
    ),
    fault(
        "prints swapped",
        "operands are evaluated right to left: the trace differs",
        "events",
        "print",
        programs.two_prints,
        switch("operands right to left"),
        "R",
        ONE,
    ),
    fault(
        "write from the right",
        "a write evaluates its value before its reference",
        "events",
        "print",
        programs.written_value_prints,
        switch("operands right to left"),
        "R",
        ONE,
    ),
    fault(
        "order open",
        "operands that cannot fail are bound right to left",
        "order",
        "is bound after",
        programs.total_operands,
        switch("operands right to left"),
        "R",
    ),
    fault(
        "last visited",
        "the result is whatever was bound last",
        "value",
        "the result",
        programs.visited_before,
        switch("result is the last visited"),
        "X",
        X,
    ),
    fault(
        "alias mistaken",
        "the binding of an alias of an input is lost",
        "shape",
        "used before it is bound",
        programs.alias,
        edit(forget_alias),
        "X",
    ),
    fault(
        "before the cast",
        "the binding of a shape stands before the match_cast that binds its symbol",
        "shape",
        "symbol m",
        programs.cast,
        edit(cast_later),
        "I#20195",
    ),
    fault(
        "effect dropped",
        "a print whose result nobody uses is dropped",
        "events",
        "print",
        programs.unused_effect,
        without(lambda e: isinstance(e, Print)),
        "P#15807",
        ONE,
    ),
    fault(
        "write dropped",
        "a write whose result nobody uses is dropped",
        "events",
        "refwrite",
        programs.unused_write,
        without(lambda e: isinstance(e, RefWrite)),
        "I#6803",
        ONE,
    ),
    fault(
        "failure dropped",
        "what can fail and nobody uses is dropped",
        "value",
        "take",
        programs.unused_failure,
        without(lambda e: is_call(e, "take")),
        "",
        numbers(i=FAR),
    ),
    fault(
        "first result only",
        "of several results only the first arrives",
        "value",
        "is not computed",
        programs.two_results,
        switch("only the first result arrives"),
        "I#9036",
        X,
    ),
    fault(
        "action repeated",
        "a print is done twice",
        "events",
        "print",
        programs.two_prints,
        twice(lambda e: isinstance(e, Print)),
        "",
        ONE,
    ),
    fault(
        "work repeated",
        "what two expressions share is evaluated for each",
        "work",
        "times",
        programs.shared_work,
        switch("no memo"),
    ),
    fault(
        "names collide",
        "parameters of inner functions keep names that are taken",
        "shape",
        "more than once",
        programs.two_parameters_of_one_name,
        switch("names are not unique"),
    ),
    fault(
        "device lost",
        "a binding forgets the device of what it binds",
        "device",
        "device",
        programs.on_devices,
        nodes(no_device),
    ),
    fault(
        "let adrift",
        "a let is not where its body is",
        "device",
        "than its body",
        programs.on_one_device,
        nodes(let_adrift),
    ),
    fault(
        "branches swapped",
        "then is else",
        "value",
        "is not computed",
        programs.only_one_branch,
        switch("branches swapped"),
        "",
        numbers(c=flag(True)),
    ),
    fault(
        "operands swapped",
        "the operands of a subtraction change places",
        "value",
        "subtract",
        programs.total_operands,
        nodes(swapped),
        "",
        X,
    ),
    fault(
        "cells merged",
        "two fresh references become one",
        "events",
        "refcreate",
        programs.makes_two_cells,
        edit(one_cell),
        "",
        ONE,
    ),
    fault(
        "closure evaluated early",
        "a closure's body is evaluated where the closure is made",
        "events",
        "take",
        programs.failing_capture,
        edit(out_of_closure),
        "",
        numbers(c=flag(False), i=FAR),
    ),
    fault(
        "work in a closure",
        "what was evaluated once is evaluated at each call",
        "work",
        "bound in the body of",
        programs.outside_of_closure,
        edit(into_closure),
    ),
    fault(
        "zeros merged",
        "0.0 and -0.0 are taken for one constant",
        "value",
        "constant",
        programs.zeros,
        edit(one_constant),
        "",
        X,
    ),
    fault(
        "attributes ignored",
        "calls that differ in attributes alone are merged",
        "value",
        "permute_dims",
        programs.transposes,
        edit(same_attributes),
        "",
        {"x": np.arange(18, dtype=np.float32).reshape(2, 3, 3)},
    ),
    fault(
        "clauses reordered",
        "a clause that matches everything comes first",
        "value",
        "match",
        programs.wildcards,
        switch("clauses reordered"),
        "",
        ONE,
    ),
    fault(
        "fields swapped",
        "pattern variables name other fields",
        "value",
        "subtract",
        programs.matches,
        switch("fields swapped"),
        "",
        ONE,
    ),
    fault("action in a block", "a dataflow block takes in a print", "shape", "dataflow", programs.in_a_block, mark_all),
    fault(
        "primitive entered",
        "a fused function is taken apart",
        "shape",
        "stays as it is",
        programs.primitive,
        switch("all functions are entered"),
    ),
    fault(
        "other function called",
        "a function that calls itself calls its neighbour",
        "value",
        "function",
        programs.counts_down,
        edit(other_function),
        "",
        {"n": np.int32(3)},
    ),
    fault(
        "scope left",
        "what a branch bound is used behind it",
        "shape",
        "used before it is bound",
        programs.only_one_branch,
        edit(leaves_scope),
    ),
    fault(
        "place lost",
        "a failure no longer says where it is",
        "events",
        "another place",
        programs.two_failures,
        nodes(no_place),
        "",
        numbers(i=FAR, j=NEAR),
    ),
    fault(
        "view changed",
        "a view of the same bytes has another shape",
        "value",
        "reshape",
        programs.sizes_differ,
        edit(another_view),
    ),
    fault(
        "attributes of a function",
        "a function gets an attribute",
        "type",
        "attributes",
        programs.calls_another,
        helper_changes,
    ),
    fault(
        "function gone", "a function that is called is dropped", "module", "gone", programs.calls_another, helper_goes
    ),
    fault(
        "data type changed",
        "a constructor of a data type is dropped",
        "module",
        "changed",
        programs.matches,
        data_changes,
    ),
    fault(
        "parameter renamed",
        "a parameter of main has another name",
        "type",
        "other names",
        programs.total_operands,
        renamed_parameter,
    ),
]
