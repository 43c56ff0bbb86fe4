"""The sets of inputs on which backends are judged (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.dtypes import DType, dtype
from assay.semantics.graph import Call, Expr, Let, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.judge.demanded import demanded
from assay.verify.oracle.data import Kind, between_codes, every_code, is_small, make_inputs, takes

Array = np.ndarray[Any, Any]
MOST_IDS = 50_000
"""Whole numbers that are indices are below this, and below the size of what they index."""


class Held:
    """What is special, and which of it each input has held in the sets so far."""

    WANTED = (np.nan, np.inf, -np.inf, -0.0)

    def __init__(self) -> None:
        self.of: dict[str, tuple[bool, ...]] = {}

    def lacks(self) -> bool:
        """Whether an input that has been made special has not held all yet."""
        return any(not all(met) for met in self.of.values())

    def put_into(self, name: str, value: Array, rng: np.random.Generator) -> Array:
        """Floats among which there are NaN, both infinities and a zero with a sign, those of these that the dtype has,
        as far as a quarter of them has room, first those that this input has not held; one of these at least."""
        if not value.size or not dtype(value.dtype).is_float:
            return value
        with np.errstate(all="ignore"):
            wanted = np.array(self.WANTED).astype(value.dtype)
        # of a dtype without one of them nothing more is to come
        met = self.of.get(name, tuple(not e for e in _specials(wanted)))
        there = _specials(value)
        absent = [i for i in np.flatnonzero(_specials(wanted)).tolist() if not there[i]]
        order = [absent[i] for i in rng.permutation(len(absent))]
        room = max(value.size // 4 - sum(there), int(name in self.of or not any(there)))
        chosen = value.copy().reshape(-1)
        some = sorted(order, key=lambda i: met[i])[:room]
        for place, special in zip(rng.choice(value.size, len(some), replace=False), some, strict=True):
            chosen[place] = wanted[special]
        made = chosen.reshape(value.shape)
        self.of[name] = tuple(m or t for m, t in zip(met, _specials(made), strict=True))
        return made


@dataclass(frozen=True)
class Sample:
    """One set of inputs, by name; `kind` is "given" where all of them are."""

    kind: str
    run: int
    inputs: Mapping[str, Array]

    @property
    def name(self) -> str:
        """The set for people: its kind, and which of several it is."""
        return self.kind if self.run == 0 else f"{self.kind} {self.run + 1}"


def input_sets(
    module: Module, given: Mapping[str, Array], kinds: Sequence[Kind], runs: int, seed: int
) -> Iterator[Sample]:
    """Sets of inputs of each kind: those that are given, the others made by the seed, no set twice: where there are no
    floats all kinds are one. There are two at least, where there can be: what stays from run to run shows in a run on
    others. Where everything is given there is one set. Inputs with so few elements that one set has no room for what is
    special get more sets of `specials`, until each has held all of it. What a program asserts of them holds."""
    met: set[bytes] = set()
    params = [p.name for p in module.main.params]
    if all(n in given for n in params):
        yield Sample("given", 0, given)
        return
    tables, before = indexed(module), Held()
    asserted = demanded(module, given, seed)
    plan = [(run, kind) for run in range(max(runs, 2)) for kind in kinds]
    more: list[tuple[int, Kind]] = [(max(runs, 2) + turn, "specials") for turn in range(len(Held.WANTED))]
    for run, kind in plan + more:
        if run >= runs and len(met) >= 2 and not (kind == "specials" and before.lacks()):
            continue
        rng = np.random.default_rng([seed, run, 1])
        ids = {n: _ids(module, n, size, rng) for n, size in tables.items() if n not in given}
        ids |= {n: d.drawn(rng) for n, d in asserted.items()}
        held = {**{n: a for n, a in ids.items() if a is not None}, **given}
        made = Sample(kind, run, _made(module, kind, seed + run, held, rng, before))
        bits = b"".join(np.asarray(a).tobytes() for a in made.inputs.values())
        if bits not in met:
            yield made
        met.add(bits)


def special_sets(inputs: Mapping[str, Any], seed: int) -> Iterator[Sample]:
    """Sets like the given one in which something special stands among the floats, until each input has held all of it.
    None where no input has floats. All else stays as it is given: an index, a size, a choice."""
    before = Held()
    arrays = {n: v for n, v in inputs.items() if isinstance(v, np.ndarray)}
    for run in range(len(Held.WANTED)):
        rng = np.random.default_rng([seed, run, 2])
        made = {n: before.put_into(n, v, rng) for n, v in arrays.items()}
        if before.of:
            yield Sample("specials", run, {**inputs, **made})
        if not before.lacks():
            return


def _made(
    module: Module, kind: Kind, seed: int, held: Mapping[str, Array], rng: np.random.Generator, before: Held
) -> dict[str, Any]:
    """Inputs of a kind; whole numbers of that kind too where the program takes them."""
    made = make_inputs(module, kind, seed, {}, held)
    for name, to in cast_to_small(module).items():
        if kind in ("specials", "ties") and name not in held:
            data = (every_code if kind == "specials" else between_codes)(rng, made[name].shape, to)
            made[name] = data.astype(made[name].dtype)
    for name, value in made.items():
        if kind == "specials" and name not in held and isinstance(value, np.ndarray):
            made[name] = before.put_into(name, value, rng)
    free = {n: v for n, v in made.items() if n not in held and isinstance(v, np.ndarray)}
    found = {n: _whole(kind, v, rng) for n, v in free.items()}
    whole = {n: v for n, v in found.items() if v is not None}
    return {**made, **whole} if whole and takes(module, {**made, **whole}, kind == "specials") else made


def _specials(value: Array) -> tuple[bool, ...]:
    """Whether NaN, each infinity and a zero with a sign are among floats."""
    wide = value.astype(np.float64)
    found = (np.isnan(wide), wide == np.inf, wide == -np.inf, (wide == 0) & np.signbit(wide))
    return tuple(bool(f.any()) for f in found)


def _whole(kind: Kind, value: Array, rng: np.random.Generator) -> Array | None:
    """Whole numbers of a kind, of that shape; None where zeros and ones are the kind, and for what is no integer."""
    of = dtype(value.dtype)
    if not of.is_integer or kind == "random":
        return None
    low, high = int(of.min), int(of.max)
    match kind:
        case "large":
            least, most = low, high
        case "specials":
            some = [low, high, 0, 1, *([-1, low + 1] if low < 0 else [high - 1])]
            return np.asarray(np.array(some, of.numpy)[rng.integers(0, len(some), value.shape)])
        case "cancelling":
            least, most = -100, 101
        case "ties":
            least, most = -1, 2
        case _:
            least, most = -9, 10
    wide = np.uint64 if low == 0 else np.int64
    return np.asarray(rng.integers(max(least, low), min(most, high), value.shape, wide).astype(of.numpy))


def _ids(module: Module, name: str, size: int, rng: np.random.Generator) -> Array | None:
    of = next(p.type for p in module.main.params if p.name == name)
    if not isinstance(of, TensorType) or not of.is_static:
        return None
    return rng.integers(0, min(size, MOST_IDS), of.static_shape).astype(of.dtype.numpy)


def indexed(module: Module) -> dict[str, int]:
    """The inputs of whole numbers that choose from a table, such as tokens, each with the size of the smallest."""
    main = module.main
    params = {id(p): p.name for p in main.params}
    found: dict[str, int] = {}
    nodes = list(post_order(main.body))
    lets = {n.var: n.value for n in nodes if isinstance(n, Let)}
    for node in nodes:
        if isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "take":
            table, places = node.args[0].type, _origin(node.args[1], lets)
            if id(places) in params and isinstance(table, TensorType):
                size = table.shape[node.attrs.get("axis") or 0] if table.shape else 1
                if isinstance(size, int) and size > 1:
                    name = params[id(places)]
                    found[name] = min(size, found.get(name, size))
    return found


def cast_to_small(module: Module) -> dict[str, DType]:
    """The inputs of floats that become floats of 8 bits at most as they are, each with the dtype: to show what becomes
    of each number they are numbers of that dtype, or lie half way between two."""
    params = {id(p): p for p in module.main.params}
    found: dict[str, DType] = {}
    for node in post_order(module.main.body):
        if not (isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "astype"):
            continue
        param, to = params.get(id(_origin(node.args[0], {}))), node.type
        if param is not None and isinstance(to, TensorType) and isinstance(param.type, TensorType):
            if is_small(to.dtype) and param.type.dtype.is_float and not is_small(param.type.dtype):
                found.setdefault(param.name, to.dtype)
    return found


UNCHANGING = ("reshape", "astype", "expand_dims", "squeeze", "where", "broadcast_to")


def _origin(node: Expr, lets: Mapping[Var, Expr]) -> Expr:
    """What places come from, seen through what changes neither their values nor their order, and through names."""
    while True:
        node = lets.get(node, node) if isinstance(node, Var) else node
        if not (isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name in UNCHANGING):
            return node
        node = node.args[-1 if node.op.name == "where" else 0]
