"""What z3 shows of loops where affine forms do not tell, and what it must not (specs/interp.md, "Vector")."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from assay.interp import tensor, vector
from assay.interp.vector import disjointness, independence
from assay.interp.vector.blocks import Loop, Write, walk
from assay.interp.vector.building import build
from assay.interp.vector.independence import Asking
from assay.interp.vector.regions import analyse
from assay.semantics.dtypes import DTYPES, FLOAT32, INT64
from assay.semantics.scalar import Expr, Var, apply, cast, const, evaluate, select
from assay.semantics.tensor import Allocate, Buffer, For, LetStmt, LoopKind, PrimFunc, Stmt, loops, seq, store, when
from tests.interp.programs import agree, same_bits

SIZE = 4096
X, P, OUT = Buffer("x", (SIZE,), FLOAT32), Buffer("p", (SIZE,), INT64), Buffer("out", (SIZE,), FLOAT32)
DATA = [np.arange(SIZE, dtype=np.float32), np.arange(SIZE)]


def function(body: Stmt) -> PrimFunc:
    zero = loops("z", (SIZE,), lambda z: store(OUT, z, const(0, FLOAT32)))
    return PrimFunc("f", (X, P, OUT), 1, seq(zero, body))


def one(index: Callable[[Expr], Expr], n: int = SIZE, kind: LoopKind = "parallel") -> Stmt:
    return loops("i", (n,), lambda i: store(OUT, index(i), X[i]), kind=kind)


def triangle() -> Stmt:
    i, j = Var("i"), Var("j")
    return For(i, const(64), For(j, i + 1, store(OUT, i * (i + 1) // 2 + j, X[i * 64 + j])), "parallel")


def guarded_triangle() -> Stmt:
    return loops("i j", (64, 64), lambda i, j: when(j <= i, store(OUT, i * (i + 1) // 2 + j, X[j])), kind="parallel")


def tail() -> Stmt:
    return loops(
        "i j",
        (64, 80),
        lambda i, j: when(j < apply("min", const(65), SIZE - i * 65), store(OUT, i * 65 + j, X[j])),
        kind="parallel",
    )


def let() -> Stmt:
    i, t = Var("i"), Var("t")
    return For(i, const(SIZE), LetStmt(t, apply("max", i, 5) - 5 + apply("min", i, 5), store(OUT, t, X[i])), "parallel")


def looked_up() -> Stmt:
    """The guard loads what nobody writes: it is the same wherever the index is."""
    return loops("i j", (SIZE // 2, 2), lambda i, j: when(apply("eq", P[i] % 2, j), store(OUT, i * 2, X[i])))


INDEPENDENT: dict[str, Callable[[], Stmt]] = {
    "product": triangle,
    "product under a guard": guarded_triangle,
    "tiles with a tail": tail,
    "let": let,
    "square": lambda: one(lambda i: i * i, 64),
    "every second": lambda: loops(
        "i", (SIZE,), lambda i: when(apply("eq", i % 2, 0), store(OUT, i // 2, X[i])), kind="parallel"
    ),
    "selected": lambda: one(lambda i: select(i < 2048, i, const(6143) - i)),
    "rotated": lambda: one(lambda i: (i * 5) % SIZE),
    "swizzled": lambda: loops("i j", (64, 64), lambda i, j: store(OUT, (i + j) % 64 * 64 + i, X[j]), kind="parallel"),
    "shifted": lambda: one(lambda i: apply("shl", apply("shr", i, 3), 3) + apply("bitand", i, 7)),
    "in serial order": lambda: one(lambda i: i * i, 64, "serial"),
}
MEETING: dict[str, Callable[[], Stmt]] = {
    "rotated onto itself": lambda: one(lambda i: (i * 6) % SIZE),
    "square of a sum": lambda: one(lambda i: (i - 3) * (i - 3), 60),
    "half": lambda: loops(
        "i", (SIZE,), lambda i: when(apply("lt", i % 4, 2), store(OUT, i // 2, X[i])), kind="parallel"
    ),
    "scattered": lambda: one(lambda i: P[i]),
    "wrapped": lambda: one(lambda i: cast(cast(i, DTYPES["int8"]) * cast(i, DTYPES["int8"]), INT64) + 128),
    "carried": lambda: loops("i", (SIZE - 1,), lambda i: store(OUT, i + 1, OUT[i] + X[i])),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loop is worth a question."""
    monkeypatch.setattr(independence, "WORTH", 0)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_z3_shows_what_affine_forms_do_not(name: str, always: None) -> None:
    func = function(INDEPENDENT[name]())
    blocks = build(func, {})
    analyse(blocks)
    before = {i.var for i in walk(blocks.body) if isinstance(i, Loop) and i.independent}
    analyse(blocks, Asking(blocks))
    after = {i.var for i in walk(blocks.body) if isinstance(i, Loop) and i.independent}
    assert after > before
    compiled = vector.compile_function(func, DATA, (), ("lanes",))
    assert compiled.kernel is not None, compiled.reason
    assert not isinstance(agree(func, DATA)[0], str)


def test_a_guard_on_an_input_is_the_same_number_everywhere(always: None) -> None:
    blocks = build(function(looked_up()), {})
    analyse(blocks, Asking(blocks))
    assert all(i.independent for i in walk(blocks.body) if isinstance(i, Loop))
    agree(function(looked_up()), DATA)


