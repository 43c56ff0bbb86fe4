"""Tokens that grow: their rule by hand, by a slow planner of the same rule, and what is caught where it is broken."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from math import lcm
from pathlib import Path

import pytest

from assay.lower.memory import plan, tokens
from assay.lower.memory.csv import parse, read_table
from assay.semantics.errors import BudgetSpent
from assay.semantics.memory import BufferInfo, Pool, Problem
from assay.verify.app.cli import main
from tests.lower.memory.memory_problems import good, layered, offsets, size

Command = Callable[..., int]


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*args: object) -> int:
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0)

    return run


# --- the rule, by hand ---------------------------------------------------------------------------------------------

BY_HAND = {
    "two live at once never share": ("a,0,3,8  b,2,4,8", "a=0 b=8", 16),
    "one that has ended is used again": ("a,0,2,8  b,2,4,8", "a=0 b=0", 8),
    "tokens grow, and those behind move": ("a,0,2,10  b,1,3,20  c,2,5,100  d,3,6,30", "a=0 b=100 c=0 d=100", 130),
    "the least that is large enough": ("p,0,1,100  q,0,1,40  r,0,1,60  s,1,2,50", "p=0 q=100 r=140 s=140", 200),
    "else the largest grows": ("p,0,1,10  q,0,1,30  r,0,1,20  s,1,2,40", "p=0 q=10 r=50 s=10", 70),
    "one after another": ("p,0,1,100  q,0,1,40  s,1,3,50  t,1,3,50  u,1,3,50", "p=0 q=100 s=0 t=100 u=150", 200),
    "16 times as large": ("p,0,1,16  s,1,2,1", "p=0 s=0", 16),
    "17 times as large": ("p,0,1,17  s,1,2,1", "p=0 s=17", 18),
    "a 16th": ("p,0,1,2  s,1,2,47", "p=0 s=0", 47),
    "less than a 16th": ("p,0,1,2  s,1,2,48", "p=0 s=2", 50),
    "in the order of beginnings": ("c,2,3,9  b,1,2,4  a,0,1,9", "a=0 b=0 c=0", 9),
    "Relax's static_plan_basic: storages of 32 and 40 bytes": (
        "exp,0,2,32  relu,1,3,32  add,2,4,32  pad,3,5,40",
        "exp=0 relu=32 add=0 pad=32",
        72,
    ),
    "nothing wants no token": ("a,0,2,8  z,0,2,0  b,0,2,8", "a=0 z=0 b=8", 16),
}
"""Buffers, where they lie, and the size of the pool."""


@pytest.mark.row("U11", "U19")
@pytest.mark.parametrize("case", BY_HAND)
def test_tokens_by_hand(assay: Command, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows, places, total = BY_HAND[case]
    file, out = tmp_path / "in.csv", tmp_path / "out.csv"
    file.write_text("\n".join(["id,lower,upper,size", *rows.split()]) + "\n")
    assert assay("plan", file, "--planner", "tokens", "-o", out) == 0
    said = capsys.readouterr().out
    assert f"workspace: {total} bytes for" in said and "tokens in" in said and "proved: z3" in said
    assert {b.name: b.offset for b in read_table(out).buffers} == {
        n: int(at) for n, _, at in (p.partition("=") for p in places.split())
    }


@pytest.mark.parametrize(
    ("text", "pools", "places"),
    [
        ("size,gaps\nx,0,5,8,1-3\ny,2,3,8,\n", (), "x=0 y=8"),  # what comes back has kept its token
        (
            "size,alignment\nx,0,2,13,1\ny,1,3,8,8\nz,2,4,5,1\nw,3,5,5,3\n",
            (),
            "x=0 y=24 z=0 w=24",
        ),  # at multiples of both
        ("size,offset\nf,0,4,16,32\na,0,2,32,\nb,1,3,20,\n", (), "f=32 a=0 b=48"),  # around what lies by hand
        ("size,offset\nf,0,9,16,32\na,0,2,32,\nb,2,4,33,\n", (), "f=32 a=48 b=48"),  # it grows, and fits below no more
        ("size\na,0,2,16\nb,1,3,8\nc,2,4,4\n", (Pool("fast", limit=16), Pool("slow")), "a=fast+0 b=slow+0 c=fast+0"),
        (
            "size\np,0,1,17\ns,1,2,1\n",
            (Pool("fast", limit=17), Pool("slow")),
            "p=fast+0 s=fast+0",
        ),  # no room for a new one
        ("size\np,0,1,1\ns,1,2,17\n", (Pool("fast", limit=17), Pool("slow")), "p=fast+0 s=fast+0"),
        ("size\na,0,2,8\nb,1,3,8\nc,2,4,9\n", (Pool("fast", limit=16), Pool("slow")), "a=fast+0 b=fast+8 c=slow+0"),
    ],
)
@pytest.mark.row("U2", "U12", "U19")
def test_gaps_alignment_hands_and_limits_by_hand(text: str, pools: tuple[Pool, ...], places: str) -> None:
    problem = parse(f"id,lower,upper,{text}").problem(list(pools or (Pool("workspace", alignment=24),)))
    made = plan(problem, "tokens")
    assert good(problem, made)
    found = (f"{n}={p.pool}+{p.offset}" if pools else f"{n}={p.offset}" for n, p in made.places.items())
    assert " ".join(found) == places


@pytest.mark.row("U2", "U19")
def test_no_room_says_which_limit_is_enough(assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.csv"
    file.write_text("id,lower,upper,size\na,0,2,8\nb,1,3,8\nc,2,4,9\n")
    assert assay("plan", file, "--planner", "tokens", "--pools", "fast=16") == 2
    assert "does not fit: buffer c, 9 bytes, " in (said := capsys.readouterr().err) and "[memory.C7]" in said
    assert "a limit of 17 bytes for fast would be enough by this planner, tokens" in said
    assert assay("plan", file, "--planner", "tokens", "--pools", "fast=17") == 0


# --- the rule, written again ---------------------------------------------------------------------------------------


def slowly(problem: Problem) -> dict[str, int]:
    """Tokens of one pool without a limit, by looking at all of them each time."""
    made: list[list[BufferInfo]] = []

    def room(token: list[BufferInfo]) -> int:
        return max(b.nbytes for b in token if isinstance(b.nbytes, int))

    for b in sorted(problem.buffers, key=lambda b: b.live[0][0]):
        want = b.nbytes
        assert isinstance(want, int) and want
        free = [t for t in made if all(o.live[-1][1] <= b.live[0][0] for o in t)]
        larger = [t for t in free if want <= room(t) <= 16 * want]
        smaller = [t for t in free if want // 16 <= room(t) < want]
        if larger:
            min(larger, key=room).append(b)
        elif smaller:
            max(reversed(smaller), key=room).append(b)
        else:
            made.append([b])
    end, found = 0, {}
    for token in made:
        step = lcm(*(b.alignment for b in token))
        end += -end % step
        found |= {b.name: end for b in token}
        end += room(token)
    return found


@pytest.mark.row("U19")
def test_random_tokens_are_those_of_the_slow_planner() -> None:
    grown = 0
    for seed in range(60):
        rng = random.Random(seed)
        rows = []
        for i in range(40):
            start = rng.randrange(30)
            life = (
                ((start, start + rng.randrange(1, 9)),)
                if rng.random() < 0.7
                else ((start, start + 1), (start + 3, start + 5))
            )
            rows.append(BufferInfo(f"b{i}", rng.choice((1, 2, 9, 20, 40, 80, 300)), life, rng.choice((1, 2, 3, 8))))
        problem = Problem(tuple(rows), (Pool("workspace", alignment=24),))
        made = plan(problem, "tokens")
        assert good(problem, made) and offsets(made) == slowly(problem)
        at: dict[int, list[BufferInfo]] = {}
        for b in sorted(rows, key=lambda b: b.live):
            at.setdefault(offsets(made)[b.name], []).append(b)
        grown += sum(t[0].nbytes != max(b.nbytes for b in t if isinstance(b.nbytes, int)) for t in at.values())
    assert grown > 100


@pytest.mark.row("U2", "U19")
def test_the_pool_that_tokens_need_is_enough_and_one_byte_less_is_not() -> None:
    """With hands in it, and alignments; what a token gets never depends on a limit that is large enough."""
    for seed in range(30):
        rng = random.Random(seed)
        rows = [
            BufferInfo(f"b{i}", rng.randrange(1, 60), ((i, i + rng.randrange(1, 12)),), rng.choice((1, 2, 3, 8)))
            for i in range(30)
        ]
        hands = [
            BufferInfo(f"h{k}", 24, ((0, 50),), pools=("workspace",), offset=72 * k) for k in range(rng.randrange(4))
        ]
        problem = Problem((*rows, *hands), (Pool("workspace", alignment=24),))
        free = plan(problem, "tokens")
        tight = Problem(problem.buffers, (Pool("workspace", alignment=24, limit=size(free)),))
        assert plan(tight, "tokens").places == free.places and good(tight, free)
        less = Problem(
            problem.buffers, (Pool("workspace", alignment=24, limit=size(free) - 1), Pool("rest", alignment=24))
        )
        made = plan(less, "tokens")
        assert good(less, made) and size(made) < size(free)


def test_a_limit_that_is_near_keeps_the_plan_of_thousands() -> None:
    problem = layered(random.Random(2), 5_000)
    free = plan(problem, "tokens")
    tight = Problem(problem.buffers, (Pool("workspace", limit=size(free)),))
    assert plan(tight, "tokens").places == free.places


# --- planted faults ------------------------------------------------------------------------------------------------

CHAIN = """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2,), "float32")):
        a = R.exp(x)
        f = R.reshape(a, shape=(8,))
        t = (f, y)
        b = R.concat((t[0], t[1]), axis=0)
        c = R.concat((b, y), axis=0)
        return R.log(c)
