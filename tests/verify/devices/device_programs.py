"""Random programs with devices: whole modules with words on where things are, sprinkled over them. Some say what cannot
be: planning refuses those."""

from __future__ import annotations

import random

from assay.lower.legalize import legalize
from assay.semantics.compilation import CompilationConfig
from assay.semantics.module import Module
from assay.verify.strategies.choosing import Pick
from assay.verify.strategies.devices import CONFIGS, scoped, sprinkled
from assay.verify.strategies.graphs import Maker


def program(seed: int, size: int = 30) -> tuple[Module, CompilationConfig]:
    """A random program and what it is compiled for."""
    rng = random.Random(seed)
    pick: Pick = rng.randrange
    module = Maker(pick, size).module()
    config = CONFIGS[pick(len(CONFIGS))]
    lowered = pick(4) == 3
    if lowered:
        module = scoped(legalize(module), pick)
    return sprinkled(module, config, pick), config
