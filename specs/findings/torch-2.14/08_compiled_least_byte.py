"""amin of sixteen bytes compiled by inductor is a number that is not among them.

`torch.amin`: 'Returns the minimum value of each slice of the input tensor', which is 3 here; it is 0, or 1 where
vectors have 256 bits. Of negative int8 amax is 0. Called as it is, and compiled for fifteen elements, it is right.
"""

import sys

import torch


def case():
    """What the compiled function gives, beside the function itself."""
    x = torch.full((16,), 3, dtype=torch.uint8)
    given = torch.compile(lambda v: torch.amin(v), fullgraph=True)(x)
    return given, torch.amin(x), int(given) != 3


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
