"""-inf to the power of the number 0.5 is NaN; to that of a tensor that holds 0.5 it is infinite.

IEEE 754-2019, 9.2.1, and C17 F.10.4.4: pow(-inf, y) is +inf for y > 0 that is no odd integer. The number is taken
for a square root.
"""

import sys

import torch


def case():
    x = torch.tensor([-float("inf")])
    given, right = torch.pow(x, 0.5), torch.pow(x, torch.tensor([0.5]))
    return given, right, bool(torch.isnan(given).any()) and not bool(torch.isnan(right).any())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
