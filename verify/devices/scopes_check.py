"""Whether instances of tensor functions differ from their originals in scopes alone (rule M6.23; specs/verify.md,
"devices").

Original and instance are walked in step, field by field, without the code that makes instances. Then the instance is
looked at by itself: each view, and each parameter of what is called, is in the scope of the memory that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from assay.semantics.errors import Span
from assay.semantics.graph import CallTIR, Function
from assay.semantics.graph.effects import is_opaque
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.tensor import Buffer, Call, PrimFunc, View
from assay.semantics.types import flatten
from assay.semantics.walk import Worklist, ids, post_order, pre_order
from assay.verify.devices.erase import INSTANCE, original_of
from assay.verify.evidence import Evidence, checked, plural, refuted


def check_scopes(before: Module, after: Module) -> Evidence:
    """Whether `after` is `before` with instances of its tensor functions for memory scopes.

    The tensor functions of `before` are there as they were; each new one is an instance of one of them, and what that
    says of scopes stays. What a graph function of `after` calls leaves no scope open, all the way down, and takes each
    operand in the scope in which it is. Not said of calls whose operands have no scope: there nothing is planned.
    """
    found = 0
    for name, func in sorted(before.kernels.items()):
        if after.definitions.get(name) is not func and next(
            differences(func, after.definitions.get(name), before, after), None
        ):
            return refuted("checked", f"the tensor function {name} is not what it was")
    for name, func in sorted(after.kernels.items()):
        if name in before.definitions:
            continue
        original = original_of(after, name)
        if original == name or original not in before.kernels:
            return refuted("checked", f"{name} is new, and no instance of a tensor function that was there")
        wrong = next(differences(before.kernels[original], func, before, after), None)
        if wrong is not None:
            return refuted("checked", f"{name}, an instance of {original}: {wrong}")
        found += 1
    called = 0
    for where, call in _calls(after):
        called += 1
        wrong = next(_call(call, after), None)
        if wrong is not None:
            return refuted("checked", f"{where} calls {call.func}: {wrong}{_at(call.span)}")
    return checked(
        f"{plural(found, 'instance')} equal but for scopes, {plural(called, 'call')} in the scopes of the operands"
    )


def differences(
    original: PrimFunc, other: object, before: Module, after: Module, *, moves: bool = False
) -> Iterator[str]:
    """In what `other` differs from `original` besides open scopes that are said, and what is wrong with its scopes.

    With `moves`, scopes that the original says may be others, as long as all that names the memory has them.
    """
    if not isinstance(other, PrimFunc):
        yield "it is no tensor function"
        return
    walk = _Walk(before, after)
    yield from walk.run(original, other)
    for a, b in walk.buffers.items():
        if a.scope and not moves and a.scope != b.scope:
            yield f"{b.name} was in {a.scope} and is in {b.scope or 'an open scope'}"
    for old, view in walk.views:
        if view.buffer.scope != view.source.scope and not _crossed(old.buffer, old.source, view.buffer, view.source):
            yield (
                f"{view.buffer.name} is in {view.buffer.scope or 'an open scope'}, its memory {view.source.name} in"
                f" {view.source.scope or 'an open scope'}"
            )
    for first, call in walk.calls:
        was = before.kernels.get(first.function)
        of = after.kernels.get(call.function)
        if of is None or was is None:
            yield f"there is no tensor function {call.function}"
            continue
        for p, b, old_p, old_b in zip(of.params, call.buffers, was.params, first.buffers, strict=False):
            if p.scope != b.scope and not _crossed(old_p, old_b, p, b):
                yield (
                    f"{b.name} is in {b.scope or 'an open scope'}, and is handed to {of.name} as {p.name} in"
                    f" {p.scope or 'an open scope'}{_at(call.span)}"
                )


def _crossed(old: Buffer, old_source: Buffer, new: Buffer, source: Buffer) -> bool:
    """Whether two crossed in the original, which traps, and cross alike."""
    return "" not in (old.scope, old_source.scope) and (old.scope, old_source.scope) == (new.scope, source.scope)


def _calls(module: Module) -> Iterator[tuple[str, CallTIR]]:
    """The calls of tensor functions in graph functions, as far as these say in which scope their values are."""
    for name, d in sorted(module.definitions.items()):
        if isinstance(d, Function) and not is_opaque(d):
            for node in post_order(d):
                if isinstance(node, CallTIR) and node.device.scope and all(a.device.scope for a in node.args):
                    yield name, node


def _call(call: CallTIR, module: Module) -> Iterator[str]:
    func = module.kernel(call.func)
    if func.attrs.get("operator") == "device_copy":
        return
    given = [a.device.scope for a in call.args for _ in flatten(a.type)] + [call.device.scope] * len(flatten(call.type))
    for p, scope in zip(func.params, given, strict=True):
        if p.scope != scope:
            yield f"{p.name} is in {p.scope or 'an open scope'}, what it is given in {scope}"
    work = Worklist([call.func], lambda name: name)
    for name in work:
        of = module.kernel(name)
        for part in _parts(of):
            if isinstance(part, Buffer) and not part.scope:
                yield f"{part.name} of {of.name} is in an open scope"
            if isinstance(part, Call) and not part.extern:
                work.add([part.function])


def _parts(root: object) -> Iterator[object]:
    """Everything in a tensor function, by its fields."""
    plain = (str, int, float, type(None), np.ndarray, np.generic, Span)
    return pre_order(root, lambda at: [v for v in _children(at).values() if not isinstance(v, plain)])


def _children(of: object) -> dict[str, Any]:
    if isinstance(of, Mapping):
        return {repr(k): v for k, v in of.items()}
    if isinstance(of, (tuple, list)):
        return {str(i): v for i, v in enumerate(of)}
    return {f.name: getattr(of, f.name) for f in fields(of)} if is_dataclass(of) and not isinstance(of, type) else {}


@dataclass(eq=False)
class _Walk:
    """Two functions in step. Buffers and variables of one stand for one each of the other."""

    before: Module
    after: Module
    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    views: list[tuple[View, View]] = field(default_factory=list)
    calls: list[tuple[Call, Call]] = field(default_factory=list)
    there: dict[int, int] = field(default_factory=dict)
    back: dict[int, int] = field(default_factory=dict)

    def run(self, a: PrimFunc, b: PrimFunc) -> Iterator[str]:
        work = Worklist[tuple[str, Any, Any]]([("the function", a, b)], lambda item: ids(item[1:]))
        for path, x, y in work:
            if type(x) is not type(y):
                yield f"{path}: {type(x).__name__} has become {type(y).__name__}"
                continue
            if isinstance(x, (Var, Buffer)) and not self.one(x, y):
                yield f"{path}: {x.name} has become two, or two have become {y.name}"
                continue
            left, right = _children(x), _children(y)
            if isinstance(x, PrimFunc):
                for of in (left, right):
                    del of["name"]
                    of["attrs"] = {k: v for k, v in of["attrs"].items() if k not in (INSTANCE, "global_symbol")}
            if isinstance(x, Buffer):
                self.buffers[x] = y
                del left["scope"], right["scope"]
            elif isinstance(x, View):
                self.views.append((x, y))
            elif isinstance(x, Call) and not x.extern and not y.extern:
                self.calls.append((x, y))
                if original_of(self.before, x.function) != original_of(self.after, y.function):
                    yield f"{path}: it calls {y.function}, not an instance of {x.function}{_at(x.span)}"
                del left["function"], right["function"]
            if left.keys() != right.keys():
                yield f"{path}: other parts"
            elif left:
                where = "".join(f" {n.name}" for n in (x,) if isinstance(n, (Var, Buffer)))
                work.add((f"{type(x).__name__}{where}.{k}", left[k], right[k]) for k in left if k != "span")
            elif not _same(x, y):
                yield f"{path}: {x!r} has become {y!r}"

    def one(self, x: Any, y: Any) -> bool:
        return self.there.setdefault(id(x), id(y)) == id(y) and self.back.setdefault(id(y), id(x)) == id(x)


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, (np.ndarray, np.generic)):
        return bool(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes())
    return x is y or bool(x == y) or (isinstance(x, float) and x != x and y != y)


def _at(span: Span | None) -> str:
    return "" if span is None else f" ({span})"
