"""The dispatcher of kernels: from many threads, at sizes drawn by chance, between processes, bounded, and compared."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from assay.interp import machine, vector
from assay.interp.graph import run as run_graph
from assay.lower.c import emit
from assay.lower.c.single import emit_kernel
from assay.semantics.dtypes import FLOAT32
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.module import Module
from assay.semantics.scalar import Var
from assay.semantics.tensor import Assert, Buffer, Call, PrimFunc, loops, seq, store
from assay.semantics.text.module_text import parse
from assay.verify.app.kernels.run import _lowered
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.dispatch.cache import BoundedCache
from assay.verify.dispatch.choice import parse_choices
from assay.verify.dispatch.dispatcher import Dispatcher
from assay.verify.dispatch.key import ArgumentKey, call_key
from assay.verify.dispatch.objects import FLAGS, KernelCompiler
from assay.verify.dispatch.program import DispatchedProgram
from assay.verify.dispatch.recording import RecordedSizes
from assay.verify.dispatch.reference import KernelDiffers
from assay.verify.dispatch.store import KernelStore
from assay.verify.dispatch.tiers import Horizon, Tier, Tiers

pytestmark = pytest.mark.row("J2", "J6", "J8")
Array = np.ndarray[Any, Any]
TEXT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 3), "float32"), s: R.Tensor(("n", 1), "float32")):
        h = R.nn.softmax(R.matmul(x, w))
        return (R.multiply(h, s), (R.exp(s),))
"""
WAYS = (
    "generic", "specialized", "range:n=1..3", "padded:n=6", "buckets:n=6,2,2", "recorded", "auto", "interpreted",
    "exp*=specialized,matmul*=generic,padded:n=4", "buckets:m=4",
)  # fmt: skip
N = Var("n")
X, Y = Buffer("x", (N,), FLOAT32), Buffer("y", (N,), FLOAT32)
DOUBLE = PrimFunc("double", (X, Y), 1, loops("i", (N,), lambda i: store(Y, i, X[i] + X[i])))


def inputs(n: int, m: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"x": (n, m), "w": (m, 3), "s": (n, 1)}
    return {k: np.asarray(rng.standard_normal(s)).astype(np.float32) for k, s in shapes.items()}


@pytest.fixture(scope="module")
def program() -> Module:
    return _lowered(parse(TEXT), parse_choices("auto"))


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> KernelCompiler:
    """With a store, so that what several ways want is compiled once."""
    return KernelCompiler(KernelStore(tmp_path_factory.mktemp("kernels") / "store"))


def flat(made: dict[str, Any]) -> list[bytes]:
    found: list[bytes] = []
    for value in made.values():
        found += [np.asarray(v).tobytes() for v in (value if isinstance(value, tuple) else (value,))]
        found.append(type(value).__name__.encode())
    return found


# --- what every way gives --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def native(program: Module) -> Any:
    """The same program as the C that is built of it, in its reproducible mode."""
    module = parse(TEXT)
    for run in lowering_passes().values():
        module = run(module)
    return compile_c(emit(module, "whole"), reproducible=True)


@pytest.fixture(scope="module")
def runs(program: Module, compiler: KernelCompiler) -> list[DispatchedProgram]:
    made = [DispatchedProgram(program, Dispatcher(parse_choices(way), compiler)) for way in WAYS]
    for one in made:
        one.beforehand()
    return made


SIZES = {"n": st.integers(0, 7), "m": st.integers(1, 5), "seed": st.integers(0, 9)}


@settings(max_examples=3, deadline=None)
@given(**SIZES)
def test_every_way_is_the_c_bit_for_bit(runs: list[DispatchedProgram], native: Any, n: int, m: int, seed: int) -> None:
    check_ways(runs, native, inputs(n, m, seed))


@pytest.mark.campaign
@settings(max_examples=100, deadline=None)
@given(**SIZES)
def test_every_way_is_the_c_at_many_sizes(
    runs: list[DispatchedProgram], native: Any, n: int, m: int, seed: int
) -> None:
    check_ways(runs, native, inputs(n, m, seed))


def check_ways(runs: list[DispatchedProgram], native: Any, values: dict[str, Array]) -> None:
    wanted = [a.tobytes() for a in native.run(values).values()]
    for one in runs:
        made = one.run(values)
        assert isinstance(made["output_1"], tuple) and len(made["output_1"]) == 1
        assert [np.asarray(a).tobytes() for a in (made["output_0"], *made["output_1"])] == wanted, one.choice


