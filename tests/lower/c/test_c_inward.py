"""Kernels of symbolic sizes in C: short loops that are carried into rows, and those that must stay where they are.

Each is run at several sizes beside the machine and under the sanitizers, and its text shows what was carried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from assay.interp import machine
from assay.lower.c import emit
from assay.lower.c.helpers import Library
from assay.lower.c.inward import MOST, Inward
from assay.lower.c.kernel import write_kernel
from assay.lower.c.range import Ranges
from assay.lower.c.signature import CKernel
from assay.semantics.dtypes import FLOAT32, INT32, INT64, DType, dtype
from assay.semantics.errors import Invalid, Trap
from assay.semantics.scalar import Dim, Expr, apply, const, evaluate_dim
from assay.semantics.tensor import Buffer, For, PrimFunc, Seq, Stmt, loops, program_order, store
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from tests.lower.c.sanitized_sizes import sanitized_program
from tests.lower.c.test_c_rows import M, N, lone
from tests.lower.memory.planned import Array, same_bits

SIZES = ((1, 1), (3, 5), (0, 4), (4, 0), (7, 16), (2, 33))


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel, how many loops its C has, and where one that may trap does: its inputs there, and the kind."""

    kernel: PrimFunc
    count: int
    traps: Callable[[], tuple[dict[str, Array], str]] | None = None


def case(count: int, buffers: list[Buffer], *body: Stmt, traps: Any = None) -> Case:
    """The last buffer is the output. Two inputs more tell the sizes."""
    told = [Buffer("n_told", (N,), FLOAT32), Buffer("m_told", (M,), FLOAT32)]
    params = (*buffers[:-1], *told, buffers[-1])
    return Case(PrimFunc("f", params, 1, Seq(tuple(body))), count, traps)


def start(out: Buffer, value: float = 0.0) -> Stmt:
    """The output begins with a number everywhere: loops over all of it, which are one."""
    return loops("i j k"[: 2 * len(out.shape) - 1], out.shape, lambda *i: store(out, i, const(value, out.dtype)))


def flat(*shape: Dim, name: str = "x", of: DType = FLOAT32) -> Buffer:
    return Buffer(name, shape, of)


def window() -> Case:
    x, w, out = flat(N, M + 2), flat(3, name="w"), flat(N, M, name="out")
    return case(
        3, [x, w, out], start(out),
        loops("k i j", (3, N, M), lambda k, i, j: store(out, (i, j), out[i, j] + x[i, j + k] * w[k])),
    )  # fmt: skip


def square() -> Case:
    x, w, out = flat(N * 2 + 2, M * 2 + 2), flat(3, 3, name="w"), flat(N, M, name="out")
    return case(
        3, [x, w, out], start(out),
        loops("a b i j", (3, 3, N, M), lambda a, b, i, j: store(
            out, (i, j), out[i, j] + x[i * 2 + a, j * 2 + b] * w[a, b])),
    )  # fmt: skip


def parts(length: int, count: int) -> Callable[[], Case]:
    def made() -> Case:
        x, w, out = flat(length, M), flat(length, name="w"), flat(M, name="out")
        return case(
            count, [x, w, out], start(out),
            loops("k j", (length, M), lambda k, j: store(out, j, out[j] + x[k, j] * w[k])),
        )  # fmt: skip

    return made


def typed(of: DType) -> Callable[[], Case]:
    def made() -> Case:
        x, w, out = flat(3, M, of=of), flat(3, name="w", of=of), flat(M, name="out", of=of)
        return case(
            2, [x, w, out], start(out, 1),
            loops("k j", (3, M), lambda k, j: store(out, j, out[j] * w[k] + x[k, j])),
        )  # fmt: skip

    return made


def extreme() -> Case:
    x, out = flat(4, N, M), flat(N, M, name="out")
    return case(
        2, [x, out], start(out, -np.inf),
        loops("k i j", (4, N, M), lambda k, i, j: store(out, (i, j), apply("max", out[i, j], x[k, i, j]))),
    )  # fmt: skip


def last_one_wins() -> Case:
    x, out = flat(4, M), flat(M, name="out")
    return case(1, [x, out], loops("k j", (4, M), lambda k, j: store(out, j, x[k, j])))


def twice() -> Case:
    x, out = flat(4, M), flat(M, name="out")
    return case(
        2, [x, out], start(out, 0.5),
        loops("k j", (4, M), lambda k, j: store(out, j, out[j] * out[j] + x[k, j])),
    )  # fmt: skip


