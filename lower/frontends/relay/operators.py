"""Calls of Relay operators: one table, and what stands around every call (specs/lower.md, "Relay").

    from_relay("nn.dense", [x, w], {"units": 10})

A size `?` that a row uses must have a value where it is used, and an operand that acts is evaluated once: where that is
not so, the operands are bound by lets, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from assay.lower.frontends.relay import elementwise, movement, network, selection
from assay.lower.frontends.relay.build import Relay, Row
from assay.semantics import graph
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid, Span, Unsupported
from assay.semantics.graph import Constant, Expr, Function, Var
from assay.semantics.graph.sizes import sizes_used
from assay.semantics.operator import Reasons
from assay.semantics.scalar import Dim, Var as Symbol, variables
from assay.semantics.text.relax.build import MISFITS, attribute, misfit
from assay.semantics.types import open_symbols, same_type, symbols, with_dims
from assay.semantics.walk import post_order

ROWS: dict[str, Row] = {**elementwise.ROWS, **movement.ROWS, **network.ROWS, **selection.ROWS}
"""The operators of Relay that have a meaning here."""

UNREAD: Reasons = {
    ("astype", "concat", "permute_dims", "nn.leakyrelu", "truncate_divide", "matmul"): (
        "Relay's cast, concatenate, transpose, nn.leaky_relu, divide of integers, and nn.matmul"
    ),
    ("reciprocal", "nn.gelu", "nn.gelu_tanh", "det", "dft", "fmod"): "Relay has none",
    ("reinterpret",): "refused by name",
    ("nonzero",): "Relay's argwhere",
    ("unique", "suppress"): "refused by name",
}
"""Our operators that no operator of Relay of the same name gives, and why."""

LOWERED = ("vm.", "memory.", "call_lowered")


def relay_row(name: str) -> Row:
    """The row of a Relay operator; Unsupported, by name, where there is none."""
    found = ROWS.get(name)
    if found is not None:
        return found
    if name.startswith(LOWERED):
        message = f"{name} belongs to a later stage of TVM; give the module before it is lowered to explicit memory"
        raise Unsupported(message, label="relay.C12")
    raise Unsupported(f"the operator {name} is not handled", label="relay.C12")


def from_relay(
    name: str,
    args: Sequence[Expr],
    attrs: Mapping[str, Any],
    span: Span | None = None,
    acts: Callable[[Expr], bool] = lambda e: False,
    params: Collection[Symbol] = (),
) -> Expr:
    """The expression that a call means. `acts` says whether evaluating an operand is an action; `params` are sizes that
    have a value wherever they are met."""
    found = relay_row(name)
    if name == "arange":  # whose attributes only repeat the operands
        attrs = {k: v for k, v in attrs.items() if k not in ("start", "stop", "step")}
    operands, given = found.filled(name, args, attrs, "relay.C11", _read)
    build = Relay(name, span)
    open_ = [isinstance(a, Expr) and not isinstance(a, (Var, Constant)) for a in operands]
    active = any(acts(a) for a in args)
    if not active and not any(_sized(a, o, params) for o, a in zip(open_, operands, strict=True)):
        return _made(build, found, operands, given)
    names = {i: graph.var("x", a.type) for i, a in enumerate(operands) if open_[i]}
    made = _made(build, found, [names.get(i, a) for i, a in enumerate(operands)], given)
    used = {s for n in post_order(made, lambda n: () if isinstance(n, Function) else n.children) for s in sizes_used(n)}
    if not active and not used:
        return _made(build, found, operands, given)
    plain = {s for a in operands if isinstance(a, Expr) for s in open_symbols(a.type)}
    if not used <= {*params, *plain}:
        # what is a part of a size alone has no value here: the whole gets a name, and with it one
        operands = [named(a, params) if isinstance(a, Expr) else a for a in operands]
        names = {i: graph.var("x", a.type) for i, a in enumerate(operands) if isinstance(a, Expr)}
        made = _made(build, found, [names.get(i, a) for i, a in enumerate(operands)], given)
    for i in reversed(names):
        made = graph.let(names[i], operands[i], made, span=span)
    return made


def _sized(value: Any, is_open: bool, params: Collection[Symbol]) -> bool:
    """Whether sizes of an operand may have no value where the call stands."""
    if not isinstance(value, Expr) or all(s in params for s in symbols(value.type)):
        return False
    return is_open or named(value, params) is not value


def named(value: Expr, params: Collection[Symbol]) -> Expr:
    """`value` with a fresh symbol for every size that is an expression over symbols which may have no value here."""

    def name(d: Dim) -> Dim:
        hidden = not isinstance(d, (int, Symbol)) and any(s not in params for s in variables(d))
        return Symbol("d") if hidden else d

    if all(s in params for s in symbols(value.type)):
        return value
    of = with_dims(value.type, name)
    return value if same_type(of, value.type) else graph.match_cast(value, of, span=value.span)


def _read(value: Any) -> Any:
    return value if isinstance(value, VirtualDevice) else attribute(value)


def _made(build: Relay, found: Row, operands: list[Any], given: Mapping[str, Any]) -> Expr:
    try:
        return found.make(build, operands, given)
    except Invalid as wrong:  # of a row of Relax, which both share, perhaps: in Relay's words then
        label = "relay.C12" if isinstance(wrong, Unsupported) else "relay.C11"
        label = label if wrong.label.startswith("relax.") else wrong.label
        raise type(wrong)(wrong.message.removeprefix("R."), where=wrong.where, label=label) from None
    except MISFITS:
        raise Invalid(misfit(build.name, operands, given), label="relay.C11") from None
