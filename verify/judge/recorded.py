"""What a device gave, as a backend without a program (specs/verify.md, "Recordings")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from assay.semantics.errors import Invalid
from assay.semantics.types import TensorType
from assay.verify.backends.protocol import Prepared, Subject, cannot
from assay.verify.border.onnx_words import numbers_of, text_tensors
from assay.verify.evidence import listed
from assay.verify.judge.between import judge_between
from assay.verify.judge.by_pieces import JudgedInPieces
from assay.verify.judge.piecewise import Piecewise
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Recording:
    """Outputs and other tensors of one run, by name."""

    name: str
    tensors: Mapping[str, Array]
    accepts: Accepts = EVERYTHING_KEPT
    rests: str = "recorded"
    once: bool = True

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Give what was recorded, whatever the inputs are: there is one set, on which it was. Unsupported: a wanted
        tensor was not recorded (backend.C2)."""
        missing = [n for n in wanted if n not in self.tensors]
        if missing:
            raise cannot(self.name, f"{missing[0]} was not recorded")
        return lambda inputs: {n: self.tensors[n] for n in wanted}

    def shown(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """All that was recorded."""
        return self.tensors

    def judge_between(self, run: Piecewise, sample: str, judged: JudgedInPieces, k: int, is_wrong: bool) -> None:
        """Judge each recorded tensor on those of which it was made."""
        judge_between(run, sample, judged, k, self.tensors)


def recording_of(subject: Subject, name: str, arrays: Mapping[str, Array]) -> Recording:
    """The recording of a run of a subject; inputs that it holds are left out, and strings are their numbers.

    Invalid (judge.C2): a name is none of the model, an array is not of its shape or dtype, an output is missing.
    """
    inputs = {p.name: p.type for p in subject.module.main.params}
    known = {n: e.type for n, e in subject.tensors.items()}
    where = f"the recording {name}"
    texts = text_tensors(subject.model)
    table = subject.module.main.attrs.get("strings", ())
    arrays = {n: numbers_of(table, a) if n in texts and a.dtype.kind == "U" else a for n, a in arrays.items()}
    for n, array in arrays.items():
        of = inputs.get(n, known.get(n))
        if of is None and n not in subject.outputs:
            near = get_close_matches(n, [*known, *inputs], 3)
            there = f"did you mean {' or '.join(near)}?" if near else f"its outputs are {', '.join(subject.outputs)}"
            raise Invalid(f"{where} has {n!r}, which is no tensor of the model; {there}", label="judge.C2")
        if isinstance(of, TensorType) and of.is_static:
            if (array.shape, array.dtype) != (of.static_shape, of.dtype.numpy):
                raise Invalid(
                    f"{where} has {n!r} as Tensor({array.shape}, {array.dtype}), and in the model it is {of}",
                    label="judge.C2",
                )
    missing = [n for n in subject.outputs if n not in arrays]
    if missing:
        raise Invalid(
            f"{where} has no output {missing[0]!r}; the outputs are {listed(subject.outputs, 6)}: all of them are"
            " wanted, intermediate tensors may be missing",
            label="judge.C2",
        )
    return Recording(name, {n: a for n, a in arrays.items() if n not in inputs})