CARRIED: dict[str, Callable[[], Case]] = {
    "a window along a row": window,
    "a window of two dims, with strides": square,
    "as many as one statement does": parts(MOST, 2),
    "two parts, of which the last is shorter": parts(MOST + 2, 3),
    "parts that are even": parts(16, 3),
    "many parts and a rest": parts(4 * MOST + 1, 4),
    "half floats, rounded at each step": typed(dtype("float16")),
    "whole numbers that wrap": typed(dtype("int8")),
    "a maximum of whole planes": extreme,
    "the last one wins": last_one_wins,
    "an element that is read twice": twice,
}


def place_of_the_short_loop() -> Case:
    x, out = flat(3, M), flat(3, M, name="out")
    return case(1, [x, out], loops("k j", (3, M), lambda k, j: store(out, (k, j), x[k, j])))


def neighbour() -> Case:
    x, out = flat(3, M), flat(M + 1, name="out")
    return case(
        3, [x, out], start(out, 1),
        loops("k j", (3, M), lambda k, j: store(out, j + 1, out[j] + x[k, j])),
    )  # fmt: skip


def one_sum() -> Case:
    x, out = flat(3, M + 1), flat(1, name="out")
    return case(
        2, [x, out], store(out, 0, const(0, FLOAT32)),
        loops("k j", (3, M), lambda k, j: store(out, 0, out[0] + x[k, j])),
    )  # fmt: skip


def diagonals() -> Case:
    x, out = flat(3, N, M), flat(N + M, name="out")
    return case(
        4, [x, out], start(out),
        loops("k i j", (3, N, M), lambda k, i, j: store(out, i + j, out[i + j] + x[k, i, j])),
    )  # fmt: skip


def two_kinds_of_traps() -> Case:
    """A division by zero at k = 0, j = 1, and an index below 0 at k = 1, j = 0."""
    x, y, out = flat(M, of=INT32), flat(2, M, name="y", of=INT32), flat(M, name="out", of=INT32)

    def traps() -> tuple[dict[str, Array], str]:
        zero = np.ones((2, 2), np.int32)
        zero[0, 1] = 0
        told = {"n_told": np.zeros(1, np.float32), "m_told": np.zeros(2, np.float32)}
        return {"x": np.ones(2, np.int32), "y": zero, **told}, "division by zero"

    return case(
        3, [x, y, out], start(out, 7),
        loops("k j", (2, M), lambda k, j: store(out, j, apply("floordiv", out[j], y[k, j]) + x[j - k])),
        traps=traps,
    )  # fmt: skip


def found_in_memory() -> Case:
    x, places, out = flat(3, M), flat(3, name="places", of=INT64), flat(M, name="out")

    def traps() -> tuple[dict[str, Array], str]:
        told = {"n_told": np.zeros(1, np.float32), "m_told": np.zeros(2, np.float32)}
        return {"x": np.ones((3, 2), np.float32), "places": np.array([0, 1, 3]), **told}, "out of bounds"

    return case(
        3, [x, places, out], start(out),
        loops("k j", (3, M), lambda k, j: store(out, j, out[j] + x[places[k], j])),
        traps=traps,
    )  # fmt: skip


STAY: dict[str, Callable[[], Case]] = {
    "a place that hangs on the short loop": place_of_the_short_loop,
    "another element is read": neighbour,
    "one element for a whole row": one_sum,
    "one element for many places": diagonals,
    "what may trap": two_kinds_of_traps,
    "an index that is found in memory": found_in_memory,
}


SANITIZED = ("a window of two dims, with strides", "many parts and a rest", "an index that is found in memory")


def made(buffer: Buffer, n: int, m: int, rng: np.random.Generator) -> Array:
    shape = tuple(evaluate_dim(d, {N: n, M: m}) for d in buffer.shape)
    if buffer.name == "places":
        return rng.integers(0, 3, shape)
    if buffer.dtype.is_integer:
        return rng.integers(1, 100, shape).astype(buffer.dtype.numpy)
    return rng.standard_normal(shape).astype(buffer.dtype.numpy)


def body_of(source: str) -> str:
    return source[source.index("int m_k_f(") : source.index("/* What depends on sizes")]


