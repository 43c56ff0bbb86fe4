"""Random graph modules that are valid by construction (specs/verify.md, "Programs").

`Maker` builds from the leaves up. Every choice is one call of `pick(n)`; 0 is always the simplest, so the same maker
runs under `random`, fast, and under Hypothesis, where its modules shrink. It never rejects: where nothing of the wanted
type is at hand it makes something. A node that neither acts nor holds what acts goes into a pool, and may be used again
wherever the variables that it depends on are bound: in other branches, in closures, later.

    module = Maker(by_random(Random(0)), size=20, features=Features(branches=True)).module()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from assay.semantics.dtypes import BOOL, DTYPES
from assay.semantics.graph import Expr, GlobalVar, Var, call, call_tir, constant, function, get, let, tuple_of, var
from assay.semantics.module import Definition, Module
from assay.semantics.ops import operator
from assay.semantics.scalar import Dim, Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, TupleType, symbols
from assay.semantics.walk import post_order
from assay.verify.strategies.avoiding import TRIES, is_avoided, others
from assay.verify.strategies.choosing import Pick, one_of
from assay.verify.strategies.devices import sprinkled
from assay.verify.strategies.features import DATAFLOW, LANGUAGE, Features
from assay.verify.strategies.kinds import a_tensor_type
from assay.verify.strategies.language import CHOICE, B, I, Language, V
from assay.verify.strategies.operators import ValidUse, dtypes_of
from assay.verify.strategies.recipes import RECIPES, a_use, fresh_use
from assay.verify.strategies.tensors import ValidMaker
from assay.verify.strategies.values import an_array

Array = np.ndarray[Any, Any]
PARAMETERS = 5
"""So many inputs at most; what else is wanted is a constant."""
RESULTS = 4


def a_module(pick: Pick, size: int = 12, features: Features = DATAFLOW) -> Module:
    """A module of about that many nodes at most; with devices, annotated."""
    module = Maker(pick, size, features).module()
    return module if features.devices is None else sprinkled(module, features.devices, pick)


@cache
def alike(of: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The operators without attributes that make a tensor of an element type from tensors of this type and shape."""
    x = TensorType((2, 3), DTYPES[of])
    found = []
    for name in names:
        op = operator(name)
        if op.family != "elementwise" or op.required or len(op.operands) > 2 or name not in RECIPES or op.can_trap:
            continue
        use = ValidUse(op, (x,) * len(op.operands))
        if of in dtypes_of(name) and use.accepted and str(use.result) == str(x):
            found.append(name)
    return tuple(found)