@pytest.mark.parametrize("way", ["specialized", "buckets:n=6,2", "auto"])
def test_many_threads_give_what_one_gives(program: Module, compiler: KernelCompiler, way: str) -> None:
    made = DispatchedProgram(program, Dispatcher(parse_choices(way), compiler, most=8))
    points = [inputs(n, m, n) for n in (1, 3, 5) for m in (2, 3)] * 4
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(made.run, points))
    assert list(map(flat, found)) == [flat(run_graph(program, p)) for p in points]
    assert len(made.dispatcher.objects) <= 8


def test_a_kernel_is_made_once_whoever_asks() -> None:
    made: list[int] = []
    started = threading.Barrier(8)
    cache: BoundedCache[str, int] = BoundedCache(4)

    def make() -> int:
        made.append(1)
        threading.Event().wait(0.05)
        return len(made)

    def ask(_: int) -> int:
        started.wait()
        return cache.get("k", make)[0]

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {1}
    assert made == [1]


def test_an_entry_that_cannot_be_made_leaves_nothing_behind() -> None:
    cache: BoundedCache[str, int] = BoundedCache(4)
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: 1 // 0)
    assert cache.get("k", lambda: 5) == (5, False)


def test_the_one_not_asked_for_goes() -> None:
    gone: list[str] = []
    cache: BoundedCache[str, int] = BoundedCache(2, gone.append)
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda: 0)
    assert gone == ["b"]


def test_the_machine_runs_its_kernels_by_it(compiler: KernelCompiler) -> None:
    """The planned program, on the machine's own memory."""
    module = parse(TEXT)
    for run in lowering_passes().values():
        module = run(module)
    values = inputs(3, 4)
    made = Dispatcher(parse_choices("specialized"), compiler)
    assert flat(machine.run(module, values, execute=made)) == flat(machine.run(module, values))
    assert made.statistics.total.counts["checked"] > 0


