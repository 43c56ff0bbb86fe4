"""Copies of expressions that share nothing with the original (rule M2, "sharing is identity"; specs/lower.md, "anf").

An expression that stands in two places must be two expressions: one that both share would be one evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assay.semantics.graph import Clause, Dataflow, Expr, Function, Let, Match, Var
from assay.semantics.graph.patterns import with_variables
from assay.semantics.walk import post_order


def fresh_copy(root: Expr, outside: Mapping[Var, Expr]) -> Expr:
    """`root` made of new nodes, with new variables of the same names. What is shared inside it stays shared.

    `outside` says what stands for the variables that `root` does not bind.
    """
    new: dict[Var, Expr] = dict(outside)
    own: dict[Var, Var] = {}
    marks: dict[Dataflow | None, Dataflow | None] = {None: None}
    for node in post_order(root):
        match node:
            case Let():
                own[node.var] = replace(node.var)
                marks.setdefault(node.dataflow, Dataflow())
            case Function():
                own.update((p, replace(p)) for p in node.params)
            case Match():
                own.update((v, replace(v)) for c in node.clauses for v in c.vars)
    new.update(own)
    made: dict[int, Expr] = {}
    for node in post_order(root):
        parts = [made[id(c)] for c in node.children]
        match node:
            case Var():
                copied = new.get(node, node)
            case Let():
                copied = replace(node, var=own[node.var], value=parts[0], body=parts[1], dataflow=marks[node.dataflow])
            case Function():
                copied = replace(node, params=tuple(own[p] for p in node.params), body=parts[0])
            case Match():
                clauses = [
                    Clause(with_variables(c.pattern, own.__getitem__), b)
                    for c, b in zip(node.clauses, parts[1:], strict=True)
                ]
                copied = replace(node, value=parts[0], clauses=tuple(clauses))
            case _:
                copied = replace(node.with_children(parts))
        made[id(node)] = copied
    return made[id(root)]
