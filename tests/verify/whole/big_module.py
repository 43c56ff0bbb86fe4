"""Lower a module with large weights in a process of its own and print the greatest memory that it had, over the
weights' bytes: `python -m tests.verify.whole.big_module MEGABYTES DIR [check]`. Some weights are equal, some are
transposed by folding.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np

from assay.interp import machine, vector
from assay.lower.c import emit
from assay.semantics.builder import Builder, tensor
from assay.semantics.graph import Constant
from assay.semantics.module import Module
from assay.semantics.store import ArrayWriter, encode
from assay.semantics.walk import post_order
from assay.verify.app.stages import STAGES, lowering_passes
from assay.verify.evidence import Context

COUNT = 16


def peak() -> int:
    """The most bytes that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def build(megabytes: int) -> Module:
    """y = x @ w0 @ w1 @ ... with COUNT weights of `megabytes` together."""
    side = int((megabytes * 2**20 / COUNT / 4) ** 0.5)
    weights = [np.full((side, side), 0 if i in (5, 9) else i, np.float32) for i in range(COUNT)]
    for w in weights:
        w += np.arange(side, dtype=np.float32)[:, None]
        w.flags.writeable = False  # so it is taken as it is
    b = Builder()
    with b.function("main", x=tensor(2, side)) as f:
        y = f.x
        for i, w in enumerate(weights):
            y = b.matmul(y, b.permute_dims(b.constant(w)) if i % 4 == 3 else w)
        b.result(y)
    return b.module()


def main(megabytes: int, directory: Path, checked: bool) -> None:
    before = peak()
    module = build(megabytes)
    weights = sum(n.data.nbytes for n in post_order(module.main) if isinstance(n, Constant))
    evaluate = lowering_passes(vector.run)
    for stage in STAGES:
        made = evaluate[stage.name](module) if stage.name in evaluate else module
        if checked:
            evidence = stage.check(module, made, Context())
            assert evidence.holds, (stage.name, evidence.detail)
        module = made
    source = emit(module, "big")
    source.write(directory)
    with (directory / "tensors.bin").open("wb") as file:
        encode(module, ArrayWriter(file))
    lowered = peak()
    if checked:
        side = module.program.slots["x"].type.static_shape[1]
        machine.run(module, {"x": np.zeros((2, side), np.float32)})
    said = {
        "weights": weights,
        "before": before,
        "lowered": lowered,
        "peak": peak(),
        "blob": source.weights and source.weights.nbytes,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), len(sys.argv) > 3)
