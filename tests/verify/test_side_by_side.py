"""Parts of a check in several processes: what they find is what one finds (specs/verify.md, "Side by side")."""

from __future__ import annotations

import os
import time
from functools import cache

import pytest

from assay.lower.anf import to_anf
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize_reachable
from assay.semantics.errors import Invalid
from assay.semantics.module import GROUP, Module
from assay.semantics.scalar import const
from assay.semantics.tensor import Store
from assay.semantics.text.module_text import parse
from assay.semantics.walk import rewrite
from assay.verify import children
from assay.verify.evidence import Context, Evidence
from assay.verify.fuse import check as check_fuse
from assay.verify.legalize import check as check_legalize
from assay.verify.side_by_side import side_by_side

pytestmark = pytest.mark.skipif(not children.CAN_FORK, reason="no process can be forked here")

TEXT = """
@R.function
def main(x: R.Tensor(("n", 5), "float32"), y: R.Tensor((5,), "float32")) -> R.Tensor((5, "n"), "float32"):
    return R.nn.relu(R.permute_dims(R.add(R.multiply(x, y), y)))
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "cores", lambda: 2)


def test_results_stand_in_order_and_come_from_other_processes() -> None:
    told: list[tuple[int, int]] = []
    found = side_by_side(lambda i: (i, os.getpid()), 7, lambda k, n: told.append((k, n)))
    assert [i for i, _ in found] == [*range(7)]
    assert os.getpid() not in {pid for _, pid in found} and told[-1] == (7, 7)
    assert side_by_side(lambda i: i, 0) == []


def test_one_core_or_one_part_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert side_by_side(lambda i: os.getpid(), 1) == [os.getpid()]
    monkeypatch.setattr(children, "cores", lambda: 1)
    assert set(side_by_side(lambda i: os.getpid(), 3)) == {os.getpid()}


def test_what_a_process_does_not_hand_back_is_done_here() -> None:
    here = os.getpid()

    def work(number: int) -> object:
        if number == 1 and os.getpid() != here:
            os._exit(7)
        if number == 2:
            return lambda: number  # cannot be sent
        return number, os.getpid() == here

    one, dead, unsent, other = side_by_side(work, 4)
    assert callable(unsent) and dead == (1, True) and one == (0, False) and other == (3, False)


def test_what_fails_fails_here() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise Invalid("no such size", label="sizes.C1")
        return number

    with pytest.raises(Invalid, match="no such size"):
        side_by_side(work, 5)


def test_nothing_is_left_of_what_is_interrupted() -> None:
    before = {*children._children}

    def stop(done: int, count: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side(lambda i: time.sleep(0.0 if i == 0 else 60.0), 3, stop)
    assert {*children._children} == before


def test_memory_of_a_forked_process_counts_from_where_it_began() -> None:
    held = bytearray(os.urandom(1)) * (160 << 20)

    def life() -> None:
        more = bytearray(b"1") * (96 << 20)
        time.sleep(60.0 if held and more else 0.0)

    child = children.fork(life)
    try:
        until = time.monotonic() + 20.0
        while not 96 << 20 < children.in_use() < 140 << 20 and time.monotonic() < until:
            time.sleep(0.01)
        assert 96 << 20 < children.in_use() < 140 << 20
    finally:
        children.end(child)


# --- the checks ------------------------------------------------------------------------------------------------------


@cache
def lowered() -> tuple[Module, Module, Module]:
    source = to_anf(parse(TEXT))
    legal = legalize_reachable(source)
    return source, legal, fuse(legal)


def found(after: Module, fused: bool) -> tuple[Evidence, dict[str, str]]:
    source, legal, _ = lowered()
    context = Context(thorough=True)
    return (check_fuse(legal, after, context) if fused else check_legalize(source, after, context)), context.queries


@pytest.mark.parametrize("fused", [False, True], ids=["legalize", "fuse"])
def test_a_check_says_the_same_in_one_process_and_in_two(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    after = lowered()[2 if fused else 1]
    two, texts = found(after, fused)
    monkeypatch.setattr(children, "cores", lambda: 1)
    one, again = found(after, fused)
    assert two == one and two.how == "proved" and len(texts) == (1 if fused else 4)
    assert texts == again


@pytest.mark.parametrize("fused", [False, True], ids=["legalize", "fuse"])
def test_a_fault_is_found_by_whichever_process(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    after = lowered()[2 if fused else 1]
    name = next(n for n, k in after.kernels.items() if (GROUP in k.attrs) == fused and "permute" in n)
    kernel = after.kernel(name)
    body = rewrite(
        kernel.body,
        lambda s: Store(s.buffer, s.indices, s.value + const(1.0, "float32")) if isinstance(s, Store) else s,
    )
    wrong = after.with_(
        **{name: type(kernel)(name, kernel.params, kernel.num_outputs, body, kernel.attrs, kernel.scalars)}
    )
    two, _ = found(wrong, fused)
    monkeypatch.setattr(children, "cores", lambda: 1)
    one, _ = found(wrong, fused)
    assert two.holds is False and two.detail == one.detail
