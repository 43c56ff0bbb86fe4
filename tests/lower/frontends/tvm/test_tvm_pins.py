"""What the import of TVM's modules does without TVM: it says which versions it is for, and compares sizes."""

from __future__ import annotations

import tomllib

import pytest

from assay.lower.frontends.tvm import from_tvm, objects
from assay.semantics.errors import Unsupported
from assay.semantics.ops.sizes import product_fits
from assay.semantics.scalar import Var
from tests.places import ROOT


def test_the_extra_is_the_pins() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["tvm"] == [f"{name}=={version}" for name, version in objects.PINS.items()]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"apache-tvm": "0.26.0", "apache-tvm-ffi": "0.1.14.post1"}, "apache-tvm is 0.26.0"),
        ({"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.15.post2"}, "apache-tvm-ffi is 0.1.15.post2"),
        ({"apache-tvm-ffi": "0.1.14.post1"}, "apache-tvm is not installed"),
    ],
)
def test_another_version_is_refused(found: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name not in found:
            raise objects.metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(objects.metadata, "version", version)
    with pytest.raises(Unsupported, match=message) as refused:
        from_tvm(None)
    assert refused.value.label == "tvm.C1"
    assert "apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1" in str(refused.value)


def test_sizes_are_compared_for_all_values() -> None:
    n, m = Var("n"), Var("m")
    assert product_fits((n, 4, m, 4), 16 * (m * n), {}) is True
    assert product_fits((n, 4, m, 4), 16 * (m * n) - 4, {}) is False
    assert product_fits((n, 4, 4), 16 * n - m, {}) is None
    assert product_fits((n, 4, 4), 160, {n: 10}) is True
    assert product_fits((n, 4, 4), 160, {}) is None
    assert product_fits((2, 4, 4), 31, {}) is False
