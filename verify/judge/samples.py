"""The sets of inputs on which backends are judged (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.semantics.graph import Call, Expr, Var
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.oracle.data import Kind, make_inputs

Array = np.ndarray[Any, Any]
MOST_IDS = 50_000
"""Whole numbers that are indices are below this, and below the size of what they index."""


@dataclass(frozen=True)
class Sample:
    """One set of inputs, by name; `kind` is "given" where all of them are."""

    kind: str
    run: int
    inputs: Mapping[str, Array]

    @property
    def name(self) -> str:
        """The set for people: its kind, and which of several it is."""
        return self.kind if self.run == 0 else f"{self.kind} {self.run + 1}"


def input_sets(
    module: Module, given: Mapping[str, Array], kinds: Sequence[Kind], runs: int, seed: int
) -> Iterator[Sample]:
    """Sets of inputs of each kind: those that are given, the others made by the seed, no set twice: where there are no
    floats all kinds are one. There are two at least, where there can be: what stays from run to run shows in a run on
    others. Where everything is given there is one set."""
    met: set[bytes] = set()
    params = [p.name for p in module.main.params]
    if all(n in given for n in params):
        yield Sample("given", 0, given)
        return
    tables = indexed(module)
    for run in range(max(runs, 2)):
        for kind in kinds:
            if run >= runs and len(met) >= 2:
                return
            rng = np.random.default_rng([seed, run, 1])
            ids = {n: _ids(module, n, size, rng) for n, size in tables.items() if n not in given}
            held = {**{n: a for n, a in ids.items() if a is not None}, **given}
            made = Sample(kind, run, make_inputs(module, kind, seed + run, {}, held))
            bits = b"".join(np.asarray(a).tobytes() for a in made.inputs.values())
            if bits not in met:
                yield made
            met.add(bits)


def _ids(module: Module, name: str, size: int, rng: np.random.Generator) -> Array | None:
    of = next(p.type for p in module.main.params if p.name == name)
    if not isinstance(of, TensorType) or not of.is_static:
        return None
    return rng.integers(0, min(size, MOST_IDS), of.static_shape).astype(of.dtype.numpy)


def indexed(module: Module) -> dict[str, int]:
    """The inputs of whole numbers that choose from a table, such as tokens, each with the size of the smallest."""
    main = module.main
    params = {id(p): p.name for p in main.params}
    found: dict[str, int] = {}
    for node in post_order(main.body):
        if isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name == "take":
            table, places = node.args[0].type, _origin(node.args[1])
            if id(places) in params and isinstance(table, TensorType):
                size = table.shape[node.attrs.get("axis") or 0] if table.shape else 1
                if isinstance(size, int) and size > 1:
                    name = params[id(places)]
                    found[name] = min(size, found.get(name, size))
    return found


def _origin(node: Expr) -> Expr:
    """What places come from, seen through what changes neither their values nor their order."""
    while isinstance(node, Call) and isinstance(node.op, Operator) and not isinstance(node, Var):
        if node.op.name not in ("reshape", "astype", "expand_dims", "squeeze", "where", "broadcast_to"):
            break
        node = node.args[-1 if node.op.name == "where" else 0]
    return node
