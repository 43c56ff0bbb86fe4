"""fmod of numbers whose quotient is large is NaN, in float32, where there are sixteen elements; of fewer it is right.

torch.fmod: "C++'s std::fmod", which is exact. The difference is that between vectors of 512 bits and single
elements, so it shows on processors that have such vectors.
"""

import sys

import torch


def case():
    x = torch.full((16,), 3e38)
    given, right = torch.fmod(x, 0.3), torch.fmod(x[:1], 0.3).expand(16)
    return given, right, bool(torch.isnan(given).any()) and not bool(torch.isnan(right).any())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
