"""Random steps of a schedule, made by choices alone."""

from __future__ import annotations

from assay.lower.loops import Schedule
from assay.semantics.errors import Invalid
from assay.semantics.tensor import For, If, PrimFunc, Seq, program_order
from assay.verify.strategies.choosing import Pick


def step(s: Schedule, choose: Pick) -> tuple[str, Schedule | None]:
    """One random step: its text, and the schedule after it; None where it is refused."""
    names = list(s.loops)
    if not names:
        return "nothing", None

    def one() -> str:
        return names[choose(len(names))]

    stores = [b.name for b in (*s.func.params, *s.func.allocations)]
    what = (
        ("split", "reorder", "reorder", "fuse", "unroll", "peel", "fission", "merge", "parallelize", "vectorize")[
            choose(10)
        ]
        if choose(4)
        else ("cache_read", "cache_write")[choose(2)]
    )
    args: tuple[object, ...]
    match what:
        case "split":
            args = (one(), 1 + choose(5))
        case "peel" | "fission":
            args = (one(), 1 + choose(3))
        case "reorder":
            start = choose(len(names))
            near = names[start : start + 2 + choose(3)]
            args = tuple(near[(k + 1) % len(near)] for k in range(len(near))) if choose(2) else tuple(reversed(near))
        case "fuse":
            start = choose(len(names))
            args = tuple((names + names)[start : start + 2])
        case "merge":
            first, second = _neighbours(s, choose) or (one(), one())
            args = (first, second, 1 + choose(2))
        case "cache_read" | "cache_write":
            args = (stores[choose(len(stores))], one())
        case _:
            args = (one(),)
    text = f"{what}{args}"
    try:
        return text, getattr(s, what)(*args)
    except Invalid:
        return text, None


def _neighbours(s: Schedule, choose: Pick) -> tuple[str, str] | None:
    """Two loops that stand side by side."""
    by = dict(zip((x for x in program_order(s.func.body) if isinstance(x, For)), s.loops, strict=True))
    found = [
        (by[a], by[b])
        for x in program_order(s.func.body)
        if isinstance(x, Seq)
        for a, b in zip(x.body, x.body[1:], strict=False)
        if isinstance(a, For) and isinstance(b, For)
    ]
    return found[choose(len(found))] if found else None


def guards(func: PrimFunc) -> int:
    return sum(isinstance(x, If) for x in program_order(func.body))
