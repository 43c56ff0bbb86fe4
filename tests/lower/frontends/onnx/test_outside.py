"""Large tensors of a model stay in files, which are mapped."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

from assay.interp.graph import evaluate, run
from assay.lower.frontends.onnx import outside
from assay.lower.frontends.onnx.data_files import mapped_file
from assay.lower.frontends.onnx.model import import_onnx
from assay.lower.frontends.onnx.outside import (
    data_of,
    files_of,
    make_relative,
    size_of,
    with_data_inside,
    with_data_outside,
)
from assay.semantics.bits import is_fixed
from assay.semantics.errors import Invalid
from assay.semantics.graph import Constant
from assay.semantics.walk import post_order
from tests.lower.frontends.onnx.onnx_cases import F32, chain
from tests.models import model

N = 160  # 100 KB of float32


@pytest.fixture(autouse=True)
def little_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MOST_INSIDE", 1 << 18)


def weights(seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal((N, N)).astype(np.float32)


def deep() -> ModelProto:
    """Three large weights, one of them stored as numbers, and a small one."""
    nodes = chain(*(("MatMul", [a, w], [b], {}) for a, w, b in [("x", "v", "p"), ("p", "w", "q"), ("q", "u", "r")]))
    nodes += chain(("Add", ["r", "bias"], ["y"], {}))
    stored = {"v": weights(0), "w": weights(1), "bias": np.arange(N, dtype=np.float32)}
    made = model(nodes, {"x": (F32, (2, N))}, {"y": (F32, (2, N))}, {**stored, "u": weights(2)})
    numbers = next(t for t in made.graph.initializer if t.name == "u")
    numbers.ClearField("raw_data")
    numbers.float_data.extend(weights(2).reshape(-1).tolist())
    return made


def large_in_memory(of: ModelProto) -> list[str]:
    return [t.name for t in of.graph.initializer if t.ByteSize() > 4096]


def evaluated(of: ModelProto) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    module = import_onnx(of, evaluate=evaluate)
    made = run(module, {"x": np.ones((2, N), np.float32)})["y"]
    assert isinstance(made, np.ndarray)
    return made


def test_large_initializers_go_into_one_file_and_small_ones_stay(tmp_path: Path) -> None:
    whole = deep()
    before = whole.SerializeToString(deterministic=True)
    light, files = with_data_outside(whole, None, lambda: tmp_path)
    assert whole.SerializeToString(deterministic=True) == before, "the model that was given is changed"
    assert [f.path for f in files] == [tmp_path.resolve() / "tensors"]
    assert files[0].path.stat().st_mode & 0o222 == 0, "it can be written"
    assert large_in_memory(light) == [] and light.ByteSize() < 4096
    assert files_of(light) == (str(files[0].path),) and size_of(light) == light.ByteSize() + 3 * 4 * N * N
    offsets = [int(e.value) for t in light.graph.initializer for e in t.external_data if e.key == "offset"]
    assert len(offsets) == 3 and all(at % 4096 == 0 for at in offsets), "they are not aligned to pages"
    np.testing.assert_array_equal(evaluated(light), evaluated(whole))
    inside = {t.name: numpy_helper.to_array(t) for t in with_data_inside(light).graph.initializer}
    for tensor in whole.graph.initializer:
        np.testing.assert_array_equal(inside[tensor.name], numpy_helper.to_array(tensor))


def test_constants_are_views_of_the_file_and_keep_it(tmp_path: Path) -> None:
    light, files = with_data_outside(deep(), None, lambda: tmp_path)
    module = import_onnx(light, evaluate=evaluate)
    large = [n.data for n in post_order(module.main) if isinstance(n, Constant) and n.data.size == N * N]
    assert len(large) == 3
    place = np.frombuffer(files[0], np.uint8)
    assert all(np.shares_memory(a, place) and is_fixed(a) for a in large)
    del files, place
    gc.collect()
    again = import_onnx(light, evaluate=evaluate)  # the first module's constants hold the file
    assert any(np.shares_memory(n.data, large[0]) for n in post_order(again.main) if isinstance(n, Constant))
    del module, again, large
    gc.collect()
    with pytest.raises(Invalid, match="give the model's path") as refused:
        import_onnx(light, evaluate=evaluate)
    assert refused.value.label == "onnx.C10"


def test_the_users_own_files_are_used_where_they_are(tmp_path: Path) -> None:
    whole = deep()
    path = tmp_path / "m.onnx"
    onnx.save_model(
        deep(), path, save_as_external_data=True, location="data/../w.bin", size_threshold=64, convert_attribute=False
    )
    found = onnx.load(path, load_external_data=False)

    def no_folder() -> Path:
        raise AssertionError("it is written again")

    light, files = with_data_outside(found, tmp_path, no_folder)
    assert [f.path for f in files] == [tmp_path.resolve() / "w.bin"]
    names = [t.name for t in light.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    assert names == ["v", "w"], "small ones belong inside, and so do numbers that are few"
    np.testing.assert_array_equal(evaluated(light), evaluated(whole))
    assert make_relative(light) == tmp_path.resolve()
    assert {e.value for t in light.graph.initializer for e in t.external_data if e.key == "location"} == {"w.bin"}
    assert files_of(light) == (), "no file of that name is held: it is for others"


def test_a_small_model_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MOST_INSIDE", 1 << 20)
    whole = deep()
    assert with_data_outside(whole, None, lambda: tmp_path / "unused") == (whole, ())
    assert with_data_inside(whole) is whole and make_relative(whole) is None


@pytest.mark.parametrize("entries", [{}, {"offset": "0"}, {"offset": "0", "length": "40001"}, {"offset": "-4"}])
def test_a_file_that_is_held_is_read_only_where_it_is(tmp_path: Path, entries: dict[str, str]) -> None:
    (tmp_path / "held").write_bytes(bytes(40_000))
    held = mapped_file(tmp_path / "held")
    tensor = TensorProto(name="w", data_type=1, dims=[100, 100], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": str(held.path), **entries}.items():
        tensor.external_data.add(key=key, value=value)
    nodes = chain(("Add", ["x", "w"], ["y"], {}))
    made = model(nodes, {"x": (F32, (100, 100))}, {"y": (F32, (100, 100))})
    made.graph.initializer.append(tensor)
    with pytest.raises(Invalid) as refused:
        import_onnx(made, evaluate=evaluate)
    assert refused.value.label == "onnx.C10"


def test_a_file_that_was_replaced_is_another(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"a" * 10_000)
    first = mapped_file(path)
    assert mapped_file(path) is first
    (tmp_path / "new").write_bytes(b"b" * 10_000)
    (tmp_path / "new").replace(path)
    second = mapped_file(path)
    assert second is not first and (first[0], second[0]) == (ord("a"), ord("b"))


def test_data_that_does_not_fit_is_refused_as_before(tmp_path: Path) -> None:
    whole = deep()
    whole.graph.initializer[0].raw_data = whole.graph.initializer[0].raw_data[:-4]
    for of in (whole, with_data_outside(whole, None, lambda: tmp_path)[0]):
        with pytest.raises(Invalid) as refused:
            import_onnx(of, evaluate=evaluate)
        assert refused.value.label in ("onnx.C9", "onnx.C10")


def test_bytes_are_the_same_wherever_they_are(tmp_path: Path) -> None:
    whole = deep()
    light, files = with_data_outside(whole, None, lambda: tmp_path)
    assert len(files) == 1
    for one, other in zip(whole.graph.initializer, light.graph.initializer, strict=True):
        if one.HasField("raw_data"):
            assert bytes(data_of(one)) == bytes(data_of(other))
