"""The table of what is proved of each operator, beside what is found anew (specs/verify.md, "For all sizes")."""

from __future__ import annotations

import pytest

from assay.semantics.ops import OPERATORS
from tests.all_sizes import row_of, table

SOME = ["nn.relu", "add", "permute_dims", "max", "cumsum", "sin", "topk"]


def test_the_table_has_each_operator_with_a_kernel() -> None:
    assert list(table()) == [name for name, op in OPERATORS.items() if not op.view]


@pytest.mark.parametrize("name", SOME)
def test_the_table_says_what_is_found(name: str) -> None:
    assert table()[name] == row_of(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if not op.view and n not in SOME])
def test_all_of_the_table_is_found_anew(name: str) -> None:
    assert table()[name] == row_of(name)


def test_as_many_operators_are_proved_for_all_sizes_as_before() -> None:
    assert [row["for"] for row in table().values()].count("all sizes") >= 92
