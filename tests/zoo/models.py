"""The models of the zoo by name, their inputs, and what is checked of each.

m = model("bert")              # narrow: twelve layers of width 32
m = model("bert", real=True)   # twelve layers of width 768; made on demand
given = inputs(m, seed=3)
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from tests.zoo import convolutional, others, transformers
from tests.zoo.net import LIMITS

Array = np.ndarray[Any, Any]
FAMILIES = (transformers, convolutional, others)


def names(real: bool = False) -> list[str]:
    """All models, or those that have a real size."""
    if real:
        return [*transformers.REAL, *convolutional.REAL]
    return [n for family in FAMILIES for n in family.names()]


def model(name: str, real: bool = False) -> ModelProto:
    """The model of that name. KeyError: there is none, or none of a real size."""
    return next(f for f in FAMILIES if name in f.names()).model(name, real) if name in names(real) else _missing(name)


def _missing(name: str) -> ModelProto:
    raise KeyError(f"no model {name!r}; there are {', '.join(names())}; of a real size {', '.join(names(True))}")


def inputs(of: ModelProto, seed: int = 0) -> dict[str, Array]:
    """Ordinary inputs of a model of the zoo: standard normal numbers, and whole numbers below the limits it names."""
    limits = json.loads(next((p.value for p in of.metadata_props if p.key == LIMITS), "{}"))
    rng = np.random.default_rng([seed, 18])
    made: dict[str, Array] = {}
    for declared in of.graph.input:
        shape = tuple(d.dim_value for d in declared.type.tensor_type.shape.dim)
        kind = helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type)
        if kind.kind == "f":
            made[declared.name] = rng.standard_normal(shape).astype(kind)
        else:
            made[declared.name] = rng.integers(0, limits.get(declared.name, 2), shape).astype(kind)
            if declared.name == "attention_mask":
                made[declared.name][:, 0] = 1  # a row of which nothing is kept is nothing that a model is made for
    return made


def digest(of: ModelProto) -> str:
    """What names a model's exact content: nodes, attributes and weights."""
    return hashlib.sha256(of.SerializeToString(deterministic=True)).hexdigest()[:16]


def every_tensor(of: ModelProto) -> list[str]:
    """The tensors that nodes of the main graph make, in order."""
    return [o for n in of.graph.node for o in n.output if o]
