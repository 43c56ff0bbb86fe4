"""What the tensors of a program are called (specs/verify.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from assay.semantics.errors import Trap, Unpredictable
from assay.semantics.graph import Expr
from assay.semantics.left_open import Opening
from assay.semantics.module import Module
from assay.verify.oracle.declarations import Accepts
from assay.verify.oracle.left_open import Node, of_nodes
from assay.verify.oracle.walk import Places, RecordingRun


@dataclass(frozen=True)
class Named:
    """Tensors by name, which call makes them, and of which of the standard's nodes they are results."""

    tensors: Mapping[str, Expr] = field(default_factory=dict)
    places: Places = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    collected: Set[str] = frozenset()
    """Those that a loop of ONNX collects, one element an iteration."""

    def is_sizeless(self, name: str, allowed: Any, got: Any) -> bool:
        """Whether something is a right result of a loop that collected nothing: of what sizes the elements are that
        there are none of, ONNX does not say."""
        return (
            name in self.collected
            and got.dtype == allowed.dtype
            and got.ndim == len(allowed.shape)
            and got.shape[:1] == tuple(allowed.shape[:1]) == (0,)
        )

    def beside(self, tensors: Set[str]) -> frozenset[str]:
        """These tensors, and all that the nodes of the standard's that make them read or make."""
        nodes = [self.nodes[t] for t in tensors if t in self.nodes]
        return frozenset(tensors).union(*(n.inputs for n in nodes), *(n.outputs for n in nodes))

    def openings(
        self,
        module: Module,
        inputs: Mapping[str, Any],
        theirs: Mapping[str, Any],
        accepts: Accepts,
        asked: Mapping[str, Expr] | None = None,
    ) -> Mapping[str, Sequence[Opening]]:
        """What is left open in the results of nodes, on the operands that a run has; `theirs` take the place of
        ours. Of the results of all nodes, or of those that give one of the tensors that are `asked` for."""
        nodes = {t: n for t, n in self.nodes.items() if asked is None or not asked.keys().isdisjoint(n.outputs)}
        if not nodes:
            return {}
        walk = RecordingRun(module, self.places, theirs, accepts, asked=asked)
        try:
            walk.run(inputs)
        except (Trap, Unpredictable):
            pass  # what was made before can still be judged
        return of_nodes(nodes, walk.ours, {**walk.ours, **theirs}, self.tensors, inputs)
