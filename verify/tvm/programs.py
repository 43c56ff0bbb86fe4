"""Random programs of Relax, in favour of what planners of memory get wrong (specs/verify.md, "Inside a backend").

Views (reshape, and match_cast where a size is unknown), tuples, values that live long, branches, several sizes of memory,
constants of whole numbers that passes fold. Every value has a rank of one or two, and small sizes that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from assay.lower.tvm_import.objects import Object
from assay.verify.tvm.peer import Array, relax, tvm

SHAPES = ((2, 3), (6,), (3, 2), (4,), (2, 2), (1, 6), (12,), (3, 4))
TYPES = ("float32", "float32", "float32", "int64", "int32", "uint8", "bool", "float16")
ROWS = 5
"""The size that a symbolic batch has in the inputs."""


@dataclass
class Writer:
    """Writes one function, value after value; `values` are those that may be used, with shape and dtype."""

    random: Random
    builder: Any
    values: list[tuple[Any, tuple[Any, ...], str]] = field(default_factory=list)

    def pick(self, test: Callable[[tuple[Any, ...], str], bool] = lambda s, t: True) -> tuple[Any, tuple[Any, ...], str] | None:
        """A value that fits, the later ones rather."""
        fitting = [v for v in self.values if test(v[1], v[2])]
        return fitting[max(self.random.randrange(len(fitting)), self.random.randrange(len(fitting)))] if fitting else None

    def emit(self, value: Any, shape: tuple[Any, ...], of: str) -> None:
        self.values.append((self.builder.emit(value), shape, of))

    def constant(self, shape: tuple[int, ...], of: str) -> Any:
        numbers = [self.random.randrange(0, 2 if of == "bool" else 5) for _ in range(int(np.prod(shape)))]
        return relax().const(np.array(numbers).reshape(shape).astype(of), of)

    def step(self) -> None:
        """One more value."""
        op = relax().op
        x, shape, of = self.pick() or self.values[0]
        fixed = all(isinstance(n, int) for n in shape)
        match self.random.randrange(11):
            case 0 | 1:
                other = self.pick(lambda s, t: t == of and s is shape or t == of and s == shape)
                assert other is not None
                f = self.random.choice([op.logical_and, op.logical_or] if of == "bool" else [op.add, op.subtract, op.multiply, op.maximum])
                self.emit(f(x, other[0]), shape, of)
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
                other = self.pick(lambda s, t: t == of and s == shape)
                assert other is not None
                self.emit(op.concat([x, other[0]], axis=0), (2 * shape[0], *shape[1:]), of)
            case 7 if fixed:
                left = self.constant(shape, of)
                value = op.add(left, self.constant(shape, of)) if of != "bool" and self.random.random() < 0.5 else left
                folded = self.builder.emit(value)
                self.emit(op.logical_xor(x, folded) if of == "bool" else op.add(x, folded), shape, of)
            case 8:
                to = self.random.choice(TYPES)
                if to != of and not (of.startswith("float") and to == "uint8"):
                    self.emit(op.astype(x, to), shape, to)
            case 9 if of.startswith("float") or of.startswith("int"):
                self.emit(op.sum(x, axis=-1, keepdims=True) if len(shape) == 2 else op.cumsum(x, axis=0, dtype=of), (shape[0], 1) if len(shape) == 2 else shape, of)
            case 10 if len(shape) == 2:
                self.emit(op.permute_dims(x), shape[::-1], of)
            case _:
                pass


def program(seed: int, length: int = 14) -> tuple[Object, list[Array]]:
    """A module, and arguments for its `main`."""
    random, r, t = Random(seed), relax(), tvm()
    symbolic = random.random() < 0.4
    n = t.tirx.Var("n", "int64")
    builder = r.BlockBuilder()
    given = [(random.choice(SHAPES), random.choice(TYPES)) for _ in range(random.choice([1, 2, 3]))]
    if symbolic:
        given.append(((n, 3), "float32"))
    params = [r.Var(f"x{i}", r.TensorType(s, of)) for i, (s, of) in enumerate(given)]
    writer = Writer(random, builder, [(p, s, of) for p, (s, of) in zip(params, given, strict=True)])
    with builder.function("main", params):
        with builder.dataflow():
            for _ in range(length):
                writer.step()
            made = writer.values[len(params) :] or writer.values
            kept = random.sample(made, min(len(made), random.choice([1, 1, 2, 3])))
            if made[-1] not in kept:
                kept.append(made[-1])
            out = builder.emit_output(r.Tuple([v for v, _, _ in kept]))
        builder.emit_func_output(out)
    numbers = np.random.default_rng(seed)
    arrays = []
    for shape, of in given:
        sizes = [int(d) if isinstance(d, int) else ROWS for d in shape]
        arrays.append(numbers.integers(0, 2 if of == "bool" else 9, sizes).astype(of))
    return builder.get(), arrays
