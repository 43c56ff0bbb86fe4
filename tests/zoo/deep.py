"""Deep models that a seed draws, of the kinds whose bounds excluded nothing: BERT, GPT-2, Llama, ResNet, SqueezeNet and
MobileNet (specs/verify.md, "Errors that are followed").

    for deep in read():                             # the rows of deep.csv, in the order of the draw
        made = deep.model()

A kind is drawn, each as likely as another, then one of its variants, then sizes and the seed of the weights. `RANGES`
says from what. The sizes are about those of the zoo's narrow models, to both sides.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from tests.zoo import convolutional, models, transformers

TABLE = Path(__file__).with_name("deep.csv")
SEED, COUNT, DRAWN = 18, 20, 30
"""The seed of the draw; how many models are measured; of how many that are drawn."""
KINDS = {
    "BERT": ("bert", "bert-parts", "bert-node"),
    "GPT-2": ("gpt2", "gpt2-where", "gpt2-trilu", "gpt2-merged"),
    "Llama": ("llama", "llama-node"),
    "ResNet": ("resnet18", "resnet50", "resnet50-folded"),
    "SqueezeNet": ("squeezenet",),
    "MobileNet": ("mobilenetv2", "mobilenetv3"),
}
RANGES: dict[str, dict[str, tuple[int, ...]]] = {
    "transformer": {
        "layers": tuple(range(12, 17)),
        "heads": (2, 4, 8),
        "per_head": (4, 8, 12, 16),
        "wider": (2, 3, 4),
        "length": tuple(range(8, 17)),
        "vocabulary": tuple(range(64, 161)),
    },
    "resnet18": {"block": (2, 3), "width": tuple(range(4, 13)), "image": (24, 32, 40, 48, 56, 64)},
    "resnet50": {"block": (3, 4, 5, 6), "width": tuple(range(4, 9)), "image": (24, 32, 40, 48, 56, 64)},
    "squeezenet": {"width": (8, 12, 16, 20, 24, 28, 32), "image": (24, 32, 40, 48, 56, 64)},
    "mobilenet": {"width": (8, 12, 16), "image": (32, 40, 48, 56, 64)},
}
"""What each number is drawn from. A transformer has a width of 16 to 64, `heads` times `per_head`, and hidden layers so
many times `wider`; each of the four stages of a ResNet has so many blocks of two convolutions, or of three. SqueezeNet
and MobileNet have the layers of the published ones, 18 and more than 30."""


@dataclass(frozen=True)
class Deep:
    """One drawn model: its place in the draw, its variant, its sizes, and the seed of its weights."""

    id: str
    kind: str
    variant: str
    sizes: dict[str, Any]
    seed: int

    def model(self) -> ModelProto:
        """The model."""
        sizes = {n: tuple(v) if isinstance(v, list) else v for n, v in self.sizes.items()}
        family = transformers if self.variant in transformers.FORMS else convolutional
        return family.sized(self.variant, sizes, self.seed)

    @property
    def row(self) -> dict[str, str]:
        """As a row of the table."""
        sizes = json.dumps(self.sizes)
        return {
            "id": self.id, "kind": self.kind, "variant": self.variant, "sizes": sizes, "seed": str(self.seed),
            "digest": models.digest(self.model()),
        }  # fmt: skip


def draw(seed: int = SEED) -> Iterator[Deep]:
    """The models that a seed draws, without end."""
    rng = np.random.default_rng(seed)
    number = 0
    while True:
        number += 1
        kind = str(rng.choice(list(KINDS)))
        variant = str(rng.choice(KINDS[kind]))
        yield Deep(f"D{number:02}", kind, variant, _sizes(variant, rng), int(rng.integers(1 << 31)))


def _sizes(variant: str, rng: np.random.Generator) -> dict[str, Any]:
    of = "transformer" if variant in transformers.FORMS else variant.partition("-")[0]
    ranges = RANGES["mobilenet" if of.startswith("mobilenet") else of]
    if of == "transformer":
        return _transformer(ranges, rng)
    blocks = {"blocks": [int(rng.choice(ranges["block"])) for _ in range(4)]} if "block" in ranges else {}
    return blocks | {n: int(rng.choice(r)) for n, r in ranges.items() if n != "block"}


def _transformer(ranges: dict[str, tuple[int, ...]], rng: np.random.Generator) -> dict[str, int]:
    while True:
        found = {n: int(rng.choice(r)) for n, r in ranges.items()}
        width, wider = found["heads"] * found.pop("per_head"), found.pop("wider")
        if 16 <= width <= 64:
            return found | {"width": width, "hidden": wider * width}


def read() -> list[Deep]:
    """The models of the table, in the order of the draw."""
    with TABLE.open(newline="") as rows:
        return [
            Deep(r["id"], r["kind"], r["variant"], json.loads(r["sizes"]), int(r["seed"])) for r in csv.DictReader(rows)
        ]


def main() -> None:
    """Draw, and print the models; `--write` writes the table."""
    words = argparse.ArgumentParser(prog="python -m tests.zoo.deep", description=__doc__)
    words.add_argument("--write", action="store_true")
    drawn = [d for d, _ in zip(draw(), range(DRAWN), strict=False)]
    for d in drawn:
        print(d.id, d.variant, d.sizes, d.seed)
    if words.parse_args().write:
        with TABLE.open("w", newline="") as file:
            table = csv.DictWriter(file, list(drawn[0].row), lineterminator="\n")
            table.writeheader()
            table.writerows(d.row for d in drawn)


if __name__ == "__main__":
    main()
