"""grid_sample with reflection, compiled by inductor: a coordinate that is NaN gives 0.

`torch.nn.functional.grid_sample`: "NaN values in grid would be interpreted as -1", which without `align_corners` is the
edge of the first element, and eager PyTorch gives this. Of an image of nothing but 7 there is nothing else to give.
"""

import sys

import torch


def case():
    """What grid_sample gives, compiled, and what it gives as it is."""
    image, grid = torch.full((1, 1, 3, 3), 7.0), torch.tensor([[[[float("nan"), 0.0], [0.0, 0.0]]]])

    def sampled(image, grid):
        return torch.nn.functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False)

    given = torch.compile(sampled)(image, grid)
    return given, sampled(image, grid), given.flatten().tolist() == [0.0, 7.0]


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.flatten().tolist()}\nright: {right.flatten().tolist()}")
    sys.exit(0 if shows else 1)