@dataclass(eq=False)
class Maker(Language):
    """Makes one random module, by choices of `pick`."""

    features: Features = LANGUAGE
    params: list[Var] = field(default_factory=list)
    lets: list[tuple[Var, Expr]] = field(default_factory=list)
    sinks: list[Expr] = field(default_factory=list)
    """Values of sizes that only a run can tell: results, and nothing else."""
    constants: dict[str, Array] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    sizes: tuple[Symbol, ...] = ()

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The operators that are called here."""
        return others(self.features.operators, self.features.avoided)

    def module(self) -> Module:
        """Make the module, with `main` and what it calls."""
        on = self.features
        if on.language:
            n = Symbol("n")
            z = [var("z", TensorType((n,), I.dtype))] if on.casts else []
            self.params = [var("x", I), var("y", I), var("b", B), var("v", V), *z]
            for p in self.params:
                self.add(p, 0)
            if z:
                self.pool["Z"] = list(z)
        if on.symbolic:
            self.sizes = (Symbol("m"), Symbol("k"))
        if on.recursion:
            self.definitions["helper"] = self.helper()
        if on.data:
            self.definitions["Choice"] = CHOICE
        results: list[Expr] = []
        if on.operators:
            self.grow_some()
        if on.language:
            results = [self.block("I")]
            made = [e for e in self.pool.get("I", []) + self.pool.get("V", []) if self.usable(e)]
            results += [e for e in made if not isinstance(e, Var)][-3:]
        if on.operators:
            results += [e for e in self.loose() if all(e is not r for r in results)]
        body: Expr = tuple_of(*results) if on.language or len(results) != 1 else results[0]
        for v, value in reversed(self.lets):
            body = let(v, value, body)
        seen = set(post_order(body))
        params = [p for p in self.params if p in seen or symbols(p.type)]
        return Module({"main": function(params, body), **self.definitions}, self.constants)

    def loose(self) -> list[Expr]:
        """What is not used yet: the newest first in the order of making, and the newest value at least."""
        made = [
            e
            for e in (*self.pool_of_tensors(), *self.sinks)
            if not isinstance(e, Var) or any(e is v for v, _ in self.lets)
        ]
        unused = [e for e in made if id(e) not in self.used and self.usable(e)]
        return (unused or made[-1:] or [self.fresh(a_tensor_type(self.pick, self.features.dtypes))])[-RESULTS:]

    def pool_of_tensors(self) -> list[Expr]:
        """The tensors made so far that may be used here."""
        return [e for kind in ("I", "B", "V", *self.types) for e in self.pool.get(kind, ()) if self.usable(e)]

    # --- growing -----------------------------------------------------------------------------------------------------

    def grow_some(self) -> None:
        """One operator call at least, each of what is at hand or of something new."""
        on = self.features
        while True:
            ways: list[Callable[[], Expr]] = [self.grown, self.grown]
            ways += [lambda: self.given_back(self.some(self.near()))] if on.branches or on.names or on.functions else []
            ways += [self.kernel] if on.kernels else []
            made = ways[self.pick(len(ways))]()
            if on.names and self.pick(3) == 2 and id(made) not in self.doing:
                self.bound(made)
            if self.size <= 0 or not self.pick(6):
                return

    def given_back(self, made: Expr) -> Expr:
        """A value that is not used yet, though it was made as an operand."""
        if not self.features.sharing:
            self.used.discard(id(made))
        return made

    def near(self) -> str:
        """The kind of some tensor that is at hand."""
        kinds = list(self.types)[-5:]
        return kinds[-1 - self.pick(len(kinds))] if kinds else "B"

    def bound(self, made: Expr) -> None:
        """A name for a value, over all that comes later."""
        v = var(self.name("t"), made.type)
        self.lets.append((v, made))
        self.used.add(id(made))
        kind = self.kind(made.type)
        self.pool[kind] = [e for e in self.pool.get(kind, []) if e is not made]
        if isinstance(made.type, TensorType):
            self.needs[id(v)] = self.needs[id(made)]
            self.add(v, *self.needs[id(made)])

    def at_hand(self) -> Expr | None:
        """A tensor to start from: the newest first; None for a new one."""
        found = [
            e for e in self.keep[-12:] if isinstance(e.type, TensorType) and id(e) not in self.doing and self.usable(e)
        ]
        found = [e for e in found if not isinstance(e, Var) or id(e) not in self.used or self.features.sharing][::-1]
        at = self.pick(len(found) + 1)
        return found[at] if at < len(found) else None

    def grown(self) -> Expr:
        """An operator called on something at hand, if it takes it, or on new operands."""
        self.size -= 1
        name = one_of(self.pick, self.operators)
        x = self.at_hand()
        if x is None and self.sizes and self.pick(2):
            x = self.fresh(a_tensor_type(self.pick, self.features.dtypes, symbols=self.sizes))
        first = x.type if x is not None else None
        assert first is None or isinstance(first, TensorType)
        if (
            name == "astype"
            and x is not None
            and first is not None
            and first.dtype.is_float
            and self.features.sharing
            and self.has("equal", "where", "clip")
            and self.pick(2)
        ):
            return self.to_integer(x, first)
        use = self.use_of(name, first)
        for _ in range(TRIES if is_avoided(use, self.features.avoided) else 0):
            use = self.use_of(one_of(self.pick, self.operators), first)
            if not is_avoided(use, self.features.avoided):
                break
        args: list[Expr] = []
        if x is not None and any(of is first for of in use.operands):
            self.taken(x)
        for at, of in enumerate(use.operands):
            if of is first and x is not None and (self.features.sharing or all(a is not x for a in args)):
                args.append(x)
            else:
                args.append(self.operand(of, use.ranges.get(at)))
        return self.kept(call(use.operator, *args, **use.attrs))

    def use_of(self, name: str, first: TensorType | None) -> ValidUse:
        """A use of an operator on something of a type, if it takes that, or on new operands."""
        use = None if first is None else a_use(name, self.pick, first, self.features.dtypes)
        return fresh_use(name, self.pick, self.features.dtypes) if use is None else use

    def kept(self, made: Expr) -> Expr:
        """A value that was made; what is in a tuple is taken out, and the first of it is the value."""
        of = made.type
        if isinstance(of, TupleType):
            self.add(made)
            if id(made) in self.doing:  # to be used more than once it needs a name
                v = var(self.name("r"), made.type)
                self.lets.append((v, made))
                self.needs[id(v)] = frozenset()
                made = v
            return [self.kept(get(made, k)) for k in range(len(of.fields))][0]
        if set(symbols(of)) - set(self.sizes):
            self.needs[id(made)] = frozenset().union(*(self.needs.get(id(c), frozenset()) for c in made.children))
            self.used.update(map(id, made.children))
            self.sinks.append(made)
            self.doing.add(id(made))  # nothing else may hold it
            return made
        return self.add(made)

    def operand(self, of: TensorType, within: tuple[int, int] | None) -> Expr:
        """Something of a type: old, new, or computed; kept in a range where one is said."""
        if within is not None:
            return self.ranged(of, *within)
        kind = self.kind(of)
        found = [e for e in self.pool.get(kind, ()) if self.usable(e)]
        way = self.pick(4)
        if found and way < 2:
            return self.taken(found[-1 - self.pick(min(4, len(found)))])
        return self.some(kind) if way == 3 else self.fresh(of)

    def ranged(self, of: TensorType, low: int, high: int) -> Expr:
        """Numbers from `low` up to, not including, `high`: constants, or something that is cut off there."""
        low = max(low, 0) if of.dtype.kind == "uint" else low
        if not of.is_static or (self.pick(2) and "clip" in self.operators):
            return self.add(call("clip", self.fresh(of), min=low, max=high - 1))
        start = self.pick(high - low)
        count = int(np.prod(of.static_shape))
        numbers = low + (start + np.arange(count) * (1 + self.pick(3))) % (high - low)
        return self.add(constant(numbers.reshape(of.static_shape).astype(of.dtype.numpy)))

    def fresh(self, of: TensorType) -> Expr:
        """A new input or constant; some dims of an input are symbols, where the module has them."""
        whole = all(isinstance(d, (int, Symbol)) for d in of.shape)
        if whole and (len(self.params) < PARAMETERS) and (self.pick(3) < 2 or not of.is_static):
            return self.parameter(of)
        if of.is_static and self.has_weights:
            return self.weight(of)
        return self.parameter(of) if whole and len(self.params) < 3 * PARAMETERS else self.least_tensor(of)

    @property
    def has_weights(self) -> bool:
        """Whether constants may be made, within the text or in the table."""
        return self.features.constants or self.features.named_constants

    def parameter(self, of: TensorType) -> Expr:
        """Add a parameter to `main`."""
        p = var(f"p{len(self.params)}", of)
        self.params.append(p)
        return self.add(p, 0)

    def weight(self, of: TensorType) -> Expr:
        """A constant with chosen contents, within the text or by name in the table."""
        data = an_array(self.pick, of.static_shape, of.dtype)
        if self.features.named_constants and (self.pick(2) or not self.features.constants):
            name = f"w{len(self.constants)}"
            self.constants[name] = data
            return self.add(GlobalVar(of, name))
        return self.add(constant(data))

    def least_tensor(self, of: TensorType) -> Expr:
        """A new tensor of a static type where constants are allowed; an input where nothing may make one."""
        if of.is_static and self.has_weights:
            return self.fresh(of)
        chosen = self.features.operators
        if chosen and "full" not in chosen and all(isinstance(d, int) or d in self.sizes for d in of.shape):
            return self.parameter(of)
        return super().least_tensor(of)

    def least(self, kind: str) -> Expr:
        """The smallest expression of a kind; without the language's constructs a bool is a new tensor."""
        return self.fresh(B) if kind == "B" and not self.features.language else super().least(kind)

    def tensor_ways(self, kind: str) -> list[Callable[[], Expr]]:
        """The calls that give a tensor of a kind: elementwise operators on its dtype, or a new tensor."""
        of = self.types[kind]
        names = alike(of.dtype.name, self.operators)
        if avoided := self.features.avoided:
            names = tuple(n for n in names if f"{n} in {of.dtype.name}" not in avoided)
        if not names:
            return [lambda: self.fresh(of)]

        def called() -> Expr:
            name = one_of(self.pick, names)
            return self.add(call(name, *(self.some(kind) for _ in operator(name).operands)))

        return [called]

    def ways(self, kind: str) -> list[Callable[[], Expr]]:
        """The ways to make an expression of a kind; without the language's constructs a bool is old or negated."""
        if self.features.language or kind in self.types:
            return super().ways(kind)
        assert kind == "B"
        if not self.has("logical_not"):
            return [lambda: self.old("B")]
        return [lambda: self.old("B"), lambda: self.add(call("logical_not", self.some("B")))]

    def has(self, *names: str) -> bool:
        """Whether these operators may be called, and none of them is avoided."""
        return {*names} <= {*self.features.operators} and self.features.avoided.isdisjoint(names)

    def to_integer(self, x: Expr, of: TensorType) -> Expr:
        """A cast to integers of numbers that fit."""
        number = self.add(call("where", self.add(call("equal", x, x)), x, self.add(constant(of.dtype.numpy.type(1)))))
        inside = self.add(call("clip", number, min=-9, max=100)) if of.dtype is not BOOL else number
        return self.add(call("astype", inside, dtype=one_of(self.pick, ("int32", "int64", "int8"))))

    # --- tensor functions --------------------------------------------------------------------------------------------

    def kernel(self) -> Expr:
        """A call of a tensor function, a new one or one that is there."""
        self.size -= 1
        known = [d for d in self.definitions.values() if isinstance(d, PrimFunc)]
        if known and self.pick(2):
            func = one_of(self.pick, known)
        else:
            func = ValidMaker(self.pick, f"kernel{len(known)}", static=True).whole()
            self.definitions[func.name] = func
        args = [self.operand(TensorType(b.shape, b.dtype), None) for b in func.inputs]
        made = tuple(TensorType(_static(b.shape), b.dtype) for b in func.outputs)
        return self.kept(call_tir(func.name, args, made[0] if len(made) == 1 else TupleType(made)))


def _static(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(d for d in shape if isinstance(d, int))
