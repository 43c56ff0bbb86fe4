"""`Bounded`: an array of intervals that NumPy's functions understand (specs/semantics.md, "Numbers").

NumPy hands a call with a `Bounded` among its arguments to `__array_ufunc__` or `__array_function__`. These look the
function up in `UFUNCS` and `FUNCTIONS`, which the neighbouring modules fill, one rule for each function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from assay.semantics.arrays import ArrayFace
from assay.semantics.dtypes import BOOL, DType, dtype
from assay.semantics.errors import Crash, Unpredictable

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Axis: TypeAlias = int | Sequence[int] | None

UFUNCS: dict[Any, Callable[..., Any]] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}

Rule = TypeVar("Rule", bound=Callable[..., Any])


def implements(*functions: Any) -> Callable[[Rule], Rule]:
    """Register a rule as what these NumPy functions do to a `Bounded`."""

    def register(rule: Rule) -> Rule:
        for f in functions:
            (UFUNCS if isinstance(f, np.ufunc) else FUNCTIONS)[f] = rule
        return rule

    return register


class Bounded(ArrayFace):
    """An interval [value - radius, value + radius] for each element of a tensor of dtype `of`.

    Every correct implementation's element lies in its interval. `value` and `radius` are float64 arrays of one shape.
    What is no finite interval:
    - a radius of inf: anything goes, NaN too (a vacuous bound);
    - a value of NaN or +-inf with a finite radius: exactly that is the answer.
    Of dtype bool, 0 and 1 stand for false and true, and [0, 1] for undecided. Of integer dtype, the integers in it.

    Elements without error take no memory for their radius, and exact arrays stay in their own dtype until used.
    """

    __slots__ = (
        "__weakref__", "_raw", "free", "given", "is_exact", "named", "narrow", "of", "radius", "rounding", "terms",
    )  # fmt: skip
    __array_priority__ = 1000
    follows_errors = False
    """Whether it says how its elements' errors hang together (`assay.semantics.bounding.affine`)."""

    def __init__(self, value: Any, radius: Any, of: DType, terms: int = 0) -> None:
        self._raw: Array = np.asarray(value)
        self.of = of
        self.terms = terms
        """Of a sum of products that may take up more terms, how many it has (rule M9.8); else 0."""
        self.free: npt.NDArray[np.bool_] | None = None
        """Where the sign of a zero is free, None for nowhere; who walks over a program fills it."""
        self.is_exact = type(radius) is int and radius == 0
        """Whether the elements are those of a given array, moved or chosen."""
        self.given: npt.NDArray[np.bool_] | None = None
        """Which of the elements are that, where only some are; None for none."""
        self.narrow: DType | None = None
        """A narrower float whose numbers the elements are, of a tensor that was cast from it; None: any number."""
        self.named: Bounded | None = None
        """The same with symbols in place of what each element is off by, once somebody has asked for that."""
        self.rounding: Floats | float | None = None
        """How much of the radius comes of the last step's own roundings, whatever its operands in their intervals
        are; None where nobody asked."""
        self.radius: Floats = np.broadcast_to(np.asarray(radius, np.float64), self._raw.shape)

    @staticmethod
    def exact(array: Any) -> Bounded:
        """The array itself, without error."""
        array = np.asarray(array)
        return Bounded(array, 0, dtype(array.dtype))

    @property
    def value(self) -> Floats:
        """The centres."""
        return self._raw.astype(np.float64, copy=False)

    @property
    def raw(self) -> Array:
        """The centres, in any dtype that holds them."""
        return self._raw

    # --- what they say -------------------------------------------------------------------------------------------

    def interval(self) -> tuple[Floats, Floats]:
        """The least and the greatest allowed values, rounded outwards."""
        v = self.value
        if self.is_exact:
            return v, v
        with np.errstate(all="ignore"):
            low, high = v - self.radius, v + self.radius
            if not self.of.is_float:
                return low, high  # halves are exact; beyond 2**51 the rules leave room
            sure = self.radius == 0
            # v - v is exactly 0: an interval that was cut off at 0 stays so
            low = np.where(v == self.radius, 0.0, np.where(sure, v, np.nextafter(low, -np.inf)))
            return low, np.where(sure, v, np.nextafter(high, np.inf))

    @property
    def is_decided(self) -> bool:
        """Whether every interval is a single value."""
        return self.is_exact or not self.radius.any()

    @property
    def as_given(self) -> npt.NDArray[np.bool_]:
        """Which elements are those of a given array: of a zero among them the sign is known."""
        return np.asarray(self.is_exact) if self.given is None else self.given

    @property
    def vacuous(self) -> npt.NDArray[np.bool_]:
        """Where the bound checks nothing worth the name.

        That is where the radius is inf, or greater than the largest finite magnitude in the whole tensor: there any
        element of the tensor, and zero, would pass in place of any other (rule M9.4).
        """
        v = np.abs(self.value)
        top = v.max(initial=0.0, where=np.isfinite(v)) + self.of.smallest_normal if self.of.is_float else np.inf
        wide: npt.NDArray[np.bool_] = np.isinf(self.radius) | (self.radius > top)
        return wide

    # --- as an array ---------------------------------------------------------------------------------------------

    @property
    def held(self) -> Array:
        """The array whose elements these bounds are of."""
        return self._raw

    def moved(self, move: Callable[[Array], Array]) -> Bounded:
        """The same elements placed elsewhere."""
        return moved(self, move)

    def __getitem__(self, index: Any) -> Bounded:
        if isinstance(index, Bounded):
            raise Unpredictable("the bounds leave open which element an index takes", label="bounds.C4")
        made = Bounded(self._raw[index], 0 if self.is_exact else self.radius[index], self.of, self.terms)
        made.narrow = self.narrow
        return made

    def __bool__(self) -> bool:
        if self.size != 1 or self.of is not BOOL:
            raise Crash(f"the truth of {self} was asked for")
        if not self.is_decided:
            raise Unpredictable(
                "the bounds do not decide this condition: correct implementations may take either branch",
                label="bounds.C1",
            )
        return bool(self.value.item())

    def __repr__(self) -> str:
        if self.size > 1000:
            return f"Bounded({self.shape}, {self.of})"
        return f"Bounded({self.value}, +-{self.radius}, {self.of})"

    # --- as what follows ------------------------------------------------------------------------------------------

    def widened(self, more: Any, terms: int | None = None) -> Bounded:
        """The intervals, `more` wider to both sides; as the sum of so many `terms`, or of no more."""
        made = Bounded(self.value, self.radius + more, self.of, terms or 0)
        made.rounding = None if self.rounding is None else self.rounding + more
        return made

    def cut(self, value: Any, radius: Any) -> Bounded:
        """Other intervals that hold all correct results of these too."""
        made = Bounded(value, radius, self.of)
        made.rounding = self.rounding
        return made

    def placed(self, made: Bounded, move: Callable[[Array], Array]) -> Bounded:
        """`made`, which is these elements placed elsewhere by `move`."""
        return made

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise Crash("intervals are no array; `value` has their centres")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.pop("out", None) is not None:
            raise Crash(f"{ufunc.__name__} into an array of intervals")
        given = kwargs.pop("dtype", None)
        if given is not None and dtype(given) is not self.of:
            raise Crash(f"{ufunc.__name__} of {self.of} asked in {given}")
        if method == "reduce" and ufunc in _REDUCTIONS:
            return getattr(inputs[0], _REDUCTIONS[ufunc])(**{"axis": 0, **kwargs})
        rule = UFUNCS.get(ufunc)
        if rule is None or method != "__call__":
            raise Crash(f"{ufunc.__name__}.{method} has no rule for intervals")
        with np.errstate(all="ignore"):
            return rule(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = FUNCTIONS.get(func)
        if rule is None:
            raise Crash(f"{func.__name__} has no rule for intervals")
        with np.errstate(all="ignore"):
            return rule(*args, **kwargs)

    def by(self, of: Any, *args: Any, **kwargs: Any) -> Any:
        """What the rule of a function makes of these intervals and more arguments."""
        with np.errstate(all="ignore"):
            return FUNCTIONS[of](self, *args, **kwargs)

    def astype(self, to: Any, copy: bool = True) -> Any:
        """The intervals converted to dtype `to`, by the rule for `astype`; `copy` is there for NumPy's sake."""
        return self.by("astype", dtype(to))

    def sum(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """The bound of a sum over `axis` in any order of its terms, as `np.sum`."""
        return self.by(np.sum, axis, dtype, keepdims, **more)

    def mean(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The bound of a mean over `axis` in any order of its terms, as `np.mean`."""
        return self.by(np.mean, axis, dtype, keepdims)

    def prod(self, axis: Axis = None, dtype: Any = None, keepdims: bool = False, **more: Any) -> Any:
        """The bound of a product over `axis` in any order of its factors, as `np.prod`."""
        return self.by(np.prod, axis, dtype, keepdims, **more)

    def max(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Any:
        """The bound of the greatest element over `axis`, as `np.max`."""
        return self.by(np.max, axis, keepdims, **more)

    def min(self, axis: Axis = None, keepdims: bool = False, **more: Any) -> Any:
        """The bound of the least element over `axis`, as `np.min`."""
        return self.by(np.min, axis, keepdims, **more)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """Whether an element over `axis` is true, undecided where the intervals leave it open."""
        return self.by(np.any, axis, keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> Any:
        """Whether every element over `axis` is true, undecided where the intervals leave it open."""
        return self.by(np.all, axis, keepdims)


_REDUCTIONS = {np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min"}


def moved(x: Bounded, move: Callable[[Array], Array]) -> Bounded:
    """`x` with its elements placed elsewhere: no arithmetic, so value and radius move alike."""
    value = move(x.raw)
    made = Bounded(value, 0 if x.is_exact else move(x.radius), x.of, x.terms)
    made.given = None if x.given is None else np.asarray(move(x.given))
    made.narrow = x.narrow
    return x.placed(made, move)


def coerce(*operands: Any) -> tuple[Bounded, ...]:
    """Operands of one dtype. Arrays are exact; a Python number is rounded to the dtype, as NumPy does."""
    like = next(x for x in operands if isinstance(x, Bounded)).of
    out = []
    for x in operands:
        if isinstance(x, (bool, int, float)):
            x = np.asarray(x).astype(like.numpy)
        if not isinstance(x, Bounded):
            x = Bounded.exact(x)
        if x.of is not like:
            raise Crash(f"{like} against {x.of} in one operation on intervals")
        out.append(x)
    return tuple(out)


def is_same(a: Any, b: Any) -> bool:
    """Whether two operands are one value used twice, element by element, so that they cannot differ (rule M9.7).

    That is one `Bounded`, or two of which one is a view of the other's memory, all of it in the same order: what only
    moves elements gives views. Two values that were computed one after the other lie apart, even where they are equal:
    an implementation may compute them in two ways.
    """
    if a is b:
        return isinstance(a, Bounded)
    if not (isinstance(a, Bounded) and isinstance(b, Bounded) and a.of is b.of and a.is_exact == b.is_exact):
        return False
    return _is_at(a.raw, b.raw) and (a.is_exact or _is_at(a.radius, b.radius))


def _is_at(a: Array, b: Array) -> bool:
    """Whether two arrays are the same memory in the same order."""
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype


def plain_if_exact(x: Bounded) -> Any:
    """A plain array where every interval of a bool or integer tensor is a single value, else `x`."""
    if x.of.is_float or not x.is_decided:
        return x
    return x.raw.astype(x.of.numpy)
