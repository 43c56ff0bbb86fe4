"""Whether our own definition meets what a program's cases expect (specs/verify.md, "Programs with cases").

What a case claims is asked in full: that exact results leave no implementation a choice, that others lie within the
bounds, and that an open element may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from assay.interp import graph, tensor
from assay.interp.graph.memory_limits import memory_traps
from assay.interp.values import Event, render
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import dtype
from assay.semantics.errors import Invalid, Trap, Unpredictable
from assay.semantics.graph import Function
from assay.semantics.tensor import PrimFunc
from assay.verify.border.values import from_value, to_arrays, to_value
from assay.verify.conform.placed import given_extern, run_placed
from assay.verify.conform.programs import ProgramCase, ProgramText, input_types, result_types
from assay.verify.oracle import Expected, Oracle, Possible
from assay.verify.oracle.layers import BITWISE, INTEGERS
from assay.verify.oracle.verdict import worst_exact

Array = np.ndarray[Any, Any]


def run_case(program: ProgramText, case: ProgramCase, trace: list[Event] | None = None) -> dict[str, Any]:
    """The results of a case by our definition, by name, in Python's form; its effects are appended to `trace`. Trap,
    Unpredictable: the run ends so. Invalid: the inputs are refused."""
    name = program.function(case)
    target = program.module.definitions[name]
    inputs = inputs_of(program, case)
    if case.offsets:
        return run_placed(program.with_entry(case), inputs, case.offsets)
    externs = {n: given_extern(program.module, by) for n, by in case.externs.items()}
    if isinstance(target, PrimFunc):
        with memory_traps():
            made = tensor.run(
                target, [inputs[b.name] for b in target.inputs], scalars=[inputs[s.name][()] for s in target.scalars],
                functions=program.module.kernels, externs=externs, trace=trace,
            )  # fmt: skip
        return {b.name: a for b, a in zip(target.outputs, made, strict=True)}
    assert isinstance(target, Function)
    found = graph.run(program.module, inputs, entry=target, kernel=tensor.run, externs=externs, trace=trace)
    return {n: from_value(v, program.module, f"result {n!r}") for n, v in found.items()}


def inputs_of(program: ProgramText, case: ProgramCase) -> dict[str, Any]:
    """The inputs of a case as a run takes them."""
    types = input_types(program.module, program.function(case))
    return {n: to_value(v, types[n], f"input {n!r}") for n, v in case.inputs.items()}


def faults_of(program: ProgramText, case: ProgramCase) -> list[str]:
    """Where the definition does not meet the case, in words; nowhere if it does."""
    expected = case.expected
    trace: list[Event] = []
    try:
        made = run_case(program, case, trace)
    except Trap as trap:
        if trap.kind == expected.trap:
            said = [] if expected.says in str(trap) else [f"the trap does not say {expected.says!r}: {trap}"]
            return said + _printed(case, trace)
        wanted = f"A.trap({expected.trap!r})" if expected.trap else "other than a trap"
        return [f"expected is {wanted}, and the run ends with {trap}"]
    except Unpredictable as why:
        return [f"the definition does not say what comes of this: {why}"]
    except Invalid as refused:
        if not expected.invalid:
            raise
        return (
            [] if expected.invalid == refused.label else [f"expected is {expected.invalid}, and it is said: {refused}"]
        )
    if expected.trap or expected.invalid:
        return [f"expected is {expected.trap or expected.invalid}, and the run gives results"]
    if printed := _printed(case, trace):
        return printed
    if expected.unpredictable:
        return _not_unpredictable(program, case)
    if expected.refuted:
        return _not_refuted(program, case, made)
    ours, theirs = to_arrays(made), to_arrays(_values(program, case))
    wrong = [f"{n} is missing or of another length" for n in ours.keys() ^ theirs.keys()]
    if wrong:
        return sorted(wrong)
    filled: dict[str, Array] = {}
    for name, array in theirs.items():
        found = _against(name, ours[name], array, case)
        wrong += [found] if found else []
        mask = expected.open.get(name)
        filled[name] = array if mask is None else np.where(mask, ours[name], array).astype(array.dtype)
    return wrong or ([] if case.offsets or case.externs else list(_claims(program, case, filled, ours)))


def _printed(case: ProgramCase, trace: list[Event]) -> list[str]:
    """What the run prints, where the case says something else."""
    found = tuple(render(e.name, e.values) for e in trace if e.kind == "print")
    if case.prints is None or case.prints == found:
        return []
    return [f"expected to be printed is {list(case.prints)}, and the run prints {list(found)}"]


def _not_unpredictable(program: ProgramText, case: ProgramCase) -> list[str]:
    module = program.with_entry(case)
    if module is None:
        return ["A.unpredictable is asked of an entry that is a graph function"]
    found = Expected(module, inputs_of(program, case), follows=True).possible
    return [] if isinstance(found, Unpredictable) else ["the definition says what comes of this"]


def _not_refuted(program: ProgramText, case: ProgramCase, made: Mapping[str, Any]) -> list[str]:
    """Whether planted results pass as right: bit for bit where the definition's own are asked for, else by the oracle,
    for any implementation."""
    ours, planted = to_arrays(made), to_arrays(_values(program, case))
    module = program.with_entry(case)
    if case.meaning or module is None:
        same = all(not _against(n, ours[n], planted[n], case) for n in planted)
        return ["the planted results are those of the definition"] if same else []
    oracle = Oracle(module)
    verdict = oracle.judge(
        oracle.expected(Expected(module, inputs_of(program, case), follows=True)), _renamed(planted, case)
    )
    return [] if verdict.outcome == "wrong" else [f"the planted results are not found wrong: {verdict}"]


def _values(program: ProgramText, case: ProgramCase) -> dict[str, Any]:
    """The results that are expected, shapes as arrays."""
    types = result_types(program.module, program.function(case))
    found = {n: to_value(v, types[n], f"result {n!r}") for n, v in case.expected.results.items()}
    return {n: from_value(v, program.module) for n, v in found.items()}


def _against(name: str, ours: Array, expected: Array, case: ProgramCase) -> str:
    """How a tensor differs from the definition's, but in open elements, "" where it does not."""
    if ours.shape != expected.shape or ours.dtype != expected.dtype:
        said = [f"Tensor({tuple(a.shape)}, {dtype(a.dtype)})" for a in (expected, ours)]
        return f"{name}: expected is {said[0]}, the definition gives {said[1]}"
    if name.partition(".")[0] in case.expected.within or name in case.expected.within:
        return ""
    mask = case.expected.open.get(name)
    given = expected if mask is None else np.where(mask, ours, expected).astype(expected.dtype)
    worst = worst_exact(name, ours, given, signs=True)
    if worst is None:
        return ""
    return f"{name} element {worst.index}: expected is {worst.got!r}, the definition gives {worst.least!r}"


