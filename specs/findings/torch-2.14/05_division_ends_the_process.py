"""div of the least int32 by -1, rounded toward 0, ends the process with SIGFPE.

The quotient is no int32, and what comes of that is not said; floor_divide of the same gives -2147483648, by wrapping.
Nothing lets an operator end the program that calls it.
"""

import subprocess
import sys

import torch


def case():
    """What floor_divide gives, beside what div does in a process of its own."""
    x, y = torch.tensor([-2147483648], dtype=torch.int32), torch.tensor([-1], dtype=torch.int32)
    if sys.argv[1:] == ["run"]:
        return torch.div(x, y, rounding_mode="trunc"), x, False
    done = subprocess.run([sys.executable, __file__, "run"], capture_output=True, text=True, check=False)
    given = torch.zeros(0) if done.returncode < 0 else torch.div(x, y, rounding_mode="trunc")
    return given, torch.floor_divide(x, y), done.returncode < 0


if __name__ == "__main__":
    given, right, shows = case()
    print(f"PyTorch: {given.tolist()}\nright: {right.tolist()}")
    sys.exit(0 if shows else 1)
