"""Attention to one key that is NaN is 0, on the CPU; where sixteen keys are NaN, it is NaN.

torch.nn.functional.scaled_dot_product_attention is documented as `torch.softmax(attn_weight, dim=-1) @ value`:
a softmax of NaN is NaN, and so is the result. 0 is for a row whose keys are all masked, and here is no mask.
"""

import sys

import torch


def case():
    query = torch.full((1, 1, 1, 8), float("nan"))
    key = value = torch.ones(1, 1, 1, 8)
    given = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    right = torch.softmax(query @ key.transpose(-2, -1) / 8**0.5, -1) @ value
    return given.flatten(), right.flatten(), not bool(given.any()) and bool(torch.isnan(right).all())


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
