"""What each exported network is run on: its inputs, their sizes by name, and the sizes that it is tried at.

The exporters and the tests read this one table; it needs neither torch nor a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Given:
    """An input: its axes, numbers or names of sizes, and what its elements are."""

    shape: tuple[int | str, ...]
    kind: str = "float"
    """float; ids, whole numbers below 50; mask, ones with a zero at the end of the first row; count, a number of steps;
    boxes, corners in order; yes, true."""

    def array(self, sizes: Sizes, rng: np.random.Generator) -> Array:
        """The input at these sizes."""
        shape = tuple(d if isinstance(d, int) else sizes[d] for d in self.shape)
        match self.kind:
            case "ids":
                return rng.integers(0, 50, shape)
            case "mask":
                made = np.ones(shape, np.int64)
                if made.shape[0] > 1 and made.shape[1] > 1:
                    made[0, -1] = 0
                return made
            case "count":
                return np.full(shape, sizes["steps"], np.int64)
            case "small":
                return rng.random(shape).astype(np.float32)
            case "share":
                return rng.random(shape).astype(np.float32)
            case "yes":
                return np.ones(shape, np.bool_)
            case "boxes":
                low = rng.random((*shape[:-1], 2))
                return np.concatenate([low, low + rng.random(low.shape)], -1).astype(np.float32)
            case _:
                return rng.standard_normal(shape).astype(np.float32)

    @property
    def axes(self) -> dict[int, str]:
        """The axes whose sizes have names."""
        return {a: d for a, d in enumerate(self.shape) if isinstance(d, str)}


@dataclass(frozen=True)
class Case:
    """A network's inputs and outputs by name, the sizes that it is exported at, and others that it is tried at."""

    inputs: Mapping[str, Given]
    outputs: tuple[str, ...]
    example: Sizes
    others: tuple[Sizes, ...]

    def arrays(self, sizes: Sizes, seed: int = 0) -> dict[str, Array]:
        """The inputs at these sizes."""
        rng = np.random.default_rng(seed)
        return {n: g.array(sizes, rng) for n, g in self.inputs.items()}


