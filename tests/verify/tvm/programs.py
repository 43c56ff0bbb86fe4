"""Random programs of Relax, in favour of what planners of memory get wrong (specs/verify.md, "Inside a backend").

    python -m tests.verify.tvm.programs --seconds 60       # random programs through every pipeline

Views by reshape and by match_cast, copies that may be lowered to views, parts of a split, concat, tuples that are made
and taken apart, values that live long, branches, tensor functions that change an operand in place, several sizes of
memory, symbolic sizes, constants of whole numbers that passes fold, and that have names. Every value has a rank of one
or two, and small sizes that differ. What is made in a dataflow block and not taken out of it is dead after it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from assay.lower.frontends.tvm.objects import Object
from assay.semantics.errors import Invalid
from assay.verify.tvm.kernels import DEADLY, judge_calls
from assay.verify.tvm.passes import Judge, verdicts
from assay.verify.tvm.peer import PIPELINES, Array, relax, tvm
from assay.verify.tvm.watch import watch

SHAPES = ((2, 3), (6,), (3, 2), (4,), (2, 2), (1, 6), (12,), (3, 4))
TYPES = ("float32", "float32", "float32", "int64", "int32", "uint8", "bool", "float16")
ROWS = 5
"""The size that a symbolic batch has in the inputs."""
IN_PLACE = "DataflowUseInplaceCalls,default"
"""The default pipeline behind DataflowUseInplaceCalls."""

Value = tuple[Any, tuple[Any, ...], str]
"""A variable with its shape and dtype."""


@dataclass
class Writer:
    """Writes one function, value after value; `values` are those that may be used."""

    random: Random
    builder: Any
    values: list[Value] = field(default_factory=list)
    condition: Any = None
    """A truth value that is an input, so that nothing folds a branch."""
    dataflow: bool = False
    in_place: dict[tuple[tuple[Any, ...], str], Any] = field(default_factory=dict)

    def pick(self, test: Callable[[tuple[Any, ...], str], bool] = lambda s, t: True) -> Value | None:
        """A value that fits, the later ones rather."""
        fitting = [v for v in self.values if test(v[1], v[2])]
        return (
            fitting[max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))] if fitting else None
        )

    def like(self, value: Value) -> Any:
        """A value of the same shape and dtype: maybe the same."""
        other = self.pick(lambda s, t: t == value[2] and s == value[1])
        assert other is not None
        return other[0]

    def emit(self, value: Any, shape: tuple[Any, ...], of: str) -> None:
        """Bind a value, which may be used from then on."""
        self.values.append((self.builder.emit(value), shape, of))

    def constant(self, shape: tuple[int, ...], of: str) -> Any:
        """A constant of small whole numbers."""
        numbers = [self.random.randrange(0, 2 if of == "bool" else 5) for _ in range(int(np.prod(shape)))]
        return relax().const(np.array(numbers).reshape(shape).astype(of), of)

    def step(self) -> None:
        """Write one more value, by an operation chosen at random."""
        op = relax().op
        value = self.pick() or self.values[0]
        x, shape, of = value
        fixed = all(isinstance(n, int) for n in shape)
        match self.random.randrange(20):
            case 0 | 1:
                self.emit(self.binary(of)(x, self.like(value)), shape, of)
            case 2 if of != "bool":
                self.emit(self.random.choice([op.negative, op.abs])(x) if of != "uint8" else op.add(x, x), shape, of)
            case 3 | 4 if fixed:
                size = int(np.prod(shape))
                new = self.random.choice([s for s in (*SHAPES, (size,)) if int(np.prod(s)) == size])
                self.emit(op.reshape(x, new), new, of)
            case 5 if fixed and shape[0] % 2 == 0:
                parts = self.builder.emit(op.split(x, 2, axis=0))
                half = (shape[0] // 2, *shape[1:])
                for k in self.random.sample(range(2), self.random.choice([1, 2])):
                    self.emit(parts[k], half, of)
            case 6 if fixed:
                self.emit(op.concat([x, self.like(value)], axis=0), (2 * shape[0], *shape[1:]), of)
            case 7 if fixed:
                left = self.constant(shape, of)
                sum_ = op.add(left, self.constant(shape, of)) if of != "bool" and self.random.random() < 0.5 else left
                folded = self.builder.emit(sum_)
                self.emit(op.logical_xor(x, folded) if of == "bool" else op.add(x, folded), shape, of)
            case 8:
                to = self.random.choice(TYPES)
                if to != of and not (of.startswith("float") and to == "uint8"):
                    self.emit(op.astype(x, to), shape, to)
            case 9 if of.startswith("float") or of.startswith("int"):
                row = len(shape) == 2
                total = op.sum(x, axis=-1, keepdims=True) if row else op.cumsum(x, axis=0, dtype=of)
                self.emit(total, (shape[0], 1) if row else shape, of)
            case 10 if len(shape) == 2:
                self.emit(op.permute_dims(x), shape[::-1], of)
            case 11 | 12:  # a view whose sizes are checked on the run; of a known shape it has other sizes for a name
                sizes = list(shape)
                if self.random.random() < 0.5:
                    sizes[0] = tvm().tirx.Var(f"s{len(self.values)}", "int64")
                cast = self.builder.match_cast(x, relax().TensorType(sizes, of))
                self.values.append((cast, tuple(sizes), of))
            case 13:
                pair = self.builder.emit(relax().Tuple([x, (self.pick() or value)[0]]))
                self.emit(pair[0], shape, of)
            case 14 if not self.dataflow:
                self.branch(value)
            case 15 | 16 if fixed and of != "bool":
                self.change(value)
            case 17 | 18 if fixed:
                self.emit(self.copy(x, shape, of), shape, of)
            case 19 if fixed:
                self.emit(self.constant(shape, of), shape, of)
            case _:
                pass

    def binary(self, of: str) -> Any:
        """One of the binary operators for a dtype."""
        op = relax().op
        return self.random.choice(
            [op.logical_and, op.logical_or] if of == "bool" else [op.add, op.subtract, op.multiply, op.maximum]
        )

    def copy(self, x: Any, shape: tuple[int, ...], of: str) -> Any:
        """An operator that gives each element as it is: TVM may lower it to a view."""
        op = relax().op
        axes = range(len(shape))
        copies = [
            lambda: op.astype(x, of), lambda: op.broadcast_to(x, shape), lambda: op.concat([x], axis=0),
            lambda: op.strided_slice(x, list(axes), [0] * len(shape), list(shape)), lambda: op.tile(x, 1),
            lambda: op.repeat(x, 1, 0), lambda: op.squeeze(self.builder.emit(op.expand_dims(x, 0)), 0),
            lambda: op.squeeze(self.builder.emit(op.stack([x], 0)), 0),
        ]  # fmt: skip
        return self.random.choice(copies)()

    def branch(self, value: Value) -> None:
        """A value that is one of two, each with steps of its own."""
        op, other = relax().op, self.like(value)
        x, shape, of = value
        sides = []
        longer = self.random.random() < 0.1  # with memory of its own, in which TVM 0.27 dies (finding 16)
        for _ in range(2):
            side: Any = self.binary(of)(x, other) if self.random.random() < 0.8 else x
            if all(isinstance(n, int) for n in shape) and self.random.random() < 0.3:
                side = op.reshape(op.reshape(x, (int(np.prod(shape)),)), shape)
            sides.append(self.binary(of)(side, other) if longer else side)
        self.emit(relax().If(self.condition, *sides), shape, of)

    def change(self, value: Value) -> None:
        """A tensor function that changes an operand in place: a copy that nothing else reads, as its rule wants."""
        x, shape, of = value
        key = shape, of
        if key not in self.in_place:
            self.in_place[key] = self.builder.add_func(doubling(shape, of), f"doubled_{len(self.in_place)}")
        own = self.builder.emit(relax().op.add(x, self.like(value)))
        made = relax().op.call_tir_inplace(self.in_place[key], [own], [0], relax().TensorType(shape, of))
        self.emit(made, shape, of)

    def segment(self, length: int, dataflow: bool) -> None:
        """Some more values; those of a dataflow block are no more after it, but for a few that it gives out."""
        begin, self.dataflow = len(self.values), dataflow
        if not dataflow:
            for _ in range(length):
                self.step()
            return
        with self.builder.dataflow():
            for _ in range(length):
                self.step()
            made = self.values[begin:]
            kept = self.random.sample(made, min(len(made), self.random.choice([1, 2, 3])))
            if made and made[-1] not in kept:
                kept.append(made[-1])
            self.values[begin:] = [(self.builder.emit_output(v), s, of) for v, s, of in kept]


def doubling(shape: tuple[int, ...], of: str) -> Object:
    """A tensor function that adds each element of its only buffer to itself."""
    axes = range(len(shape))
    sizes = ", ".join(f"T.int64({n})" for n in shape)
    at = ", ".join(f"v{k}" for k in axes)
    grid = f"T.grid({sizes})" if len(shape) > 1 else f"range({sizes})"
    lines = [
        "# from tvm.script import tirx as T",
        "@T.prim_func(private=True, s_tir=True)",
        f"def double(a: T.Buffer(({sizes},), '{of}')):",
        f"    for {', '.join(f'i{k}' for k in axes)} in {grid}:",
        "        with T.sblock('double'):",
        *(f"            v{k} = T.axis.spatial(T.int64({n}), i{k})" for k, n in enumerate(shape)),
        f"            a[{at}] = a[{at}] + a[{at}]",
    ]
    return tvm().script.from_source("\n".join(lines))


def program(seed: int, length: int = 16) -> tuple[Object, list[Array]]:
    """A module, and arguments for its `main`: a truth value for branches first, then tensors."""
    random, r, t = Random(seed), relax(), tvm()
    n = t.tirx.Var("n", "int64")
    builder = r.BlockBuilder()
    given: list[tuple[tuple[Any, ...], str]] = [
        (random.choice(SHAPES), random.choice(TYPES)) for _ in range(random.choice([1, 2, 3]))
    ]
    if random.random() < 0.4:
        given.append(((n, 3), "float32"))
    params = [
        r.Var("c", r.TensorType((), "bool")),
        *(r.Var(f"x{i}", r.TensorType(s, of)) for i, (s, of) in enumerate(given)),
    ]
    values = [(p, s, of) for p, (s, of) in zip(params[1:], given, strict=True)]
    writer = Writer(random, builder, values, params[0])
    with builder.function("main", params):
        left = length
        while left > 0:
            count = min(left, random.choice([3, 6, 16]))
            left -= count
            writer.segment(count, random.random() < 0.7)
        made = writer.values[len(given) :] or writer.values
        kept = random.sample(made, min(len(made), random.choice([1, 1, 2, 3])))
        if made[-1] not in kept:
            kept.append(made[-1])
        builder.emit_func_output(r.Tuple([v for v, _, _ in kept]))
    numbers = np.random.default_rng(seed)
    arrays: list[Array] = [np.array(random.random() < 0.5)]
    for shape, of in given:
        sizes = [int(d) if isinstance(d, int) else ROWS for d in shape]
        arrays.append(numbers.integers(0, 2 if of == "bool" else 9, sizes).astype(of))
    return builder.get(), arrays


def judge_program(seed: int, name: str) -> tuple[list[str], str]:
    """What is wrong with one program in one pipeline; and what our import refuses though the results are right.

    Invalid (backend.C2) where TVM refuses it.
    """
    mod, arguments = program(seed)
    trace = watch(mod, name)
    if trace.failed is not None:
        raise trace.failed
    judged = list(verdicts(trace, Judge(arguments)))
    found = [str(v) for v in judged if v.wrong and v.how != "refused"]
    refused = next((str(v) for v in judged if v.how == "refused"), "")
    if not any(v.why in DEADLY for v in judged):
        first = judge_calls(trace, arguments).first
        found += [str(first)] if first is not None else []
    return ([*found, refused] if found and refused else found), refused


def alone(seed: int, name: str) -> tuple[str, list[str]]:
    """`judge_program` in a process of its own, in which TVM may die: how it ended, and what was found."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_tell, args=(there, seed, name))
    process.start()
    there.close()
    try:
        ended: tuple[str, list[str]] = here.recv()
    except EOFError:
        process.join()
        who = "TVM" if (process.exitcode or 0) < 0 else "Assay"  # a signal, or an exception that was shown
        return "died", [f"{who} dies (exit code {process.exitcode})"]
    process.join()
    return ended


