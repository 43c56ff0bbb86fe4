"""How a kernel for unknown sizes is to be run: the option `--kernels` (specs/verify.md, "Kernels for unknown sizes").

    parse_choices("main=buckets:batch=1,4,16,matmul*=library,auto")

An entry is a way, or PATTERN=WAY for the functions of that name; the first that fits a function counts, and `auto` is
for the others. A function is named as in the lowered module, or by the operator that it claims to be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from assay.semantics.errors import Invalid
from assay.semantics.tensor import PrimFunc

Way: TypeAlias = Literal[
    "generic", "specialized", "range", "padded", "buckets", "library", "recorded", "auto", "interpreted"
]
WAYS: dict[Way, str] = {
    "generic": "one kernel for all sizes",
    "specialized": "compiled for its sizes when they are first seen",
    "range": "compiled beforehand for all sizes of a range, such as range:batch=1..8",
    "padded": "padded to the greatest size, such as padded:batch=64, where that is proved neutral",
    "buckets": "padded to the next of several sizes, such as buckets:batch=1,4,16",
    "library": "NumPy's product for what claims to be a matmul; its rounding is its own",
    "recorded": "generic in the first run, whose sizes are kept; compiled for these before the second; recorded:FILE",
    "auto": "generic, and compiled for sizes that are worth it",
    "interpreted": "without a compiler",
}
FORMS: dict[Way, str] = {
    "range": "range:NAME=LEAST..MOST",
    "padded": "padded:NAME=N",
    "buckets": "buckets:NAME=N,N,...",
    "recorded": "recorded:FILE",
}
"""What a way may or must say more."""
MOST_NUMBER = 1 << 31
MAIN = "main"
EVERY = "*"


@dataclass(frozen=True)
class Choice:
    """A way for the functions that fit a pattern. `sizes` has by name the values of a range, the size to pad to, or the
    buckets, in order and each once."""

    way: Way
    pattern: str = EVERY
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    file: Path | None = None

    def fits(self, func: PrimFunc) -> bool:
        """Whether it is for a function."""
        claim = func.attrs.get("operator")
        return fnmatchcase(func.name, self.pattern) or (isinstance(claim, str) and fnmatchcase(claim, self.pattern))

    @property
    def pads(self) -> bool:
        """Whether it is one of those that pad."""
        return self.way in ("padded", "buckets")

    @property
    def entry(self) -> str:
        """It as an entry of the option."""
        return str(self) if self.pattern == EVERY else f"{self.pattern}={self}"

    def __str__(self) -> str:
        if self.way == "range":
            said = ",".join(f"{n}={v[0]}..{v[-1]}" for n, v in self.sizes)
        else:
            said = ",".join(f"{n}={','.join(map(str, v))}" for n, v in self.sizes)
        return f"{self.way}:{said}" if said else self.way


AUTO = Choice("auto")


@dataclass(frozen=True)
class Choices:
    """What is chosen for each function."""

    entries: tuple[Choice, ...] = ()
    known: dict[int, Choice] = field(default_factory=dict, compare=False)

    def of(self, func: PrimFunc) -> Choice:
        """What is chosen for a function."""
        return next((c for c in self.entries if c.fits(func)), AUTO)

    def idle(self, functions: Collection[PrimFunc]) -> list[Choice]:
        """The entries with a pattern that count for none of some functions, nor for main."""
        used = [self.of_main(), *map(self.of, functions)]
        return [c for c in self.entries if c.pattern != EVERY and not any(c is u for u in used)]

    def of_main(self) -> Choice | None:
        """The way of padding that is chosen for main as a whole: by its name, or for everything."""
        first = next((c for c in self.entries if fnmatchcase(MAIN, c.pattern)), None)
        return first if first is not None and first.pads else None

    def uses(self, way: Way) -> bool:
        """Whether some function may be run in this way."""
        return any(c.way == way for c in self.entries)

    def __str__(self) -> str:
        return ",".join(c.entry for c in self.entries) or "auto"


def parse_choices(text: str) -> Choices:
    """The entries of the option. Invalid (kernels.C1): it is not of this form."""
    entries = [_choice(pattern, way, rest, text) for pattern, way, rest in _entries(text)]
    for this, after in pairwise(entries):
        if this.pattern == EVERY:
            raise _wrong(text, f"{after.entry} counts for nothing: {this} before it is for all functions")
    return Choices(tuple(entries))


def _entries(text: str) -> Iterator[tuple[str, Way, str]]:
    """Pattern, way and what follows the way of each entry. A comma that no entry follows stands inside of one."""
    ways = "|".join(WAYS)
    starts = list(re.finditer(rf"(?:^|,)(?:(?P<pattern>[^,=:\s]+)=)?(?P<way>{ways})(?=[:,]|$)", text))
    if not starts or starts[0].start() != 0:
        forms = ", ".join(FORMS.get(w, w) for w in WAYS)
        raise _wrong(text, f"a way is wanted, or PATTERN=WAY,...: the ways are {forms}")
    for this, after in zip(starts, [*starts[1:], None], strict=True):
        rest = text[this.end() : None if after is None else after.start()]
        way: Way = next(w for w in WAYS if w == this["way"])
        yield this["pattern"] or EVERY, way, rest


def _choice(pattern: str, way: Way, rest: str, text: str) -> Choice:
    if way not in FORMS and rest:
        raise _wrong(text, f"{way} takes no more, and {way}{rest} is given")
    if way not in FORMS or (way == "recorded" and rest in ("", ":")):
        return Choice(way, pattern)
    if not rest.startswith(":"):
        raise _wrong(text, f"{FORMS[way]} is wanted, and {way}{rest} is given")
    rest = rest[1:]
    if way == "recorded":
        return Choice(way, pattern, file=Path(rest))
    sizes: dict[str, tuple[int, ...]] = {}
    for name, values in _sizes(rest):
        if not name or not all(values):
            raise _wrong(text, f"{FORMS[way]} is wanted, and {way}:{rest} is given")
        if name in sizes:
            raise _wrong(text, f"{name} is given twice")
        sizes[name] = _values(way, name, values, text)
    return Choice(way, pattern, tuple(sizes.items()))


def _sizes(rest: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Names and what is given for each; no name where numbers stand without one."""
    name, values = "", list[str]()
    for piece in rest.split(","):
        left, equals, right = piece.rpartition("=")
        if equals and (name or values):
            yield name, values
        if equals:
            name, values = left, [right]
        else:
            values.append(right)
    yield name, values


def _values(way: Way, name: str, values: Sequence[str], text: str) -> tuple[int, ...]:
    """The numbers that are given for one name: in order, each once."""
    wrong = _wrong(text, f"{FORMS[way]} is wanted, with numbers below 2^31, and {name}={','.join(values)} is given")
    if way == "range":
        found = re.fullmatch(r"(\d{1,10})\.\.(\d{1,10})", values[0]) if len(values) == 1 else None
        if found is None or int(found[1]) > int(found[2]) or int(found[2]) >= MOST_NUMBER:
            raise wrong
        if int(found[2]) - int(found[1]) >= MOST_KERNELS:
            raise _wrong(text, f"at most {MOST_KERNELS} kernels of a function are compiled beforehand")
        return tuple(range(int(found[1]), int(found[2]) + 1))
    if not all(re.fullmatch(r"\d{1,10}", v) and int(v) < MOST_NUMBER for v in values):
        raise wrong
    if way == "padded" and len(values) != 1:
        raise wrong
    return tuple(sorted({int(v) for v in values}))


MOST_KERNELS = 256
"""Kernels of one function that are compiled beforehand."""


def _wrong(text: str, why: str) -> Invalid:
    return Invalid(f"--kernels {text!r}: {why}", label="kernels.C1")
