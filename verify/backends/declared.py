"""What a backend says of itself, beside its name (specs/verify.md, "Backends").

class Mine:
    name = "mine"
    accepts = ["flushes"]             # freedoms: names, or an Accepts
    operators = {"Add", "com.acme::Gelu"}   # all that it takes; or supports(node), which says so of one
    refuses = (mine.NotYet,)          # exceptions that are refusals, as NotImplementedError is
    traps = (mine.RunFailed,)         # exceptions that say that the program fails, as assay.Trap does
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import onnx

from assay.lower.frontends.onnx.inner_nodes import nodes_of_model
from assay.semantics.errors import Invalid
from assay.verify.app.foreign import foreign
from assay.verify.evidence import listed
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts

Errors = tuple[type[BaseException], ...]


@dataclass(frozen=True)
class Declared:
    """The freedoms that it takes; the operators, None for all, and whether it takes a node of them; the exceptions that
    are refusals, and that are traps of the program. `package` is the package that its code is in."""

    accepts: Accepts = EVERYTHING_KEPT
    operators: frozenset[str] | None = None
    supports: Callable[[onnx.NodeProto], Any] | None = None
    refuses: Errors = ()
    traps: Errors = ()
    package: str = field(default="", compare=False)

    def takes(self, node: onnx.NodeProto) -> bool:
        """Whether it takes a node, by what it declares."""
        if self.operators is not None and operator_of(node) not in self.operators:
            return False
        return self.supports is None or bool(self.supports(node))

    def undeclared(self, model: onnx.ModelProto) -> str:
        """What of a model it does not take, in words; "" where it takes all."""
        if self.operators is None and self.supports is None:
            return ""
        missing = dict.fromkeys(operator_of(node) for node in nodes_of_model(model) if not self.takes(node))
        return f"it does not take {listed(list(missing))}" if missing else ""


def operator_of(node: onnx.NodeProto) -> str:
    """The name of a node's operator: `Add`; with its domain where that is not ONNX's, `com.acme::Gelu`."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def declared_by(backend: Any, name: str) -> Declared:
    """What a backend says of itself by its attributes. Invalid (backend.C4): one of them is not of its form."""

    def wrong(why: object) -> Invalid:
        return Invalid(f"the backend {name}: {why}", label="backend.C4")

    def errors(of: str, value: Any) -> Errors:
        found = tuple(value) if isinstance(value, (tuple, list, set, frozenset)) else (value,)
        odd = [v for v in found if not (isinstance(v, type) and issubclass(v, BaseException))]
        if odd:
            raise wrong(f"`{of}` holds {odd[0]!r:.100}; classes of exceptions are wanted")
        return found

    backend = getattr(backend, "declares", backend)
    with foreign(lambda raised: wrong(f"what it declares raised {raised}")):
        said = {n: getattr(backend, n, None) for n in ("accepts", "operators", "supports", "refuses", "traps")}
        try:
            accepts = Accepts.of(said["accepts"])
        except Invalid as odd:
            raise wrong(odd.message) from None
        if said["supports"] is not None and not callable(said["supports"]):
            raise wrong("`supports` is no function; one from a node to whether it is taken is wanted")
        return Declared(
            accepts,
            None if said["operators"] is None else _names(said["operators"], wrong),
            said["supports"],
            errors("refuses", said["refuses"] or ()),
            errors("traps", said["traps"] or ()),
            _package(backend),
        )


def _names(given: Any, wrong: Callable[[object], Invalid]) -> frozenset[str]:
    found = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    if isinstance(given, str) or any(not isinstance(n, str) for n in found):
        raise wrong(f"`operators` is {given!r:.100}; names of operators are wanted, such as {{'Add', 'MatMul'}}")
    return frozenset(n.removeprefix("ai.onnx::") for n in found)


def _package(backend: Any) -> str:
    return str(getattr(backend, "__module__", "")).partition(".")[0]
