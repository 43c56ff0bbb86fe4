"""Proofs for all sizes where one memory is seen as numbers of several dtypes: bytes count, and what is wrong is
refuted."""

from __future__ import annotations

import pytest

from assay.semantics.tensor import PrimFunc
from assay.semantics.text.module_text import parse
from assay.verify.symbolic import prove_accesses

HEAD = """
n = TypeVar("n")
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((n,), "float32"), o: T.Buffer((n * 4,), "uint8")):
        v = x.view("uint8")
"""


def func(body: str) -> PrimFunc:
    return parse(HEAD + "".join(f"        {line}\n" for line in body.splitlines()), "bytes.py").kernel("main")


def test_every_byte_is_in_bounds_and_written() -> None:
    report = prove_accesses(
        func("for i in T.parallel(n):\n    for j in range(4):\n        o[i * 4 + j] = v[i * 4 + j]")
    )
    assert report.verdict == "proved", [g for g in report.goals if g.verdict != "proved"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("for i in range(n * 4):\n    o[i] = v[i + 1]", "in bounds"),
        ("for i in range(n):\n    o[i] = v[i]", "outputs written"),
        ("for i in T.parallel(n * 4):\n    o[i // 2 * 2] = v[i]\n    o[i] = v[i]", "independent"),
    ],
)
def test_what_is_wrong_is_refuted(body: str, kind: str) -> None:
    report = prove_accesses(func(body))
    refuted = {g.kind for g in report.goals if g.verdict == "refuted"}
    assert refuted, [(g.kind, g.verdict) for g in report.goals]
