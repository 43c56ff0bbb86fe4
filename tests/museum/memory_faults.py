"""Faults of memory planners that others have had, each next to what is right, where neither liveness nor a planner
alone is wrong: bytes taken in place, sizes, inputs and outputs, names, kinds of pools.

Those of liveness are in `liveness_faults`, those of planners in `planner_faults`; `specs/museum.md` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

import pytest

from assay.lower import in_place
from assay.lower.liveness import find_lives
from assay.lower.memory import plan as place
from assay.lower.memory.symbolic import plan_symbolic
from assay.lower.pool import Memory, plan
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, UINT8
from assay.semantics.graph import Expr, call, call_tir, function, get, let, tuple_of, var
from assay.semantics.memory import BufferInfo, Interval, Place, Plan, Pool, Problem
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar import Dim, Expr as Scalar, apply, const, evaluate_dim
from assay.semantics.tensor import Buffer, Call, PrimFunc, Stmt, loops, phases as reading, seq, store
from assay.semantics.types import TensorType
from assay.verify.evidence import Evidence
from assay.verify.liveness.program import check_program
from assay.verify.memory import prove_plan
from assay.verify.pool import check_pool
from tests.lower.liveness.liveness_programs import (
    F4,
    buffer as bytes_,
    call_function,
    fill,
    kernel,
    lowered,
    of_size,
    rows,
    within,
)
from tests.museum.exhibits import size
from tests.museum.liveness_faults import named, one_call
from tests.verify.memory.memory_plans import WORK, N, problem

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """`right` and `wrong` are what the checks say without the fault and with it; `wrong` may plant it. `said` is a part
    of the refutation, `upstream` where the fault is known from, if anybody has had it."""

    upstream: str
    right: Callable[[], Evidence]
    wrong: Callable[[Patch], Evidence]
    said: str


def sized(found: Evidence, of: Module | Problem) -> Evidence:
    """What is found, and of how large a program."""
    return replace(found, data={**found.data, "size": size(of)})


def verdict(made: Module) -> Evidence:
    return sized(check_pool(made)[0], made)


def bound(*pairs: Expr) -> Module:
    """Names and their values, and the result, as a program of calls of KERNELS on x."""
    used = {k.name: k for k in KERNELS}
    return Module({"main": function([X], named(*pairs)), **used})


# --- in place --------------------------------------------------------------------------------------------------------

COUNT = 8
V = TensorType((COUNT,), FLOAT32)
X, A, B, R = (var(n, V) for n in ("x", "a", "b", "r"))


def vector(name: str, of: int, value: Callable[..., Scalar]) -> PrimFunc:
    """out[i] = value(i, operands)."""
    *ins, out = [Buffer(n, (COUNT,), FLOAT32) for n in [*(f"p{k}" for k in range(of)), "out"]]
    return PrimFunc(name, (*ins, out), 1, loops("i", (COUNT,), lambda i: store(out, i, value(i, *ins))))


UP = vector("up", 1, lambda i, p: p[i] + 1.0)
ADD = vector("add", 2, lambda i, p, q: p[i] + q[i])
MIRROR = vector("mirror", 2, lambda i, p, q: p[i] + q[COUNT - 1 - i])
BACK = vector("back", 1, lambda i, p: p[COUNT - 1 - i])
COPY = replace(vector("copy", 1, lambda i, p: p[i]), attrs={"operator": "device_copy"})
KERNELS = (UP, ADD, MIRROR, BACK, COPY)


def tir(func: PrimFunc, *args: Expr) -> Expr:
    return call_tir(func.name, args, V)


def chain(last: PrimFunc, *, again: bool = False) -> Module:
    """a = x + 1, b = last(a, ...), r = b + 1, or b + a."""
    b = tir(last, *[A] * (len(last.params) - 1))
    return bound(A, tir(UP, X), B, b, R, tir(ADD, B, A) if again else tir(UP, B), R)


def planned(source: Module) -> Module:
    return plan(find_lives(source))


def safe_by_shape(func: PrimFunc) -> set[tuple[int, int]]:
    return {(0, j) for j in range(len(func.inputs))}


def by_shape(patch: Patch) -> Module:
    """Operands of as many bytes are taken, in whichever order they are read."""
    patch.setattr(in_place, "safe_pairs", safe_by_shape)
    return planned(chain(BACK))


def by_one_name(patch: Patch) -> Module:
    """Of a tensor that is given twice, only one of the operands is looked at."""
    right = in_place._taken

    def taken(program: Program, step: object, first: int, safe: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return right(program, step, first, {*safe, *((k, 1) for k, j in safe if j == 0)})  # type: ignore[arg-type]

    patch.setattr(in_place, "_taken", taken)
    return planned(chain(MIRROR))


def while_needed(patch: Patch) -> Module:
    """An operand that a later step reads too is taken."""
    patch.setattr(in_place, "_fits", lambda made, operand, first, phases: made.place == operand.place == "workspace")
    return planned(chain(UP, again=True))


# --- lives and names -------------------------------------------------------------------------------------------------


def three_calls() -> Module:
    """k1(x, mid), k2(mid, o1), k3(y, o2): y is read after mid was written, o1 is written before o2."""
    x, y, mid, o1, o2 = (var(n, V) for n in ("x", "y", "mid", "o1", "o2"))
    body = named(mid, tir(UP, x), o1, tir(UP, mid), o2, tir(UP, y), tuple_of(o1, o2))
    return Module({"main": function([x, y], body), "up": UP})


def between_uses(source: Module) -> Module:
    """Inputs live from their first use, outputs to their last write; both are placed in the pool."""
    made = find_lives(source)
    calls = made.program.calls

    def shorter(s: Slot) -> Slot:
        at = [i for i, step in enumerate(calls) if s.name in (*step.reads, *step.writes)]
        return replace(s, live=((at[0], at[-1] + 1),)) if s.place in ("input", "output") else s

    return made.with_(main=replace(made.program, slots={n: shorter(s) for n, s in made.program.slots.items()}))


def one_storage(source: Module) -> Module:
    """All calls of a function have the slots of its first call."""
    made = find_lives(source)
    calls = made.program.calls
    same = {n: m for a, b in zip(calls[:2], calls[2:4], strict=True) for m, n in zip(a.writes, b.writes, strict=True)}
    steps = tuple(
        replace(s, reads=tuple(same.get(n, n) for n in s.reads), writes=tuple(same.get(n, n) for n in s.writes))
        for s in calls
    )
    return plan(
        made.with_(
            main=replace(
                made.program, steps=steps, slots={n: s for n, s in made.program.slots.items() if n not in same}
            )
        )
    )


def called_twice() -> Module:
    p, x, y, a, b = (var(n, F4) for n in ("p", "x", "y", "a", "b"))
    f = function([p], call("tanh", call("exp", p)))
    body = named(a, call_function("f", f, x), b, call_function("f", f, y), call("add", a, b))
    return lowered(Module({"main": function([x, y], body), "f": f}))


PAIR = var("pair", tuple_of(A, X).type)
ANOTHER: tuple[Expr, ...] = (B, A)
IN_A_TUPLE: tuple[Expr, ...] = (PAIR, tuple_of(A, X), B, get(PAIR, 0))


def rebound(names: Sequence[Expr]) -> Module:
    """a = x + 1, which is used last as b: `names` give it that name. Without them x is used."""
    t, u = var("t", V), var("u", V)
    return bound(A, tir(UP, X), *names, t, tir(UP, X), u, tir(UP, t), R, tir(ADD, u, B if names else X), R)


def first_name_only(names: Sequence[Expr]) -> Module:
    """Lives end with the last use under the first name: they are those of a program without the other one."""
    made, blind = find_lives(rebound(names)), find_lives(rebound(())).program
    slots = {n: replace(s, live=blind.slots[n].live) if n in blind.slots else s for n, s in made.program.slots.items()}
    return plan(made.with_(main=replace(made.program, slots=slots)))


def calling() -> Module:
    """t and u are filled, and a call inside the tensor function reads both."""
    t, u, p, q, r = (bytes_(n, 4) for n in "tupqr")
    callee = PrimFunc("inner", (p, q, r), 1, fill(r, p, q))

    def body(x: Buffer, out: Buffer) -> Stmt:
        return within(
            t, body=seq(fill(t, x), within(u, body=seq(fill(u, x), fill(out, u), Call("inner", (t, x, out)))))
        )

    return one_call(kernel("outer", (4, 4), body)).with_(inner=callee)


def calls_read_nothing(patch: Patch) -> Evidence:
    source = calling()  # new, for what is known of an old one stays
    right = reading._touched
    patch.setattr(reading, "_touched", lambda stmt: () if isinstance(stmt, Call) else right(stmt))
    return verdict(planned(source))


def serial_in_parallel() -> Module:
    """Two short-lived buffers of a serial loop, in a parallel one: each worker is somewhere else."""
    a, b = bytes_("a", 4), bytes_("b", 4)

    def body(x: Buffer, out: Buffer) -> Stmt:
        inside = seq(within(a, body=seq(fill(a, x), fill(out, a))), within(b, body=seq(fill(b, x), fill(out, b))))
        return rows(rows(inside), "parallel")

    return one_call(kernel("worker", (4, 4), body))


def one_worker(patch: Patch) -> Evidence:
    source = serial_in_parallel()  # new, for what is known of an old one stays
    patch.setattr(reading, "INDEPENDENT", ())
    return verdict(planned(source))


# --- sizes -----------------------------------------------------------------------------------------------------------


def bools() -> Module:
    """Sixteen booleans and what is live beside them."""
    x = var("x", of_size(16))
    is_set = Buffer("set", (16,), BOOL)
    p, q, out = bytes_("p", 16), bytes_("q", 16), bytes_("out", 16)
    test = PrimFunc(
        "test", (p, is_set), 1, loops("i", (16,), lambda i: store(is_set, i, apply("eq", p[i], const(0, UINT8))))
    )
    keep = PrimFunc("keep", (p, out), 1, fill(out, p))
    both = PrimFunc("both", (is_set, q, out), 1, fill(out, q))
    c, k, r = var("c", TensorType((16,), BOOL)), var("k", x.type), var("r", x.type)
    body = let(
        c,
        call_tir("test", (x,), c.type),
        let(k, call_tir("keep", (x,), k.type), let(r, call_tir("both", (c, k), r.type), r)),
    )
    return Module({"main": function([x], body), "test": test, "keep": keep, "both": both})


def bits(patch: Patch) -> Evidence:
    """A bool takes a bit, and all else is placed as close as it can be."""
    sizes = import_module("assay.lower.liveness.problem")
    right = sizes.bytes_of
    patch.setattr(sizes, "bytes_of", lambda of: right(of) // 8 if of.dtype is BOOL else right(of))
    return verdict(plan(narrow(bools())))


def narrow(source: Module) -> Module:
    """With lives, every slot aligned to a byte."""
    made = find_lives(source)
    return made.with_(
        main=replace(made.program, slots={n: replace(s, alignment=1) for n, s in made.program.slots.items()})
    )


def beside(*sizes: Dim, **bounds: tuple[int, int | None]) -> Problem:
    """Buffers a, b, ... of these sizes, all live together."""
    return problem(*(BufferInfo(name, size, ((0, 1),)) for name, size in zip("abcd", sizes, strict=False)), **bounds)


def proof(of: Problem, made: Plan) -> Evidence:
    return sized(prove_plan(of, made).evidence, of)


def good(of: Problem) -> Evidence:
    numbers = all(isinstance(b.nbytes, int) for b in of.buffers)
    return proof(of, place(of) if numbers else plan_symbolic(of, place))


def wrapped(bits_: int, of: Problem) -> Plan:
    """One above the other, in signed integers of so many bits."""
    at, places = 0, {}
    for b in of.buffers:
        assert isinstance(b.nbytes, int)
        places[b.name] = Place("workspace", at)
        at = (at + b.nbytes + (1 << bits_ - 1)) % (1 << bits_) - (1 << bits_ - 1)
    ends = [p.offset + b.nbytes for b, p in zip(of.buffers, places.values(), strict=True)]
    return Plan(places, {"workspace": max(ends)})  # so that only places are wrong


def counted(of: Problem, values: Mapping[str, int]) -> Plan:
    """A plan for one size of each symbol, taken for all of them."""
    at = {v: values[v.name] for v in of.bounds}
    return place(
        replace(of, buffers=tuple(replace(b, nbytes=evaluate_dim(b.nbytes, at)) for b in of.buffers), bounds={})
    )


def without_empty(of: Problem) -> Plan:
    made = place(of)
    return replace(made, places={b.name: made.places[b.name] for b in of.buffers if b.nbytes})


def turned(of: Problem) -> Plan:
    """Sizes are counted in the order of one list of pools, and named in that of another."""
    made = place(of)
    return replace(made, sizes=dict(zip(made.sizes, reversed(made.sizes.values()), strict=True)))


TOGETHER: tuple[Interval, ...] = ((0, 1),)
WIDE = problem(BufferInfo("a", 128, TOGETHER, 128))
FLASH = problem(BufferInfo("a", 8, TOGETHER), pools=(WORK, Pool("flash", "constant", read_only=True)))
TWO_POOLS = problem(
    BufferInfo("a", 100, TOGETHER), BufferInfo("b", 8, TOGETHER), pools=(Pool("fast", limit=64), Pool("slow"))
)
TWO_GB, FOUR_GB, MOST = beside(1 << 31, 64), beside(1 << 32, 64), beside(1 << 62, 64)
GROWS = beside(4 * N, 64, n=(4, None))

CPU, NPU = VirtualDevice("cpu"), VirtualDevice("npu")
EACH_ITS_OWN = Memory((Pool("host", device=CPU), Pool("far", device=NPU)))


def on_devices() -> Module:
    """a = x + 1 on one device, b = a + 1 on the other, r = b + 1 on the first; copies between them."""
    there, back = var("there", V), var("back", V)
    calls = [(A, UP, X, CPU), (there, COPY, A, NPU), (B, UP, there, NPU), (back, COPY, B, CPU), (R, UP, back, CPU)]
    values = [part for v, func, x, device in calls for part in (v, replace(tir(func, x), device=device))]
    return find_lives(bound(*values, R))


def one_pool_for_all(patch: Patch) -> Evidence:
    """The first pool takes what is made on any device."""
    patch.setattr(import_module("assay.lower.pool"), "_pools", lambda pools, buffer, device, held: ())
    return verdict(plan(on_devices(), EACH_ITS_OWN))


FAULTS: dict[str, Fault] = {
    "in place of one of two views of a tensor": Fault(
        "P#19644 (I#19577)",
        lambda: verdict(planned(chain(ADD))),
        lambda p: verdict(by_one_name(p)),
        "is loaded after it has been stored to",
    ),
    "in place of an operand that is read in another order": Fault(
        "", lambda: verdict(planned(chain(UP))), lambda p: verdict(by_shape(p)), "is loaded after it has been stored to"
    ),
    "in place of an operand that is read afterwards": Fault(
        "", lambda: verdict(planned(chain(UP, again=True))), lambda p: verdict(while_needed(p)), "is overwritten by"
    ),
    "inputs live from their first use, outputs to their last write": Fault(
        "U4, shown on 0.16",
        lambda: verdict(plan(find_lives(three_calls()), Memory(io=True))),
        lambda p: verdict(plan(between_uses(three_calls()), Memory(io=True))),
        "is between uses at position",
    ),
    "storage of a function is shared by its calls": Fault(
        "P#16318",
        lambda: check_program(called_twice(), planned(called_twice())),
        lambda p: sized(check_program(called_twice(), one_storage(called_twice())), called_twice()),
        "does not get its value",
    ),
    "killed after the last use under its first name": Fault(
        "P#15810, P#15854, P#15855 (I#17340)",
        lambda: verdict(planned(rebound(ANOTHER))),
        lambda p: verdict(first_name_only(ANOTHER)),
        "is between uses at position",
    ),
    "a tuple does not carry the alias": Fault(
        "review 250",
        lambda: verdict(planned(rebound(IN_A_TUPLE))),
        lambda p: verdict(first_name_only(IN_A_TUPLE)),
        "is between uses at position",
    ),
    "what a call is given is not used by it": Fault(
        "read in 0.16", lambda: verdict(planned(calling())), calls_read_nothing, "is between uses at position"
    ),
    "a serial loop inside a parallel one belongs to one worker": Fault(
        "shown on 0.16; its tests ask for it",
        lambda: verdict(planned(serial_in_parallel())),
        one_worker,
        "is between uses at position",
    ),
    "a bool counts as a bit": Fault(
        "P#14357", lambda: verdict(plan(narrow(bools()))), bits, "byte 2 of buffer c is overwritten by k"
    ),
    "offsets in 32 bits: negative": Fault(
        "I#20125, I#20269", lambda: good(TWO_GB), lambda p: proof(TWO_GB, wrapped(32, TWO_GB)), "outside the"
    ),
    "offsets in 32 bits: again from 0": Fault(
        "I#20125", lambda: good(FOUR_GB), lambda p: proof(FOUR_GB, wrapped(32, FOUR_GB)), "share bytes 0 to 63"
    ),
    "sizes that need 63 bits": Fault(
        "I#20125", lambda: good(MOST), lambda p: proof(MOST, wrapped(62, MOST)), "share bytes 0 to 63"
    ),
    "a product of symbols leaves int64": Fault(
        "I#20125",
        lambda: good(beside(N * N, 64, n=(0, 1 << 31))),
        lambda p: good(beside(N * N, 64, n=(0, 1 << 32))),
        "int64",
    ),
    "a symbolic dim counts as 1": Fault(
        "review 250", lambda: good(GROWS), lambda p: proof(GROWS, counted(GROWS, {"n": 1})), "n ="
    ),
    "a lower bound alone is taken for the size": Fault(
        "P#18663", lambda: good(GROWS), lambda p: proof(GROWS, counted(GROWS, {"n": 4})), "n ="
    ),
    "what is empty has no place": Fault(
        "P#13369",
        lambda: good(beside(0, 64)),
        lambda p: proof(beside(0, 64), without_empty(beside(0, 64))),
        "has no place",
    ),
    "aligned to more than the pool is": Fault(
        "the base of a pool is aligned to 16",
        lambda: good(replace(WIDE, pools=(Pool("workspace", alignment=128),))),
        lambda p: proof(WIDE, Plan({"a": Place("workspace", 0)}, {"workspace": 128})),
        "has the alignment 128",
    ),
    "memory of one device is used on another": Fault(
        "P#13253", lambda: verdict(plan(on_devices(), EACH_ITS_OWN)), one_pool_for_all, "the pool host is on"
    ),
    "pools in two orders": Fault(
        "read", lambda: good(TWO_POOLS), lambda p: proof(TWO_POOLS, turned(TWO_POOLS)), "its limit is 64"
    ),
    "workspace in a pool of constants": Fault(
        "P#13807 (I#13777)",
        lambda: good(FLASH),
        lambda p: proof(FLASH, Plan({"a": Place("flash", 0)}, {"flash": 8})),
        "flash",
    ),
}
