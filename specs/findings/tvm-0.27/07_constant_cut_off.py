"""R.const(np.array([2**53 + 3], "int64")) is an int32 tensor that holds 3.

Documentation of relax.const, when dtype is None: "int maps to int32 ... other using the same default rule as numpy".
The dtype of a NumPy array is its own: int64.
"""

import sys

import numpy as np
from tvm import relax


def case():
    value = np.array([2**53 + 3], "int64")
    given = relax.const(value).value.numpy()
    return (given, given.dtype), (value, value.dtype), not np.array_equal(given, value)


if __name__ == "__main__":
    given, right, shows = case()
    print(f"TVM:   {given}\nright: {right}")
    sys.exit(0 if shows else 1)
