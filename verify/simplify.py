"""Whether a simplified module is its source, on the same devices (specs/verify.md, "simplify").

Both are brought to one form by rules of a few lines: calls of functions that are not recursive are opened, branches
that constants decide are taken, sizes that types say are constants, calls on constants are evaluated. Then both are
numbered in one table: equal numbers of results and events mean the same value, failures and actions for every input.
And each value of the target lives where the source has that value, reads its operands where the source reads them, and
has the annotations around it that it has there. But for how a function is copied, nothing here is shared with the
passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from assay.interp import vector
from assay.lower.anf.copying import fresh_copy
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.analyses.variables import called, symbols_bound
from assay.semantics.devices import ANYWHERE, VirtualDevice
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    MatchCast,
    OnDevice,
    ShapeExpr,
    ShapeOf,
    Var,
    acts,
    constant,
    free_variables,
    show_head,
)
from assay.semantics.graph.effects import can_fail, is_opaque
from assay.semantics.graph.functions import as_function, open_nodes, rewrite_function
from assay.semantics.graph.matching import Bound, match_types
from assay.semantics.graph.sizes import sizes_used
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.tensor.calls import calls_extern
from assay.semantics.types import FuncType, ShapeType, TensorType, same_type, symbols
from assay.semantics.walk import post_order, reached
from assay.verify.anf import heights
from assay.verify.app.guards import broken
from assay.verify.evidence import Context, Evidence, proved, refuted
from assay.verify.kept import is_same
from assay.verify.lifted import MOST_NODES, PutFunctionsBack, local_names
from assay.verify.value_numbering import Array, Numbered, number_function
from assay.verify.value_numbering.nesting import UndecidedNumbering, is_atom
from assay.verify.value_numbering.terms import Table

ROUNDS = 10
"""How often branches are decided, each time by what the others gave."""

Lives: TypeAlias = tuple[tuple[Any, ...], VirtualDevice, bool]
"""Where an operand is: the annotations around it, its device, and whether it is a constant."""


@dataclass(frozen=True)
class Sign:
    """Where a value and its operands are. `said` are the annotations that stand on it."""

    lives: Lives
    operands: tuple[Lives, ...]
    crosses: bool
    said: frozenset[Any]


def check(before: Module, after: Module, context: Context) -> Evidence:
    """Whether a pass that simplifies changed nothing else."""
    return check_simplified(before, after)


def check_lifted(before: Module, after: Module, context: Context) -> Evidence:
    """Whether functions of the module that are new changed nothing: where they are called they are opened, and those
    that call themselves are put back as local functions."""
    after = after.with_(**{n: _with_called(d) for n, d in after.graphs.items() if not is_opaque(d)})
    recursive = _recursive(after) - set(before.definitions)
    lifted = {n: d for n, d in after.graphs.items() if n in recursive and not is_opaque(d)}
    put = PutFunctionsBack(lifted, local_names(before.graphs))
    try:
        whole = {n: put.run(d) for n, d in after.graphs.items() if n in before.definitions and not is_opaque(d)}
    except UndecidedNumbering as why:
        return refuted("proved", f"not decided: {why}", undecided=True)
    return check_simplified(before, after.with_(**whole), new=True)


def check_bound(before: Module, after: Module, context: Context) -> Evidence:
    """Whether the parameters of main that are gone are constants, the inputs of this run, and nothing else changed."""
    main, left = before.main, [p.name for p in after.main.params]
    body = main.body
    for p in main.params:
        if p.name not in left:
            body = Let(body.type, p, constant(context.inputs[p.name]), body)
    params = tuple(p for p in main.params if p.name in left)
    kind = replace(main.func_type, params=tuple(p.type for p in params))
    bound = before.with_(main=replace(main, type=kind, params=params, body=body))
    return broken("interface", bound, after) or check_simplified(bound, after)


def _with_called(function: Function) -> Function:
    """The function with names of functions of the module where a variable stood for one."""
    names = {n.var: n.value for n in post_order(function) if isinstance(n, Let) and isinstance(n.value, GlobalVar)}

    def change(node: Expr) -> Expr:
        match node:
            case Let(var=v, body=body) if v in names and isinstance(v.type, FuncType):
                return body
            case Var() if isinstance(node.type, FuncType):
                return names.get(node, node)
            case _:
                return node

    return rewrite_function(function, change)


def check_simplified(source: Module, target: Module, new: bool = False) -> Evidence:
    """Whether `target`, some definitions of which may be gone, is `source` made simpler and no value moved. There may
    be `new` functions, which are what they are where they are called (rule M1.4)."""
    values = 0
    for name, after in target.definitions.items():
        before = source.definitions.get(name)
        if not isinstance(after, Function):
            if not is_same(before, after):
                return refuted("proved", f"definition {name} is changed")
            continue
        if before is None and new:
            continue
        if not isinstance(before, Function):
            return refuted("proved", f"function {name} is new")
        if is_opaque(before):
            if not is_same(before, after):
                return refuted("proved", f"{name} is changed; what is primitive stays as it is")
            continue
        try:
            wrong, count = _function_fault(before, source, after, target)
        except UndecidedNumbering as why:
            return refuted("proved", f"in {name}: not decided: {why}", undecided=True)
        if wrong:
            return refuted("proved", f"in {name}: {wrong}")
        values += count
    return proved(f"same value, failures and actions for every input; {values} values where they were")


def differs(one: Function, of_one: Module, two: Function, of_two: Module) -> str:
    """Why it is not shown that two functions of two modules, with parameters by place, give the same values and fail
    and act alike for every input; "" where it is shown."""
    table = Table()
    try:
        first, second = _normal(one, of_one, table), _normal(two, of_two, table)
    except UndecidedNumbering as why:
        return f"not decided: {why}"
    if first.result != second.result:
        return "the results are not the same terms"
    return "" if first.events == second.events else "what can fail or act is not the same in the same order"


def _function_fault(before: Function, source: Module, after: Function, target: Module) -> tuple[str | None, int]:
    table = Table()
    if [p.device for p in before.params] != [p.device for p in after.params] or before.device != after.device:
        return "a parameter or the function itself is on another device", 0
    one, two = _normal(before, source, table), _normal(after, target, table)
    wrong, count = _fault(one, two, table)
    least = heights(one, two) if wrong else {}
    if least:
        # a function that no longer names what nobody needed is lower than in the source
        again = number_function(two.function, target, table, _folder(target), least=least)
        return _fault(one, again, table)
    return wrong, count


def _fault(one: Numbered, two: Numbered, table: Table) -> tuple[str | None, int]:
    if one.result != two.result:
        return "the result is another value", 0
    if one.events != two.events:
        return "what can fail or act is not the same in the same order", 0
    known: dict[int, list[Sign]] = {}
    for number, sign, _ in _signs(one, table):
        known.setdefault(number, []).append(sign)
    count = 0
    for number, sign, node in _signs(two, table):
        count += 1
        if number not in known:
            return f"{show_head(node)} is no value of the source", 0
        if not any(_keeps(old, sign) for old in known[number]):
            at = ", ".join(str(d) for _, d, _ in sign.operands) or "none"
            return f"{show_head(node)} is at {sign.lives[1]}, its operands at {at}: nowhere in the source is it so", 0
    return None, count


# --- devices ---------------------------------------------------------------------------------------------------------


def _signs(of: Numbered, table: Table) -> list[tuple[int, Sign, Expr]]:
    """For each value its number and its sign."""
    found: list[tuple[int, Sign, Expr]] = []
    said: dict[int, set[Any]] = {}
    for node in of.order:
        if isinstance(node, OnDevice):
            value = node.value
            while isinstance(value, Let) or isinstance(value, Var) and of.nest.resolve(value) is not value:
                value = value.body if isinstance(value, Let) else of.nest.resolve(value)
            said.setdefault(id(value), set()).add(_said(node))
    for node in of.order:
        if (
            isinstance(node, OnDevice)
            or is_atom(node)
            and not (isinstance(node, GlobalVar) and of.of[id(node)] in table.constants)
        ):
            continue
        operands = tuple(map(_lives, node.children))
        number, lives = of.of[id(node)], _lives(node)
        if isinstance(node, Let):
            number, lives, operands = of.of[id(node.value)], _lives(node.value), (((), node.var.device, False),)
            if lives[:2] == ((), node.var.device):
                continue  # a name where the value is: it moves nothing
        crosses = isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "device_copy"
        found.append((number, Sign(lives, operands, crosses, frozenset(said.get(id(node), ()))), node))
    return found


def _said(node: OnDevice) -> Any:
    return node.wanted, node.constrain_body, node.constrain_result, node.device


def _lives(node: Expr) -> Lives:
    around: list[Any] = []
    while isinstance(node, (OnDevice, Let)):
        around += [_said(node)] if isinstance(node, OnDevice) else []
        node = node.value if isinstance(node, OnDevice) else node.body
    return tuple(around), node.device, isinstance(node, (Constant, GlobalVar))


def _keeps(old: Sign, new: Sign) -> bool:
    """Whether a value is where one of the source is, and no more annotations stand on it. A constant that stands for a
    call has none of the call's operands; it may say what they said."""
    if not _alike(old.lives, new.lives) or not new.said <= old.said:
        return False
    if new.lives[2] and not new.operands:
        return (
            old.crosses or old.lives[1].is_full or all(d.place.agrees(new.lives[1].place) for _, d, _ in old.operands)
        )
    return len(old.operands) == len(new.operands) and all(map(_alike, old.operands, new.operands))