def own_memory() -> PrimFunc:
    """Each iteration has a number of its own in memory; what it stores to, its half, is another's too."""
    own = Buffer("own", (), INT64)

    def element(i: Expr) -> Stmt:
        return Allocate(own, seq(store(own, (), i * 2 - i // 2), store(OUT, i * 2 - own[()], X[i])))

    return function(loops("i", (SIZE,), element, kind="parallel"))


def test_memory_is_not_the_same_in_every_iteration(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> bool:
        blocks = build(own_memory(), {}, split=False)
        analyse(blocks, Asking(blocks))
        return any(i.independent for i in walk(blocks.body) if isinstance(i, Loop) and i.var.name == "i")

    assert not shown() and agree(own_memory(), DATA)[0] == "race"
    monkeypatch.setattr(
        disjointness._Side, "load", lambda self, node, indices: self.query.terms.function("same", indices, node.dtype)
    )
    assert shown()


@pytest.mark.parametrize("name", MEETING)
def test_what_meets_is_not_shown(name: str, always: None) -> None:
    func = function(MEETING[name]())
    blocks = build(func, {}, split=False)
    analyse(blocks, Asking(blocks))
    loop = next(i for i in walk(blocks.body) if isinstance(i, Loop) and i.var.name.startswith("i"))
    assert not loop.independent
    agree(func, DATA)


def random_index(random: Random, i: Expr, j: Expr, depth: int = 2) -> Expr:
    if depth == 0:
        return random.choice([i, j, const(random.randint(0, 5))])
    a, b = random_index(random, i, j, depth - 1), random_index(random, i, j, depth - 1)
    match random.randint(0, 6):
        case 0:
            return a * b
        case 1:
            return a // random.randint(2, 5)
        case 2:
            return a % random.randint(2, 9)
        case 3:
            return apply(random.choice(["min", "max"]), a, b)
        case 4:
            return select(a < b, a, b * 3)
        case 5:
            return a * random.randint(2, 7) + b
        case _:
            return a - b


def meets(random: Random) -> tuple[bool, bool]:
    """For a random nest of two loops: whether its outer one was shown independent, and whether iterations really
    meet."""
    i, j = Var("i"), Var("j")
    first, second = random_index(random, i, j), random_index(random, i, j)
    guard = random_index(random, i, j) <= random_index(random, i, j, 1)
    shift = const(2000)
    writes = when(guard, store(OUT, first + shift, X[0]), store(OUT, second + shift, X[1]))
    blocks = build(function(For(i, const(6), For(j, const(5), writes))), {}, split=False)
    analyse(blocks, Asking(blocks))
    loop = [x for x in walk(blocks.body) if isinstance(x, Loop) and x.var.name == "i"][0]
    assert any(isinstance(x, Write) for x in walk(loop.body))
    touched: dict[int, set[int]] = {}
    for a, b in itertools.product(range(6), range(5)):
        env = {i: np.int64(a), j: np.int64(b)}
        touched.setdefault(a, set()).add(int(evaluate(first if evaluate(guard, env) else second, env)))
    return loop.independent, any(touched[a] & touched[b] for a, b in itertools.combinations(range(6), 2))


def test_what_is_shown_is_so(always: None) -> None:
    """Against every pair of iterations of random nests."""
    shown = 0
    for seed in range(70):
        independent, met = meets(Random(seed))
        assert not (independent and met), seed
        shown += independent
    assert shown >= 3, shown


@pytest.mark.parametrize("fault", ["guards", "iterations", "steps"])
def test_a_wrong_question_is_caught(fault: str, always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that assumes too much is answered with what is not so."""
    enter = disjointness._Side.enter
    match fault:
        case "guards":  # both sides took the first branch
            monkeypatch.setattr(
                disjointness._Side, "enter", lambda self, step: enter(self, independence.Step(step.item))
            )
        case "iterations":  # any two differ
            monkeypatch.setattr(disjointness, "_unsatisfiable", lambda facts: True)
        case _:  # guards hold together with their opposite
            monkeypatch.setattr(
                disjointness._Side,
                "enter",
                lambda self, step: [enter(self, step), enter(self, independence.Step(step.item, not step.holds))],
            )
    assert any(a and b for a, b in (meets(Random(seed)) for seed in range(120)))


def test_only_loops_that_repay_it_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small serial loops are not, nor those that plainly add to one element; what claims to be parallel always is."""
    asked: list[str] = []
    monkeypatch.setattr(disjointness, "never_meet", lambda blocks, a, b, loop: bool(asked.append(loop.var.name)))

    def names(body: Stmt) -> list[str]:
        asked.clear()
        blocks = build(function(body), {})
        analyse(blocks, Asking(blocks))
        return list(asked)

    assert names(one(lambda i: i * i, 64, "serial")) == []
    assert names(one(lambda i: i * i, 64, "parallel")) == ["i"]
    assert names(one(lambda i: (i * 3) % SIZE, SIZE, "serial")) == ["i"]
    assert names(loops("k i", (SIZE, 8), lambda k, i: store(OUT, i, OUT[i] + X[k]))) == []


def test_an_answer_is_remembered(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disjointness, "_answers", {})
    for _ in range(2):
        func = function(guarded_triangle())
        assert vector.compile_function(func, DATA, (), ("lanes",)).kernel is not None
        first = len(disjointness._answers)
    assert first == len(disjointness._answers) > 0
    assert same_bits(vector.run(func, DATA)[0], tensor.run(func, DATA)[0])
