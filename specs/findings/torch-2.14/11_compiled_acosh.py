"""acosh of 1e160 in double compiled by inductor is infinite.

`torch.acosh`: the inverse hyperbolic cosine, which is the logarithm of 2e160, 369.1; the square of what is given is no
double. Called as it is, it is right, and so is float, compiled.
"""

import sys

import torch


def case():
    """What the compiled function gives, beside the function itself."""
    x = torch.full((8,), 1e160, dtype=torch.float64)
    given = torch.compile(lambda v: torch.acosh(v), fullgraph=True)(x)
    return given, torch.acosh(x), bool(given.isinf().any())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given[0].item()}\nright: {right[0].item()}")
    sys.exit(0 if shows else 1)
