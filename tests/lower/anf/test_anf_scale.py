"""A-normal form of random and of large programs; that it is a function of the program alone, and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO

import numpy as np
import pytest

from assay.lower.anf import to_anf
from assay.lower.anf.bbnf import to_bbnf
from assay.semantics.errors import Unsupported
from assay.semantics.graph import (
    Constructor,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    Let,
    Var,
    call,
    function,
    let,
    tuple_of,
    var,
)
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.store import ArrayWriter, encode
from assay.semantics.walk import post_order
from assay.verify.anf.bbnf import why_not_bbnf
from tests.lower.anf.anf_shapes import SHAPES, F
from tests.lower.anf.anf_text import blocks, text
from tests.lower.anf.shared_programs import program
from tests.observation import observe
from tests.places import ROOT
from tests.scale import FEW, MANY


def not_normal(main: Function) -> str | None:
    """An operand that is no atom, or a name that is bound twice."""
    names = [p.name for p in main.params]
    work: list[Expr] = [main.body]
    while work:
        node = work.pop()
        while isinstance(node, Let):
            names.append(node.var.name)
            inside = blocks(node.value)
            work += [body for _, body in inside]
            if isinstance(node.value, Function) and inside:
                names += [p.name for p in node.value.params]
            bodies = {id(body) for _, body in inside}
            operands = (
                [] if isinstance(node.value, Function) else [c for c in node.value.children if id(c) not in bodies]
            )
            names += [v for what, _ in inside if what.startswith("case ") for v in what[5:].split(", ")]
            for o in operands:
                if not isinstance(o, (Var, GlobalVar, ExternFunc, Constructor)):
                    return f"operand {o}"
            node = node.body
        if not isinstance(node, (Var, GlobalVar, ExternFunc, Constructor)):
            return f"result {node}"
    twice = {n for n in names if names.count(n) > 1}
    return f"names {sorted(twice)}" if twice else None


def compare(seed: int, depth: int) -> bool:
    """Source, A-normal form and basic-block normal form of a random program say the same; False if it grows too
    large."""
    source, inputs = program(seed, depth)
    check(source)
    seen = observe(source, inputs)
    try:
        anf, bbnf = to_anf(source), to_bbnf(source)
    except Unsupported:
        return False
    assert not_normal(anf.main) is None, f"program {seed}, depth {depth}"
    assert why_not_bbnf(bbnf.main) is None, f"program {seed}, depth {depth}"
    assert (bbnf.main is source.main) == (why_not_bbnf(source.main) is None), f"program {seed}, depth {depth}"
    for target in (anf, bbnf):
        check(target)
        assert seen.difference(observe(target, inputs)) is None, f"program {seed}, depth {depth}"
    return True


@pytest.mark.row("A1", "A2", "A3", "A4", "A8", "A9")
@pytest.mark.parametrize("depth", [3, 5, 7])
def test_random_programs_mean_the_same_in_all_forms(depth: int) -> None:
    assert sum(compare(seed, depth) for seed in range(60)) > 50


@pytest.mark.campaign
@pytest.mark.parametrize("start", range(0, 4000, 500))
def test_many_random_programs_mean_the_same_in_all_forms(start: int) -> None:
    assert sum(compare(seed, 4 + seed % 6) for seed in range(1000 + start, 1500 + start)) > 450


@pytest.mark.parametrize("seed", [1276, 1383, 1487])
def test_a_dataflow_block_that_a_primitive_function_shares(seed: int) -> None:
    """The block stands inside a function that is not entered, and outside of it: there it is another block."""
    assert compare(seed, 4 + seed % 6)


def test_random_programs_are_what_the_tests_need() -> None:
    """They trap, they print, they share what can fail between branches, and they are not tiny."""
    traps, prints, shared, sizes = 0, 0, 0, []
    for seed in range(60):
        module, inputs = program(seed, 7)
        seen = observe(module, inputs)
        traps += seen.trap is not None
        prints += bool(seen.trace)
        shared += why_not_bbnf(module.main) is not None
        start: Expr = module.main
        sizes.append(len(list(post_order(start))))
    assert min(traps, prints, shared) > 10 and sum(sizes) > 60 * 40


def test_what_is_not_normal_is_seen() -> None:
    x, y = var("x", F), var("y", F)
    assert not_normal(function([x], call("exp", call("exp", x)))) is not None
    assert not_normal(function([x], let(y, call("exp", x), tuple_of(y, y)))) is not None
    assert not_normal(function([x], let(y, call("exp", x), let(var("y", F), call("exp", y), y)))) is not None
    assert not_normal(function([x], let(y, call("exp", x), y))) is None


# --- a function of the program alone -------------------------------------------------------------------------------


def digest(count: int) -> str:
    """Of the forms of `count` random programs, as text."""
    found = sha256()
    for seed in range(count):
        module, _ = program(seed, 6)
        found.update(text(to_anf(module).main).encode())
        found.update(text(to_bbnf(module).main).encode())
    return found.hexdigest()


@pytest.mark.row("A2", "A10")
def test_the_bindings_are_the_same_in_every_process() -> None:
    code = "from tests.lower.anf.test_anf_scale import digest; print(digest(20))"
    path = os.pathsep.join([str(ROOT / ".src"), str(ROOT)])
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2", "77")
    }
    assert seen == {digest(20)}


@pytest.mark.row("A10")
def test_threads_do_not_disturb_each_other() -> None:
    modules = [program(seed, 6)[0] for seed in range(10)]
    want = [text(to_anf(m).main) for m in modules]
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: [text(to_anf(m).main) for m in modules], range(16)):
            assert got == want


@pytest.mark.row("A9")
def test_the_input_is_never_changed() -> None:
    for seed in range(25):
        module, _ = program(seed, 6)
        start: Expr = module.main
        nodes = [(n, dict(vars(n))) for n in post_order(start)]
        before = encode(module, ArrayWriter(BytesIO()))
        to_anf(module)
        to_bbnf(module)
        assert encode(module, ArrayWriter(BytesIO())) == before
        for node, fields in nodes:
            assert vars(node).keys() == fields.keys() and all(v is fields[k] for k, v in vars(node).items())


# --- large programs -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.row("A1", "A3")
@pytest.mark.parametrize("shape", SHAPES)
def test_large_programs(shape: str) -> None:
    """No recursion, no limit raised; `make bench` has all shapes with 100,000 nodes."""
    size = MANY if shape in ("nested", "chained") else FEW
    source = SHAPES[shape](size)
    limit = sys.getrecursionlimit()
    main = to_anf(Module({"main": source})).main
    assert sys.getrecursionlimit() == limit
    start: Expr = main
    assert sum(isinstance(n, Let) for n in post_order(start)) >= size


@pytest.mark.slow
@pytest.mark.row("A9")
@pytest.mark.parametrize("shape", ["wide", "branches", "closures"])
def test_large_programs_in_basic_block_normal_form(shape: str) -> None:
    source = SHAPES[shape](FEW)
    target = to_bbnf(Module({"main": source})).main
    assert why_not_bbnf(target) is None and (target is source) == (shape == "wide")


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_mean_the_same_in_all_forms(shape: str) -> None:
    module = Module({"main": SHAPES[shape](12)})
    check(module)
    values = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) / 7, "c": np.array(True)}
    inputs = {p.name: values[p.name] for p in module.main.params}
    for form in (to_anf, to_bbnf):
        target = form(module)
        check(target)
        assert observe(module, inputs).difference(observe(target, inputs)) is None