def _tell(there: Any, seed: int, name: str) -> None:
    try:
        found, refused = judge_program(seed, name)
    except Invalid as left:
        there.send((f"not run: {left}"[:120], []))
        return
    there.send(("found" if found else f"refused by us: {refused.split('[')[-1]}" if refused else "right", found))


def main(argv: list[str] | None = None) -> int:
    """Judge random programs from the command line; the status is 1 if something was found or a process died."""
    parser = argparse.ArgumentParser(description="Judge random programs in apache-tvm, pass by pass and call by call.")
    parser.add_argument("--seconds", type=float, default=60, help="of time on the clock")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--pipeline", choices=(*PIPELINES, IN_PLACE), action="append", help="of all three")
    given: Any = parser.parse_args(argv)
    end, seed, counts = time.monotonic() + given.seconds, given.first, Counter[str]()
    while time.monotonic() < end:
        for name in given.pipeline or (*PIPELINES, IN_PLACE):
            how, found = alone(seed, name)
            counts[f"{name}, {how}"] += 1
            for what in found:
                sys.stdout.write(f"seed {seed}, {name}: {what}\n")
                sys.stdout.flush()
        seed += 1
    sys.stdout.write(f"seeds {given.first} to {seed - 1}: {dict(counts)}\n")
    return 1 if any(key.endswith(("found", "died")) for key in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
