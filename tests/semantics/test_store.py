"""Stored modules come back as they were: same text, same bytes, same sharing; anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from assay.lower.legalize.kernels import build
from assay.semantics import graph, strict_json
from assay.semantics.devices import VirtualDevice
from assay.semantics.dtypes import BOOL, FLOAT32
from assay.semantics.errors import Invalid, Span
from assay.semantics.graph import Expr, call, constant, function, if_, let, nodes, show_head, tuple_of, var
from assay.semantics.module import Module, Program, Slot, Step
from assay.semantics.rules import check
from assay.semantics.scalar import Var as Symbol
from assay.semantics.store import ArrayReader, ArrayWriter, decode, encode
from assay.semantics.types import UNIT, DataDef, DataType, RefType, TensorType, TypeVar
from assay.semantics.walk import post_order
from tests.scale import MANY


def round_trip(module: Module, folder: Path) -> Module:
    with (folder / "tensors.bin").open("wb") as file:
        text = encode(module, ArrayWriter(file))
    return decode(text, ArrayReader(folder / "tensors.bin"))


def sample() -> Module:
    n = Symbol("n")
    t = TensorType((n, 3), FLOAT32)
    x, c = var("x", t), var("c", TensorType((), BOOL))
    nan = np.array([0x7FC00001], np.uint32).view(np.float32)
    shared = call("add", x, constant(np.concatenate([nan, np.float32([-0.0, 1e-45])])), span=Span("m.onnx", "node 1"))
    half = constant(np.arange(3).astype(ml_dtypes.bfloat16))
    v = var("v", t)
    body = let(v, shared, if_(c, tuple_of(v, shared, half), tuple_of(call("clip", v, max=float("inf")), x, half)))
    kernel = build("add", {}, (TensorType((2, 3), FLOAT32),) * 2, TensorType((2, 3), FLOAT32), "k")
    slot = Slot("s", TensorType((2, 3), FLOAT32), "input", ((0, 1),), 64, None, "p")
    out = Slot("o", TensorType((2, 3), FLOAT32), "output", ((0, 1),), 64, None, "p")
    program = Program(
        {"s": slot, "o": out},
        (Step("k", ("s", "s"), ("o",), (), Span("f", "p", 3, 4)),),
        ("s",),
        ("o",),
        sizes={"workspace": 0},
    )
    weight = {"w": np.arange(5, dtype=np.int64), "empty": np.empty((0, 3), np.float32)}
    return Module(
        {"main": function([x, c], body, outputs=("a", "b", "c")), "k": kernel, "planned": program}, weight, {"w": 0}
    )


def test_same_structure_and_bytes(tmp_path: Path) -> None:
    module = sample()
    again = round_trip(module, tmp_path)
    check(again)
    old, new = list(post_order(module.main)), list(post_order(again.main))
    assert [show_head(a) for a in old] == [show_head(b) for b in new], "the same nodes, shared alike"
    assert [a.span for a in old] == [b.span for b in new]
    for a, b in zip(old, new, strict=True):
        if hasattr(a, "data"):
            assert a.data.tobytes() == b.data.tobytes() and a.data.dtype == b.data.dtype
    assert repr(again.kernel("k")) == repr(module.kernel("k"))
    assert str(again.definitions["planned"]) == str(module.definitions["planned"])
    assert again.constants["w"].tolist() == [0, 1, 2, 3, 4] and again.constants["empty"].shape == (0, 3)


def whole_language() -> Module:
    """Every kind of node that `sample` lacks."""
    n, a = Symbol("n"), TypeVar("A")
    data = DataDef("List", (a,), {"nil": (), "cons": (a, DataType("List", (a,)))})
    t, k = TensorType((n,), FLOAT32), Symbol("k")
    x, c, h, r = var("x", t), var("c", TensorType((), BOOL)), var("h", t), var("r", RefType(t))
    nil, cons = graph.constructor(data, "nil"), graph.constructor(data, "cons")
    made = call(cons, x, call(nil, type_args=[t]))
    clause = graph.Made(cons, (graph.Bind(h), graph.Wildcard()))
    matched = graph.match(made, (clause, h), (graph.Wildcard(), x))
    found = call(graph.extern("find", [t], TensorType((k,), FLOAT32)), matched)
    v, w, s = var("v", found.type), var("w", TensorType((n,), FLOAT32)), var("s", UNIT)
    p, q, block = var("p", t), var("q", a), graph.Dataflow()
    pair = graph.match(tuple_of(p, p), (graph.Fields((graph.Wildcard(), graph.Bind(w))), w))
    identity = function([q], q, type_params=[a])
    body: Expr = tuple_of(graph.shape(n, 2 * n), graph.shape_of(v), call(identity, p), pair, graph.read(r))
    body = let(p, graph.match_cast(v, t), body, dataflow=block)
    body = let(s, graph.write(r, x), let(v, found, body))
    body = let(r, graph.ref(x), let(var("t", UNIT), graph.print_(x, r, format="{}"), body))
    body = let(var("on", t), graph.on_device(x, VirtualDevice("cpu"), constrain_result=True), body)
    body = let(var("u", UNIT), graph.assert_op(c, x, format="bad {}"), body)
    return Module({"List": data, "main": function([x, c], body)})


def test_the_whole_language_comes_back(tmp_path: Path) -> None:
    module = whole_language()
    check(module)
    again = round_trip(module, tmp_path)
    check(again)
    with (tmp_path / "again").open("wb") as file:
        assert encode(again, ArrayWriter(file)) == encode(module, ArrayWriter(file))
    missing = {
        c for c in vars(nodes).values() if isinstance(c, type) and issubclass(c, Expr) and c not in (Expr, nodes.Unary)
    }
    seen = {type(x) for m in (module, sample()) for x in post_order(m.main)} | {
        graph.TupleGetItem,
        graph.CallTIR,
        graph.GlobalVar,
    }
    assert missing == seen, "a kind of node that no test stores"


def test_storing_twice_gives_one_text(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        arrays = ArrayWriter(file)
        one = encode(sample(), arrays)
        size = arrays.end
        encode(sample(), arrays)
        assert arrays.end == size, "each tensor is kept once"
    with (tmp_path / "b").open("wb") as file:
        assert encode(sample(), ArrayWriter(file)) == one


def test_modules_of_one_file_share_their_symbols(tmp_path: Path) -> None:
    n = Symbol("n")
    one = Module({"main": function([x := var("x", TensorType((n, 2), FLOAT32))], x)})
    two = Module({"main": function([y := var("y", TensorType((2, n), FLOAT32))], y)})
    other = Module({"main": function([z := var("z", TensorType((Symbol("n"),), FLOAT32))], z)})
    with (tmp_path / "tensors.bin").open("wb") as file:
        arrays = ArrayWriter(file)
        texts = [encode(m, arrays) for m in (one, two, other)]
    reader = ArrayReader(tmp_path / "tensors.bin")
    first, second, third = (decode(text, reader).main.params[0].type for text in texts)
    assert isinstance(first, TensorType) and isinstance(second, TensorType) and isinstance(third, TensorType)
    assert first.shape[0] is second.shape[1]
    assert third.shape[0] is not first.shape[0], "another of the same name"
    with pytest.raises(Invalid, match="variable 0 is m here, and n in a module before"):
        decode(texts[1].replace('"name": "n"', '"name": "m"'), reader)


def test_deep_chain(tmp_path: Path) -> None:
    x = var("x", TensorType((2,), FLOAT32))
    e: Expr = x
    for _ in range(MANY):
        e = call("nn.relu", e)
    again = round_trip(Module({"main": function([x], e)}), tmp_path)
    assert sum(1 for _ in post_order(again.main)) == MANY + 2


def test_changed_tensor_is_refused(tmp_path: Path) -> None:
    round_trip(sample(), tmp_path)
    with (tmp_path / "tensors.bin").open("wb") as file:
        text = encode(sample(), ArrayWriter(file))
    data = bytearray((tmp_path / "tensors.bin").read_bytes())
    data[1] ^= 1
    (tmp_path / "tensors.bin").write_bytes(data)
    with pytest.raises(Invalid, match="digest"):
        decode(text, ArrayReader(tmp_path / "tensors.bin"))


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"format": "x", "rows": []}', '{"format": "assay-module-1", "rows": []}',
     '{"format": "assay-module-1", "rows": [["os.system", {}]]}',
     '{"format": "assay-module-1", "rows": [["graph.Var", {"name": "x", "type": {"r": 5}}]]}',
     '{"format": "assay-module-1", "rows": [["graph.Var", {"nome": "x"}]]}',
     '{"format": "assay-module-1", "rows": [["graph.Var", {"name": "x", "type": null}]]}',
     '{"format": "assay-module-1", "rows": [], "rows": [["graph.Var", {"name": "x"}]]}',
     '{"format": "assay-module-1", "rows": [["errors.Span", {"source": "a", "source": "b"}]]}',
     '{"format": "assay-module-1", "rows": [["errors.Span", {"source": "a", "line": 1.0}]]}',
     '{"format": "assay-module-1", "rows": [["errors.Span", {"source": "a", "line": NaN}]]}',
     '{"format": "assay-module-1", "rows": [["errors.Span", {"source": "a", "line": ' + "9" * 5000 + "}]]}",
     '{"format": "assay-module-1", "rows": [], "more": 1}',
     "[" * 100_000],
)  # fmt: skip
def test_bad_text_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    with pytest.raises(Invalid, match="stored module|format"):
        decode(text, ArrayReader(tmp_path / "t"))


def test_a_text_with_two_readings_is_refused(tmp_path: Path) -> None:
    """A key that comes twice, planted in what is otherwise a stored module: the last one used to win."""
    with (tmp_path / "t").open("wb") as file:
        text = encode(sample(), ArrayWriter(file))
    arrays = ArrayReader(tmp_path / "t")
    decode(text, arrays)
    for old, new in (
        ('"name": ', '"name": "other", "name": '),
        ('{"format": ', '{"format": "assay-module-1", "format": '),
    ):
        assert old in text
        with pytest.raises(Invalid, match="comes twice in one object"):
            decode(text.replace(old, new, 1), arrays)


def test_json_with_one_reading() -> None:
    assert strict_json.parse_json('{"a": [1, -2, "x", null, true]}') == {"a": [1, -2, "x", None, True]}
    assert strict_json.parse_json('{"seconds": 1.5}', fractions=True) == {"seconds": 1.5}
    for text in (
        '{"a": 1.5}',
        '{"a": 1e3}',
        '{"a": NaN}',
        '{"a": 1, "b": 2, "a": 1}',
        "1" * 101,
        "[" * 100_000,
        '[{"a": 1} 2]',
    ):
        with pytest.raises(ValueError):
            strict_json.parse_json(text)
    for text in ("NaN", "Infinity", "-Infinity", '{"a": 1, "a": 2}'):
        with pytest.raises(ValueError):
            strict_json.parse_json(text, fractions=True)


def test_a_wrong_annotation_is_found_by_the_rules(tmp_path: Path) -> None:
    x = var("x", TensorType((2,), FLOAT32))
    with (tmp_path / "t").open("wb") as file:
        text = encode(Module({"main": function([x], call("exp", x))}), ArrayWriter(file))
    data = json.loads(text)
    shapes = [c for n, c in data["rows"] if n == "types.TensorType"]
    shapes[-1]["shape"] = [3]
    module = decode(json.dumps(data), ArrayReader(tmp_path / "t"))
    with pytest.raises(Invalid, match="its parts make"):
        check(module)


def test_a_tensor_that_is_kept_elsewhere_has_to_be_given(tmp_path: Path) -> None:
    array = np.arange(3, dtype=np.float32)
    with (tmp_path / "t").open("wb") as file:
        reference = ArrayWriter(file).add(array)["array"]
    digest = reference[3]
    with (tmp_path / "u").open("wb") as file:
        left_out = ArrayWriter(file, (digest,)).add(array)["array"]
    reader = ArrayReader(tmp_path / "u")
    with pytest.raises(Invalid) as caught:
        reader.get(left_out)
    assert caught.value.label == "store.C5" and digest in caught.value.message
    reader.elsewhere[digest] = np.frombuffer(array.tobytes(), np.uint8)
    assert reader.get(left_out).tolist() == [0.0, 1.0, 2.0]
