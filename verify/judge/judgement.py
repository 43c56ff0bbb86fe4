"""All that was found of those that were judged on one program (specs/verify.md, "judge")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.verify.backends.protocol import Subject
from assay.verify.evidence import listed, plural
from assay.verify.exits import Exit, gravest
from assay.verify.judge.outcome import BackendVerdict
from assay.verify.judge.samples import Sample

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class Judgement:
    """What was found of each backend; the sizes that were chosen, by the names of the symbolic dims; the sets of inputs
    in the order in which they were run.

    >>> def upside_down(model, inputs):
    ...     return {"y": numpy.zeros((len(inputs["x"]), 2), "float32")}
    >>> judgement = assay.judge("model.onnx", upside_down, {"x": numpy.ones((1, 3), "float32")})
    >>> judgement.holds, judgement.verdicts[0].outcome
    (False, 'wrong')
    """

    verdicts: tuple[BackendVerdict, ...]
    chosen: Mapping[str, int]
    samples: tuple[Sample, ...]
    subject: Subject
    seed: int = 0
    source: str = ""
    """The name of the model's file, "" where it has none."""
    texts: Mapping[str, Array] = field(default_factory=dict)
    """The strings that were chosen for inputs whose characters are read, by the names of these."""

    @property
    def exit(self) -> Exit:
        """The exit code of a command that found only this."""
        return gravest(v.exit for v in self.verdicts)

    @property
    def holds(self) -> bool | None:
        """True if every backend is right, False if one is wrong, None if of one it is not known."""
        return {Exit.HOLDS: True, Exit.WRONG: False}.get(self.exit)

    def __repr__(self) -> str:
        """Each backend's closing line."""
        return f"<Judgement: {'; '.join(v.closing() for v in self.verdicts) or 'nobody was judged'}>"

    def opening(self) -> list[str]:
        """What is judged on what, in words."""
        nodes = self.subject.model.graph.node
        lines = [f"{plural(len(nodes), 'node')} of {plural(len({n.op_type for n in nodes}), 'operator')}"]
        if self.chosen:
            sizes = ", ".join(f"{name}={size}" for name, size in self.chosen.items())
            lines[0] += f"; sizes chosen: {sizes} (others with --dim)"
        for name, texts in self.texts.items():
            some = listed([repr(str(t)) for t in texts.reshape(-1)])
            lines.append(f"strings chosen: {name} = {some} (others with --inputs)")
        lines.append(f"{plural(len(self.samples), 'set')} of inputs: {', '.join(s.name for s in self.samples)}")
        return lines
