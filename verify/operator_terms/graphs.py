"""Whether two graph functions without control flow give the same for every input (specs/verify.md, "Import").

Both run on arrays of terms, operator by operator, by the operators' own values. What is the same function of the same
operands is the same term, so what may trap is compared as terms too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from assay.semantics.errors import Trap, Unsupported
from assay.semantics.graph import Call, Constant, Expr, Function, Let, MatchCast, Tuple, TupleGetItem, Var
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType, Type, same_type
from assay.semantics.walk import post_order
from assay.verify.equivalence import BIT_EXACT, UNKNOWN
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.equivalence.show import show_term
from assay.verify.operator_terms import KernelProof, equal_terms, value_terms, ways
from assay.verify.operator_terms.array import TermArray, TermRun
from assay.verify.operator_terms.exact import ExactTerms

Array: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = "TermArray | Array | tuple[Value, ...]"
MOST_ELEMENTS = 200_000
"""Elements of all tensors of a function that is run over terms."""


def prove_functions(source: Function, target: Function) -> KernelProof:
    """Whether two functions of tensors, whose parameters have the same names and types, give the same for every input
    and trap on the same ones."""
    if (unknown := _not_alike(source, target)) is not None:
        return KernelProof(UNKNOWN, unknown)
    terms = ExactTerms()
    first = [terms.input(p.name, _shape(p.type)) for p in source.params]
    inputs = {p.name: (start, _shape(p.type)) for p, start in zip(source.params, first, strict=True)}

    def both(run: TermRun) -> KernelProof:
        return _compared(run, *(_Sides(run, function, inputs) for function in (source, target)))

    found = KernelProof(BIT_EXACT)
    try:
        for _, proof in ways(terms, first, both):
            assert isinstance(proof, KernelProof)  # a trap of one side is an answer of its own
            if proof.notion < found.notion:
                found = proof
            if not proof.holds:
                return proof
    except (UndecidedTrace, Unsupported) as undecided:
        return KernelProof(UNKNOWN, str(undecided))
    return found


def _shape(of: Type) -> tuple[int, ...]:
    assert isinstance(of, TensorType)  # by `_not_alike`
    return of.static_shape


def _not_alike(source: Function, target: Function) -> str | None:
    """Why two functions cannot be compared, if so."""
    types = {p.name: p.type for p in source.params}
    if any(not isinstance(t, TensorType) or not t.is_static for t in types.values()):
        return "a parameter is no tensor whose sizes are numbers"
    if [*types] != [p.name for p in target.params] or not all(same_type(types[p.name], p.type) for p in target.params):
        return "their parameters are not the same"
    made = [e.type for f in (source, target) for e in post_order(f.body) if isinstance(e.type, TensorType)]
    if not all(t.is_static for t in made):
        return "a size is not a number"
    size = sum(int(np.prod(t.static_shape)) for t in made)
    return f"more than {MOST_ELEMENTS} elements are not run over terms" if size > MOST_ELEMENTS else None


class _Sides:
    """One of the functions in one run: its results, or its trap, and what else may trap."""

    def __init__(self, run: TermRun, function: Function, inputs: dict[str, tuple[int, tuple[int, ...]]]) -> None:
        self.run = run
        self.values: dict[int, Value] = {}
        for p in function.params:
            start, shape = inputs[p.name]
            places = start + np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
            assert isinstance(p.type, TensorType)
            self.values[id(p)] = TermArray(run, places, p.type.dtype)
        before = len(run.symbols.traps)
        self.trap: Trap | None = None
        self.results: list[TermArray] = []
        try:
            self.results = [self._terms(x) for x in _leaves(self._evaluated(function.body))]
        except Trap as trap:
            self.trap = trap
        self.traps = np.unique(np.concatenate([np.zeros(0, np.int64), *run.symbols.traps[before:]]))

    def _terms(self, value: Any) -> TermArray:
        return value if isinstance(value, TermArray) else self.run.array(value)

    def _evaluated(self, body: Expr) -> Value:
        named = {id(e.var): e.value for e in post_order(body) if isinstance(e, Let)}
        for e in post_order(body):
            self.values[id(e)] = self.values[id(named[id(e)])] if id(e) in named else self._value(e)
        return self.values[id(body)]

    def _value(self, e: Expr) -> Value:
        match e:
            case Var() if id(e) in self.values:
                return self.values[id(e)]
            case Constant():
                return e.data
            case Tuple():
                return tuple(self.values[id(f)] for f in e.fields)
            case TupleGetItem():
                whole = self.values[id(e.value)]
                assert isinstance(whole, tuple)
                return whole[e.index]
            case Let():
                return self.values[id(e.body)]
            case MatchCast() if same_type(e.value.type, e.type):
                return self.values[id(e.value)]
            case Call(op=Operator() as op):
                return self._called(e, op, [self.values[id(a)] for a in e.args])
        raise UndecidedTrace(f"{type(e).__name__} is not run over terms")

    def _called(self, e: Call, op: Operator, operands: Sequence[Any]) -> Value:
        flat = [x for o in operands for x in _leaves(o)]
        if any(isinstance(x, TermArray) for x in flat):
            operands = [self._wrapped(o) for o in operands]
        made = value_terms(self.run, op, e.attrs, operands)
        return made[0] if isinstance(e.type, TensorType) else tuple(made)

    def _wrapped(self, value: Any) -> Any:
        return tuple(map(self._terms, value)) if isinstance(value, tuple) else self._terms(value)


def _leaves(value: Any) -> list[Any]:
    return [x for v in value for x in _leaves(v)] if isinstance(value, tuple) else [value]


def _compared(run: TermRun, source: _Sides, target: _Sides) -> KernelProof:
    if source.trap is not None or target.trap is not None:
        if source.trap is not None and target.trap is not None:
            return KernelProof(BIT_EXACT)
        one = source.trap or target.trap
        assert one is not None
        return KernelProof(UNKNOWN, f"one traps where the other need not: {one.message}")
    apart = np.setxor1d(source.traps, target.traps)
    if len(apart):
        return KernelProof(UNKNOWN, f"one may trap where the other does not: {show_term(run.terms, int(apart[0]))}")
    wanted, given = ([(x.shape, x.of) for x in side.results] for side in (source, target))
    if wanted != given:
        return KernelProof(UNKNOWN, f"results of {given} instead of {wanted}")
    numbers = (
        np.concatenate([np.zeros(0, np.int64), *(x.numbers.reshape(-1) for x in side.results)])
        for side in (source, target)
    )
    return equal_terms(run, *numbers)
