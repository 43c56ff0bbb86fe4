"""Random small programs over int32 scalars: branches, closures, references, prints, divisions that may trap, tuples,
names of names, match-casts that change nothing, and much that nobody needs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from assay.semantics.builder import Builder
from assay.semantics.builder.prelude import INT
from assay.semantics.graph import MatchCast, Var
from assay.semantics.module import Module


def program(seed: int, size: int = 12) -> tuple[Module, Mapping[str, Any]]:
    """A well-formed module and inputs, the same for the same seed."""
    rng = random.Random(seed)
    b = Builder()
    with b.function("helper", x=INT, y=INT) as helper:
        b.result(_body(b, rng, list(helper), [], size // 3, False))
    with b.function("main", x=INT, y=INT, z=INT) as f:
        cells = [b.ref(f.x)]
        functions: list[Callable[..., Var]] = [helper]
        with b.closure("local", a=INT) as local:
            b.result(_body(b, rng, [*local, *f], [], 3, False))
        if rng.random() < 0.5:
            functions.append(lambda x, y: local(b.subtract(x, y)))
        last = _body(b, rng, list(f), cells, size, True, functions)
        b.result((last, b.read(cells[0])))
    return b.module(), {n: np.int32(rng.randrange(-3, 4)) for n in ("x", "y", "z")}


def _body(
    b: Builder,
    rng: random.Random,
    ints: list[Var],
    cells: list[Var],
    size: int,
    may_act: bool,
    functions: list[Callable[..., Var]] | None = None,
) -> Var:
    """Bindings in the open scope; one of their variables."""
    ints = list(ints)
    for _ in range(size):
        x, y = rng.choice(ints), rng.choice(ints)
        match rng.randrange(12 if may_act else 8):
            case 0 | 1:
                ints.append(b.call(rng.choice(["add", "subtract", "multiply"]), x, y))
            case 2:
                ints.append(b.bind(x))
            case 3:
                ints.append(b.bind(MatchCast(x.type, x)))
            case 4:
                pair = b.tuple(x, y)
                ints.append(b.get(b.bind(pair), rng.randrange(2)))
            case 5 if rng.random() < 0.7:
                ints.append(b.floor_divide(x, y))
            case 6:

                def branch() -> Var:
                    return _body(b, rng, ints, cells, 2, may_act)

                ints.append(b.choose(b.less(x, y), branch, branch))
            case 7 if functions and rng.random() < 0.6:
                ints.append(rng.choice(functions)(x, y))
            case 8:
                b.print(x, format="{}")
            case 9 if cells:
                b.write(cells[0], x)
            case 10 if cells:
                ints.append(b.read(cells[0]))
            case _:
                ints.append(b.constant(rng.randrange(-2, 3), "int32"))
    return rng.choice(ints[-4:])
