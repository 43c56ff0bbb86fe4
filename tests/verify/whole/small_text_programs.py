"""Small programs as text, one to four operators each: what they are, and what `check` says of them.

They stand in `small_text_programs.txt`. A line begins a program: its name, `=`, and 0 or the label of the message with
which a stage refuses it. The next line has main's parameters; V is a vector of two, S a scalar, B a bool, I an int32.
What stands before `main:` goes into the class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_suffix(".txt")
SHORT = {
    "V": 'R.Tensor((2,), "float32")',
    "M": 'R.Tensor((2, 3), "float32")',
    "S": 'R.Tensor((), "float32")',
    "B": 'R.Tensor((), "bool")',
    "I": 'R.Tensor((), "int32")',
    "Z": 'R.Tensor((0, 3), "float32")',
    "U": 'R.Tensor((1, 1), "float32")',
}
LIST = """
@A.data(a)
class List:
    nil = ()
    cons = (a, List[a])
"""
TREE = """
@A.data(a)
class Tree:
    Leaf = ()
    Node = (Tree[a], a, Tree[a])
"""


@dataclass(frozen=True)
class Small:
    """A program; `says` is 0 or the label of its refusal."""

    name: str
    says: str
    text: str
    options: tuple[str, ...] = ()


def programs() -> list[Small]:
    """The table."""
    found: list[Small] = []
    for part in re.split(r"^== ", TABLE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        name, says, *options = (x.strip() for x in head.split("|"))
        before, params, result, body = re.split(r"^main\((.*)\)( -> .*|):$", rest, maxsplit=1, flags=re.MULTILINE)
        lines = [f"    {line}" for line in before.replace("LIST\n", LIST).replace("TREE\n", TREE).strip().splitlines()]
        pure = "(pure=False)" if any(w in body for w in ("A.ref", "R.print", "R.assert_op")) else ""
        lines += [
            f"    @R.function{pure}",
            f"    def main({params}){result}:",
            *(f"        {line}" for line in body.strip("\n").splitlines()),
        ]
        text = "\n".join(['a = A.typevar("a")', "@I.ir_module", "class Module:", *lines, ""])
        text = re.sub(r"(?<=[:>(,\[ ]) ?\b([VMSBIZU])\b(?=[,)\]:\n]| =|$)", lambda m: " " + SHORT[m.group(1)], text)
        found.append(Small(name, says, text, tuple(w for o in options for w in o.split())))
    return found