def _claims(
    program: ProgramText, case: ProgramCase, filled: Mapping[str, Array], ours: Mapping[str, Array]
) -> Iterator[str]:
    """What else does not hold: what the case says of all implementations."""
    module = program.with_entry(case)
    if module is None:
        if case.expected.within or case.expected.open:
            yield "A.within and A.open are asked of an entry that is a graph function"
        return
    oracle = Oracle(module)
    expected = oracle.expected(Expected(module, inputs_of(program, case), follows=True))
    verdict = oracle.judge(expected, _renamed(filled, case))
    if verdict.outcome == "wrong" or (case.expected.within and verdict.outcome not in ("right", "open")):
        yield f"the expected results are {verdict}"
        return
    exact = {n for n, f in expected.findings(_renamed(filled, case)).items() if f.layer in (BITWISE, INTEGERS)}
    for name, array in filled.items():
        said = case.expected.open.get(name, np.zeros(array.shape, bool))
        is_open, free = _radius(expected.opened[1], name, array), _radius(expected.possible, name, array)
        if is_open is None or free is None:
            continue
        at = np.argwhere(said & (is_open == 0))
        if len(at):
            yield f"{name} element {_index(at)} is said to be open, and no entry of what is left open is about it"
        within = name.partition(".")[0] in case.expected.within
        loose = (np.zeros(array.shape, bool) if name in exact else free != 0) | (is_open > free)
        at = np.argwhere(loose & ~said)
        if len(at) and not case.meaning and not within:
            yield (
                f"{name} element {_index(at)}: a right implementation may give another number; say A.within(...) of the"
                " result, A.open of the element, or meaning=True of the case"
            )


def _radius(possible: Possible, name: str, like: Array) -> Array | None:
    """How far each element of a result may be from ours; None where nothing is known of it as a tensor."""
    allowed = possible.get(name) if isinstance(possible, dict) else None
    if isinstance(allowed, Bounded):
        return np.broadcast_to(np.asarray(allowed.radius, np.float64), like.shape)
    return np.zeros(like.shape) if hasattr(allowed, "dtype") else None


def _index(at: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in at[0])


def _renamed(arrays: Mapping[str, Array], case: ProgramCase) -> dict[str, Any]:
    """Results in Python's form again, from their parts."""
    found: dict[str, Any] = {}
    for name, value in case.expected.results.items():
        found[name] = _rebuilt(value, name, arrays)
    return found


def _rebuilt(value: Any, path: str, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, (tuple, list)) and path not in arrays:
        made = [_rebuilt(v, f"{path}.{i}", arrays) for i, v in enumerate(value)]
        return tuple(made) if isinstance(value, tuple) else made
    return arrays.get(path)