"""
"""Tensors of 32, 40 and 48 bytes: the first's token grows for the third."""


def no_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = tokens.Tokens.grow

    def grow(self: tokens.Tokens, number: int, wanted: int, alignment: int) -> bool:
        return self.size[number] > 0 or honest(self, number, wanted, alignment)

    monkeypatch.setattr(tokens.Tokens, "grow", grow)


def too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "span", lambda b: (b.live[0][0], b.live[0][1] - 1))


def in_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "span", lambda b: b.live[0])


FAULTS = {
    "a token does not grow": (no_growth, "size\na,0,2,10\nb,1,3,20\nc,2,4,30\n"),
    "a token is free too early": (too_early, "size\na,0,2,10\nb,1,3,10\n"),
    "a token is free in a gap": (in_a_gap, "size,gaps\na,0,9,10,2-5\nb,3,8,10,\n"),
}


@pytest.mark.row("U11", "U19")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught(
    assay: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    break_it, text = FAULTS[fault]
    file, out = tmp_path / "in.csv", tmp_path / "out.csv"
    file.write_text(f"id,lower,upper,{text}")
    assert assay("plan", file, "--planner", "tokens") == 0
    break_it(monkeypatch)
    capsys.readouterr()
    assert assay("plan", file, "--planner", "tokens", "-o", out) == 1
    said = capsys.readouterr().out
    assert "of pool workspace while both are live, at position" in said and "FAILS: the plan does not hold" in said
    assert not out.exists()


@pytest.mark.row("U19")
@pytest.mark.parametrize("break_it", [no_growth, too_early])
def test_a_fault_is_caught_in_a_program(
    assay: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    break_it: Callable[[pytest.MonkeyPatch], None],
) -> None:
    file = tmp_path / "chain.py"
    file.write_text(CHAIN)
    wanted = ("check", file, "--planner", "tokens", "--skip", "fuse", "--stop-after", "pool")
    assert assay(*wanted) == 0
    assert re.search(r"pool\s+proved", capsys.readouterr().out)
    break_it(monkeypatch)
    assert assay(*wanted) == 1
    assert re.search(
        r"pool\s+FAILS .* byte 0 of buffer \w+ is overwritten by [bc] while step [12] \(concat", capsys.readouterr().out
    )


def test_the_time_is_up() -> None:
    with pytest.raises(BudgetSpent, match=r"memory\.C9"):
        plan(layered(random.Random(1), 500), "tokens", time_limit=0)
