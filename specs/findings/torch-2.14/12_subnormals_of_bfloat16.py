"""conv2d of subnormal numbers of bfloat16 is 0.

`torch.nn.functional.conv2d` is a sum of products; here it is 2e-39 four times, 8e-39, which bfloat16 has. By default
subnormal numbers are kept: `torch.set_flush_denormal` asks for another way. matmul of them is right.
"""

import sys

import torch


def case():
    """What the convolution gives, beside that of the same numbers in float32."""
    x = torch.full((1, 2, 2, 2), 2e-39, dtype=torch.bfloat16)
    kernel = torch.ones((1, 2, 2, 1), dtype=torch.bfloat16)
    given = torch.nn.functional.conv2d(x, kernel)
    return given, torch.nn.functional.conv2d(x.float(), kernel.float()), not given.any()


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.flatten().tolist()}\nright: {right.flatten().tolist()}")
    sys.exit(0 if shows else 1)
