"""What `assay plan` makes of files from anybody: the right answer, or one line that says what is wrong and where."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.verify.app.cli import main

H = b"id,lower,upper,size\n"
A = b"id,lower,upper,size,alignment\n"
HAND = b"id,lower,upper,size,offset\n"
G = b"id,lower,upper,size,gaps\n"
MOST = str((1 << 63) - 1).encode()
MORE = str(1 << 63).encode()
LEAST = str(-(1 << 63)).encode()

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(content: bytes, *options: object) -> tuple[int, str, str]:
        path = tmp_path / "in.csv"
        path.write_bytes(content)
        monkeypatch.setattr(sys, "argv", ["assay", "plan", str(path), *map(str, options)])
        with pytest.raises(SystemExit) as done:
            main()
        said = capsys.readouterr()
        return int(done.value.code or 0), said.out, said.err

    return run


REFUSED: dict[str, tuple[bytes, str]] = {
    "a size beyond int64": (H + b"a,0,5," + MORE + b"\n", ":2: size is 9223372036854775808, and must be in int64"),
    "a position beyond int64": (H + b"a,0," + MORE + b",8\n", ":2: upper is 9223372036854775808, and must be in int64"),
    "a position below int64": (H + b"a,-9223372036854775809,1,8\n", ":2: lower is -9223372036854775809, and must be"),
    "a last position whose successor is beyond": (
        b"id,lower,end,size\na,0," + MOST + b",8\n",
        ":2: end is 9223372036854775807",
    ),
    "live at once beyond int64": (H + b"a,0,5," + MOST + b"\nb,4,6,1\n", "9223372036854775808 bytes are live at once"),
    "an end by hand beyond int64": (HAND + b"a,0,5,8," + MOST + b"\n", ":2: buffer a ends at byte 9223372036854775815"),
    "a size of 5000 digits": (H + b"a,0,5," + b"9" * 5000 + b"\n", "(5000 characters), and must be in int64"),
    "a gap of 5000 digits": (G + b"a,0,5,1,2-" + b"9" * 5000 + b"\n", "(5000 characters), and must be in int64"),
    "an alignment beyond int64": (A + b"a,0,5,8," + MORE + b"\n", ":2: alignment is 9223372036854775808, and must be"),
    "alignments together beyond int64": (
        A + b"a,0,5,8," + MOST + b"\nb,0,5,8,4611686018427387904\n",
        "no address in int64",
    ),
    "a life that ends before it begins": (
        H + b"a,7,3,8\n",
        ":2: buffer a is live from 7 up to, and not including, 3: never",
    ),
    "a size with a fraction": (H + b"a,0,3,99.5\n", ":2: size is '99.5', and must be a whole number"),
    "a size with no fraction to speak of": (H + b"a,0,3,99.0\n", ":2: size is '99.0', and must be a whole number"),
    "a size below 0": (H + b"a,0,3,-1\n", ":2: buffer a has -1 bytes"),
    "one name twice": (H + b"a,0,3,1\nb,0,3,1\na,4,5,1\n", ":4: a second buffer called 'a'; the first is in line 2"),
    "no name": (H + b",0,3,1\n", ":2: the buffer has no name"),
    "the same column twice": (b"id,lower,upper,size,x,x\na,0,3,1,2,3\n", ":1: there are two columns 'x'"),
    "a column under two names": (b"id,lower,upper,end,size\na,0,3,3,1\n", ":1: there are two columns 'upper'"),
    "alignment 0": (A + b"a,0,3,4,0\n", ":2: buffer a has the alignment 0"),
    "gaps that touch": (G + b"a,0,9,4,2-3 3-4\n", ":2: the gap 3-4 must lie inside"),
    "gaps that overlap": (G + b"a,0,9,4,2-5 4-6\n", ":2: the gap 4-6 must lie inside"),
    "digits of another script": (H + "a,0,3,\uff14\n".encode(), ":2: size is '\uff14', and must be a whole number"),
    "a gap in digits of another script": (G + "a,0,9,4,\uff12-\uff13\n".encode(), "must be two numbers with a dash"),
    "by hand on one byte": (
        HAND + b"a,0,3,4,0\nb,0,3,4,2\n",
        "buffers a and b have been placed by hand, and share byte 2",
    ),
    "by hand below 0": (HAND + b"a,0,3,4,-4\n", "placed by hand at bytes [-4, 0)"),
    "a pool twice": (b"id,lower,upper,size,pool\na,0,3,4,w w\n", "wants pool 'w'"),
    "a NUL": (H + b"a,0,3,4\nb\0,0,3,4\n", ":3: there is a NUL byte"),
    "not UTF-8": (H + b"a,0,3,4\n\xff,0,3,4\n", ":3: is not text in UTF-8: byte 28"),
    "UTF-16": (H.decode().encode("utf-16"), ":1: is not text in UTF-8"),
    "a very long field": (H + b"a" * 200_000 + b",0,3,4\n", ":2: is not CSV: field larger than field limit"),
    "a long name twice": (H + (b"a" * 90_000 + b",0,3,4\n") * 2, ":3: a second buffer called 'aaaaaaaaaaaaaaaaaaaa..."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_said_in_one_line(assay: Run, name: str) -> None:
    content, words = REFUSED[name]
    code, out, err = assay(content)
    assert (code, out) == (2, "") and words in err
    assert err.count("\n") == 1 and len(err) < 600


PLANNED: dict[str, tuple[bytes, int]] = {
    "no rows": (H, 0),
    "one row": (H + b"a,0,1,7\n", 7),
    "no bytes": (H + b"a,0,3,0\nb,0,3,0\n", 0),
    "negative positions": (H + b"a,-5,-1,9\nb,-2,3,4\n", 13),
    "lives that touch": (H + b"a,0,5,4\nb,5,9,3\n", 4),
    "the edge of int64": (H + b"a," + LEAST + b"," + MOST + b"," + MOST + b"\n", (1 << 63) - 1),
    "in one another's gaps": (G + b"a,0,9,4,3-6\nb,3,6,4,\n", 4),
    "a negative gap": (G + b"a,-9,9,4,-6--3\nb,-6,-3,4,\n", 4),
    "alignments that are no powers of two": (A + b"a,0,3,4,3\nb,0,3,5,7\n", 10),
    "unknown columns": (b"id,lower,upper,size,note,\na,0,3,4,x,y\n", 4),
    "a byte order mark": (b"\xef\xbb\xbf" + H + b"a,0,3,4\n", 4),
    "lines of Windows": (H.replace(b"\n", b"\r\n") + b"a,0,3,4\r\n", 4),
    "lines of old": (H.replace(b"\n", b"\r") + b"a,0,3,4\r", 4),
    "signs and zeros": (H + b"a,-0,+3,004\n", 4),
}


@pytest.mark.parametrize("name", PLANNED)
def test_odd_files_that_mean_something(assay: Run, name: str) -> None:
    content, size = PLANNED[name]
    code, out, err = assay(content)
    assert (code, err) == (0, "") and f"workspace: {size} bytes" in out and "proved: z3" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alignment", 1 << 63], "--alignment is 9223372036854775808, and must be in int64"),
        (["--capacity", 1 << 63], "--capacity is 9223372036854775808, and must be in int64"),
        (["--pools", f"a={1 << 64}"], "the limit of pool a is 18446744073709551616, and must be in int64"),
        (["--pools", "a=" + "9" * 5000], "(5000 characters), and must be in int64"),
        (["--pools", "a,a"], "two pools are called 'a'"),
        (["--time-limit", "nan"], "--time-limit is nan, and must be 0 or more seconds"),
    ],
)
def test_options_beyond_what_can_be(assay: Run, options: list[object], words: str) -> None:
    code, out, err = assay(H + b"a,0,1,7\n", *options)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_a_capacity_of_nothing(assay: Run) -> None:
    assert assay(H + b"a,0,1,7\n", "--capacity", 0)[0] == 1
    assert assay(H + b"a,0,1,0\n", "--capacity", 0)[0] == 0


def test_a_plan_that_only_alignment_takes_beyond_int64_is_refuted(assay: Run) -> None:
    """Its bytes live at once are few; where the second begins, int64 ends."""
    code, out, _ = assay(A + b"a,0,3,4,4611686018427387904\nb,0,3,4,4611686018427387904\nc,0,3,4,4611686018427387904\n")
    assert code == 1 and "more than int64 can count" in out and "nothing is written" in out
