"""Inputs that show something (specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal, get_args

import numpy as np

from assay.interp import graph
from assay.interp.graph.kernel_calls import flat
from assay.interp.values import Shape
from assay.semantics.dtypes import DType
from assay.semantics.errors import Invalid, Trap
from assay.semantics.graph import Call, CallTIR
from assay.semantics.left_open.entries import BY_NAME
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.scalar import Var as Symbol, evaluate_dim
from assay.semantics.types import ShapeType, TensorType, TupleType, Type, symbols
from assay.verify.border.inputs import dims_of
from assay.verify.oracle.scaled_integers import ScaledIntegers, run_scaled_integers

Array = np.ndarray[Any, Any]
Kind = Literal["integers", "random", "specials", "cancelling", "large", "ties"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DIVIDES = BY_NAME["division"].operators
"""What divides whole numbers; by zero a standard leaves open what comes of it."""
PRIMES = (5, 7, 3, 11, 13, 2, 17, 19, 23, 29, 31, 37)
TRIES = 8


def kinds_of(named: str | Iterable[str]) -> tuple[Kind, ...]:
    """The kinds of data of these names, each of which may be several with commas between. Invalid (oracle.C1): there
    is none of a name."""
    texts = [named] if isinstance(named, str) else named
    names = [n for text in texts for part in text.split(",") if (n := part.strip())]
    for name in names:
        if name not in KINDS:
            raise Invalid(f"no kind of data {name!r}; there are {', '.join(KINDS)}", label="oracle.C1")
    return tuple(k for n in dict.fromkeys(names) for k in KINDS if k == n)


def make_inputs(
    module: Module, kind: Kind, seed: int, dims: Mapping[str, int], given: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Inputs for main by name: those that are given, and others of sizes that agree with them.

    - integers: whole numbers so small that sums of products are exact as far through the program as can be.
    - random: reals of both signs, of magnitude about 1, all different.
    - cancelling: pairs of numbers that nearly cancel, and small ones beside large ones.
    - large: magnitudes over most of the dtype's range, such that squares are finite.
    - ties: halves and whole numbers, few and often the same, so that what is rounded, sorted or compared is at an edge.
    - specials: zeros of both signs, infinities, NaN, subnormal numbers, the ends of the range, between ordinary ones;
      of a dtype of 8 bits every code that there is, as far as the tensor has elements.

    Integers are small and not negative, for they may be indices; if main traps on them others are tried. Invalid
    (input.C6): a parameter is no tensor, shape or tuple of these, or a symbolic size has no value that agrees.
    """
    kinds_of([kind])
    given = given or {}
    sizes = _sizes(module, dims, given)
    made: dict[str, Array] = {}
    for attempt in range(TRIES):
        rng = np.random.default_rng([seed, attempt])
        if kind == "integers":
            made = _whole(module, sizes, rng, attempt)
        else:
            made = {p.name: _value(p.type, sizes, rng, _FLOATS[kind], attempt, p.name) for p in module.main.params}
        made.update(given)
        if takes(module, made, whole=kind == "specials"):
            break
    return made


MOST_COMPUTED = 200_000
"""Nodes that a run on inputs that are made may compute."""


def takes(module: Module, inputs: Mapping[str, Any], whole: bool = False) -> bool:
    """Whether a program runs on inputs and, unless on the `whole` of what may be, divides no whole numbers by zero:
    there many backends fail. One that computes more than `MOST_COMPUTED` nodes on them does not: a loop that counts to
    a number that was drawn may have 2^63 steps."""
    computed = count()

    def apply(node: Call | CallTIR, attrs: Any, args: Sequence[Any], ordinary: Callable[..., Any]) -> Any:
        if next(computed) > MOST_COMPUTED:
            raise Trap("", "a run that is too long for inputs that are made")
        if not whole and isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name in DIVIDES:
            if args[1].dtype.kind in "iu" and not args[1].all():
                raise Trap("", "a division of whole numbers by zero")
        return ordinary(*args)

    try:
        graph.run(module, inputs, apply=apply)
    except Trap:
        return False
    return True


def _sizes(module: Module, dims: Mapping[str, int], given: Mapping[str, Array]) -> dict[Symbol, int]:
    """A number for each symbol in the types of main's parameters, as the given inputs have it; the others pairwise
    different, so that axes cannot be mixed up."""
    named = dims_of(module.main, dims)
    found: dict[Symbol, int] = {}
    for p in module.main.params:
        if p.name in given and isinstance(p.type, TensorType):
            found.update(
                (d, n) for d, n in zip(p.type.shape, np.shape(given[p.name]), strict=False) if isinstance(d, Symbol)
            )
    for i, s in enumerate(dict.fromkeys(s for p in module.main.params for s in symbols(p.type))):
        found.setdefault(s, named.get(s, PRIMES[i % len(PRIMES)]))
    return found


Maker = Callable[[np.random.Generator, tuple[int, ...], DType], Array]


def _value(
    of: Type, sizes: Mapping[Symbol, int], rng: np.random.Generator, floats: Maker, attempt: int, name: str
) -> Any:
    match of:
        case TensorType():
            shape = tuple(evaluate_dim(d, sizes) for d in of.shape)
            return _tensor(of.dtype, shape, rng, floats, attempt)
        case ShapeType():
            return Shape(tuple(evaluate_dim(d, sizes) for d in of.dims))
        case TupleType():
            return tuple(_value(t, sizes, rng, floats, attempt, name) for t in of.fields)
        case _:
            raise Invalid(f"input {name!r} is {of}: no data can be made for it, give it", label="input.C6")


