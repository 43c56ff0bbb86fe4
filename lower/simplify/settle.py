"""Sizes that a program need not wait for (row J17; specs/lower.md, "simplify").

A match-cast of a value whose sizes are numbers gives its symbols numbers, and so does a body to a declared result. A
branch that sizes decide is the one that is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from assay.lower.frontends.flat_main import with_main
from assay.lower.simplify.bind_params import with_sizes
from assay.lower.simplify.fold import Evaluate, Folding, Value
from assay.lower.simplify.told_sizes import with_told_sizes
from assay.semantics.errors import Invalid
from assay.semantics.graph import Call, Expr, Function, If, MatchCast
from assay.semantics.graph.matching import Bound, instantiate, match_types
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.types import FuncType, TensorType, Type, symbols
from assay.semantics.walk import post_order

BREAKS_A_RULE = "the program breaks a rule: "
"""What stands before the rule in a message."""


def settle_sizes(module: Module) -> Module:
    """The module with numbers for the symbols of `main` that can have no other value; as it is where that breaks a
    rule, for then some run traps."""
    main = module.definitions.get("main")
    known = _settled(main) if isinstance(main, Function) else {}
    if not isinstance(main, Function) or not known:
        return module
    made = with_main(module, with_sizes(main, known))
    try:
        check(made)
    except Invalid:
        return module
    return made


def with_dims_of_main(module: Module, dims: Mapping[Symbol, int], evaluate: Evaluate) -> Module:
    """The module with numbers for symbols of `main`. Where an arm of a choice that these numbers decide would break a
    rule, so that it is never taken, the choice is its other arm. Invalid: a rule is broken, or a number is outside of
    its limits.
    """
    made = with_main(module, with_sizes(module.main, dict(dims.items())))
    if known := _settled(made.main):  # what two arms may be told apart by before, may be one size now
        made = with_main(made, with_sizes(made.main, known))
    made = with_told_sizes(made, evaluate)
    try:
        check(made)
    except Invalid as wrong:
        made = _Sizes(made, evaluate).run()
        try:
            check(made)
        except Invalid:
            at = " ".join(f"{s.name}={n}" for s, n in dims.items())
            raise Invalid(f"at {at} {BREAKS_A_RULE}{wrong.message}", where=wrong.where, label=wrong.label) from None
    return made


class _Sizes(Folding):
    """Folds what is whole numbers and decisions. Other numbers stay computed, for they may be computed otherwise
    elsewhere."""

    def can_fold(self, node: Expr, operands: list[Value]) -> bool:
        return isinstance(node.type, TensorType) and not node.type.dtype.is_float and super().can_fold(node, operands)


def _settled(main: Function) -> Bound:
    """Numbers for symbols. One that two casts give different ones has neither: they may be in different branches."""
    left = {s for p in main.params for s in symbols(p.type)}
    while True:
        known: Bound = {}
        wrong = _learn(main, known, left)
        if not wrong:
            return known
        left |= wrong


def _learn(main: Function, known: Bound, left: Collection[Symbol]) -> set[Symbol]:
    """Adds to `known` what the casts and the result say of symbols but those in `left`; the symbols of which they do
    not say one number."""
    wrong: set[Symbol] = set()
    for node in post_order(main.body):
        if isinstance(node, MatchCast):
            wrong |= _meet(node.type, node.value.type, known, left)
        elif isinstance(node, If):
            wrong |= _meet(node.type, node.then.type, known, left) | _meet(node.type, node.otherwise.type, known, left)
        elif isinstance(node, Call) and isinstance(node.op, Expr) and symbols(node.type):
            wrong |= _meet(node.type, _given(node, known), known, left)
    return wrong | _meet(main.result_type, main.body.type, known, left)


def _given(call: Call, known: Bound) -> Type:
    """What a call of a function gives, as far as the function's type says it by now: of sizes that a function inside of
    another has from around it, no call says what they are."""
    of = instantiate(call.op.type, known) if isinstance(call.op, Expr) else call.type
    bound: Bound = dict(known)
    try:
        assert isinstance(of, FuncType)
        match_types(of.params, [instantiate(a.type, known) for a in call.args], bound, of.type_params)
    except Invalid:
        return call.type
    return instantiate(of.result, bound)


def _meet(want: Type, got: Type, known: Bound, left: Collection[Symbol]) -> set[Symbol]:
    asked = {s for s in symbols(want) if s not in left}
    if not asked:
        return set()
    bound: Bound = {}
    try:
        match_types([want], [instantiate(got, known)], bound)
    except Invalid:
        return asked
    told = {s: bound[s] for s in asked if s in bound}
    known.update({s: n for s, n in told.items() if isinstance(n, int) and s not in known})
    return {s for s, n in told.items() if known.get(s) != n}
