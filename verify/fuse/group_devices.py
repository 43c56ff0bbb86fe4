"""Whether what became one call was on one device (rule M8; specs/verify.md, "fuse")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.semantics.alias import bindings
from assay.semantics.graph import CallTIR, Expr, Function
from assay.semantics.module import GROUP, Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.walk import post_order


def misplaced_group(target: Module, fused: Sequence[PrimFunc]) -> Iterator[str]:
    """A group that copies, or that is on several devices, or whose parameters are in other scopes than its calls have
    them; and a call of a group elsewhere than its calls."""
    where = {}
    for kernel in fused:
        group = target.group(kernel)
        assert group is not None
        calls = [value for _, value in bindings(group) if isinstance(value, CallTIR)]
        devices = {v.device for v in calls}
        if len(devices) > 1:
            yield f"{kernel.name} is on {' and on '.join(sorted(map(str, devices)))}: a call runs on one device"
        members = [target.kernel(v.func) for v in calls]
        copy = next((m.name for m in members if m.attrs.get("operator") == "device_copy"), None)
        if copy is not None:
            yield f"{kernel.name} does what {copy} does, a device_copy: only that may read on another device"
        said: dict[Expr, str] = dict(zip(group.params, (b.scope for b in kernel.inputs), strict=False))
        for v, member in zip(calls, members, strict=True):
            for a, b in zip(v.args, member.inputs, strict=False):
                if said.get(a, b.scope) != b.scope:
                    yield f"{kernel.name} takes in scope {said[a]} what {member.name} takes in scope {b.scope}"
        if members and [b.scope for b in kernel.outputs] != [b.scope for b in members[-1].outputs]:
            yield f"{kernel.name} makes its result in another scope than {members[-1].name}"
        where[kernel.name] = next(iter(devices), None)
    for name, d in target.definitions.items():
        root: Expr | None = d if isinstance(d, Function) else None
        for node in () if root is None else post_order(root):
            if isinstance(node, CallTIR) and GROUP in target.kernel(node.func).attrs:
                device = where.get(node.func)
                if device is not None and device != node.device:
                    yield f"in {name}: {node.func} is called on {node.device}, its calls were on {device}"
