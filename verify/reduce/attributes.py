"""Fewer and simpler attributes and operands (specs/verify.md, "reduce")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import helper

from assay.verify.reduce.case import ReducedCase, outputs_of, rebuilt


def fewer_attributes(case: ReducedCase) -> Iterator[ReducedCase]:
    """Cases without one attribute, without one optional operand at the end, with a simpler number."""
    for i, node in enumerate(case.nodes):
        for changed in _simpler(node):
            nodes = [*case.nodes[:i], changed, *case.nodes[i + 1 :]]
            yield rebuilt(case, nodes, outputs_of(case), {**case.initializers, **case.inputs})


def _simpler(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    for k, attribute in enumerate(node.attribute):
        without = _copied(node)
        del without.attribute[k]
        yield without
        value = (
            None
            if attribute.g.ByteSize() or attribute.graphs or attribute.tp.ByteSize()
            else helper.get_attribute_value(attribute)
        )
        for simpler in _numbers(value):
            changed = _copied(without)
            changed.attribute.insert(k, helper.make_attribute(attribute.name, simpler, attr_type=attribute.type))
            yield changed
    for k in range(1, len(node.input)):
        if node.input[k]:
            fewer = _copied(node)
            if k == len(node.input) - 1:
                del fewer.input[k]
            else:
                fewer.input[k] = ""
            yield fewer
    trimmed = _copied(node)
    while trimmed.input and not trimmed.input[-1]:
        del trimmed.input[-1]
    if len(trimmed.input) < len(node.input):
        yield trimmed


def _numbers(value: Any) -> Iterator[Any]:
    """Simpler values of a number or of several."""
    match value:
        case bool() | bytes() | str():
            return
        case int():
            yield from (n for n in (0, 1, value // 2) if abs(n) < abs(value))
        case float():
            yield from (x for x in (0.0, 1.0, float(round(value))) if x != value and value not in (0.0, 1.0))
        case list() if value and all(isinstance(v, int) for v in value):
            for n in (0, 1):
                if any(abs(n) < abs(v) for v in value):
                    yield [n] * len(value)
            for i, v in enumerate(value):
                yield from ([*value[:i], n, *value[i + 1 :]] for n in _numbers(v))


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    return changed