def _tensor(of: DType, shape: tuple[int, ...], rng: np.random.Generator, floats: Maker, attempt: int) -> Array:
    if of.kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if of.is_integer:
        low, high = ((0, 2), (1, 2), (1, 4), (0, 1))[attempt % 4]
        return rng.integers(low, high, shape).astype(of.numpy)
    with np.errstate(all="ignore"):
        return floats(rng, shape, of)


# --- floats -------------------------------------------------------------------------------------------------------


def _random(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    return rng.standard_normal(shape).astype(of.numpy)


def _cancelling(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    """Neighbours in memory are nearly opposite; every eighth pair is a thousand times larger than the others."""
    count = int(np.prod(shape))
    pairs = rng.standard_normal((count + 1) // 2) * np.where(np.arange((count + 1) // 2) % 8 == 0, 1000.0, 1.0)
    near = pairs * (1 + 8 * of.unit_roundoff * rng.standard_normal(pairs.size))
    flat = np.stack([pairs, -near], axis=-1).reshape(-1)[:count]
    return flat.reshape(shape).astype(of.numpy)


def _large(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    top, low = np.log2(float(of.max)) / 2 - 4, np.log2(of.smallest_normal) / 2 + 2
    size = np.exp2(rng.uniform(low, max(low + 1, top), shape))
    return np.asarray(size * rng.choice([-1.0, 1.0], shape)).astype(of.numpy)


def codes(of: DType) -> Array:
    """Every number that a float dtype of 8 bits at most has, its NaNs too."""
    return np.arange(1 << of.bits, dtype=np.uint8).view(of.numpy)


def is_small(of: DType) -> bool:
    """Whether a dtype is a float of so few bits that data can hold all its numbers."""
    return of.is_float and of.bits <= 8


def every_code(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    """Every number of a float dtype of 8 bits at most, in any order, as often as there is room; in a smaller tensor
    some of them, none twice."""
    return _each_of(rng, shape, codes(of))


def between_codes(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    """Float64s half way between neighbours in a float dtype of 8 bits at most, each as often as there is room."""
    values = codes(of).astype(np.float64)
    there = np.unique(values[np.isfinite(values)])
    return _each_of(rng, shape, (there[1:] + there[:-1]) / 2)


def _each_of(rng: np.random.Generator, shape: tuple[int, ...], some: Array) -> Array:
    rounds = -(-int(np.prod(shape)) // some.size)
    found = [some[rng.permutation(some.size)] for _ in range(rounds)]
    return np.concatenate(found or [some])[: int(np.prod(shape))].reshape(shape)


def _specials(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    if is_small(of):
        return every_code(rng, shape, of)
    least, tiny, top = of.smallest_normal, of.smallest_subnormal, float(of.max)
    some = [0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, least, -least, least / 2, top, -top, 1.0, -1.0, 0.5, 2.0]
    plain = rng.standard_normal(shape)
    chosen = rng.choice(np.array(some), shape)
    # half of the rows have many of them, the others few: what is summed with an infinity says little
    often = np.where(rng.random((*shape[:1], *(1,) * (len(shape) - 1))) < 0.5, 0.4, 0.02)
    return np.where(rng.random(shape) < often, chosen, plain).astype(of.numpy)


def _ties(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
    made = rng.integers(-5, 6, shape) / 2
    if shape and shape[-1] > 1 and made.size:  # in half of the rows the greatest is there twice
        rows = made.reshape(-1, shape[-1])
        twice = rng.random(len(rows)) < 0.5
        first = rows.argmax(axis=1)
        other = (first + rng.integers(1, shape[-1], len(rows))) % shape[-1]
        at = np.flatnonzero(twice)
        rows[at, other[at]] = rows[at, first[at]]
        made = rows.reshape(shape)
    return made.astype(of.numpy)


_FLOATS: dict[str, Maker] = {
    "random": _random, "cancelling": _cancelling, "large": _large, "specials": _specials, "ties": _ties,
}  # fmt: skip


def _integers(most: int, zeros: float) -> Maker:
    def make(rng: np.random.Generator, shape: tuple[int, ...], of: DType) -> Array:
        values = rng.integers(-most, most + 1, shape).astype(np.float64)
        return np.where(rng.random(shape) < zeros, 0.0, values).astype(of.numpy)

    return make


AMPLITUDES = ((8, 0.0), (4, 0.0), (2, 0.0), (1, 0.0), (1, 0.75), (1, 0.95))


def _whole(module: Module, sizes: Mapping[Symbol, int], rng: np.random.Generator, attempt: int) -> dict[str, Array]:
    """The largest whole numbers for which as many outputs as for any smaller ones are exact."""
    best: tuple[int, dict[str, Array]] | None = None
    for most, zeros in AMPLITUDES:
        maker = _integers(most, zeros)
        made = {p.name: _value(p.type, sizes, rng, maker, attempt, p.name) for p in module.main.params}
        result = run_scaled_integers(module, made)
        lost = (
            [v.lost for v in flat([*result.values()]) if isinstance(v, ScaledIntegers) and v.lost]
            if not isinstance(result, str)
            else [result]
        )
        exact = -len(lost)
        if best is None or exact > best[0]:
            best = exact, made
        # numbers that are smaller help only where sums were too large
        if not any("too large" in why for why in lost):
            break
    assert best is not None
    return best[1]
