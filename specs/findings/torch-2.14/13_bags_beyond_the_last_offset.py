"""Bags whose last offset is not the end of the indices, on the CPU: mean divides by indices that it does not add up.

torch.nn.functional.embedding_bag says of include_last_offset: "The last element is the size of the input, or the ending
index position of the last bag (sequence)." So the index behind it is in no bag. In mode sum it is in none; in mode max,
with padding_idx, and in double it is in the last one; in mode mean it only counts.
"""

import sys

import torch


def case():
    weight = torch.tensor([[1.0], [5.0], [9.0]])
    indices, offsets = torch.tensor([0, 1, 2]), torch.tensor([0, 2])
    given = [
        torch.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, include_last_offset=True).item()
        for mode in ("sum", "mean", "max")
    ]
    right = [6.0, 3.0, 5.0]
    return given, right, given != right


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given}\nright: {right}")
    sys.exit(0 if shows else 1)
