"""The proof that an ANF function is its source (specs/verify.md, "anf").

Same value, by numbering; same failures in the same order on every path (rule M3); every operand atomic; every name
bound once and before its use; nothing evaluated more often than in the source. The checks know nothing of the pass.
"""

from __future__ import annotations

from collections import Counter

from assay.semantics.graph import Call, Expr, Function, GlobalVar, If, Let, Var, show_head
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.verify.evidence import Evidence, proved, refuted
from assay.verify.numbering import Numbered, Table, first_unmatched, number_function

Path = tuple[tuple[int, int], ...]
"""The branches and function bodies around a binding, outermost first: (number of the node, which part)."""


def check_anf(source: Module, target: Module) -> Evidence:
    """Whether `target` is `source` in A-normal form."""
    for name, before in source.definitions.items():
        if not isinstance(before, Function):
            continue
        after = target.definitions.get(name)
        if not isinstance(after, Function):
            return refuted("proved", f"function {name} is gone")
        wrong = _normal(after) or _same(before, source, after, target)
        if wrong:
            return refuted("proved", f"in {name}: {wrong}")
    return proved("same value and failures for every input; operands atomic, names unique")


def _atomic(expr: Expr) -> bool:
    return isinstance(expr, (Var, GlobalVar))


def _normal(function: Function) -> str | None:
    """What is not A-normal about a function, if anything."""
    names = Counter(p.name for p in function.params)
    scope: set[Var] = set(function.params)
    work: list[tuple[str, tuple[Expr, ...]]] = [("chain", (function.body,))]
    while work:
        what, items = work.pop()
        match what, items:
            case "chain", (body,):
                steps: list[tuple[str, tuple[Expr, ...]]] = []
                bound: list[Var] = []
                while isinstance(body, Let):
                    order = ("bind", "value") if isinstance(body.value, Function) else ("value", "bind")
                    steps += [(step, (body.value,) if step == "value" else (body.var,)) for step in order]
                    bound.append(body.var)
                    body = body.body
                if not _atomic(body):
                    return f"the result {show_head(body)} is not atomic"
                work += reversed([*steps, ("use", (body,)), ("close", tuple(bound))])
            case "bind", (Var() as var,):
                names[var.name] += 1
                if names[var.name] > 1:
                    return f"the name {var.name} is bound more than once"
                scope.add(var)
            case "close", _:
                scope.difference_update(v for v in items if isinstance(v, Var))
            case "use", (user, *_):
                operand = items[-1]
                if not _atomic(operand):
                    return f"operand {show_head(operand)} of {show_head(user)} is not atomic"
                if isinstance(operand, Var) and operand not in scope:
                    return f"variable {operand.name} is used before it is bound, by {show_head(user)}"
            case "value", (value,):
                inside: list[tuple[str, tuple[Expr, ...]]] = []
                if isinstance(value, Let):
                    return f"a let as an operand: {value.var.name}"
                if isinstance(value, If):
                    inside = [("use", (value, value.condition)), ("chain", (value.then,)), ("chain", (value.otherwise,))]
                elif isinstance(value, Function) and not _opaque(value):
                    names.update(p.name for p in value.params)
                    scope.update(value.params)
                    inside = [("chain", (value.body,)), ("close", value.params)]
                elif not isinstance(value, Function):
                    inside = [("use", (value, c)) for c in value.children] or [("use", (value, value))] * _atomic(value)
                work += reversed(inside)
    return None


def _opaque(function: Function) -> bool:
    return "primitive" in function.attrs or "compiler" in function.attrs


def _can_fail(node: Expr) -> bool:
    return isinstance(node, Call) and (not isinstance(node.op, Operator) or node.op.can_trap)


def _same(before: Function, source: Module, after: Function, target: Module) -> str | None:
    """Why the functions differ in value, failures or work, if they do."""
    table = Table()
    one, two = number_function(before, source, table), number_function(after, target, table)
    if one.result != two.result or one.recursive != two.recursive:
        node = first_unmatched(one, two)
        what = show_head(node) + (f" at {node.span}" if node.span else "") if node else "the result"
        return f"{what} of the source is not computed by the target"
    wanted, found = _demand(one), _demand(two)
    for path in {**wanted, **found}:
        want = [n for n, fails in wanted.get(path, []) if fails]
        got = [n for n, fails in found.get(path, []) if fails]
        if want != got:
            names = {two.of[id(n)]: n for n in two.order} | {one.of[id(n)]: n for n in one.order}
            odd = next((n for n, m in zip(got + [-1], want + [-1], strict=False) if n != m), -1)
            odd = odd if odd != -1 else next(m for m, n in zip(want, got + [-1], strict=False) if n != m)
            return f"{show_head(names[odd])}, which can fail, is demanded otherwise than in the source"
    distinct = Counter(one.of[id(n)] for n in one.order if not isinstance(n, Let))
    for path, steps in found.items():
        along = Counter(n for i in range(len(path) + 1) for n, _ in found.get(path[:i], []))
        for n, _ in steps:
            if along[n] > distinct[n]:
                node = next(x for x in two.order if two.of[id(x)] == n and not isinstance(x, (Let, Var)))
                return f"{show_head(node)} is evaluated {along[n]} times, {distinct[n]} in the source"
    return None


def _demand(program: Numbered) -> dict[Path, list[tuple[int, bool]]]:
    """What is evaluated on each path, in order (rule M3): the number of each node, and whether it can fail."""
    found: dict[Path, list[tuple[int, bool]]] = {}
    done: set[int] = set()
    work: list[tuple[str, Expr, Path]] = [("node", program.function.body, ())]
    opened: list[list[int]] = [[]]
    while work:
        what, node, path = work.pop()
        if what == "close":
            done.difference_update(opened.pop())
        elif what == "open":
            opened.append([])
        elif what == "done":
            found.setdefault(path, []).append((program.of[id(node)], _can_fail(node)))
        elif id(node) not in done:
            done.add(id(node))
            opened[-1].append(id(node))
            number = program.of[id(node)]
            inside: list[tuple[str, Expr, Path]] = []
            branches: list[tuple[int, Expr]] = []
            match node:
                case Var() | GlobalVar():
                    continue
                case If():
                    inside = [("node", node.condition, path)]
                    branches = [(1, node.then), (2, node.otherwise)]
                case Function():
                    branches = [] if _opaque(node) else [(0, node.body)]
                case _:
                    inside = [("node", c, path) for c in node.children]
            if not isinstance(node, Let):
                inside.append(("done", node, path))
            for which, part in branches:
                inner = (*path, (number, which))
                inside += [("open", node, path), ("node", part, inner), ("close", node, path)]
            work += reversed(inside)
    return found
