"""What `assay build --prove` keeps of proofs of kernels, and what `assay verify` does with it (specs/verify.md,
"Certificate")."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import z3

from assay.verify.all_sizes.space import Space
from assay.verify.legalize.proofs import SHARED
from assay.verify.memory import second_opinion
from assay.verify.memory.solve import solve
from assay.verify.proof_texts import TermTexts, keep_question, keeping, never_hold, note_proof, question_text
from tests.verify.app.test_certificate import manifest, said, seal
from tests.verify.app.test_cli import assay

LARGE = """
@R.function
def main(x: R.Tensor((40, 50), "float32")) -> R.Tensor((50, 40), "float32"):
    return R.permute_dims(x)
"""
TEXT = "certificate/legalize-permute_dims.smt2"


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with turned.py and what was built of it: with --prove in `more`, without in `less`."""
    folder = tmp_path_factory.mktemp("proved")
    (folder / "turned.py").write_text(LARGE)
    with pytest.MonkeyPatch.context() as patch:
        assert assay(patch, "build", folder / "turned.py", "-o", folder / "more", "--prove") == 0
        assert assay(patch, "build", folder / "turned.py", "-o", folder / "less") == 0
    return folder


def legalized(out: Path) -> tuple[str, dict[str, str]]:
    line = next(line for line in manifest(out)["lines"] if line["stage"] == "legalize")
    return line["how"], line["data"]["how"]


def test_the_certificate_says_how_each_kernel_was_proved(proved: Path) -> None:
    assert legalized(proved / "less") == ("tested", {})
    how = {"permute_dims": f"bit-exact, {SHARED}"}
    assert legalized(proved / "more") == ("proved", how)
    assert (manifest(proved / "less")["prove"], manifest(proved / "more")["prove"]) == (False, True)
    text = (proved / "more" / TEXT).read_text()
    assert "; the kernel permute_dims is permute_dims\n; out[i, j] = x[j, i]" in text.replace("data[", "x[")
    assert solve(text).answer == "unsat" and not (proved / "less" / TEXT).exists()