def test_functions_that_are_one_up_to_names_share_a_kernel(compiler: KernelCompiler) -> None:
    n = Var("n")
    x, y = Buffer("x", (n,), FLOAT32), Buffer("y", (n,), FLOAT32)
    twin = PrimFunc("double", (x, y), 1, loops("i", (n,), lambda i: store(y, i, x[i] + x[i])))
    made = Dispatcher(parse_choices("generic"), compiler)
    for func in (DOUBLE, twin):
        assert made(func, [np.ones(3, np.float32)])[0].tolist() == [2, 2, 2]
    assert len(made.objects) == 1


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_has_all_that_tells_calls_apart() -> None:
    x, y = np.zeros((2, 34), np.float32), np.zeros((23, 4), np.float32)
    keys = [
        call_key("f", [x]), call_key("f", [y]), call_key("g", [x]), call_key("f", [x.astype(np.int32)]),
        call_key("f", [x], device="cuda"), call_key("f", [x[:, ::2]]), call_key("f", [np.zeros((2, 17), np.float32)]),
        call_key("f", [x[0], y]), call_key("f", [x, y[0]]), call_key("f", [x], [1]), call_key("f", [x[None]]),
        call_key("f", [np.broadcast_to(np.float32(0), (1 << 33, 1))]), call_key("f", [x[:1, :1]]),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert call_key("f", [(x, (y,))]) == call_key("f", [x, y])
    assert ArgumentKey.of(np.broadcast_to(np.float32(0), (1 << 33, 1))).dims == (1 << 33, 1)


def test_disagreeing_sizes_are_refused(compiler: KernelCompiler) -> None:
    w = Buffer("w", (N,), FLOAT32)
    func = PrimFunc("added", (X, w, Y), 1, loops("i", (N,), lambda i: store(Y, i, X[i] + w[i])))
    made = Dispatcher(parse_choices("specialized"), compiler)
    with pytest.raises(Invalid, match="n = 3"):
        made(func, [np.ones(3, np.float32), np.ones(2, np.float32)])


def test_a_trap_is_that_of_the_definition(compiler: KernelCompiler) -> None:
    func = PrimFunc("few", (X, Y), 1, seq(Assert(N < 3, "few are wanted"), DOUBLE.body))
    made = Dispatcher(parse_choices("generic"), compiler)
    assert made(func, [np.ones(2, np.float32)])[0].tolist() == [2, 2]
    with pytest.raises(Trap, match="few are wanted"):
        made(func, [np.ones(4, np.float32)])


def test_a_function_that_calls_others_has_no_c_of_its_own() -> None:
    call = PrimFunc("outside", (X, Y), 1, Call("copyto", (X, Y), extern=True))
    with pytest.raises(Unsupported) as refused:
        emit_kernel(call)
    assert refused.value.label == "c.C28"


SHRINKING = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return (R.exp(x), R.full(R.shape([8 - n]), R.const(1.0, "float32")))
"""


def test_sizes_that_get_less_with_padding_stay(compiler: KernelCompiler) -> None:
    """Whichever rule sees it, what is given is what is right."""
    choices = parse_choices("buckets:n=4,8")
    made = DispatchedProgram(_lowered(parse(SHRINKING), choices), Dispatcher(choices, compiler))
    x = {"x": np.ones(3, np.float32)}
    assert flat(made.run(x)) == flat(run_graph(made.module, x))
    assert "padded" not in made.dispatcher.statistics.of("main", "").counts


# --- the store -------------------------------------------------------------------------------------------------------


def test_a_store_serves_the_next_process_and_trusts_nobody(tmp_path: Path) -> None:
    place = tmp_path / "store"
    x = [np.arange(3, dtype=np.float32)]

    def counts() -> tuple[int, int]:
        made = Dispatcher(parse_choices("specialized"), KernelCompiler(KernelStore(place)))
        assert made(DOUBLE, x)[0].tolist() == [0, 2, 4]
        total = made.statistics.total.counts
        assert total["checked"] == 1
        return total["compiled"], total["stored"]

    assert counts() == (1, 0)
    assert counts() == (0, 1)
    (file,) = place.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # damaged
    assert counts() == (1, 0)
    file.write_bytes(whole.replace(b'"compiler": "', b'"compiler": "another '))
    assert counts() == (1, 0)
    file.chmod(0o666)  # anybody may have written it
    assert counts() == (1, 0)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(whole)
    assert counts() == (1, 0)
    file.unlink()
    file.mkdir()
    assert counts() == (1, 0)
    assert not list(place.glob(".*"))


@pytest.mark.parametrize("spoil", ["link", "open", "file"])
def test_a_store_that_others_may_write_is_refused(tmp_path: Path, spoil: str) -> None:
    place = tmp_path / "store"
    if spoil == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "real")
    elif spoil == "open":
        place.mkdir()
        os.chmod(place, 0o777)
    else:
        place.write_text("")
    with pytest.raises(Invalid) as refused:
        KernelStore(place)
    assert refused.value.label == "kernels.C3"


def test_an_object_of_other_text_is_not_loaded(tmp_path: Path) -> None:
    store = KernelStore(tmp_path / "store")
    store.save("int f;", FLAGS, "cc", b"object")
    os.replace(store.path("int f;", FLAGS), store.path("int g;", FLAGS))
    assert store.load("int g;", FLAGS, "cc") is None
    store.save("int f;", FLAGS, "cc", b"object")
    assert store.load("int f;", FLAGS, "cc") == b"object"
    assert store.load("int f;", FLAGS, "gcc") is None
    assert store.load("int f;", FLAGS, None) == b"object"


# --- options, recorded sizes, tiers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("main=buckets:batch=1,4,16,matmul*=library,auto", "main=buckets:batch=1,4,16,matmul*=library,auto"),
        ("buckets:n=16,4,4,m=2", "buckets:n=4,16,m=2"),
        ("exp=range:n=1..3,generic", "exp=range:n=1..3,generic"),
        ("padded:n=8,m=2", "padded:n=8,m=2"),
    ],
)
def test_options_are_read(text: str, said: str) -> None:
    assert str(parse_choices(text)) == said


@pytest.mark.parametrize(
    "text",
    ["", "fast", "generic:n=1", "range:n=3", "range:n=5..2", "padded:n=1,2", "padded:n", "buckets", "buckets:4",
     "buckets:n=4,n=8", "range:n=1..3,generic", "range:n=1..1000", "buckets:n=99999999999", "x=", "generic,,auto"],
)  # fmt: skip
def test_options_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_choices(text)
    assert refused.value.label == "kernels.C1"


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": "assay sizes 1"}', '{"format": "assay sizes 1", "sizes": {"f": [[-1]]}}', "{", "\xff"],
)
def test_a_file_of_sizes_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "sizes").write_bytes(text.encode("latin-1"))
    with pytest.raises(Invalid) as refused:
        RecordedSizes().read(tmp_path / "sizes")
    assert refused.value.label == "kernels.C2"


@pytest.mark.parametrize("total", [None, 100])
def test_a_kernel_is_compiled_when_it_is_worth_it(total: int | None) -> None:
    """At a second for each call by the interpreter, a tenth by the kernel for all sizes, and less by one of its own."""
    tiers, tier, horizon, kinds = Tiers(), Tier(), Horizon(total), list[str]()
    took: dict[str, float] = {"interpreted": 1.0, "generic": 0.1, "special": 0.05}
    for _ in range(100):
        kind = tier.choose(tiers, horizon, cost=2.0)
        tier.learn(kind, took[kind], tiers)
        kinds.append(kind)
        horizon.done += 1
    order = [k for i, k in enumerate(kinds) if i == 0 or kinds[i - 1] != k]
    assert order == ["interpreted", "generic", "special"]
    assert kinds.count("interpreted") == (3 if total is None else 2)


def taken(sizes: Sequence[int], first: float, again: float) -> list[str]:
    """How a stream is run whose calls take so long where they are interpreted, by whether their size is new."""
    tiers, tier, horizon, kinds = Tiers(), dict[int, Tier](), Horizon(len(sizes)), list[str]()
    for n in sizes:
        kind = tier.setdefault(n, Tier()).choose(tiers, horizon, cost=0.13)
        interpreted = again if "interpreted" in tier[n].begun else first
        tier[n].learn(kind, interpreted if kind == "interpreted" else 0.0001, tiers)
        kinds.append(kind)
        horizon.done += 1
    return kinds


def test_what_is_planned_once_is_not_taken_for_what_a_call_takes() -> None:
    """Images of four formats, whose planning takes longer than all their calls; and sizes that are new each time."""
    assert set(taken([1, 2, 1, 3] + [1, 2, 3, 1] * 7 + [4] + [1, 2] * 14, 0.012, 0.0006)) == {"interpreted"}
    assert taken(range(60), 0.012, 0.0006)[30:] == ["generic"] * 30
    assert taken([1] * 60, 0.02, 0.01)[:3] == ["interpreted", "interpreted", "generic"]
    assert taken([1] * 60, 0.3, 0.3)[:2] == ["interpreted", "generic"]


def test_a_kernel_is_compared_with_what_was_interpreted_before(compiler: KernelCompiler) -> None:
    made = Dispatcher(parse_choices("auto"), compiler, horizon=Horizon(10**9))
    for _ in range(5):
        made(DOUBLE, [np.ones(3, np.float32)])
        made.horizon.done += 1
    total = made.statistics.total.counts
    assert (total["interpreted"], total["calls"], total["checked"] > 0) == (2, 5, True)


def test_a_kernel_that_differs_from_what_was_interpreted_is_noticed(compiler: KernelCompiler) -> None:
    made = Dispatcher(parse_choices("auto"), compiler)
    known = made.function(DOUBLE)
    call, _ = known.calls.get(call_key("f", []), lambda: made.bound(known, [np.ones(3, np.float32)], []))
    with pytest.raises(KernelDiffers, match="differs from the function for all sizes in y"):
        made.adopt(known, call, [np.ones(3, np.float32)], [], (np.zeros(3, np.float32),))


def test_a_kernel_that_is_no_faster_is_not_used() -> None:
    tiers, tier, horizon = Tiers(), Tier(), Horizon(1000)
    for _ in range(40):
        kind = tier.choose(tiers, horizon, cost=0.5)
        tier.learn(kind, 1.0, tiers)
    assert tier.is_settled and tier.choose(tiers, horizon, 0.5) == "generic"


def test_what_does_not_come_again_is_not_compiled() -> None:
    tiers, tier = Tiers(), Tier()
    tier.learn("interpreted", 100.0, tiers)
    assert tier.choose(tiers, Horizon(1, 1), cost=0.1) == "interpreted"


def test_versions_of_the_interpreter_are_bounded() -> None:
    for n in range(80):
        vector.run(DOUBLE, [np.ones(n, np.float32)])
    assert len(vector._compiled[DOUBLE]) <= vector.MOST_VERSIONS
