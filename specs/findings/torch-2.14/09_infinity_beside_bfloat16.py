"""conv2d of bfloat16 with an odd number of channels is NaN at the pixel before one that is infinite.

`torch.nn.functional.conv2d` sums over the places under the kernel, a column of two here, so what stands in the column
beside it takes no part: the first element is 1 + 1. It is NaN, as if a padded channel were read from the next pixel
and multiplied by 0. Of float32, and of two channels, it is right.
"""

import sys

import torch


def case():
    """What the convolution gives, beside what it is."""
    x = torch.ones((1, 1, 2, 3), dtype=torch.bfloat16)
    x[0, 0, 0, 1] = float("inf")
    kernel = torch.ones((1, 1, 2, 1), dtype=torch.bfloat16)
    given = torch.nn.functional.conv2d(x, kernel)
    return given, torch.nn.functional.conv2d(x.float(), kernel.float()), bool(given.isnan().any())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.flatten().tolist()}\nright: {right.flatten().tolist()}")
    sys.exit(0 if shows else 1)