def _alike(old: Lives, new: Lives) -> bool:
    return old[0] == new[0] and (old[1] == new[1] or (new[2] and not old[1].is_full and new[1].covers(old[1])))


# --- one form --------------------------------------------------------------------------------------------------------


def _normal(function: Function, module: Module, table: Table) -> Numbered:
    """The numbers of a function in the form in which two are compared."""
    function = _opened(function, module)
    for _ in range(ROUNDS):
        found = number_function(function, module, table, _folder(module))

        def constant_(node: Expr, found: Numbered = found) -> bool:
            number = found.of[id(node)]
            parts = table.keys[number][1] if table.keys[number][0] == "tuple" else (number,)
            return all(n in table.constants for n in parts)

        def total(node: Expr) -> bool:
            """Whether a value need not be computed: it is there already, or cannot fail or act."""
            if isinstance(node, Var):
                return True
            return not any(acts(n) or can_fail(n, module) and not constant_(n) for n in post_order(node))

        def decided(node: Expr, found: Numbered = found) -> Expr:
            match node:
                case If():
                    condition = table.constants.get(found.of.get(id(node.condition), -1))
                    if condition is not None:
                        branch = node.then if bool(condition) else node.otherwise
                        if node.device in (ANYWHERE, _lives(branch)[1]) and same_type(node.type, branch.type):
                            return branch
                case MatchCast() if node.device == node.value.device and same_type(node.type, node.value.type):
                    return node.value
                case ShapeOf() if isinstance(node.type, ShapeType) and not symbols(node.type) and total(node.value):
                    return ShapeExpr(node.type, node.type.dims, device=node.device, span=node.span)
                case Call() if isinstance(node.op, Operator) and node.op.name == "shape_of" and total(node.args[0]):
                    of = node.args[0].type
                    if isinstance(of, TensorType) and of.is_static:
                        return replace(
                            constant(np.array(of.static_shape, np.int64)), device=node.device, span=node.span
                        )
            return node

        # children are rebuilt around decided ones: conditions are asked of the old nodes
        new: dict[int, Expr] = {}
        for node in post_order(found.function):
            made = decided(node)
            new[id(node)] = new[id(made)] if made is not node and id(made) in new else made
            if made is node:
                new[id(node)] = node if is_opaque(node) else node.with_children([new[id(c)] for c in node.children])
        after = new[id(found.function)]
        assert isinstance(after, Function)
        if after is found.function:
            return found
        function = after
    return number_function(function, module, table, _folder(module))


