"""Fewer operators: what one made is given instead (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from assay.lower.frontends.onnx.control import reads
from assay.verify.reduce.case import ReducedCase, outputs_of, rebuilt


def fewer_operators(case: ReducedCase) -> Iterator[ReducedCase]:
    """Cases with some of the operators: one alone, then the complements of ever shorter runs of them. Tensors that the
    others made are inputs, with the values that they have by the definition."""
    nodes = list(case.nodes)
    if len(nodes) < 2:
        return
    for node in nodes:
        yield from _kept(case, [node])
    length = len(nodes) // 2
    while length:
        for start in range(0, len(nodes), length):
            yield from _kept(case, nodes[:start] + nodes[start + length :])
        length //= 2
    for i, node in enumerate(nodes):
        yield from _bypassed(case, i, node)


def _kept(case: ReducedCase, nodes: Sequence[onnx.NodeProto]) -> Iterator[ReducedCase]:
    """The case with just these operators, if all that they read from others is known."""
    made = {o for n in nodes for o in n.output if o}
    read = {r for n in nodes for r in reads(n)}
    if not nodes or any(r not in made and r not in case.values for r in read):
        return
    own = set(outputs_of(case))
    outputs = [o for n in nodes for o in n.output if o and (o not in read or o in own)]
    if outputs:
        yield rebuilt(case, nodes, outputs, case.values)


def _bypassed(case: ReducedCase, at: int, node: onnx.NodeProto) -> Iterator[ReducedCase]:
    """The case without one operator, whose result is one of its operands of the same shape and dtype."""
    if len(node.output) != 1 or node.output[0] not in case.values:
        return
    result = case.values[node.output[0]]
    for operand in dict.fromkeys(node.input):
        value = case.values.get(operand)
        if value is None or value.shape != result.shape or value.dtype != result.dtype:
            continue
        if node.output[0] in outputs_of(case):
            continue
        others = []
        for other in (*case.nodes[:at], *case.nodes[at + 1 :]):
            changed = onnx.NodeProto()
            changed.CopyFrom(other)
            renamed = [operand if i == node.output[0] else i for i in other.input]
            del changed.input[:]
            changed.input.extend(renamed)
            others.append(changed)
        if not any(node.output[0] in reads(n) for n in others):
            yield rebuilt(case, others, outputs_of(case), case.values)


def fewer_outputs(case: ReducedCase) -> Iterator[ReducedCase]:
    """Cases with one output, and the operators that it needs; then those with one output less."""
    names = outputs_of(case)
    if len(names) < 2:
        return
    for some in (*([n] for n in names), *([*names[:i], *names[i + 1 :]] for i in range(len(names)))):
        needed = set(some)
        kept: list[onnx.NodeProto] = []
        for node in reversed(case.nodes):
            if needed & set(node.output):
                kept.append(node)
                needed.update(reads(node))
        yield rebuilt(case, kept[::-1], some, case.values)
