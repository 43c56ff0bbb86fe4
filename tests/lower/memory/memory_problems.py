"""Problems of memory planning for tests: the public instances, random ones, those of TVM's tests, and the optimum by
trying everything."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pytest

from assay.lower.memory.csv import read_table
from assay.semantics.memory import BufferInfo, Interval, Plan, Pool, Problem, overlap
from assay.verify.strategies.memory import problem_of_size
from tests.places import SHARED

DATA = SHARED / "data" / "minimalloc"
"""The instances of google/minimalloc, beside the repository; the number in a file's name is the capacity to reach."""
CAPACITY = 1048576
BOUNDS = {"A": 1048576, "C": 1039360, "E": 1048576, "G": 1048576, "I": 1048576, "K": 1048576}
"""The most bytes live at once in each."""


def instance(name: str) -> Path:
    """The file of an instance; the test is skipped where it is not there."""
    path = DATA / f"{name}.{CAPACITY}.csv"
    if not path.is_file():
        pytest.skip(f"{path.name} of google/minimalloc is not in shared/data/minimalloc beside the repository")
    return path


def minimalloc(name: str) -> Problem:
    return read_table(instance(name)).problem()


def one_pool(*buffers: BufferInfo, limit: int | None = None) -> Problem:
    return Problem(buffers, (Pool("workspace", limit=limit, alignment=64),))


def buffers(rows: Iterable[tuple[int, int, int]]) -> tuple[BufferInfo, ...]:
    """Buffers called 0, 1, ... of (start, last, bytes), as TVM's tests give them: live at `last` too."""
    return tuple(BufferInfo(str(i), size, ((start, last + 1),)) for i, (start, last, size) in enumerate(rows))


def size(plan: Plan, pool: str = "workspace") -> int:
    found = plan.sizes[pool]
    assert isinstance(found, int)
    return found


def offsets(plan: Plan) -> dict[str, int]:
    found = {n: p.offset for n, p in plan.places.items()}
    assert all(isinstance(at, int) for at in found.values())
    return {n: at for n, at in found.items() if isinstance(at, int)}


def good(problem: Problem, plan: Plan) -> bool:
    """Whether a plan is good, pair by pair; written for these tests alone."""
    pools = {p.name: p for p in problem.pools}
    at = offsets(plan)
    for b in problem.buffers:
        pool, offset = pools[plan.places[b.name].pool], at[b.name]
        assert isinstance(b.nbytes, int)
        end = offset + b.nbytes
        if offset < 0 or offset % b.alignment or pool.alignment % b.alignment or end > size(plan, pool.name):
            return False
        if pool not in problem.candidates(b) or (pool.limit is not None and end > pool.limit):
            return False
        if b.offset is not None and (offset, pool.name) != (b.offset, b.pools[0]):
            return False
    for i, a in enumerate(problem.buffers):
        for b in problem.buffers[:i]:
            assert isinstance(a.nbytes, int) and isinstance(b.nbytes, int)
            shared = min(at[a.name] + a.nbytes, at[b.name] + b.nbytes) > max(at[a.name], at[b.name])
            if (
                shared
                and a.nbytes
                and b.nbytes
                and overlap(a.live, b.live)
                and plan.places[a.name].pool == plan.places[b.name].pool
            ):
                return False
    return True


# --- random problems ---------------------------------------------------------------------------------------------


def random_problem(rng: random.Random, n: int, most: int = 12, positions: int = 9, limits: bool = False) -> Problem:
    """Gaps, alignments (a third is no power of two), constants, a buffer placed by hand, and pools, some with
    limits."""
    return problem_of_size(rng.randrange, n, most, positions, limits=limits)


def optimum(problem: Problem) -> int:
    """The least size of the pool `workspace`, where nothing can go elsewhere: every order of placing buffers, each as
    low as it can be. One of them is the best plan pushed down."""
    inside = [b for b in problem.buffers if b.pools == ("workspace",)]
    free = [b for b in inside if b.offset is None]
    best: int | None = None
    for order in permutations(free):
        placed = [(b, b.offset) for b in inside if b.offset is not None]
        for b in order:
            placed.append((b, lowest(b, placed)))
        top = max((at + _bytes(b) for b, at in placed), default=0)
        best = top if best is None else min(best, top)
    assert best is not None
    return best


