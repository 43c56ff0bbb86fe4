"""Tensors of 16 bits that a backend holds in a wider dtype between its operators (rule M9.11; specs/verify.md,
"Verdict").

An operator then reads numbers that were not rounded to 16 bits, or overflowed there. `Kept` runs an operator so: a
tensor of 16 bits is carried as intervals that hold the number before it was rounded and after, and shown as what is
left of it in 16 bits where it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.interp.values import Value
from assay.semantics.bounds import Bounded
from assay.semantics.dtypes import FLOAT32, DType, dtype
from assay.semantics.graph import Function
from assay.semantics.module import Module
from assay.semantics.operator import Operator
from assay.semantics.types import TensorType
from assay.semantics.walk import post_order
from assay.verify.oracle.declarations import NAME
from assay.verify.oracle.signs import carried_over

SAID = f"this rests on the right {NAME!r}: tensors of 16 bits may be held in float32 between operators (M9.11)"


def is_narrow(of: DType) -> bool:
    """Whether backends hold numbers of the dtype in a wider one."""
    return of.is_float and of.bits == 16


def has_narrow(module: Module) -> bool:
    """Whether a tensor of the module is of such a dtype."""
    types = {id(n.type): n.type for d in module.definitions.values() if isinstance(d, Function) for n in post_order(d)}
    return any(isinstance(t, TensorType) and is_narrow(t.dtype) for of in types.values() for t in post_order(of))


def _as_float32(x: Value) -> Value:
    if not isinstance(x, Bounded) or not is_narrow(x.of):
        return x
    return Bounded(x.raw, 0 if x.is_exact else x.radius, FLOAT32, x.terms)


def carried(x: Bounded, of: DType) -> Bounded:
    """Numbers as float32 has them, of a tensor of 16 bits: as they are, or rounded. Exact ones that have 16 bits are
    themselves (rule M9.11)."""
    with np.errstate(all="ignore"):
        short = x.value.astype(of.numpy).astype(np.float64) == x.value
        more = of.unit_roundoff * (np.abs(x.value) + x.radius) + of.smallest_subnormal
        off = np.where((short & (x.radius == 0)) | ~np.isfinite(x.value), x.radius, x.radius + more)
    return Bounded(x.value, 0 if x.is_exact and bool(short.all()) else off, of, x.terms)


def own(x: Any) -> Any:
    """A backend's tensor, of which its operators may have read what it was before it had 16 bits. An infinity may have
    been any large number."""
    of = dtype(x.dtype)
    if not is_narrow(of):
        return Bounded.exact(x) if of.is_float else x
    value = np.asarray(x).astype(np.float64)
    off = of.unit_roundoff * np.abs(value) + of.smallest_subnormal
    return Bounded(
        np.nan_to_num(value, posinf=0.0, neginf=0.0, nan=np.nan),
        np.where(np.isinf(value), np.inf, np.where(np.isnan(value), 0.0, off)),
        of,
    )


@dataclass
class Kept:
    """The tensors of one run, as they are carried, beside how they are shown."""

    carried: dict[int, tuple[Value, Value]] = field(default_factory=dict)
    shown: dict[int, tuple[Value, Value]] = field(default_factory=dict)

    def apply(
        self, op: Operator | None, attrs: Mapping[str, Any], args: Sequence[Value], ordinary: Callable[..., Value]
    ) -> Value:
        """The result as it is shown. What has no operand of 16 bits is ordinary, but for a cast to 16 bits."""
        narrows = op is not None and op.name == "astype" and is_narrow(dtype(attrs["dtype"]))
        if op is None or not (narrows or any(isinstance(a, Bounded) and is_narrow(a.of) for a in args)):
            return ordinary(*args)
        wide = [_as_float32(a) for a in args]
        if narrows:
            (x,) = wide
            to = dtype(attrs["dtype"])
            if not isinstance(x, Bounded) or not x.of.is_float:
                return ordinary(*args)
            return self.keep(Bounded(x.raw, 0 if x.is_exact else x.radius, FLOAT32, x.terms), to)
        of, *_ = (a.of for a in args if isinstance(a, Bounded) and is_narrow(a.of))
        made = op.value(attrs, *wide)
        if isinstance(made, tuple):
            return tuple(self.keep(m, of) for m in made)
        return self.keep(made, of) if op.name != "astype" else made

    def keep(self, made: Value, of: DType) -> Value:
        """A result that was computed in float32."""
        if isinstance(made, np.ndarray) and dtype(made.dtype) is FLOAT32:
            made = Bounded.exact(made)
        if not isinstance(made, Bounded) or made.of is not FLOAT32:
            return made
        with np.errstate(all="ignore"):
            shown = made.astype(of.numpy)
        self.carried[id(shown)] = shown, carried(made, of)
        return shown

    def carry(self, shown: Value) -> Value:
        """How a result goes on: as it is carried, where it is one of ours."""
        if isinstance(shown, tuple):
            return tuple(map(self.carry, shown))
        found = self.carried.get(id(shown))
        made = found[1] if found is not None else shown
        if isinstance(made, Bounded) and is_narrow(made.of) and found is None:
            made = carried(made, made.of)
        carried_over(shown, made)
        if made is not shown:
            self.shown[id(made)] = made, shown
        return made

    def show(self, value: Value) -> Value:
        """An output as it is shown: in 16 bits."""
        if isinstance(value, tuple):
            return tuple(map(self.show, value))
        return self.shown[id(value)][1] if id(value) in self.shown else value