@pytest.mark.parametrize("name", [*CARRIED, *STAY])
def test_the_same_bits_as_the_machine_at_every_size(name: str) -> None:
    of = (CARRIED.get(name) or STAY[name])()
    module = lone(of.kernel)
    source = emit(module, "m")
    assert body_of(source.source).count("for (") == of.count, body_of(source.source)
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O3"))
    rng = np.random.default_rng(1)
    with ExitStack() as stack:
        runs = [compiled.run]
        if name in SANITIZED:
            runs.append(stack.enter_context(sanitized_program(source)).run)
        for n, m in SIZES:
            given = {b.name: made(b, n, m, rng) for b in of.kernel.inputs}
            if name == "what may trap" and m:
                continue  # it traps at every other size
            wanted = machine.run(module, given)
            for run in runs:
                found = run(given)
                assert all(same_bits(found[k], wanted[k]) for k in wanted), (n, m)
        if of.traps is not None:
            given, kind = of.traps()
            for run in (*runs, lambda x: machine.run(module, x)):
                with pytest.raises(Trap) as caught:
                    run(given)
                assert caught.value.kind == kind


def is_noticed(of: Case) -> bool:
    """Whether there is no C, or a run of it differs from the machine at some size, or traps in another way."""
    module = lone(of.kernel)
    try:
        source = emit(module, "m")
    except Invalid:
        return True
    compiled = compile_c(source, reproducible=True)
    rng = np.random.default_rng(1)
    if of.traps is not None:
        given, kind = of.traps()
        with pytest.raises(Trap) as caught:
            compiled.run(given)
        return caught.value.kind != kind
    for n, m in SIZES:
        given = {b.name: made(b, n, m, rng) for b in of.kernel.inputs}
        found, wanted = compiled.run(given), machine.run(module, given)
        if not all(same_bits(found[k], wanted[k]) for k in wanted):
            return True
    return False


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("a place that hangs on the short loop", "is_apart"),
        ("another element is read", "is_apart"),
        ("one element for a whole row", "is_apart"),
        ("one element for many places", "is_apart"),
        ("what may trap", "is_known"),
    ],
)
def test_without_a_condition_the_bits_are_others(name: str, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: each condition is one that a kernel needs."""
    assert not is_noticed(STAY[name]())
    monkeypatch.setattr(Inward, condition, lambda self, nest: True)
    assert is_noticed(STAY[name]())


def too_short() -> Case:
    """A window that leaves the rows that it reads."""
    x, w, out = flat(N, M + 1), flat(3, name="w"), flat(N, M, name="out")
    return case(
        3, [x, w, out], start(out),
        loops("k i j", (3, N, M), lambda k, i, j: store(out, (i, j), out[i, j] + x[i, j + k] * w[k])),
    )  # fmt: skip


def test_a_wrong_range_is_seen_by_the_sanitizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: everything is shown to be less than everything, so that no check is left."""
    of = too_short()
    monkeypatch.setattr(Ranges, "is_less", lambda self, a, b: True)
    source = emit(lone(of.kernel), "m")
    assert body_of(source.source).count("for (") == of.count and "TRAP" not in body_of(source.source)
    given = {b.name: made(b, 3, 5, np.random.default_rng(1)) for b in of.kernel.inputs}
    with sanitized_program(source) as program, pytest.raises(Trap) as caught:
        program.run(given)
    assert caught.value.kind == "sanitizer"


def test_an_index_beyond_its_buffer_is_looked_at_wherever_it_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: what is not shown to be inside is carried. Each index in the new place is looked at anew, so the
    run traps, and writes and reads nothing that is not its own."""
    of = too_short()
    monkeypatch.setattr(Inward, "is_known", lambda self, nest: True)
    module = lone(of.kernel)
    source = emit(module, "m")
    assert body_of(source.source).count("for (") == of.count, "it was carried"
    rng = np.random.default_rng(1)
    with sanitized_program(source) as program:
        for n, m in SIZES:
            given = {b.name: made(b, n, m, rng) for b in of.kernel.inputs}
            if n and m:
                with pytest.raises(Trap) as caught:
                    program.run(given)
                assert caught.value.kind == "out of bounds"
            else:
                assert program.run(given)["out"].shape == (n, m)


def drawn(rng: random.Random) -> Case:
    """Any store in short loops and rows, whatever it reads and wherever: some are carried, some trap."""
    lengths = [rng.choice([2, 3, 5, 10, 19])] if rng.random() < 0.6 else [rng.choice([1, 2]), rng.choice([2, 3])]
    rows: list[Dim] = [M] if rng.random() < 0.4 else rng.choice([[N, M], [N, M], [2, M], [M, 3]])
    wide, room = N + M + 40, rng.random() < 0.8  # every index is inside, or some may not be
    x = flat(wide, wide) if room else flat(N + 4, M * 2 + 4)
    out = flat(*([wide, wide] if room else rng.choice([[N, M], [N + 1, M + 2], [N + M, M]])), name="out")
    steps: list[Expr] = [const(c) for c in (0, 0, 1)]

    def body(*at: Expr) -> Stmt:
        short, row = at[: len(lengths)], at[len(lengths) :]
        plain: list[Expr] = [row[0], row[-1]]

        def index(likely: Expr) -> Expr:
            found = likely if rng.random() < 0.8 else rng.choice([*plain, *short, const(0)])
            other = rng.choice([*short, *steps, *steps, *plain])
            return found if rng.random() < 0.8 else found + other

        first = row[0] if len(row) > 1 else const(0)
        here = (index(first), index(row[-1]))
        own = out[here] if rng.random() < 0.8 else out[index(first), index(row[-1])]
        read = x[index(first), row[-1] + short[-1]] if rng.random() < 0.6 else x[short[0], index(row[-1])]
        value = rng.choice([own + read, apply("max", own, read), own * x[0, short[-1]] + read, read - own, read])
        return store(out, here, value)

    names = " ".join(["a b"[: 2 * len(lengths) - 1], "i j"[: 2 * len(rows) - 1]])
    return case(0, [x, out], start(out), loops(names, (*lengths, *rows), body))


def compare(seed: int, sanitized: bool) -> bool:
    """Whether the loops of a random kernel were carried into rows; where C and machine differ is an error."""
    of = drawn(random.Random(seed))
    module = lone(of.kernel)
    source = emit(module, "m")
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O2"))
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        runs = [compiled.run, *([stack.enter_context(sanitized_program(source)).run] if sanitized else [])]
        for n, m in SIZES:
            given = {b.name: made(b, n, m, rng) for b in of.kernel.inputs}
            wanted = outcome(lambda x: machine.run(module, x), given)
            for run in runs:
                assert outcome(run, given) == wanted, (seed, n, m, of.kernel)
    return body_of(source.source).count("for (") < 1 + len(list(fors(of.kernel)))


def outcome(run: Callable[[dict[str, Array]], Mapping[str, Array]], given: dict[str, Array]) -> str | bytes:
    """The bytes of the result, or the kind of a trap."""
    try:
        return run(given)["out"].tobytes()
    except Trap as trap:
        return trap.kind


def fors(kernel: PrimFunc) -> Iterator[For]:
    *_, nest = kernel.body.children
    yield from (s for s in program_order(nest) if isinstance(s, For))


def test_random_nests_are_the_machines_bits() -> None:
    carried = [compare(seed, sanitized=seed % 8 == 0) for seed in range(11)]
    assert 2 < sum(carried) < 11, "some are carried, some stay"


@pytest.mark.campaign
def test_many_random_nests_are_the_machines_bits() -> None:
    carried = [compare(seed, sanitized=True) for seed in range(100, 700)]
    assert 100 < sum(carried) < 500


def loops_of(kernel: PrimFunc, shared: list[Buffer]) -> int:
    symbols = {N: (0, 1000), M: (0, 1000)}
    library = Library("m", "M")
    return written(write_kernel(kernel, "k_f", "M", library, symbols=symbols, shared=shared))


def written(kernel: CKernel) -> int:
    return "".join(kernel.text(set(), "")).count("for (")


def test_buffers_in_the_same_bytes_keep_their_order() -> None:
    """An output that lies in the bytes of an input, element by element, is stored to when the loops say so."""
    kernel = parts(3, 2)().kernel
    assert loops_of(kernel, []) == 2
    for shared in (list(kernel.inputs[:1]), list(kernel.outputs)):
        assert loops_of(kernel, shared) == 3
    assert loops_of(kernel, [kernel.inputs[-1]]) == 2, "what it does not read is nothing to it"
    module = lone(kernel)
    (step,) = module.program.calls
    for pairs, count in (((), 2), (((0, 0),), 3)):
        at = replace(module.program, steps=(replace(step, in_place=pairs),))
        assert body_of(emit(module.with_(main=at), "m").source).count("for (") == count


def test_numbers_for_sizes_leave_the_loops_as_they_are() -> None:
    x, out = flat(3, 8), flat(8, name="out")
    body = loops("k j", (3, 8), lambda k, j: store(out, j, out[j] + x[k, j]))
    kernel = write_kernel(PrimFunc("f", (x, out), 1, body), "k_f", "M", Library("m", "M"))
    assert written(kernel) == 2