def lowest(buffer: BufferInfo, placed: Sequence[tuple[BufferInfo, int]]) -> int:
    at = 0
    for other, low in sorted(placed, key=lambda p: p[1]):
        if not (_bytes(other) and _bytes(buffer) and overlap(buffer.live, other.live)):
            continue
        if at + _bytes(buffer) <= low:
            break
        at = max(at, -(-(low + _bytes(other)) // buffer.alignment) * buffer.alignment)
    return at


def _bytes(b: BufferInfo) -> int:
    assert isinstance(b.nbytes, int)
    return b.nbytes


def layered(rng: random.Random, n: int) -> Problem:
    """A long program: each buffer lives a few positions, some much longer."""
    made = []
    for i in range(n):
        length = rng.randrange(1, 40) if rng.random() < 0.98 else rng.randrange(100, 2000)
        made.append(BufferInfo(f"b{i}", rng.randrange(1, 4000) * 64, ((i, i + length),), 64))
    return one_pool(*made)


def cut(rng: random.Random, n: int, dropped: float, span: int = 1200, height: int = 1024) -> Problem:
    """A pool of `height` KiB over time, cut into n pieces or a few more, and a part of them dropped: what is left fits
    into it, with no room to spare where nothing was dropped. A quarter of the cuts are pinwheels of five pieces."""
    pieces = [(0, span, 0, height)]
    while len(pieces) < n:
        weights = [((b - a) * (d - c)) ** 0.7 for a, b, c, d in pieces]
        a, b, c, d = pieces.pop(rng.choices(range(len(pieces)), weights)[0])
        if rng.random() < 0.25 and b - a > 2 and d - c > 2:
            (x, u), (y, v) = sorted(rng.sample(range(a + 1, b), 2)), sorted(rng.sample(range(c + 1, d), 2))
            pieces += [(a, x, c, v), (a, u, v, d), (u, b, y, d), (x, b, c, y), (x, u, y, v)]
        elif b - a > 1 and (rng.random() < 0.5 or d - c == 1):
            x = rng.randrange(a + 1, b)
            pieces += [(a, x, c, d), (x, b, c, d)]
        elif d - c > 1:
            y = rng.randrange(c + 1, d)
            pieces += [(a, b, c, y), (a, b, y, d)]
        else:
            pieces.append((a, b, c, d))
    rng.shuffle(pieces)
    kept = [p for p in pieces if rng.random() >= dropped]
    return one_pool(*(BufferInfo(f"b{i}", 1024 * (d - c), ((a, b),)) for i, (a, b, c, d) in enumerate(kept)))


CUTS = {
    "cut 150": (150, 0.1), "cut 200": (200, 0.03), "cut 300": (300, 0.03), "cut 300, loose": (300, 0.1),
    "cut 400": (400, 0.0),
}  # fmt: skip
"""Pieces and the part dropped. Each fits into CAPACITY, and is cut with its number of pieces as the seed."""


def cut_up(name: str) -> Problem:
    n, dropped = CUTS[name]
    return cut(random.Random(n), n, dropped)


def from_conflicts(
    sizes: Mapping[str, int],
    conflicting: Iterable[tuple[str, str]],
    pools: tuple[Pool, ...] = (Pool("workspace"),),
    alignment: int = 1,
) -> Problem:
    """The problem in which just these pairs conflict, whichever way round each is given: one position for each pair.

    A conflict of a buffer with itself says nothing. KeyError: a pair names no buffer.
    """
    live: dict[str, list[Interval]] = {name: [] for name in sizes}
    pairs = {(min(p), max(p)) for p in conflicting if p[0] != p[1]}
    for position, pair in enumerate(sorted(pairs)):
        for name in pair:
            live[name].append((2 * position, 2 * position + 1))
    for position, name in enumerate((n for n, life in live.items() if not life), len(pairs)):
        live[name].append((2 * position, 2 * position + 1))
    return Problem(tuple(BufferInfo(n, sizes[n], tuple(live[n]), alignment) for n in sizes), pools)


# --- TVM's tests of its memory planner (USMP) --------------------------------------------------------------------

CHAIN = from_conflicts(
    {"a": 10, "b": 20, "c": 100, "d": 40, "e": 50, "f": 50},
    [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")],
)
_FANOUT_SIZES = {"a": 10, "b": 20, "c": 100, "d": 40, "e": 50, "f": 60, "g": 70}
_TOLD_TWICE = [
    ("a", "b"),
    ("a", "c"),
    ("b", "c"),
    ("b", "e"),
    ("c", "e"),
    ("c", "d"),
    ("d", "f"),
    ("d", "e"),
    ("e", "f"),
]
_TOLD_ONCE = [("d", "b"), ("f", "f"), ("g", "f")]
FANOUT = from_conflicts(_FANOUT_SIZES, [*_TOLD_TWICE, *_TOLD_ONCE])
FANOUT_TOLD_TWICE = from_conflicts(_FANOUT_SIZES, _TOLD_TWICE)
"""TVM's test gives d's conflict with b, and g's with f, on one side only. The size of 190 that it expects of its
planner by size is that of the problem without them: in it d and b, and g and f, share bytes."""
MOBILENET = from_conflicts(
    {"sid_9": 301056, "sid_8": 802816, "padded": 314646, "conv": 256, "pool": 200704},
    [("padded", "sid_9"), ("padded", "sid_8"), ("padded", "conv"), ("conv", "sid_8"), ("pool", "sid_8")],
    (Pool("fast", limit=200704), Pool("slow")),
    alignment=16,
)
INTERVALS = {
    "alloc_max": [(0, 159, 2048), (0, 13, 7904), (4, 35, 16), (12, 17, 32768), (16, 21, 32768)],
    "simple": [
        *[(0, 23, 131072), (4, 5, 65568), (4, 9, 8192), (8, 30, 15360), (10, 11, 65568), (10, 15, 4096)],
        *[(16, 17, 65552), (16, 21, 2048), (22, 23, 32784), (22, 27, 1024)],
    ],
    "five": [(4, 5, 95), (1, 4, 52135), (3, 4, 12136), (3, 5, 62099), (4, 5, 50458)],
}


def speech() -> list[tuple[int, int, int]]:
    """A recurrent network: a chain of large buffers, then many long-lived states beside short temporaries."""
    rows = [(0, 159, 2048), (0, 151, 2048), (0, 13, 7904)]
    rows += [(12 + 4 * k, 17 + 4 * k + 2 * (k > 4), 32768) for k in range(9)] + [(48, 145, 32768)]
    for k in range(16):
        rows += [(54 + 6 * k, 59 + 6 * k, 2048), (58 + 6 * k, 483 - 22 * k, 4096)]
    for k in range(16):
        at = 152 + 22 * k
        rows += [(at, at + 11, 8192), (at + 2, at + 19, 2048), (at + 4, at + 29, 2048), (at + 8, at + 15, 2048)]
        rows += [(at + 10, at + 13, 2048), (at + 16, at + 19, 2048), (at + 18, 509 + 2 * k, 2048)]
    return [*rows, (508, 543, 32768), (542, 549, 32768), (548, 555, 32768), (562, 617, 2048), (616, 621, 2048)]


def scattered(n: int = 16, seed: int = 0) -> list[tuple[int, int, int]]:
    """Random intervals, as in TVM's test of them."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        start = rng.randrange(i, n)
        rows.append((start, rng.randrange(start + 1, start + 2 + (n - start) // 2), rng.randrange(1, 65535)))
    return rows


def bounded(n: int = 150, seed: int = 0) -> Problem:
    """Random buffers of up to the size of the first pool, with two conflicts or more each; the second has no limit."""
    rng = random.Random(seed)
    sizes = {str(i): rng.randrange(1, 65535) for i in range(n)}
    pairs = [(str(i), str(rng.choice([j for j in range(n) if j != i]))) for i in range(n)]
    return from_conflicts(sizes, pairs, (Pool("fast", limit=65535), Pool("slow")))
