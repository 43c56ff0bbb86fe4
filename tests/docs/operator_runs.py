"""What operators give on special values, run when the pages are made (specs/verify.md, "Generated pages")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.interp.graph import evaluate
from assay.semantics.dtypes import BOOL, DTYPES, FLOAT32, DType, dtype
from assay.semantics.errors import AssayError, Trap, Unpredictable
from assay.semantics.graph import call, constant
from assay.semantics.left_open import OperatorUse
from assay.semantics.left_open.entries import BY_OPERATOR
from assay.semantics.operator import Example, Operator
from assay.semantics.types import TensorType

Array = np.ndarray[Any, Any]
INT8 = DTYPES["int8"]
FLOATS = {
    "NaN": np.nan, "inf": np.inf, "-inf": -np.inf, "0": 0.0, "-0": -0.0, "0.5": 0.5, "1": 1.0, "-1": -1.0,
    "2.5": 2.5, "greatest": float(np.finfo(np.float32).max), "least normal": float(np.finfo(np.float32).tiny),
    "least subnormal": float(np.finfo(np.float32).smallest_subnormal),
}  # fmt: skip
PAIRS = (
    ("NaN", "1"), ("1", "NaN"), ("inf", "inf"), ("inf", "-inf"), ("inf", "0"), ("0", "-0"), ("-0", "0"), ("1", "0"),
    ("0", "0"), ("-1", "0"), ("greatest", "greatest"), ("least normal", "0.5"), ("-1", "0.5"),
)  # fmt: skip
WHOLE = {"greatest": 127, "least": -128, "0": 0, "1": 1, "-1": -1, "7": 7, "8": 8}
WHOLE_PAIRS = (("greatest", "1"), ("least", "-1"), ("-1", "0"), ("7", "-1"), ("-1", "7"), ("1", "8"))
FILLS = (
    ("NaN first", np.nan, False), ("inf first", np.inf, False), ("-inf first", -np.inf, False),
    ("inf everywhere", np.inf, True), ("zeros", 0.0, True), ("-0 everywhere", -0.0, True),
    ("the greatest number everywhere", float(np.finfo(np.float32).max), True),
)  # fmt: skip


@dataclass(frozen=True)
class SpecialRun:
    """A run: what is given, what comes of it, and what else a standard allows there."""

    given: str
    gives: str
    left_open: str = ""


def special_runs(op: Operator) -> list[SpecialRun]:
    """The runs of an operator, each once."""
    runs: list[SpecialRun] = []
    for run in _runs(op):
        if run is not None and all(r.given != run.given for r in runs):
            runs.append(run)
    return runs


def _runs(op: Operator) -> Iterator[SpecialRun | None]:
    pointwise = is_pointwise(op)
    if pointwise and _takes(op, FLOAT32):
        yield from _pointwise(op, FLOAT32, FLOATS, PAIRS)
    if pointwise and _takes(op, INT8):
        yield from _pointwise(op, INT8, WHOLE, WHOLE_PAIRS)
    if pointwise:
        return
    examples = examples_of_floats(op)
    for example in examples if op.family == "elementwise" else examples[:1]:
        for said, number, everywhere in FILLS:
            run = _filled(op, example, said, number, everywhere)
            under = ", ".join(f"{k}={v!r}" for k, v in example.attrs.items()) if example is not examples[0] else ""
            yield replace(run, given=f"{under}; {run.given}") if run is not None and under else run
    for e in op.examples[:1]:
        yield _empty(op, e)
        yield from _outside(op, e)


def is_pointwise(op: Operator) -> bool:
    """Whether the runs are on single numbers, not on the operands of examples."""
    return op.family == "elementwise" and len(op.operands) <= 2 and not op.required


def examples_of_floats(op: Operator) -> list[Example]:
    """Examples whose first operand is of floats, one for each choice of attributes."""
    found = [e for e in op.examples if e.operands and dtype(e.operands[0][1]).is_float]
    return [e for i, e in enumerate(found) if all(e.attrs != other.attrs for other in found[:i])]


def _takes(op: Operator, of: DType) -> bool:
    return accepts(op, tuple(TensorType((1,), of) for _ in op.operands), {})


def accepts(op: Operator, types: tuple[TensorType, ...], attrs: dict[str, Any]) -> bool:
    """Whether the type rule takes these operands."""
    try:
        op.check_operands(len(types))
        op.type_rule(op.check_attrs(attrs), types)
    except AssayError:
        return False
    return True


def _pointwise(
    op: Operator, of: DType, numbers: dict[str, Any], pairs: Sequence[tuple[str, str]]
) -> Iterator[SpecialRun | None]:
    names = [(n,) for n in numbers] if len(op.operands) == 1 else list(pairs)
    for given in names:
        arrays = [np.asarray([numbers[n]], of.numpy) for n in given]
        yield _run(op, f"{of}: {', '.join(given)}", arrays, {})


def _filled(op: Operator, e: Example, said: str, number: float, everywhere: bool) -> SpecialRun | None:
    arrays = []
    for i, (shape, name) in enumerate(e.operands):
        made = _plain(shape, dtype(name), e.ranges.get(i))
        if i == 0:
            with np.errstate(all="ignore"):
                if everywhere:
                    made[...] = number
                elif made.size:
                    made.reshape(-1)[0] = number
        arrays.append(made)
    return _run(op, f"{op.operands[0].strip('*?')}: {said}", arrays, dict(e.attrs))


def _plain(shape: Sequence[int], of: DType, within: tuple[int, int] | None) -> Array:
    count = int(np.prod(shape))
    if within is not None:
        return (np.arange(count) % (within[1] - within[0]) + within[0]).astype(of.numpy).reshape(shape)
    if of is BOOL:
        return (np.arange(count) % 2 == 0).reshape(shape)
    return (np.arange(count) % 3 + 1).astype(of.numpy).reshape(shape)


def _empty(op: Operator, e: Example) -> SpecialRun | None:
    """No elements along the first axis of every operand, where the type rule takes that."""
    shapes = [((0, *s[1:]) if s else s, d) for s, d in e.operands]
    types = tuple(TensorType(s, dtype(d)) for s, d in shapes)
    if not any(s for s, _ in shapes):
        return None
    try:
        op.type_rule(op.check_attrs(e.attrs), types)
    except AssayError as wrong:
        return SpecialRun("no elements along the first axis", f"refused: {_short(wrong.message)} [{wrong.label}]")
    arrays = [_plain(s, dtype(d), e.ranges.get(i)) for i, (s, d) in enumerate(shapes)]
    return _run(op, "no elements along the first axis", arrays, dict(e.attrs))


def _outside(op: Operator, e: Example) -> Iterator[SpecialRun | None]:
    """A place that is one too far, and one that counts from the end."""
    for i, (_, end) in e.ranges.items():
        for said, number in (("-1", -1), (f"{end}, one too far", end)):
            arrays = [_plain(s, dtype(d), e.ranges.get(k)) for k, (s, d) in enumerate(e.operands)]
            arrays[i] = np.array(arrays[i])
            arrays[i].reshape(-1)[:1] = number
            yield _run(op, f"{op.operands[min(i, len(op.operands) - 1)].strip('*?')}: {said}", arrays, dict(e.attrs))


def _run(op: Operator, given: str, arrays: Sequence[Array], attrs: dict[str, Any]) -> SpecialRun | None:
    try:
        with np.errstate(all="ignore"):
            made = evaluate(call(op, *[constant(a) for a in arrays], **attrs))
    except Trap as trap:
        return SpecialRun(given, f"trap ({trap.kind})")
    except (Unpredictable, AssayError) as wrong:
        return SpecialRun(given, f"refused [{wrong.label}]")
    results = made if isinstance(made, tuple) else (made,)
    if not all(isinstance(r, np.ndarray | np.generic) for r in results):
        return None
    shown = "; ".join(shown_array(np.asarray(r)) for r in results)
    return SpecialRun(given, shown, _others(op, attrs, arrays, [np.asarray(r) for r in results]))


def _others(op: Operator, attrs: dict[str, Any], arrays: Sequence[Array], results: Sequence[Array]) -> str:
    """What an entry of the table of what is left open allows in this run."""
    if any(dtype(a.dtype).kind not in ("float", "int", "uint", "bool") for a in arrays):
        return ""
    said: list[str] = []
    use = OperatorUse(op.name, op.check_attrs(attrs), arrays, results)
    for entry in BY_OPERATOR.get(op.name, ()):
        with np.errstate(all="ignore"):
            if any(np.any(o.where) for o in entry.find(use)):
                said.append(f"{entry.allowed} ({entry.name})")
    return "; ".join(said)


def shown_array(a: Array) -> str:
    """An array in a cell: its elements where they are few, else how many and the first."""
    if a.size == 0:
        return f"shape {tuple(a.shape)}"
    flat = [_number(x) for x in a.reshape(-1)[:4]]
    if a.size == 1:
        return flat[0]
    same = a.size > 4 and len({_number(x) for x in a.reshape(-1)}) == 1
    if same:
        return f"{flat[0]} everywhere"
    return ", ".join(flat) + (f", ... {a.size} in all" if a.size > 4 else "")


def _number(x: Any) -> str:
    value = x.item()
    if isinstance(value, float):
        return f"{np.float32(value):.6g}" if x.dtype.itemsize <= 4 else f"{value:.6g}"
    return str(value)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def dtypes_of(op: Operator) -> list[tuple[str, str]]:
    """Which element types the operands take, found by asking the type rule on the shapes of the examples: for each
    group of operands that have to have one type, their names and the types."""
    found: dict[tuple[str, ...], set[str]] = {}
    for e in op.examples:
        own = [dtype(d) for _, d in e.operands]
        alone = [_taken(op, e, [i]) for i in range(len(own))]
        tied = [i for i, names in enumerate(alone) if names <= {own[i].name}]
        groups = [[i] for i in range(len(own)) if i not in tied]
        groups += [[i for i in tied if own[i] is of] for of in dict.fromkeys(own[i] for i in tied)]
        for places in sorted(groups):
            names = [op.operands[min(i, len(op.operands) - 1)].strip("*?") for i in places]
            found.setdefault(tuple(dict.fromkeys(names)), set()).update(_taken(op, e, places))
    return [(", ".join(key), said_types(found[key])) for key in _needed(found)]


def _needed(found: dict[tuple[str, ...], set[str]]) -> list[tuple[str, ...]]:
    """The groups that say something more than the others: neither all of what smaller ones say, nor a part of a larger
    one of the same types."""
    kept: list[tuple[str, ...]] = []
    for key, types in found.items():
        smaller = {n for other in found if set(other) < set(key) for n in other}
        if smaller != set(key) and not any(set(key) < set(other) and found[other] == types for other in found):
            kept.append(key)
    return kept


def _taken(op: Operator, e: Example, places: Sequence[int]) -> set[str]:
    """The element types that the operands at these places may have, all the same one, beside the others as they are."""
    taken = set()
    for of in DTYPES.values():
        types = tuple(TensorType(s, of if i in places else dtype(d)) for i, (s, d) in enumerate(e.operands))
        if accepts(op, types, dict(e.attrs)):
            taken.add(of.name)
    return taken


def said_types(names: set[str]) -> str:
    """Names of element types, whole kinds by their name."""
    left, said = dict.fromkeys(n for n in DTYPES if n in names), list[str]()
    if len(left) == len(DTYPES):
        return "every element type"
    for kind, words in (("bool", "bool"), ("int", "every int"), ("uint", "every uint"), ("float", "every float")):
        whole = [n for n, d in DTYPES.items() if d.kind == kind]
        if all(n in left for n in whole):
            said.append(words)
            left = {n: None for n in left if n not in whole}
    return ", ".join([*said, *left]) or "none"