def _sized(*names: str, at: tuple[int, ...], others: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    return {
        "example": dict(zip(names, at, strict=True)),
        "others": tuple(dict(zip(names, o, strict=True)) for o in others),
    }


def _image(outputs: tuple[str, ...], at: tuple[int, ...], others: tuple[tuple[int, ...], ...]) -> Case:
    given = Given(("batch", 3, "height", "width"))
    return Case({"image": given}, outputs, **_sized("batch", "height", "width", at=at, others=others))


def _tokens(*outputs: str, least: int = 1) -> Case:
    inputs = {"input_ids": Given(("batch", "sequence"), "ids"), "attention_mask": Given(("batch", "sequence"), "mask")}
    return Case(inputs, outputs, **_sized("batch", "sequence", at=(2, 7), others=((1, 1), (3, 5), (1, 11), (5, 1))))


def _past(layers: int, heads: int, wide: int) -> Case:
    names = [f"{w}.{k}" for k in range(layers) for w in ("key", "value")]
    inputs = {"input_ids": Given(("batch", "sequence"), "ids"), "attention_mask": Given(("batch", "total"), "mask")}
    inputs |= {f"past_{n}": Given(("batch", heads, "past", wide)) for n in names}
    sizes = _sized(
        "batch",
        "sequence",
        "past",
        "total",
        at=(2, 3, 4, 7),
        others=((1, 1, 1, 2), (3, 1, 5, 6), (1, 5, 0, 5), (2, 2, 3, 5)),
    )
    return Case(inputs, ("logits", *(f"present_{n}" for n in names)), **sizes)


def _series(wide: int, *outputs: str) -> Case:
    return Case(
        {"series": Given(("batch", "time", wide))},
        outputs,
        **_sized("batch", "time", at=(2, 7), others=((1, 1), (3, 5), (1, 19))),
    )


CASES: dict[str, Case] = {
    "resnet": _image(("logits",), (2, 32, 40), ((1, 17, 23), (3, 33, 7), (1, 1, 1))),
    "unet": _image(("masks",), (2, 12, 10), ((1, 13, 7), (3, 2, 5), (1, 4, 11))),
    "unet_resized": _image(("masks",), (2, 12, 10), ((1, 13, 7), (3, 2, 5), (1, 4, 11))),
    "bert": _tokens("hidden", "pooled"),
    "distilbert": _tokens("hidden"),
    "vit": Case({"image": Given(("batch", 3, 16, 16))}, ("hidden",), **_sized("batch", at=(2,), others=((1,), (3,)))),
    "vit_sizes": _image(("hidden",), (2, 20, 24), ((1, 16, 16), (3, 21, 30), (1, 4, 12))),
    "t5_encoder": _tokens("hidden"),
    "t5_decoder": Case(
        {
            "input_ids": Given(("batch", "sequence"), "ids"),
            "encoder_hidden": Given(("batch", "encoded", 16)),
            "encoder_mask": Given(("batch", "encoded"), "mask"),
        },
        ("logits",),
        **_sized("batch", "sequence", "encoded", at=(2, 5, 7), others=((1, 1, 1), (3, 2, 5), (1, 7, 3))),
    ),
    "gpt2": _tokens("logits"),
    "gpt2_past": _past(2, 2, 8),
    "llama": _tokens("logits"),
    "llama_past": _past(2, 2, 4),
    "whisper_encoder": Case(
        {"image": Given(("batch", 8, 20))}, ("hidden",), **_sized("batch", at=(2,), others=((1,), (3,)))
    ),
    "whisper_decoder": Case(
        {"input_ids": Given(("batch", "sequence"), "ids"), "encoder_hidden": Given(("batch", 10, 16))},
        ("logits",),
        **_sized("batch", "sequence", at=(2, 5), others=((1, 1), (3, 7), (1, 2))),
    ),
    "lstm": _series(6, "scores"),
    "lstm_two_ways": _series(6, "scores"),
    "gru_two_ways": _series(6, "scores"),
    "attention": _series(8, "hidden"),
    "detector": _image(("boxes", "scores"), (2, 12, 10), ((1, 13, 7), (3, 3, 5), (1, 4, 11))),
    "counting": Case(
        {"x": Given(("rows", 4)), "steps": Given((), "count")},
        ("y", "all"),
        **_sized("rows", "steps", at=(2, 3), others=((1, 0), (3, 1), (0, 2), (5, 7))),
    ),
    "growing": Case(
        {"x": Given(("rows", 4), "small"), "steps": Given((), "count")},
        ("y",),
        **_sized("rows", "steps", at=(2, 3), others=((1, 0), (3, 1), (5, 7))),
    ),
    "scanning": Case(
        {"x": Given(("time", "batch", 4)), "start": Given(("batch", 4))},
        ("last", "all"),
        **_sized("time", "batch", at=(3, 2), others=((1, 1), (7, 3), (2, 0))),
    ),
    "choosing": Case(
        {"x": Given(("rows", 4)), "go": Given((), "yes")}, ("y",), **_sized("rows", at=(2,), others=((1,), (0,), (5,)))
    ),
    "suppressing": Case(
        {"boxes": Given(("batch", "boxes", 4), "boxes"), "scores": Given(("batch", "classes", "boxes"), "share")},
        ("chosen", "corners"),
        **_sized("batch", "boxes", "classes", at=(2, 7, 2), others=((1, 1, 1), (3, 5, 1), (1, 0, 2))),
    ),
    "best": Case(
        {"scores": Given(("batch", "n"))},
        ("values", "places"),
        **_sized("batch", "n", at=(2, 5), others=((1, 1), (3, 2), (0, 7))),
    ),
    "nonzero": Case({"x": Given(("n",))}, ("y",), **_sized("n", at=(7,), others=((1,), (0,), (13,)))),
    **{
        f"sk_{name}": Case({"x": Given(("rows", 4))}, (), **_sized("rows", at=(5,), others=((1,), (0,), (17,))))
        for name in (
            "linear",
            "logistic",
            "forest",
            "boosting",
            "tree",
            "pca",
            "polynomial",
            "means",
            "neighbours",
            "bayes",
            "network",
            "svc",
            "svr",
        )
    },
}