def _opened(function: Function, module: Module) -> Function:
    """The function with calls of functions that are not recursive opened, where no value is elsewhere for it."""
    recursive = _recursive(module)
    while True:
        order = open_nodes(function)
        if len(order) > MOST_NODES:
            raise UndecidedNumbering(f"more than {MOST_NODES} nodes where calls are opened")
        lets = {n.var: n.value for n in order if isinstance(n, Let) and isinstance(n.value, Function)}
        new: dict[int, Expr] = {}
        for node in order:
            made = node if is_opaque(node) else node.with_children([new[id(c)] for c in node.children])
            of: object = None
            if isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op.name not in recursive:
                of = module.definitions.get(node.op.name)
            elif isinstance(node, Call) and isinstance(node.op, Var):
                of = lets.get(node.op)
                of = None if isinstance(of, Function) and node.op in free_variables(of) else of
            if isinstance(of, Function) and isinstance(made, Call) and not is_opaque(of):
                made = _body(made, of)
            new[id(node)] = made
        after = as_function(new[id(function)])
        if after is function:
            return after
        function = after


def _body(call: Call, function: Function) -> Expr:
    """A copy of the body with parameters bound to arguments; the call where that is not the same."""
    of = function.func_type
    sizes: Bound = {}
    try:
        match_types(of.params, [a.type for a in call.args], sizes)
    except Invalid:
        return call
    if of.type_params or any(s not in sizes for s in symbols_bound(function)):
        return call
    if any(s is not d for s, d in sizes.items()):
        function = with_sizes(function, sizes)
    pairs = [*zip(function.params, call.args, strict=True), (call, function.body)]
    if any(isinstance(n, OnDevice) for n in post_order(function)) or any(p.device != _lives(a)[1] for p, a in pairs):
        return call
    if not all(same_type(p.type, a.type) for p, a in pairs) or not same_type(function.result_type, call.type):
        return call
    params = {p: replace(p) for p in function.params}
    body = fresh_copy(function.body, params)
    for p, a in reversed(pairs[:-1]):
        assert isinstance(p, Var)
        body = Let(body.type, params[p], a, body, device=call.device)
    return body


def _recursive(module: Module) -> set[str]:
    """The functions that may call themselves, through others too."""
    calls = {n: called(d).functions for n, d in module.graphs.items()}
    return {name for name in calls if name in reached(calls[name], lambda n: calls.get(n, ()))}


def _folder(module: Module) -> Any:
    """Evaluates a call on constants: a tensor function by its rules, an operator by its value."""
    module = module.resolved()

    def fold(node: Expr, args: Sequence[Array]) -> Sequence[Array] | None:
        if next(sizes_used(node), None) is not None:
            return None
        try:
            if isinstance(node, Call) and isinstance(node.op, Operator):
                with np.errstate(all="ignore"):
                    value = node.op.value(node.attrs, *args)
                return list(value) if isinstance(value, tuple) else [value]
            kernel = module.kernel(node.func)  # type: ignore[attr-defined]
            return None if calls_extern(kernel) else list(vector.run(kernel, args))
        except (Trap, Unpredictable):
            return None

    return fold
