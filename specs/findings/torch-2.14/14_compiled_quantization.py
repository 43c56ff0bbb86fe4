"""quantize_per_tensor of 1e10 by a scale that is a tensor, compiled by inductor, is the least number, not the greatest.

torch/ao/quantization/fx/_decomposed.py: 'torch.clamp(torch.round(input * inv_scale) + zero_point, quant_min,
quant_max)', which is 127. Called as it is, and compiled with a scale that is a number, it is right.
"""

import sys

import torch
import torch.ao.quantization.fx._decomposed


def case():
    """What the compiled function gives, beside the function itself."""
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.tensor
    scale, zero = torch.tensor([0.05]), torch.tensor([3])

    def stored(v):
        return quantize(v, scale, zero, -128, 127, torch.int8)

    x = torch.full((4,), 1e10)
    given = torch.compile(stored, fullgraph=True)(x)
    return given, stored(x), int(given[0]) != 127


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given[0].item()}\nright: {right[0].item()}")
    sys.exit(0 if shows else 1)
