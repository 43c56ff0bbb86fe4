"""`assay plan --bound`: sizes and offsets with symbols, planned, proved and refuted for all their values
(specs/verify.md, "Memory plans"; specs/lower.md, "memory planners")."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.lower.memory import csv as tables
from assay.lower.memory.symbolic import plan_symbolic
from assay.semantics.memory import Place, Plan, Problem
from assay.verify.app import plan_symbols
from assay.verify.memory import check_plan
from tests.verify.app.plans.test_plan_command import Command, assay

__all__ = ["assay"]

pytestmark = pytest.mark.row("U21")

HEAD = "id,lower,upper,size\n"
FOUR = HEAD + "a,0,2,4*n+64\nb,1,3,4*n\nc,2,4,8*n\nd,3,5,100\n"
GIVEN = "id,lower,upper,size,offset\na,0,2,4*n + 64,0\nb,1,3,4*n,8*n\nc,2,4,8*n,12*n\n"
"""a ends below b from n = 16 on."""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_plan_is_made_written_and_checked_again(
    assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    four, out, again = written(tmp_path / "four.csv", FOUR), tmp_path / "out.csv", tmp_path / "again.csv"
    assert assay("plan", four, "--bound", "n=1..512", "-o", out) == 0
    said = capsys.readouterr().out.replace("\n", " ")
    assert (
        "proved: z3: no two of 4 live buffers share a byte, for all n in 1 to 512" in said and "int64 suffices" in said
    )
    assert (
        "at n = 512 6144 bytes, 6144 live at once, ratio 1.000" in said
        and "n * 8 + T.max(25, T.max(16, n)) * 4 bytes" in said
    )
    assert 'b,1,3,4*n,"n * 4 + T.max(16, n) * 4"' in out.read_text()
    n = next(iter(symbols := plan_symbols.bounds_of({"n": (1, 512)})))
    problem = tables.read_table(four, symbols={"n": n}).problem()
    offsets = tables.read_table(out, symbols={"n": n}).offsets
    for at in (1, 15, 16, 17, 512):
        assert check_plan(
            problem, plan_symbols.given_plan(problem, {k: Place("workspace", o) for k, o in offsets.items()}), {n: at}
        ).holds
    assert symbols == {n: (1, 512)}
    assert assay("plan", out, "--bound", "n=1..", "-o", again) == 0  # a given plan, and more values
    assert (
        "for all n >= 1" in (said := capsys.readouterr().out.replace("\n", " "))
        and "suffices while n is at most" in said
    )
    assert again.read_text() == out.read_text()


@pytest.mark.parametrize(
    "bound, exit_code, said",
    [
        ("n=16..64", 0, "for all n in 16 to 64"),
        (
            "n=15..64",
            1,
            "FAILS: for n = 15: buffers a and b share bytes 120 to 123 of pool workspace while both are live",
        ),
        ("n=1..", 1, "FAILS: for n = 1: buffers a and b share bytes 8 to 11"),
    ],
)
def test_a_given_plan_that_is_right_inside_its_bounds_only(
    assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], bound: str, exit_code: int, said: str
) -> None:
    out = tmp_path / "out.csv"
    assert assay("plan", written(tmp_path / "given.csv", GIVEN), "--bound", bound, "-o", out) == exit_code
    assert said in capsys.readouterr().out.replace("\n", " ")
    assert out.exists() == (exit_code == 0)


def test_a_planner_is_not_trusted(
    assay: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan that leaves one byte too few under b, but where n is the least: refuted, and not written."""

    def lying(problem: Problem, *args: object, **options: object) -> Plan:
        made = plan_symbolic(problem, *args, **options)  # type: ignore[arg-type]
        low = made.places["b"]
        return Plan(
            {**made.places, "b": Place(low.pool, low.offset - (problem.buffers[1].nbytes - 4) // 4)},
            made.sizes,
            "lying",
        )

    monkeypatch.setattr(plan_symbols, "plan_symbolic", lying)
    out = tmp_path / "out.csv"
    assert assay("plan", written(tmp_path / "four.csv", FOUR), "--bound", "n=1..512", "-o", out) == 1
    assert "for n = 2: buffers a and b share byte 71 " in capsys.readouterr().out.replace("\n", " ")
    assert not out.exists()


def test_as_json_in_pools(assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        assay(
            "plan",
            written(tmp_path / "four.csv", FOUR),
            "--bound",
            "n=1..512",
            "--pools",
            "fast=1000,slow",
            "--json",
            "--plot",
            tmp_path / "map.svg",
        )
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    assert (data["bounds"], data["at"], data["holds"]) == ({"n": [1, 512]}, {"n": 512}, True)
    assert data["pools"][0] == {
        "name": "fast",
        "limit": 1000,
        "buffers": 1,
        "bytes": 100,
        "lower_bound": 100,
        "ratio": 1.0,
        "expression": "100",
    }
    assert data["pools"][1]["bytes"] == 6144 and data["pools"][1]["expression"] == "n * 8 + T.max(16, n) * 4"
    assert data["places"]["b"] == {"pool": "slow", "offset": "n * 4 + T.max(16, n) * 4"} and data["places"]["d"] == {
        "pool": "fast",
        "offset": 0,
    }
    assert "3 buffers in 6144 bytes" in (tmp_path / "map.svg").read_text()


def test_a_capacity_is_for_all_values(assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    four = written(tmp_path / "four.csv", FOUR)
    assert assay("plan", four, "--bound", "n=1..512", "--capacity", 6144) == 0
    assert assay("plan", four, "--bound", "n=1..512", "--capacity", 6143) == 1
    said = capsys.readouterr().out.replace("\n", " ")
    assert "for n = 512: pool workspace has 6144 bytes, and its limit is 6143" in said
    assert "FAILS: the plan does not fit the capacity of 6143 for all values" in said


@pytest.mark.parametrize(
    "text, bounds, said",
    [
        (
            FOUR,
            [],
            "2: size is '4*n+64', and must be a whole number, or an expression of symbols that --bound gives [csv.C2]",
        ),
        (
            FOUR,
            ["m=1..4"],
            "2: size is '4*n+64': nothing is called n here; the symbols are those of --bound: m [csv.C2]",
        ),
        (FOUR, ["n=1..4", "m=1..4"], "no size and no offset has the symbol m; there are: n [symbolic.C1]"),
        (FOUR, ["n=5..4"], "--bound n: no number is at least 5 and at most 4 [symbolic.C1]"),
        (FOUR, ["n=1..4", "n=1..5"], "--bound n is given twice [symbolic.C2]"),
        (FOUR, ["4*n=1..4"], "a symbol is called by a name, such as n [symbolic.C2]"),
        (FOUR, ["n=1"], "--bound takes NAME=LEAST..MOST"),
        (
            FOUR,
            ["n=-20..4"],
            "2: the size of buffer a, 4 * n + 64, is -16 for n = -20, and must be 0 or more [memory.C3]",
        ),
        (
            FOUR,
            ["n=1..2305843009213693900"],
            (
                "4: the size of buffer c, 8 * n, is 18446744073709551200 for n = 2305843009213693900, and must be in"
                " int64 [csv.C4]"
            ),
        ),
        (
            HEAD + "a,0,2,(n - 50)*(n - 52)\n",
            ["n=0..999"],
            "within these bounds the sizes cannot be planned: for n = 51: ",
        ),
        (
            HEAD + "a,0,2,2*n\nb,1,3,2*n\n",
            ["n=0..4611686018427387903"],
            "where buffer b ends is 18446744073709551612, not in int64 [csv.C4]",
        ),
        (HEAD + "a,0,2,n//k\n", ["n=0..9", "k=0..9"], "has no value for n = 0 and k = 0: integer division by zero"),
        (
            HEAD + "a,0,2,n//(k-7)+99\n",
            ["n=0..9", "k=0..9"],
            "a size has no value for some values of the symbols within their bounds: integer division by zero",
        ),
        (HEAD + "a,0,2,n**999999999\n", ["n=0..9"], "2: size is 'n**999999999': no scalar expression [csv.C2]"),
        (
            HEAD + "a,0,2,n << 999999999\n",
            ["n=0..9"],
            "has no value for n = 0: shift by less than 0 or by 64 or more bits",
        ),
        (
            HEAD + "a,0,2,1.5*n\n",
            ["n=0..9"],
            "2: size is '1.5*n': a dim is a whole number or an integer expression [csv.C2]",
        ),
        (
            HEAD + f"a,0,2,{'(' * 999}n{')' * 999}\n",
            ["n=0..9"],
            "2: size is '((((((((((((((((((((...)))))))))) (1999 characters)': no expression",
        ),
        (
            GIVEN + "d,0,2,4,\n",
            ["n=16..64"],
            "3: buffer b has an offset with symbols, and buffer d has none: give all buffers one",
        ),
        (
            FOUR,
            ["n=1..", "--pools=w=4096"],
            "no greatest value is known of n, so nothing shows that it stays within the limit of w (4096 bytes)",
        ),
    ],
)
def test_what_cannot_be_used(
    assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, bounds: list[str], said: str
) -> None:
    options = [b if b.startswith("--") else f"--bound={b}" for b in bounds]
    assert assay("plan", written(tmp_path / "bad.csv", text), *options) == 2
    assert said in capsys.readouterr().err


def test_what_is_not_known(assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = written(tmp_path / "odd.csv", HEAD + "a,0,2,n^k\n")
    assert assay("plan", odd, "--bound", "n=0..9", "--bound", "k=0..9") == 4
    assert (
        "unknown: not decided: whether" in (said := capsys.readouterr().out)
        and "UNKNOWN: the plan is not proved" in said
    )


def test_the_time_is_that_of_the_proof_too(assay: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """z3 alone would take minutes for this remainder."""
    hard = written(tmp_path / "hard.csv", HEAD + "a,0,2,n%k\nb,0,2,n*k\n")
    assert assay("plan", hard, "--bound", "n=1..10000", "--bound", "k=1..20000", "--time-limit", 0.8) == 4
    assert "UNKNOWN: the plan is not proved" in capsys.readouterr().out


FAR = HEAD.replace("size", "size,offset") + 'a,0,2,n,0\nb,0,2,8,"T.min(n, 5000)"\n'
"""Right up to n = 5000, beyond all values that are tried before anything is proved."""


def test_a_false_fact_of_the_search_proves_nothing(
    assay: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search says of whatever is asked that it is a fact: texts believe none that they do not show."""
    far = written(tmp_path / "far.csv", FAR)
    assert assay("plan", far, "--bound", "n=0..5000") == 0
    monkeypatch.setattr("assay.verify.memory.symbolic.derive", lambda goal, forms, ranges, points=(): (goal,))
    capsys.readouterr()
    assert assay("plan", far, "--bound", "n=0..") == 1
    assert "for n = 5001: buffers a and b share byte" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(("last", "code"), [(319, 0), (318, 1)])
def test_lives_of_many_buffers_are_in_the_proof(assay: Command, tmp_path: Path, last: int, code: int) -> None:
    """One after another, each where the one before has ended: the last of 320 may take the place of the others, or not
    yet."""
    rows = "".join(f"b{i},{i},{i + 1},4*n,0\n" for i in range(319))
    many = written(
        tmp_path / "many.csv", HEAD.replace("size", "size,offset") + rows + f"b319,{last},{last + 2},4*n,0\n"
    )
    assert assay("plan", many, "--bound", "n=1..") == code
