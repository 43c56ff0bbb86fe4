"""Other inputs of the same sizes, for a run in between (specs/verify.md, "Verdict").

They differ from the first in every input that can take another value, and where the program lets them, so that what
came of the first would be wrong of them: outputs that stay from an earlier call show only so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from assay.semantics.dtypes import dtype
from assay.semantics.errors import Trap
from assay.semantics.walk import Worklist
from assay.verify.evidence import listed, plural
from assay.verify.oracle.expected import Expected
from assay.verify.oracle.judge import Oracle

Array = np.ndarray[Any, Any]
RUNS = 40
"""Runs of the definition at most, to find inputs on which it does not fail."""


@dataclass(frozen=True)
class Between:
    """What may come of other inputs, None where there are none; and what a run on them cannot show, "" where that is
    nothing."""

    expected: Expected | None
    unseen: str = ""


def find_between(
    oracle: Oracle, first: Expected, outputs: Mapping[str, Any], model: onnx.ModelProto | None = None
) -> Between:
    """Other inputs than the first, of which `outputs` came. All that can be are changed at once; where the program
    fails on all of these, in halves, so that those stay on which it fails. Where `model` declares sizes of outputs, and
    the first have them, so have the others: one that relies on what is declared does nothing wrong."""
    ways = {name: made for name, given in first.inputs.items() if (made := others_of(given))}
    if not ways:
        return Between(None, "no input has another value of its size" if first.inputs else "")
    search = _Search(oracle, outputs, RUNS, {} if model is None else _declared(model, outputs))
    best: tuple[Expected, list[str]] | None = None
    kept = [name for name, given in first.inputs.items() if name not in ways and np.size(given)]
    work = Worklist([list(ways)])
    for group in work:
        found = search.best(first.inputs if best is None else best[0].inputs, {name: ways[name] for name in group})
        if found is not None:
            best = found
        elif len(group) > 1:
            work.add([group[: len(group) // 2], group[len(group) // 2 :]])
        else:
            kept += group
    if best is None:
        return Between(
            None, f"the program fails on all of the {plural(RUNS - search.left, 'set')} of other inputs that were tried"
        )
    same = [name for name in first.inputs if name in kept]
    said = (
        [f"{_named('input', same)} the same in all runs, for no other value was found that the program takes"]
        if same
        else []
    )
    said += (
        [f"{_named('output', best[1])} right for the other inputs that were tried too: one that stays would not show"]
        if best[1]
        else []
    )
    return Between(best[0], "; ".join(said))


@dataclass
class _Search:
    oracle: Oracle
    outputs: Mapping[str, Any]
    left: int
    declared: Mapping[str, Sequence[int]]
    """The axes of outputs that a model declares, -1 where one may be any."""

    def best(self, base: Mapping[str, Any], ways: Mapping[str, Sequence[Array]]) -> tuple[Expected, list[str]] | None:
        """Inputs on which the program does not fail, each that `ways` has changed in one of them, and the outputs that
        would not show there that they stayed: of the first ways, with the fewest such outputs."""
        best: tuple[Expected, list[str]] | None = None
        for k in range(max(map(len, ways.values()))):
            if not self.left or (best is not None and not best[1]):
                break
            self.left -= 1
            expected = self.oracle.expected({**base, **{n: some[min(k, len(some) - 1)] for n, some in ways.items()}})
            if not isinstance(expected.possible, Trap) and self._as_declared(expected.possible):
                # where an interval excludes nothing, the tensors that are shown tell
                hidden = [f.tensor for f in expected.findings(self.outputs).values() if not f.wrong and not f.open]
                if best is None or len(hidden) < len(best[1]):
                    best = expected, hidden
        return best

    def _as_declared(self, possible: object) -> bool:
        return not isinstance(possible, dict) or all(
            _fits(axes, possible[name]) for name, axes in self.declared.items() if name in possible
        )


def _declared(model: onnx.ModelProto, outputs: Mapping[str, Any]) -> dict[str, list[int]]:
    """The axes that a model declares of its outputs, of those that these outputs have."""
    types = {o.name: o.type.tensor_type for o in model.graph.output if o.type.tensor_type.HasField("shape")}
    axes = {n: [d.dim_value if d.HasField("dim_value") else -1 for d in t.shape.dim] for n, t in types.items()}
    return {n: found for n, found in axes.items() if n in outputs and _fits(found, outputs[n])}


def _fits(axes: Sequence[int], value: Any) -> bool:
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple):
        return True
    return len(shape) == len(axes) and all(want in (-1, got) for want, got in zip(axes, shape, strict=True))


def others_of(given: Any) -> list[Array]:
    """Tensors of the same size with other elements, those first that a program is likeliest to take: the elements that
    there are, in another order and, if floats, halved, so that indices stay in range and what is positive stays so."""
    if not isinstance(given, np.ndarray) or given.dtype.kind in "OUST" or not given.size:
        return []
    turned = np.roll(given.reshape(-1), given.size // 2 + 1).reshape(given.shape)
    made: list[Array]
    with np.errstate(all="ignore"):
        if given.dtype == np.bool_:
            made = [~given, turned, np.zeros_like(given), np.ones_like(given)]
        elif dtype(given.dtype).is_float:
            half = np.asarray(turned * given.dtype.type(0.5), given.dtype)
            made = [
                np.ones_like(given) if _same(half, given) else half,
                np.asarray(-given, given.dtype),
                np.ones_like(given),
            ]
        else:
            wide = given.astype(np.int64)
            next_ = wide ^ 1
            made = [
                turned,
                *(x.astype(given.dtype) for x in (next_, 2 * wide - next_, np.zeros_like(wide), np.ones_like(wide))),
            ]
            made += [np.full_like(given, given.reshape(-1)[int(at(wide))]) for at in (np.argmin, np.argmax)]
    return [x for k, x in enumerate(made) if not _same(x, given) and not any(_same(x, other) for other in made[:k])]


def _same(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


def _named(noun: str, names: Sequence[str]) -> str:
    return f"{noun} {names[0]} is" if len(names) == 1 else f"{noun}s {listed(names)} are"
