"""`assay run --kernels`: what is counted adds up, no option is dropped, and what is printed fits and agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.verify.app.kernels.shown import pieces, table_lines
from tests.inputs import read_npz
from tests.shown.case import HEAD
from tests.verify.app.test_cli import assay

pytestmark = pytest.mark.row("J4", "J8", "J9")
MIXED = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 3), "float32"), s: R.Tensor(("n", 1), "float32")):
        return (R.nn.softmax(R.matmul(x, w)), R.exp(s))
"""
PADDED = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n", 3), "float32")):
        return R.exp(R.add(x, y))
"""
MISSING = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        minus = R.subtract(R.negative(R.abs(x)), R.const(1.0, "float32"))
        none = R.subtract(x, x)
        return (R.sqrt(minus), R.log(minus), R.divide(none, none), R.negative(R.divide(none, none)))
"""


class Runs:
    """A program in a folder of its own, and commands on it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.patch, self.capsys = folder, patch, capsys

    def __call__(self, program: str, *args: object, code: int = 0) -> str:
        """What `assay run` prints."""
        file = self.folder / "program.py"
        file.write_text(HEAD + program, "utf-8")
        self.capsys.readouterr()
        got = assay(self.patch, "run", file, *args)
        said = self.capsys.readouterr()
        assert got == code, said.out + said.err
        return said.out if code == 0 else said.err

    def data(self, program: str, *args: object) -> dict[str, Any]:
        """What it says as JSON."""
        found: dict[str, Any] = json.loads(self(program, *args, "--json"))
        return found


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runs:
    return Runs(tmp_path, monkeypatch, capsys)


# --- counts ----------------------------------------------------------------------------------------------------------


def test_counts_add_up_in_every_way(runs: Runs) -> None:
    """Calls are hits, misses, and those by interpreter and library; the row for all is the sum of the others."""
    store = ("--kernel-store", runs.folder / "store", "--stream", "n=1,3", "--repeat", 3)
    digests = set()
    for program, way in (
        (MIXED, "generic"), (MIXED, "range:n=1..2"), (MIXED, "recorded"), (MIXED, "auto"), (MIXED, "interpreted"),
        (MIXED, "buckets:n=2,4"), (PADDED, "buckets:n=2,4"), (PADDED, "padded:n=2"),
        (MIXED, f"recorded:{runs.folder / 'sizes'}"), (MIXED, f"recorded:{runs.folder / 'sizes'}"),
    ):  # fmt: skip
        more = ("--threads", 3) if way == "generic" else ()
        found = runs.data(program, "--kernels", way, *store, *more)
        functions, total = found["kernels"]["functions"], found["kernels"]["total"]
        for f in (*functions, total):
            assert f["calls"] == f["hits"] + f["misses"] + f["interpreted"] + f["library"], (way, f)
        for name in set(total) - {"compile_seconds", "run_seconds"}:
            assert total[name] == sum(f[name] for f in functions), (way, name)
        assert total["calls"] == 6 * sum(f["function"] != "main" for f in functions), way
        digests.add((program, found["outputs"][0]["digest"]))
    assert len(digests) == 2


def test_kernels_made_beforehand_are_no_misses(runs: Runs) -> None:
    total = runs.data(PADDED, "--kernels", "range:n=1..2", "--stream", "n=1,2")["kernels"]["total"]
    assert (total["calls"], total["hits"], total["misses"], total["compiled"]) == (2, 2, 0, 2)


def test_no_more_is_made_beforehand_than_the_cache_holds(runs: Runs) -> None:
    sizes = runs.folder / "sizes"
    args = ("--kernels", f"recorded:{sizes}", "--kernel-store", runs.folder / "store")
    runs(PADDED, *args, "--stream", "n=1,2,3,4")
    said = runs(PADDED, *args, "--stream", "n=4", "--kernel-cache", 2)
    assert "2 of its 4 kernels are made before the run: --kernel-cache 2 is full" in said
    found = runs.data(PADDED, *args, "--stream", "n=1,2", "--kernel-cache", 2)["kernels"]
    assert (found["loaded"], found["total"]["hits"], found["total"]["evicted"]) == (2, 2, 0)
    said = runs(PADDED, "--kernels", "range:n=1..3", "--kernel-cache", 2, "--stream", "n=3", *args[2:])
    assert "2 of its 3 kernels are made before the run" in said


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--kernels", ""), "a way is wanted"),
        (("--kernels", "generic", "--dim", "n=3", "--stream", "n=3,4"), "--dim and --stream both say n"),
        (("--kernels", "generic", "--stream", "n=3,4", "--output", "out.npz"), "keeps the results of one run"),
        (("--kernels", "tanh*=library,auto"), "tanh*=library is for no function"),
        (("--kernels", "e*=generic,exp=specialized"), "exp=specialized is for no function that an entry before it"),
        (("--kernels", "main=generic,auto"), "main=generic is for no function"),
        (("--kernels", "generic,exp=library"), "exp=library counts for nothing" ),
        (("--kernels", "padded:k=4"), "no size is called k; there are m, n"),
        (("--kernels", "padded:n"), "padded:NAME=N is wanted, and padded:n is given"),
        (("--kernels", "buckets:4,n=4"), "buckets:NAME=N,N,... is wanted"),
        (("--kernels", "range:n=3"), "range:NAME=LEAST..MOST is wanted, with numbers below 2^31, and n=3 is given"),
        (("--kernels", "generic:n=4"), "generic takes no more"),
    ],
)  # fmt: skip
def test_no_option_is_dropped(runs: Runs, args: tuple[str, ...], said: str) -> None:
    assert said in (found := runs(MIXED, *args, code=2)) and "[kernels.C1]" in found
    assert not Path("out.npz").exists()


def test_results_of_one_run_are_written(runs: Runs) -> None:
    out = runs.folder / "out.npz"
    runs(PADDED, "--kernels", "interpreted", "--stream", "n=3", "--repeat", 2, "--output", out)
    assert read_npz(out)["output_0"].shape == (3, 3)


def test_each_pattern_names_an_operator(runs: Runs) -> None:
    assert assay(runs.patch, "operators", "nosuch", "matmul") == 2
    assert "no operator is called nosuch [kernels.C4]" in runs.capsys.readouterr().err


def test_recorded_sizes_are_as_many_as_the_function_has(runs: Runs) -> None:
    sizes = runs.folder / "sizes"
    runs(PADDED, "--kernels", f"recorded:{sizes}", "--stream", "n=1,2")
    said = json.loads(sizes.read_text())
    said["sizes"] = {digest: [*rows, [1, 2]] for digest, rows in said["sizes"].items()}
    sizes.write_text(json.dumps(said))
    found = runs(PADDED, "--kernels", f"recorded:{sizes}", code=2)
    assert "are 2 numbers, and its sizes are n [kernels.C2]" in found


def test_a_store_that_is_a_file_is_said_to_be_one(runs: Runs) -> None:
    (runs.folder / "store").write_text("")
    said = runs(PADDED, "--kernels", "generic", "--kernel-store", runs.folder / "store", code=2)
    assert "store: is no directory, and kernels are stored in one [kernels.C3]" in said


# --- what is printed -------------------------------------------------------------------------------------------------


def test_names_go_on_behind_an_underscore() -> None:
    assert pieces("fused_subtract_exp_sum", 10) == ["fused_", "subtract_", "exp_sum"]
    assert pieces("buckets:n=4,16,m=2", 12) == ["buckets:n=4,", "16,m=2"]
    rows = [("function", "calls", "compiling"), ("fused_equal_not_equal_logical_or_where", "12", "0.10 s")]
    assert list(table_lines(rows, 40)) == [
        "function               calls compiling",
        "fused_equal_not_equal_    12    0.10 s",
        "logical_or_where",
    ]
    assert next(table_lines(rows, 80)).startswith("function" + " " * 31 + "calls")


def test_a_nan_has_no_sign(runs: Runs) -> None:
    """Which NaN it is, is not observed (M5.5): digests agree, and so does the comparison on first use."""
    told = {runs(MISSING, "--kernels", way, "--dim", "n=2").split("kernels:")[0] for way in ("interpreted", "generic")}
    told.add(runs(MISSING, "--dim", "n=2"))
    assert len(told) == 1 and told.pop().count("[nan, nan]") == 4
