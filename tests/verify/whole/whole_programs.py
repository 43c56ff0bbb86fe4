"""Random programs that the whole lowering takes, with devices, scopes and constants in everything that can have them.

Every choice is one call of `pick(n)`, a number below n; 0 is always the simplest. What is made is valid: of each value
at most one thing is said that is fixed. All arithmetic is on integers and floats are only moved, so all ways to run a
program give the same bits, those of NaN and of zero too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assay.lower.pool import Memory, pools_of
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import ANYWHERE, GLOBAL, VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, INT32, DType
from assay.semantics.graph import (
    Expr,
    Function,
    GlobalVar,
    OnDevice,
    Var,
    call,
    call_tir,
    constant,
    device_copy,
    function,
    get,
    if_,
    let,
    tuple_of,
    var,
)
from assay.semantics.memory import Pool
from assay.semantics.module import PLAIN, ConstantInfo, Definition, Module
from assay.semantics.scalar import Expr as Scalar, const, select
from assay.semantics.tensor import (
    Alias,
    Allocate,
    AllocateConst,
    Buffer,
    Call,
    PrimFunc,
    Stmt,
    View,
    loops,
    seq,
    store,
    when,
)
from assay.semantics.types import TensorType, TupleType, Type
from assay.verify.strategies.choosing import Pick
from assay.verify.strategies.devices import CONFIGS

Array = np.ndarray[Any, Any]
F, I = TensorType((4,), FLOAT32), TensorType((4,), INT32)  # noqa: E741
G, J = TensorType((2, 2), FLOAT32), TensorType((2, 2), INT32)
B, S = TensorType((), BOOL), TensorType((), INT32)
PAIR = TupleType((F, I))
KINDS: Mapping[str, Type] = {"F": F, "I": I, "G": G, "J": J, "B": B, "S": S, "pair": PAIR}
TEXTURE = "global.texture"
SCOPES = (GLOBAL, "", TEXTURE)

QUIET, OTHER, SIGNALS = 0x7FC12345, 0xFFD00001, 0x7F80BEEF
BITS = (
    (0, 0, 0, 0), (0x80000000,) * 4, (QUIET, 0, 0x80000000, 0x3F800000), (OTHER, QUIET, SIGNALS, 1),
    (0x80000000, 0, 0, 0), (1, 2, 3, 4), (QUIET,) * 4,
)  # fmt: skip
"""Contents of constants: zeros of both signs, NaN with payloads, small numbers. Those of floats and integers meet."""


def bits(kind: str, number: int) -> Array:
    """Contents of a tensor of numbers."""
    of = KINDS[kind]
    assert isinstance(of, TensorType)
    words = np.array(BITS[number], np.uint32)[: int(np.prod(of.static_shape))]
    return words.view(of.dtype.numpy).reshape(of.static_shape)


@dataclass(frozen=True)
class Case:
    """A program, what it is compiled for and run on, whether constants are linked, and which memories there are."""

    module: Module
    config: CompilationConfig
    inputs: Mapping[str, Array]
    linked: bool
    memory: int


def case(pick: Pick, size: int = 16) -> Case:
    """A random program with all that is wanted to lower and run it."""
    maker = Whole(pick, CONFIGS[pick(len(CONFIGS))], size)
    module = maker.module()
    given = {"f": bits("F", pick(len(BITS))), "i": bits("I", pick(len(BITS))), "b": np.array(bool(pick(2)))}
    return Case(module, maker.config, given, bool(pick(2)), pick(16))


def memory(module: Module, choice: int) -> Memory:
    """Memories for a program that has lives: pools for its constants, a small one before each of the workspace's,
    inputs and outputs in them, operands in place, each where a bit of `choice` says so."""
    program, pools = module.program, list[Pool]()
    if choice & 1:
        held = program.placed("constant")
        full = [s.device for s in held if s.device.is_full]
        # what may be anywhere needs no pool of its own, unless it is for a section
        plain = [replace(d, scope=GLOBAL) for d in full]
        homes = [next((d for d in (s.device, *plain) if d.is_full and d.agrees(s.device)), s.device) for s in held]
        asked = dict.fromkeys((d, module.info(s.name).section) for d, s in zip(homes, held, strict=True))
        align = max([64, *(s.alignment for s in held)])
        for k, (device, section) in enumerate(asked):
            small = [Pool(f"tcm{k}", "constant", device, 64, align, True, section=section)] if k == 0 else []
            pools += [*small, Pool(f"rom{k}", "constant", device, None, align, True, section=section)]
    if choice & 2:
        for p in pools_of(program, bool(choice & 4)):
            pools += [replace(p, name=f"{p.name}_fast", limit=128), p]
    return Memory(tuple(pools), io=bool(choice & 4), in_place=not choice & 8)


@dataclass(eq=False)
class Whole:
    """Makes one module."""

    pick: Pick
    config: CompilationConfig
    size: int = 16
    pool: dict[str, list[Expr]] = field(default_factory=dict)
    functions: list[PrimFunc] = field(default_factory=list)
    helpers: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    infos: dict[str, ConstantInfo] = field(default_factory=dict)
    shared: dict[str, list[Expr]] = field(default_factory=dict)
    """Constants, which any function may use."""
    names: int = 0

    def module(self) -> Module:
        for k in range(self.pick(3)):
            self.name_constant(f"w{k}")
        for k in range(self.pick(3)):
            self.helpers[f"help{k}"] = self.function(["f", "i"], 3, self.kind())
        main = self.function(["f", "i", "b"], 1 + self.pick(5), "")
        definitions: dict[str, Definition] = {"main": main, **self.helpers, **{f.name: f for f in self.functions}}
        return Module(definitions, self.constants, {}, self.infos)

    def name_constant(self, name: str) -> None:
        """An entry of the table that a user has named, stored in one way or another."""
        self.constants[name] = bits("FI"[self.pick(2)], self.pick(len(BITS)))
        info = (PLAIN, ConstantInfo(128), ConstantInfo(4), ConstantInfo(64, ".assay_w"))[self.pick(4)]
        if self.pick(4) == 3:
            info = replace(info, device=self.device())
        if info != PLAIN:
            self.infos[name] = info

    # --- words on devices ----------------------------------------------------------------------------------------

    def device(self) -> VirtualDevice:
        """A device that there is, all of it said or a part."""
        full = self.config.devices[self.pick(len(self.config.devices))]
        match self.pick(6):
            case 0 | 1:
                return full
            case 2:
                return VirtualDevice(full.type)
            case 3:
                return replace(full, scope=TEXTURE)
            case 4:
                return VirtualDevice(scope=TEXTURE)
            case _:
                return replace(full, scope=GLOBAL)

    def said(self, value: Expr, *, fixed: str = "all") -> Expr:
        """A new value, and now and then a word on where it is. `fixed` is how much of that may be fixed of the value
        itself: "all", its "place", or "" for nothing, where it is tied to others."""
        way = self.pick(16)
        if way < 9:
            return value
        device = self.device()
        if fixed == "place":
            device = device.place
        match way:
            case 9 | 10 if fixed:
                return replace(value, device=device)
            case 11 if fixed:
                return OnDevice(value.type, value, device, True, False)
            case 12 if fixed:
                return OnDevice(value.type, value, device, True, True)
            case 13 if isinstance(value.type, TensorType):
                return device_copy(value, self.device())
            case 14:
                return OnDevice(value.type, value, self.device(), False, False)
            case _:
                return OnDevice(value.type, value, self.device(), False, True)

    # --- graph functions -----------------------------------------------------------------------------------------

    def function(self, params: list[str], lets: int, result: str) -> Function:
        """A function of parameters "f", "i" and "b", with so many lets; its result is of a kind, or all that is
        loose."""
        before, self.pool = self.pool, {k: list(v) for k, v in self.shared.items()}
        made = [var(p, KINDS[p.upper()]) for p in params]
        made = [replace(p, device=self.device()) if self.pick(5) == 4 else p for p in made]
        for p in made:
            self.pool.setdefault(p.name.upper(), []).append(p)
        bound: list[tuple[Var, Expr]] = []
        for _ in range(lets):
            kind = self.kind()
            value = self.some(kind)
            self.names += 1
            v = var(f"v{self.names}", value.type)
            bound.append((v, value))
            self.pool[kind] = [e for e in self.pool.get(kind, []) if e is not value] + [v]
        for name in () if result else self.helpers:  # main reaches all of them: nothing else is lowered
            value = self.call_helper([name])
            self.names += 1
            bound.append((var(f"v{self.names}", value.type), value))
        body = self.some(result) if result else tuple_of(*(v for v, _ in bound))
        for v, value in reversed(bound):
            body = let(v, value, body)
        self.pool = before
        return function(made, body)

    def kind(self) -> str:
        return ("F", "I", "pair", "G", "J")[self.pick(5)]

    def old(self, kind: str) -> Expr:
        """Something of the kind that is at hand, the newest first; a constant where there is nothing."""
        found = self.pool.get(kind, [])[-5:][::-1]
        return found[self.pick(len(found))] if found else self.least(kind)

    def least(self, kind: str) -> Expr:
        match kind:
            case "B":
                return self.keep(kind, call("less", self.old("S"), constant(np.int32(self.pick(4)))))
            case "pair":
                return self.keep(kind, tuple_of(self.old("F"), self.old("I")))
            case _:
                return self.constant(kind)

    def constant(self, kind: str) -> Expr:
        """A constant: a new one, maybe with the bits of another, or one that is used already; by name, where it has
        one."""
        named = [n for n, a in self.constants.items() if str(KINDS[kind]) == str(constant(a).type)]
        if named and self.pick(2):
            name = named[self.pick(len(named))]
            device = self.infos.get(name, PLAIN).device
            return GlobalVar(KINDS[kind], name, device=device)
        if self.shared.get(kind) and self.pick(2):
            return self.shared[kind][self.pick(len(self.shared[kind]))]
        made: Expr = constant(bits(kind, self.pick(len(BITS))))
        if self.pick(4) == 3:
            made = replace(made, device=self.device())
        self.shared.setdefault(kind, []).append(made)
        return made

    def keep(self, kind: str, made: Expr) -> Expr:
        self.pool.setdefault(kind, []).append(made)
        return made

    def some(self, kind: str) -> Expr:
        """Something of the kind, old or new."""
        self.size -= 1
        if self.size < 0 or not self.pick(6):
            return self.old(kind)
        ways = self.ways(kind)
        return self.keep(kind, ways[self.pick(len(ways))]())

    def ways(self, kind: str) -> list[Callable[[], Expr]]:
        some, said = self.some, self.said
        flat, square = {"G": "F", "J": "I"}, {"F": "G", "I": "J"}
        ways: list[Callable[[], Expr]] = []
        match kind:
            case "I" | "J":
                names = ("add", "multiply", "subtract")
                ways = [lambda: said(call(names[self.pick(3)], some(kind), some(kind)))] * 2
            case "G":
                ways = [lambda: said(call("permute_dims", some(kind), axes=(1, 0)))]
            case "S":
                ways = [lambda: said(call("sum", some("I"), axis=(0,), keepdims=False))]
            case "B":
                ways = [
                    lambda: said(call("less", some("S"), constant(np.int32(self.pick(4))))),
                    lambda: said(call("logical_not", some("B"))),
                ]
            case "pair":
                ways = [lambda: said(tuple_of(some("F"), some("I")))]
            case _:
                pass
        if kind in flat:
            ways.append(lambda: said(call("reshape", some(flat[kind]), shape=(2, 2))))
        if kind in square:
            ways.append(lambda: said(call("reshape", some(square[kind]), shape=(4,))))
            ways += [lambda: self.call_tensor(kind)] * 3
            ways.append(lambda: said(get(some("pair"), 0 if kind == "F" else 1), fixed=""))
        helpers = [n for n, f in self.helpers.items() if str(f.result_type) == str(KINDS[kind])]
        if helpers:
            ways.append(lambda: self.call_helper(helpers))
        if kind != "S":
            ways.append(lambda: said(if_(some("B"), some(kind), some(kind))))
        if kind not in ("B", "pair"):
            ways.append(lambda: self.constant(kind))
        return ways

    def call_helper(self, names: list[str]) -> Expr:
        name = names[self.pick(len(names))]
        of = GlobalVar(self.helpers[name].func_type, name)
        return self.said(call(of, self.some("F"), self.some("I")), fixed="")

    def call_tensor(self, kind: str) -> Expr:
        """A call of a tensor function; of the first result, where it has two."""
        of = FLOAT32 if kind == "F" else INT32
        known = [f for f in self.functions if f.params[-1].dtype is of]
        func = known[self.pick(len(known))] if known and self.pick(2) else self.tensor_function(of)
        args = [self.some(kind) for _ in func.inputs]
        made = [KINDS[kind]] * func.num_outputs
        result = self.said(
            call_tir(func.name, args, made[0] if len(made) == 1 else TupleType(tuple(made))), fixed="place"
        )
        return result if len(made) == 1 else get(result, 0)

    # --- tensor functions ----------------------------------------------------------------------------------------

    def tensor_function(self, of: DType) -> PrimFunc:
        """A tensor function on four elements: constants at every depth, views, workspace, calls of others."""
        made = _Tensor(self, of, f"t{len(self.functions)}").make()
        self.functions.append(made)
        return made


class _Tensor:
    """One tensor function in the making."""

    def __init__(self, whole: Whole, of: DType, name: str) -> None:
        self.whole, self.pick, self.of, self.name = whole, whole.pick, of, name
        self.inputs = [Buffer(f"x{k}", (4,), of, self.scope()) for k in range(1 + self.pick(2))]
        self.readable = list(self.inputs)
        self.around: list[Callable[[Stmt], Stmt]] = []
        self.names = 0

    def scope(self) -> str:
        return SCOPES[self.pick(3)]

    def make(self) -> PrimFunc:
        scope = self.scope()
        outputs = [Buffer(f"y{k}", (4,), self.of, scope) for k in range(1 + (self.pick(4) == 3))]
        for _ in range(self.pick(4)):
            (self.held, self.viewed, self.filled, self.called)[self.pick(4)]()
        body = seq(*(self.fill(y) for y in outputs))
        for wrap in reversed(self.around):
            body = wrap(body)
        return PrimFunc(self.name, (*self.inputs, *outputs), len(outputs), body)

    def buffer(self, stem: str, scope: str = GLOBAL, shape: tuple[int, ...] = (4,)) -> Buffer:
        self.names += 1
        return Buffer(f"{stem}{self.names}", shape, self.of, scope)

    def constant(self) -> tuple[Buffer, Array | None, str]:
        """A constant of the function: its contents, or its name in the table, or both."""
        whole, b = self.whole, self.buffer("c")
        named = [
            n
            for n, a in whole.constants.items()
            if a.dtype == self.of.numpy and whole.infos.get(n, PLAIN).device == ANYWHERE
        ]
        if named and self.pick(2):
            name = named[self.pick(len(named))]
            return b, (None if self.pick(2) else whole.constants[name]), name
        return b, bits("F" if self.of is FLOAT32 else "I", self.pick(len(BITS))), ""

    def held(self) -> None:
        b, data, index = self.constant()
        self.readable.append(b)
        self.around.append(lambda body: AllocateConst(b, data, body, index))

    def viewed(self) -> None:
        """A view of two by two, in order or across."""
        source = self.some()
        strides = ((2, 1), (1, 2))[self.pick(2)]
        b = self.buffer("v", source.scope, (2, 2))
        view = View(b, source, const(0), tuple(map(const, strides)))
        self.readable.append(b)
        self.around.append(lambda body: Alias(view, body))

    def filled(self) -> None:
        b = self.buffer("t", self.scope())
        fill = self.fill(b)
        self.readable.append(b)
        self.around.append(lambda body: Allocate(b, seq(fill, body)))

    def called(self) -> None:
        """Workspace that another function fills, or this one where there is none."""
        fits = [f for f in self.whole.functions if f.params[-1].dtype is self.of and f.num_outputs == 1]
        if not fits:
            return self.filled()
        func = fits[self.pick(len(fits))]
        args: list[Buffer] = []
        for p in func.inputs:
            good = [b for b in self.readable if b.shape == (4,) and p.scope in ("", b.scope)]
            if not good:
                return self.filled()
            args.append(good[self.pick(len(good))])
        b = self.buffer("t", func.params[-1].scope)
        self.readable.append(b)
        self.around.append(lambda body: Allocate(b, seq(Call(func.name, (*args, b)), body)))
        return None

    def some(self) -> Buffer:
        return self.readable[::-1][self.pick(len(self.readable))]

    def fill(self, out: Buffer) -> Stmt:
        """Each element of a buffer from elements of others, with constants inside the loop and its condition now and
        then."""
        depth = self.pick(4)
        if depth == 0:
            plain = self.value()
            return loops("i", (4,), lambda i: store(out, i, plain(i)))
        b, data, index = self.constant()
        self.readable.append(b)
        if depth == 1:
            inside = self.value()
            self.readable.remove(b)
            return loops("i", (4,), lambda i: AllocateConst(b, data, store(out, i, inside(i)), index))
        then = self.value()
        self.readable.remove(b)
        otherwise = self.value()
        return loops(
            "i",
            (4,),
            lambda i: when(i < 2, AllocateConst(b, data, store(out, i, then(i)), index), store(out, i, otherwise(i))),
        )

    def value(self) -> Callable[[Scalar], Scalar]:
        """A value of an element by its number: integers are computed with, floats chosen."""
        a, b = self.some(), self.some()
        turn, way = self.pick(4), self.pick(3)

        def at(i: Scalar) -> Scalar:
            x, y = element(a, i), element(b, (i + turn) % 4)
            if self.of is INT32:
                return (x + y, x * y, x - y)[way]
            return select(i < way + 1, x, y)

        return at


def element(buffer: Buffer, i: Scalar) -> Scalar:
    """The element of a number, row after row."""
    return buffer[i] if len(buffer.shape) == 1 else buffer[i // 2, i % 2]
