"""Programs of steps against the graph function they come from (specs/verify.md, "liveness").

Values are numbered slot by slot, from the steps alone: what the planner thought is not read.
"""

from __future__ import annotations

from math import prod

from assay.semantics.alias import bindings
from assay.semantics.graph import CallTIR, show_head
from assay.semantics.module import Branch, Module, Step
from assay.semantics.types import ANYWHERE, VirtualDevice, flatten
from assay.verify.evidence import Evidence, proved, refuted
from assay.verify.numbering import Table, can_trap, failures, number_function, step_results, tensors


def describe(step: Step | Branch, index: int) -> str:
    """A step for a message: its kernel, its place, its number."""
    if isinstance(step, Branch):
        return f"step {index} (the choice by {step.condition})"
    return f"step {index} ({step.kernel}" + (f" at {step.span})" if step.span else ")")


def check_program(source: Module, target: Module) -> Evidence:
    """Whether the program computes what the graph function does, slot by slot: a proof by numbering."""
    table = Table()
    graph = number_function(source.main, source, table)
    program = target.program
    holds: dict[str, int] = {name: table.number("parameter", i) for i, name in enumerate(program.inputs)}
    for name in target.constants:
        holds[name] = table.constant(target.constants[name])
    trapping: list[int] = []
    devices: dict[int, set[VirtualDevice]] = {}
    for var, value in bindings(source.main):
        if isinstance(value, CallTIR):
            on = var.device if value.device == ANYWHERE else value.device
            devices.setdefault(tensors(graph.of[id(value)], value.type, table)[0], set()).add(on)
    for i, step in enumerate(program.steps):
        for name in step.reads:
            if name not in holds:
                return refuted("proved", f"{describe(step, i)} reads {name}, which nothing has written")
        if isinstance(step, Branch):
            return refuted("proved", f"{describe(step, i)}: choices are not numbered yet")
        kernel = target.kernel(step.kernel)
        wanted = [(b.static_shape, b.dtype) for b in kernel.params]
        given = [program.slots[n].type for n in (*step.reads, *step.writes)]
        for (shape, dtype), t, name in zip(wanted, given, (*step.reads, *step.writes), strict=True):
            if t.dtype is not dtype or prod(t.static_shape) != prod(shape):
                return refuted("proved", f"{describe(step, i)} takes {shape} {dtype} where slot {name} is {t}")
        results = step_results(kernel, [holds[n] for n in step.reads], table, target)
        if can_trap(kernel):
            trapping.append(results[0])
        if step.kernel in source.definitions and step.device not in devices.get(results[0], {step.device}):
            return refuted("proved", f"{describe(step, i)} runs on {step.device}, which no call of that value names")
        for name, number in zip(step.writes, results, strict=True):
            holds[name] = number
        for name in step.scratch:
            holds.pop(name, None)
    results = tensors(graph.result, source.main.result_type, table)
    for name, number in zip(program.outputs, results, strict=True):
        if holds.get(name) != number:
            computed = set(holds.values())
            calls = [n for n in graph.order if isinstance(n, CallTIR)]
            lost = next((n for n in calls if not computed & set(tensors(graph.of[id(n)], n.type, table))), None)
            why = f": {show_head(lost)} at {lost.span} is never computed" if lost is not None else ""
            return refuted("proved", f"output {name} does not get its value{why}")
    if trapping != failures(graph, source, table):
        return refuted("proved", "a step that can trap is dropped, added or moved")
    params = [(p.name, str(p.type)) for p in source.main.params]
    if params != [(n, str(program.slots[n].type)) for n in program.inputs]:
        return refuted("proved", "the program's inputs are not the function's parameters")
    types = [str(t) for t in flatten(source.main.result_type)]
    if types != [str(program.slots[n].type) for n in program.outputs]:
        return refuted("proved", "the program's outputs do not have the types of the function's results")
    for name, slot in zip(source.main.attrs.get("outputs", ()), program.outputs, strict=False):
        if slot != name and not slot.startswith(f"{name}_"):
            return refuted("proved", f"output {name} is written to {slot}")
    return proved(f"every output gets its value for every input; {len(program.steps)} steps")
