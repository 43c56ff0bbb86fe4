"""Faults of memory planners that others have had, each next to what is right, where neither liveness nor a planner
alone is wrong: bytes taken in place, sizes, inputs and outputs, names, kinds of pools.

Those of liveness are in `liveness_faults`, those of planners in `planner_faults`; `specs/museum.md` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module

from assay.lower import in_place
from assay.lower.liveness import find_lives
from assay.lower.memory import plan as place
from assay.lower.memory.symbolic import plan_symbolic
from assay.lower.pool import Memory, plan_pools
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32, UINT8
from assay.semantics.graph import Expr, call, call_tir, function, get, let, tuple_of, var
from assay.semantics.memory import BufferInfo, Interval, Place, Plan, Pool, Problem
from assay.semantics.module import Module, Program, Slot
from assay.semantics.scalar import Dim, Expr as Scalar, apply, const, evaluate_dim
from assay.semantics.tensor import Buffer, Call, PrimFunc, Stmt, loops, phases as reading, seq, store
from assay.semantics.types import TensorType
from assay.verify.memory import prove_plan
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
from tests.museum.faults.liveness_faults import named, one_call
from tests.museum.judges import of_evidence, pool, steps
from tests.museum.planted import Patch, PlantedFault, size_of_made
from tests.verify.memory.memory_plans import WORK, N, problem


def of_module(
    name: str,
    known: str,
    layer: str,
    program: Callable[[], Module],
    wrong: Callable[[Module], Module],
    right: Callable[[Module], Module],
    said: str,
    plant: Callable[[Patch], None] | None = None,
) -> PlantedFault:
    """A fault of a pass that plans a module, which may have to be planted; the check of the plan catches it."""
    return PlantedFault(name, layer, (pool,), program, wrong, right, said, plant, known, size=size_of_made)


def of_problem(
    name: str,
    known: str,
    layer: str,
    of: Problem,
    wrong: Callable[[Problem], Plan],
    said: str,
    fits: Problem | None = None,
) -> PlantedFault:
    """A fault of a planner of a memory problem, which the proof catches. `fits` is what can be planned, if not `of`."""

    def right(_: Problem) -> tuple[Problem, Plan]:
        return fits or of, placed(fits or of)

    return PlantedFault(name, layer, (proved,), lambda: of, lambda p: (p, wrong(p)), right, said, known=known)


def proved(source: Problem, made: tuple[Problem, Plan]) -> str | None:
    return of_evidence(prove_plan(*made).evidence)


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
    return plan_pools(find_lives(source))


def by_shape(patch: Patch) -> None:
    """Operands of as many bytes are taken, in whichever order they are read."""
    patch.setattr(in_place, "safe_pairs", lambda func: {(0, j) for j in range(len(func.inputs))})


def by_one_name(patch: Patch) -> None:
    """Of a tensor that is given twice, only one of the operands is looked at."""
    right = in_place._taken

    def taken(program: Program, step: object, first: int, safe: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return right(program, step, first, {*safe, *((k, 1) for k, j in safe if j == 0)})  # type: ignore[arg-type]

    patch.setattr(in_place, "_taken", taken)


def while_needed(patch: Patch) -> None:
    """An operand that a later step reads too is taken."""
    patch.setattr(in_place, "_fits", lambda made, operand, first, phases: made.place == operand.place == "workspace")


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
    return plan_pools(
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


def first_name_only(source: Module) -> Module:
    """Lives end with the last use under the first name: they are those of a program without the other one."""
    made, blind = find_lives(source), find_lives(rebound(())).program
    slots = {n: replace(s, live=blind.slots[n].live) if n in blind.slots else s for n, s in made.program.slots.items()}
    return plan_pools(made.with_(main=replace(made.program, slots=slots)))


def calling() -> Module:
    """t and u are filled, and a call inside the tensor function reads both."""
    t, u, p, q, r = (bytes_(n, 4) for n in "tupqr")
    callee = PrimFunc("inner", (p, q, r), 1, fill(r, p, q))

    def body(x: Buffer, out: Buffer) -> Stmt:
        return within(
            t, body=seq(fill(t, x), within(u, body=seq(fill(u, x), fill(out, u), Call("inner", (t, x, out)))))
        )

    return one_call(kernel("outer", (4, 4), body)).with_(inner=callee)


def calls_read_nothing(patch: Patch) -> None:
    right = reading._touched
    patch.setattr(reading, "_touched", lambda stmt: () if isinstance(stmt, Call) else right(stmt))


def serial_in_parallel() -> Module:
    """Two short-lived buffers of a serial loop, in a parallel one: each worker is somewhere else."""
    a, b = bytes_("a", 4), bytes_("b", 4)

    def body(x: Buffer, out: Buffer) -> Stmt:
        inside = seq(within(a, body=seq(fill(a, x), fill(out, a))), within(b, body=seq(fill(b, x), fill(out, b))))
        return rows(rows(inside), "parallel")

    return one_call(kernel("worker", (4, 4), body))


def one_worker(patch: Patch) -> None:
    patch.setattr(reading, "INDEPENDENT", ())


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


def bits(patch: Patch) -> None:
    """A bool takes a bit."""
    sizes = import_module("assay.lower.liveness.problem")
    right = sizes.bytes_of
    patch.setattr(sizes, "bytes_of", lambda of: right(of) // 8 if of.dtype is BOOL else right(of))


def narrow(source: Module) -> Module:
    """Planned with every slot aligned to a byte, as close as it can be."""
    made = find_lives(source)
    slots = {n: replace(s, alignment=1) for n, s in made.program.slots.items()}
    return plan_pools(made.with_(main=replace(made.program, slots=slots)))


def beside(*sizes: Dim, **bounds: tuple[int, int | None]) -> Problem:
    """Buffers a, b, ... of these sizes, all live together."""
    return problem(*(BufferInfo(name, size, ((0, 1),)) for name, size in zip("abcd", sizes, strict=False)), **bounds)


def placed(of: Problem) -> Plan:
    numbers = all(isinstance(b.nbytes, int) for b in of.buffers)
    return place(of) if numbers else plan_symbolic(of, place)


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


def one_pool_for_all(patch: Patch) -> None:
    """The first pool takes what is made on any device."""
    patch.setattr(import_module("assay.lower.pool"), "_pools", lambda pools, buffer, device, held: ())


def each_its_own(source: Module) -> Module:
    """Each device has a pool of its own."""
    return plan_pools(source, EACH_ITS_OWN)


FAULTS: tuple[PlantedFault, ...] = (
    of_module(
        "in place of one of two views of a tensor",
        "P#19644 (I#19577)",
        "in place",
        lambda: chain(MIRROR),
        planned,
        lambda _: planned(chain(ADD)),
        "is loaded after it has been stored to",
        by_one_name,
    ),
    of_module(
        "in place of an operand that is read in another order",
        "",
        "in place",
        lambda: chain(BACK),
        planned,
        lambda _: planned(chain(UP)),
        "is loaded after it has been stored to",
        by_shape,
    ),
    of_module(
        "in place of an operand that is read afterwards",
        "",
        "sweep",
        lambda: chain(UP, again=True),
        planned,
        planned,
        "is overwritten by",
        while_needed,
    ),
    of_module(
        "inputs live from their first use, outputs to their last write",
        "U4, shown on 0.16",
        "lives",
        three_calls,
        lambda m: plan_pools(between_uses(m), Memory(io=True)),
        lambda m: plan_pools(find_lives(m), Memory(io=True)),
        "is between uses at position",
    ),
    PlantedFault(
        "storage of a function is shared by its calls",
        "steps: values",
        (steps,),
        called_twice,
        one_storage,
        planned,
        "does not get its value",
        known="P#16318",
    ),
    of_module(
        "killed after the last use under its first name",
        "P#15810, P#15854, P#15855 (I#17340)",
        "lives",
        lambda: rebound(ANOTHER),
        first_name_only,
        planned,
        "is between uses at position",
    ),
    of_module(
        "a tuple does not carry the alias",
        "review 250",
        "lives",
        lambda: rebound(IN_A_TUPLE),
        first_name_only,
        planned,
        "is between uses at position",
    ),
    of_module(
        "what a call is given is not used by it",
        "read in 0.16",
        "lives",
        calling,
        planned,
        planned,
        "is between uses at position",
        calls_read_nothing,
    ),
    of_module(
        "a serial loop inside a parallel one belongs to one worker",
        "shown on 0.16; its tests ask for it",
        "lives",
        serial_in_parallel,
        planned,
        planned,
        "is between uses at position",
        one_worker,
    ),
    of_module(
        "a bool counts as a bit",
        "P#14357",
        "sweep",
        bools,
        narrow,
        narrow,
        "byte 2 of buffer c is overwritten by k",
        bits,
    ),
    of_problem(
        "offsets in 32 bits: negative", "I#20125, I#20269", "plan: z3", TWO_GB, partial(wrapped, 32), "outside the"
    ),
    of_problem(
        "offsets in 32 bits: again from 0", "I#20125", "plan: z3", FOUR_GB, partial(wrapped, 32), "share bytes 0 to 63"
    ),
    of_problem("sizes that need 63 bits", "I#20125", "plan: z3", MOST, partial(wrapped, 62), "share bytes 0 to 63"),
    of_problem(
        "a product of symbols leaves int64",
        "I#20125",
        "plan: int64",
        beside(N * N, 64, n=(0, 1 << 32)),
        placed,
        "int64",
        beside(N * N, 64, n=(0, 1 << 31)),
    ),
    of_problem("a symbolic dim counts as 1", "review 250", "plan: z3", GROWS, lambda of: counted(of, {"n": 1}), "n ="),
    of_problem(
        "a lower bound alone is taken for the size",
        "P#18663",
        "plan: z3",
        GROWS,
        lambda of: counted(of, {"n": 4}),
        "n =",
    ),
    of_problem("what is empty has no place", "P#13369", "plan: z3", beside(0, 64), without_empty, "has no place"),
    of_problem(
        "aligned to more than the pool is",
        "the base of a pool is aligned to 16",
        "plan: z3",
        WIDE,
        lambda _: Plan({"a": Place("workspace", 0)}, {"workspace": 128}),
        "has the alignment 128",
        replace(WIDE, pools=(Pool("workspace", alignment=128),)),
    ),
    of_module(
        "memory of one device is used on another",
        "P#13253",
        "devices",
        on_devices,
        each_its_own,
        each_its_own,
        "the pool host is on",
        one_pool_for_all,
    ),
    of_problem("pools in two orders", "read", "plan: z3", TWO_POOLS, turned, "its limit is 64"),
    of_problem(
        "workspace in a pool of constants",
        "P#13807 (I#13777)",
        "plan: z3",
        FLASH,
        lambda _: Plan({"a": Place("flash", 0)}, {"flash": 8}),
        "flash",
    ),
)
