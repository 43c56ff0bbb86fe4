"""GELU of infinity is NaN, in float32, where there are four elements or more; of one element it is infinite.

torch.nn.GELU: "x * Phi(x), where Phi is the cumulative distribution function", which is 1 at infinity; and
one operator gives one result for one number, however many stand beside it.
"""

import sys

import torch


def case():
    x = torch.full((4,), float("inf"))
    given, right = torch.nn.functional.gelu(x), torch.nn.functional.gelu(x[:1]).expand(4)
    return given, right, bool(torch.isnan(given).any()) and not bool(torch.isnan(right).any())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
