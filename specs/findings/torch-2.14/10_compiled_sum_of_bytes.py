"""The sum in int8 of sixteen floats converted to int8 is four times the sum when inductor compiles it.

`torch.sum`: 'Returns the sum of all elements'; sixteen ones are 16, it is 64, and of twenty 68: each sixteen of them
are added four times. Called as it is, in int32, and compiled for fifteen elements, it is right.
"""

import sys

import torch


def case():
    """What the compiled function gives, beside the function itself."""

    def total(v):
        return v.to(torch.int8).sum(dtype=torch.int8)

    x = torch.ones(16)
    given = torch.compile(total, fullgraph=True)(x)
    return given, total(x), int(given) != 16


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
