"""Plans to prove and to break: shared by the tests of memory proofs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from assay.semantics.memory import BufferInfo, Interval, Place, Plan, Pool, Problem, overlap
from assay.semantics.scalar import Dim, Var, apply

N, M = Var("n"), Var("m")
WORK = Pool("workspace")


def up(size: Dim, to: int = 64) -> Dim:
    """The next multiple."""
    return (size + to - 1) // to * to


def most(*dims: Dim) -> Dim:
    """The maximum of dims."""
    whole: Dim = dims[0]
    for d in dims[1:]:
        whole = max(whole, d) if isinstance(whole, int) and isinstance(d, int) else apply("max", whole, d)
    return whole


def problem(*buffers: BufferInfo, pools: tuple[Pool, ...] = (WORK,), **bounds: tuple[int, int | None]) -> Problem:
    by_name = {"n": N, "m": M}
    return Problem(buffers, pools, {by_name[k]: v for k, v in bounds.items()})


def plan(size: Dim, **offsets: Dim) -> Plan:
    return Plan({n: Place("workspace", o) for n, o in offsets.items()}, {"workspace": size})


def life(rng: random.Random, length: int) -> tuple[Interval, ...]:
    """One interval, or two or three with gaps between them."""
    points = sorted(rng.sample(range(length), 2 * rng.choice((1, 1, 1, 2, 3))))
    return tuple(zip(points[::2], points[1::2], strict=True))


def random_problem(rng: random.Random, count: int, length: int = 12) -> Problem:
    """Two workspace pools, one with a limit, and one for constants; gaps in lives, buffers without bytes."""
    pools = (Pool("fast", limit=rng.randrange(64, 400)), WORK, Pool("flash", "constant", read_only=True))
    buffers = tuple(
        BufferInfo(
            f"b{i}",
            rng.choice((0, 1, 7, 16, 33, 64)),
            life(rng, length),
            rng.choice((1, 4, 16)),
            *(
                ("constant", ())
                if rng.random() < 0.15
                else ("workspace", rng.choice(((), ("workspace",), ("fast", "workspace"))))
            ),
            producer=f"kernel_{i}",
        )
        for i in range(count)
    )
    return Problem(buffers, pools)


def place(given: Problem) -> Plan:
    """Each buffer at the lowest offset that is free throughout its life, in the first pool with room: by definition."""
    places: dict[str, Place] = {}
    sizes = {p.name: 0 for p in given.pools}
    done: list[tuple[BufferInfo, str, int]] = []
    for b in given.buffers:
        assert isinstance(b.nbytes, int)
        for pool in given.candidates(b):
            near = sorted(
                (o, o + _bytes(a)) for a, p, o in done if p == pool.name and overlap(a.live, b.live) and a.nbytes
            )
            at = 0
            for low, high in near:
                if at + b.nbytes <= low:
                    break
                at = max(at, -(-high // b.alignment) * b.alignment)
            if pool.limit is None or at + b.nbytes <= pool.limit:
                places[b.name] = Place(pool.name, at)
                sizes[pool.name] = max(sizes[pool.name], at + b.nbytes)
                done.append((b, pool.name, at))
                break
    return Plan(places, sizes)


def _bytes(b: BufferInfo) -> int:
    assert isinstance(b.nbytes, int)
    return b.nbytes


def moved(given: Plan, name: str, by: int) -> Plan:
    """The plan with one buffer elsewhere."""
    at = given.places[name]
    return replace(given, places={**given.places, name: Place(at.pool, at.offset + by)})


def broken(rng: random.Random, given: Problem, good: Plan) -> Iterator[Plan]:
    """Plans with one number off by a little, at random places; some are good all the same."""
    for _ in range(4):
        yield moved(good, rng.choice(given.buffers).name, rng.choice((-1, 1, -16, 16, 4)))
    pool = rng.choice(given.pools).name
    yield replace(good, sizes={**good.sizes, pool: good.sizes[pool] - 1})


def random_symbolic(rng: random.Random, count: int, *, bounded: bool = False) -> Problem:
    """Sizes that are sums and products of two symbols, some of them numbers; gaps in lives."""

    def size() -> Dim:
        a, b = rng.choice((N, M)), rng.choice((N, M))
        k = rng.choice((1, 2, 4, 12, 64))
        forms: list[Dim] = [a * k, (a * k) * b, (a * b + rng.randrange(9)) * k, (a + 3) // 2 * k, rng.randrange(1, 500)]
        return rng.choice(forms)

    buffers = tuple(
        BufferInfo(f"b{i}", size(), life(rng, max(12, count)), rng.choice((1, 16, 64)), producer=f"kernel_{i}")
        for i in range(count)
    )
    top = 40 if bounded else None
    return Problem(buffers, (WORK,), {N: (1, top), M: (0, top)})