def test_verify_proves_again_what_is_claimed_and_more_on_request(
    proved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert assay(monkeypatch, "verify", proved / "more", "--prove") == 0
    told = said(capsys)
    assert "1 of 1 proved equal for every input" in told and "again, with --prove" not in told
    assert assay(monkeypatch, "verify", proved / "less") == 0
    assert "0 of 1 proved" in said(capsys)
    assert assay(monkeypatch, "verify", proved / "less", "--prove") == 0
    first, again = said(capsys).split("again, with --prove;", 1)
    assert "0 of 1 proved" in first and "1 of 1 proved" in again


def test_a_claim_that_was_not_proved_is_found(
    proved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A certificate made without --prove, with the lines and texts of one made with it."""
    out = tmp_path / "out"
    shutil.copytree(proved / "less", out)
    listed = manifest(out)
    listed["lines"] = manifest(proved / "more")["lines"]
    seal(out, listed)
    assert assay(monkeypatch, "verify", out) == 1
    assert "the manifest says of legalize" in said(capsys)


def test_a_text_that_was_changed_is_found(
    proved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(proved / "more", out)
    text = (out / TEXT).read_text()
    (out / TEXT).write_text(text.replace("(assert (not ", "(assert (and ", 1))
    assert (out / TEXT).read_text() != text
    seal(out, manifest(out))
    assert assay(monkeypatch, "verify", out) == 1
    assert "legalize-permute_dims.smt2 is not the query that the stored plan makes" in said(capsys)


@pytest.mark.peer
def test_cvc5_decides_the_texts_of_kernels_again(
    proved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    assert assay(monkeypatch, "verify", proved / "more", "--second-opinion") == 0
    told = said(capsys)
    assert "leaves 0 unknown, and contradicts none" in told and "of 1 question " not in told


@pytest.mark.peer
def test_cvc5_contradicts_a_solver_that_believes_everything(
    proved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A planted fault: everything that is asked of indices is called shown."""
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    out = proved / "wrong"
    decided = Space._decided

    def believes(space: Space, facts: object, claim: object) -> bool:
        if not decided(space, facts, claim):  # type: ignore[arg-type]
            keep_question("believed", [z3.Int("i") == z3.Int("n")])
        return True

    monkeypatch.setattr(Space, "_decided", believes)
    assert assay(monkeypatch, "build", proved / "turned.py", "-o", out, "--prove") == 0
    assert assay(monkeypatch, "verify", out, "--second-opinion") == 1
    assert "legalize-permute_dims is satisfiable, and was called proved" in said(capsys)


def test_a_question_that_is_satisfiable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the second solver knows nothing."""
    texts: dict[str, str] = {}
    n = z3.Int("n")
    with keeping(texts, "kernel"):
        note_proof("that every size is 3")
        keep_question("", [n > 3, n < 3])
        keep_question("", [n != 3])
    assert (
        texts["kernel"].startswith("; kernel\n; that every size is 3\n") and texts["kernel"].count("(check-sat)") == 2
    )
    monkeypatch.setattr("assay.verify.memory.second.recheck_questions", lambda text: ["unsat", "unknown"])
    assert "kernel is satisfiable, and was called proved" in second_opinion(texts).detail


def test_nothing_is_kept_of_what_is_no_proof() -> None:
    texts: dict[str, str] = {}
    with keeping(texts, "kernel") as subject:
        keep_question("", [z3.BoolVal(False)])
        subject.holds = False
    with keeping(None, "kernel"):
        keep_question("", [z3.BoolVal(False)])
    keep_question("", [z3.BoolVal(False)])
    assert texts == {}
    for _ in range(2):  # read in two configurations: once is enough
        with keeping(texts, "kernel"):
            keep_question("", [z3.BoolVal(False)])
    assert texts["kernel"].count("(check-sat)") == 1


def samples() -> list[z3.BoolRef]:
    x, y = z3.Ints("x y")
    odd = z3.Function("element of a 0", z3.IntSort(), z3.DeclareSort("Value"))
    bits, real = z3.BitVec("b", 32), z3.FP("f", z3.Float32())
    long = z3.Sum([x * k + y for k in range(30)])
    return [
        x * y < -3,
        z3.Not(odd(x) == odd(y)),
        z3.If(x / 3 + x % 5 > y, z3.And(x > y), z3.And([])),
        z3.And(long > 7, long * 2 < y, z3.Implies(x > 0, z3.Or([]))),
        z3.And(z3.fpLT(real, z3.FPVal(1.5, z3.Float32())), z3.Extract(7, 0, bits) == 5, z3.LShR(bits, 3) != bits),
        z3.And(z3.fpBVToFP(bits, z3.Float32()) == z3.fpNaN(z3.Float32()), z3.SignExt(3, bits) == 1),
    ]


@pytest.mark.parametrize("number", range(len(samples())))
def test_a_question_means_what_was_asked(number: int) -> None:
    """Read back by z3, a formula and its text cannot differ."""
    formula = samples()[number]
    read = read_again(question_text("", [formula]))
    apart = z3.Solver()
    apart.set("rlimit", 5_000_000)
    apart.add(read != formula)
    assert apart.check() == z3.unsat


def read_again(text: str) -> z3.BoolRef:
    again = z3.Solver()
    again.from_string(text.replace("(push 1)\n", "").replace("(check-sat)\n(pop 1)\n", ""))
    return z3.And(*again.assertions())


def test_any_name_can_be_told() -> None:
    x = z3.Const("a|b\\c\nd \u00e9", z3.DeclareSort("Value of x"))
    text = question_text("", [z3.Function("3 f", x.sort(), z3.BoolSort())(x)])
    assert text.isascii() and "|a!b!c d !xe9|" in text and read_again(text).num_args() == 1


def test_a_text_does_not_hang_on_the_order_of_operands() -> None:
    a, b = z3.Ints("a b")
    one = [z3.And(a * b + 1 == b + a, z3.Distinct(a, b)), a > b]
    other = [a > b, z3.And(z3.Distinct(b, a), a + b == 1 + b * a)]
    assert question_text("", one) == question_text("", other) != question_text("", [b > a, one[0]])


def test_a_text_does_not_hang_on_what_z3_has_seen_before() -> None:
    """z3's own formulas do: a difference is written one way or the other, by which of its parts was met first."""
    kept, of_z3 = [], []
    for order in ("ab", "ba"):
        context, texts = z3.Context(), dict[str, str]()
        known = {n: z3.Int(n, context) for n in order}
        a, b = known["a"], known["b"]
        formulas = [z3.Not(a + 8 <= b), z3.Not(a + 7 >= b)]
        with keeping(texts, "kernel"):
            assert never_hold("", formulas, 1_000_000)
            assert not never_hold("", formulas[:1], 1_000_000), "it is asked, and nothing is kept"
        kept.append(texts["kernel"])
        solver = z3.SimpleSolver(ctx=context)
        solver.add(*formulas)
        solver.check()
        of_z3.append(str(solver.assertions()))
    assert kept[0] == kept[1] and kept[0].count("(check-sat)") == 1
    assert of_z3[0] != of_z3[1]


def test_texts_that_are_kept_for_further_questions_change_none() -> None:
    """Each question has all that it names, whatever was asked before it; and nothing else."""
    x, y = z3.Ints("x y")
    own = z3.Function("own", x.sort(), x.sort())
    long = z3.Sum([own(x * k) for k in range(20)])
    asked = [[long > y, y > 3], [y > 3], [own(y) > long], [long > y, y > 3]]
    written = TermTexts()
    together = [question_text("", formulas, written) for formulas in asked]
    assert together == [question_text("", formulas) for formulas in asked]
    assert "own" not in together[1] and all("(define-fun part_" in together[i] for i in (0, 2, 3))
    assert all(read_again(text) is not None for text in together)
