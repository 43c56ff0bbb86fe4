"""`TermArray`: an array of terms that NumPy's functions understand (specs/verify.md, "legalize").

An operator's value is written with NumPy's functions, so it runs on these as on numbers, and gives the term of each
element of its result. The rules, one for each function, are in `assay.verify.operator_terms.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any, TypeAlias, TypeVar

import numpy as np

from assay.semantics.arrays import ArrayFace
from assay.semantics.dtypes import BOOL, FLOAT64, DType, dtype
from assay.semantics.errors import Trap
from assay.semantics.scalar import operation
from assay.verify.equivalence.order import UndecidedTrace
from assay.verify.equivalence.symbols import Symbols
from assay.verify.operator_terms.exact import ExactTerms

Array: TypeAlias = np.ndarray[Any, Any]
Rule = TypeVar("Rule", bound=Callable[..., Any])

UFUNCS: dict[Any, Callable[..., Any]] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def implements(*functions: Any) -> Callable[[Rule], Rule]:
    """Register a rule as what these NumPy functions do to terms."""

    def register(rule: Rule) -> Rule:
        for f in functions:
            (UFUNCS if isinstance(f, np.ufunc) else FUNCTIONS)[f] = rule
        return rule

    return register


class TermRun:
    """One run of a value over terms: the table, what may trap, and how each question about data was answered."""

    def __init__(self, terms: ExactTerms, first: Sequence[int], answers: Sequence[bool] = ()) -> None:
        self.terms = terms
        self.symbols = Symbols(terms, first, ())
        self.answers = list(answers)
        """What is answered to the first questions; to the others: yes."""
        self.asked: list[tuple[int, bool]] = []
        """The terms that were asked for, and the answers."""
        self.in_any_order = False
        """Whether floats were added or multiplied in an order that NumPy chooses."""

    def is_true(self, condition: int) -> bool:
        """Whether a condition holds: as it must, as it was answered before, or as is to be assumed in this run."""
        if condition in (self.terms.true, self.terms.false):
            return condition == self.terms.true
        known = dict(self.asked)
        if condition not in known:
            place = len(self.asked)
            self.asked.append((condition, self.answers[place] if place < len(self.answers) else True))
        return dict(self.asked)[condition]

    def array(self, value: Any) -> TermArray:
        """An array of numbers as one of literals."""
        value = np.asarray(value)
        of = dtype(value.dtype)
        return TermArray(self, np.asarray(self.terms.constant(value, of)), of)


class TermArray(ArrayFace):
    """An array of terms of dtype `of`: their numbers in the table of a run."""

    __array_priority__ = 2000

    def __init__(self, run: TermRun, numbers: Array, of: DType) -> None:
        self.run, self.numbers, self.of = run, np.asarray(numbers, np.int64), of

    # --- as an array ---------------------------------------------------------------------------------------------

    @property
    def held(self) -> Array:
        """The numbers of the terms."""
        return self.numbers

    def __getitem__(self, index: Any) -> TermArray:
        if isinstance(index, tuple) and any(isinstance(i, TermArray) for i in index):
            made: TermArray = FUNCTIONS[getitem](self, index)
            return made
        if isinstance(index, TermArray):
            index = index.known()
        return self.moved(lambda a: a[index])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise UndecidedTrace("the value asks for the truth of an array")
        return self.run.is_true(int(self.numbers.reshape(-1)[0]))

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise UndecidedTrace("the value asks for the numbers of its operands")

    __float__ = __int__ = __index__ = __array__

    def __repr__(self) -> str:
        return f"TermArray({self.shape}, {self.of})"

    def known(self) -> Array:
        """The numbers, where all terms are literals."""
        if not self.run.terms.literal[self.numbers].all():
            raise UndecidedTrace("an index is data")
        return self.run.terms.known(self.numbers.reshape(-1)).reshape(self.shape).astype(self.dtype)

    # --- what NumPy does with it ---------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        (into,) = kwargs.pop("out", None) or (None,)
        if kwargs.pop("dtype", self.dtype) != self.dtype:
            raise UndecidedTrace(f"{ufunc.__name__} in another dtype has no rule for terms")
        made = self._called(ufunc, method, inputs, kwargs)
        if into is None:
            return made
        into.numbers = np.array(into.numbers)
        into.numbers[...] = made.numbers
        return into

    def _called(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if method in ("reduce", "accumulate"):
            rule = FUNCTIONS.get((ufunc, method))
        else:
            rule = UFUNCS.get(ufunc) if method == "__call__" else None
        if rule is None:
            raise UndecidedTrace(f"{ufunc.__name__} has no rule for terms")
        return rule(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = FUNCTIONS.get(func)
        if rule is None:
            raise UndecidedTrace(f"{func.__name__} has no rule for terms")
        return rule(*args, **kwargs)

    def operate(self, name: str, *operands: Any) -> TermArray:
        """The operation of the scalar table."""
        return operate(self.run, name, *operands)

    def by(self, name: str) -> TermArray:
        """A function that NumPy has not, of each element."""
        return operate(self.run, name, self)

    def astype(self, to: Any, copy: bool = True) -> TermArray:
        """Converted, by rule M5."""
        of, wanted = self.of, dtype(to)
        if of is wanted:
            return self
        run = self.run
        return TermArray(run, run.symbols.cast(of, wanted, self.numbers, run.terms.true), wanted)

    def view(self, to: Any) -> TermArray:
        """The bits of whole numbers as a float of the same width, by the scalar table."""
        of, wanted, run = self.of, dtype(to), self.run
        if of is wanted:
            return self
        if not of.is_integer or not wanted.is_float or of.bits != wanted.bits:
            raise UndecidedTrace(f"{of} as the bits of {wanted} has no rule for terms")
        whole = dtype(f"int{of.bits}")
        name = "float_of" if wanted is FLOAT64 else f"{wanted}_of"
        made = run.symbols.apply(name, whole, wanted, [self.astype(whole.numpy).numbers], run.terms.true)
        return TermArray(run, made, wanted)

    def moved(self, move: Callable[[Array], Array]) -> TermArray:
        """The same terms placed elsewhere."""
        return TermArray(self.run, move(self.numbers), self.of)

    def sum(self, axis: Any = None, **more: Any) -> Any:
        """The sum of terms over `axis`."""
        return FUNCTIONS[np.sum](self, axis, **more)

    def max(self, axis: Any = None, **more: Any) -> Any:
        """The greatest over `axis`."""
        return FUNCTIONS[np.max](self, axis, **more)

    def any(self, axis: Any = None, **more: Any) -> Any:
        """Whether one over `axis` is true."""
        return FUNCTIONS[np.any](self, axis, **more)

    def all(self, axis: Any = None, **more: Any) -> Any:
        """Whether all over `axis` are true."""
        return FUNCTIONS[np.all](self, axis, **more)


class ComplexTerms:
    """Complex numbers, each part an array of terms."""

    def __init__(self, real: TermArray, imag: TermArray) -> None:
        self.real, self.imag = real, imag

    def __getitem__(self, index: Any) -> ComplexTerms:
        return ComplexTerms(self.real[index], self.imag[index])

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = FUNCTIONS.get(func)
        if rule is None:
            raise UndecidedTrace(f"{func.__name__} of complex numbers has no rule for terms")
        return rule(*args, **kwargs)


def coerce(*operands: Any) -> list[TermArray]:
    """Operands of one dtype, as terms; a Python number is one of the dtype."""
    like = next(x for x in operands if isinstance(x, TermArray))
    made = []
    for x in operands:
        if isinstance(x, (bool, int, float)):
            x = np.asarray(x).astype(like.dtype)
        if not isinstance(x, TermArray):
            x = like.run.array(x)
        if x.of is not like.of:
            raise UndecidedTrace(f"the value meets {like.of} and {x.of} in one operation")
        made.append(x)
    return made


def operate(run: TermRun, name: str, *operands: Any) -> TermArray:
    """An operation of the scalar table, element by element, with its trap."""
    terms = [x if isinstance(x, TermArray) else run.array(x) for x in operands]
    of = terms[-1].of
    if name != "select":
        terms = coerce(*terms)
    to = BOOL if operation(name).result == "bool" else of
    lanes = np.broadcast_arrays(*(x.numbers for x in terms))
    try:
        made = run.symbols.apply(name, of, to, lanes, run.terms.true)
    except Trap as trap:
        raise UndecidedTrace(f"{name} of literals traps: {trap.message}") from None
    return TermArray(run, made, to)
