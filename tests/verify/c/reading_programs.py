"""Planned programs whose C is read back, and faults that are put into their text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from assay.lower.c import CSource, emit
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, INT64
from assay.semantics.module import Module
from assay.semantics.scalar import apply, cast, const, select
from assay.semantics.tensor import Allocate, Buffer, PrimFunc, Var, loops, seq, store
from assay.semantics.types import TensorType
from tests.lower.c.c_network import network
from tests.lower.memory.planned import Choose, planned

INT8 = DTYPES["int8"]
SIDE, LONG = 5, 70_000


def sums() -> PrimFunc:
    """Wide accumulators: int64 of int32, double of float."""
    x, y = Buffer("x", (SIDE, SIDE), INT32), Buffer("y", (SIDE, SIDE), FLOAT32)
    whole, real = Buffer("whole", (SIDE,), INT64), Buffer("real", (SIDE,), FLOAT32)
    count, total = Buffer("count", (), INT64), Buffer("total", (), FLOAT64)

    def row(i: Var) -> Any:
        clear = seq(store(count, (), 0), store(total, (), 0.0))
        add = loops(
            "j",
            (SIDE,),
            lambda j: seq(
                store(count, (), count[()] + cast(x[i, j], INT64) * 3),
                store(total, (), total[()] + cast(y[i, j], FLOAT64)),
            ),
        )
        return seq(clear, add, store(whole, i, count[()]), store(real, i, cast(total[()], FLOAT32)))

    return PrimFunc("sums", (x, y, whole, real), 2, Allocate(count, Allocate(total, loops("i", (SIDE,), row))))


def turned() -> PrimFunc:
    """A square plane, transposed, with the larger of two numbers and a shift."""
    x, y = Buffer("x", (SIDE, SIDE), FLOAT32), Buffer("y", (SIDE, SIDE), INT32)
    out, bits = Buffer("out", (SIDE, SIDE), FLOAT32), Buffer("bits", (SIDE, SIDE), INT32)
    body = loops(
        "i j",
        (SIDE, SIDE),
        lambda i, j: seq(
            store(out, (i, j), apply("max", x[j, i], x[i, j])),
            store(bits, (i, j), apply("shl", y[i, j], const(31, INT32)) + apply("shr", y[i, j], const(3, INT32))),
        ),
    )
    return PrimFunc("turned", (x, y, out, bits), 2, body)


def taken() -> PrimFunc:
    """Elements by indices that are read, a division, and a float as a whole number: each may trap."""
    x, at, n = Buffer("x", (SIDE,), FLOAT32), Buffer("at", (SIDE,), INT64), Buffer("n", (SIDE, SIDE), INT32)
    out, by = Buffer("out", (SIDE,), INT8), Buffer("by", (SIDE,), INT32)
    body = loops(
        "i",
        (SIDE,),
        lambda i: seq(
            store(out, i, cast(x[at[i]], INT8)),
            store(by, i, apply("truncdiv", n[i, i], n[i, 0])),
        ),
    )
    return PrimFunc("taken", (x, at, n, out, by), 2, body)


def chosen() -> PrimFunc:
    """A choice by a comparison that NaN fails."""
    x, y, out = (Buffer(n, (SIDE, SIDE), FLOAT32) for n in ("x", "y", "out"))
    body = loops("i j", (SIDE, SIDE), lambda i, j: store(out, (i, j), select(x[i, j] < y[i, j], x[i, j], y[i, j])))
    return PrimFunc("chosen", (x, y, out), 1, body)


def large(side: int) -> PrimFunc:
    """The last column of a plane, of which the places may need 64 bits."""
    x, out = Buffer("x", (side, side), BOOL), Buffer("out", (side,), BOOL)
    return PrimFunc("large", (x, out), 1, loops("i", (side,), lambda i: store(out, i, x[i, side - 1])))


def odd(plane: int = LONG) -> Module:
    """These kernels in a program with a choice and a constant; with a plane of more than 2 to the 32 bytes it cannot be
    run."""
    square, line = TensorType((SIDE, SIDE), FLOAT32), TensorType((SIDE,), INT64)
    inputs = {
        "whole": TensorType((SIDE, SIDE), INT32),
        "real": square,
        "at": line,
        "is": TensorType((), BOOL),
        "plane": TensorType((plane, plane), BOOL),
    }
    rows = [
        (sums(), ["whole", "real"], ["counts", "row"]),
        (turned(), ["real", "whole"], ["t", "bits"]),
        (taken(), ["row", "at", "whole"], ["narrow", "by"]),
        Choose(
            "is",
            [(chosen(), ["t", "real"], ["result"])],
            [(chosen(), ["real", "t"], ["other"]), (chosen(), ["other", "weights"], ["result"])],
        ),
        (large(plane), ["plane"], ["last"]),
    ]
    weights = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) * np.float32(0.1)
    return planned(rows, inputs, ["result", "counts", "bits", "narrow", "by", "last"], {"weights": weights})


def small(name: str) -> Module:
    """Small programs: an element read twice by one index, a number that is kept from loop to loop, a loop that the data
    count, a table."""
    x, at, out = Buffer("x", (SIDE,), FLOAT32), Buffer("at", (SIDE,), INT64), Buffer("out", (SIDE,), FLOAT32)
    n, last, w = Buffer("n", (1,), INT32), Buffer("last", (), FLOAT32), Buffer("w", (SIDE,), FLOAT32)

    def each(name: str, value: Callable[[Var], Any], to: Buffer = out) -> Any:
        return loops(name, (SIDE,), lambda i: store(to, i if to is out else (), value(i)))

    adds = loops("j", (SIDE,), lambda j: seq(store(last, (), last[()] + x[j]), store(out, j, last[()])))
    count = (apply("min", cast(n[0], INT64), const(SIDE)),)
    inputs, body = {
        "twice": ((x, at), each("i", lambda i: x[at[i]] * x[at[i]])),
        "kept": ((x,), Allocate(last, seq(each("i", lambda i: x[i], last), adds))),
        "counted": ((n,), seq(each("i", lambda i: const(0, FLOAT32)), loops("k", count, lambda k: store(out, k, 1.0)))),
        "tabled": ((x, w), seq(each("i", lambda i: x[i]), each("k", lambda k: out[k] + w[k]))),
    }[name]
    func = PrimFunc(name, (*inputs, out), 1, body)
    given = {b.name: TensorType(b.shape, b.dtype) for b in inputs if b is not w}
    weights = {"w": np.arange(SIDE, dtype=np.float32)} if w in inputs else {}
    return planned([(func, [b.name for b in inputs], ["out"])], given, ["out"], weights)


@cache
def texts() -> dict[str, tuple[Module, CSource]]:
    """The programs by name, with their C."""
    made: dict[str, Callable[[], Module]] = {"net": network, "odd": odd}
    return {name: (module := make(), emit(module, name)) for name, make in made.items()}
