"""The text format beside TVM: what it prints of Relax is read and means what it computes; what we print it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="the peer apache-tvm is not installed")

import tvm
from tvm import relax
from tvm.script import from_source

from assay.interp.graph import run
from assay.semantics.analyses.equality import first_difference
from assay.semantics.errors import Unsupported
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.scalar import Expr
from assay.semantics.text.module_text import parse, show
from assay.semantics.types import TensorType
from tests.lower.frontends.tvm.tvm_models import PIPELINES, compiled, imported, mobile_net, stages
from tests.semantics.tvm_modules import _SHAPES as SHAPES, OPERATORS

pytestmark = [pytest.mark.peer, pytest.mark.row("R4"), pytest.mark.row("R5"), pytest.mark.row("R30")]
SIZES = {"n": 4}

REFUSED = {"tril"}
"""Operators of Relax that are not read for symbolic sizes; their legalized modules are read."""
COMPOSED = {
    "global_pool", "variance", "argmax", "argmin_all", "group_norm", "stack", "silu", "isnan", "rsqrt", "mod",
        "floor_mod",
    "conv_transpose", "gather", "resize", "scatter",
    "clip", "pad", "trunc", "flip", "one_hot", "repeat", "tile", "batch_norm", "attention", "eye", "arange", "logic",
}  # fmt: skip
"""Operators of Relax that are several of ours, or that TVM prints as it cannot read: the module is another one for
TVM."""
ROUNDED = {"layer_norm", "group_norm", "gelu", "leaky", "batch_norm"}
"""TVM holds a float32 literal as the float64 that it was made from; ours has the dtype that it says."""
INFINITE = {"pad", "argmax", "argmin_all", "attention", "max_pool2d"}
"""TVM prints infinities that it cannot read."""
LATER = ("CallTIRRewrite", "StaticPlanBlockMemory")
"""From the first of these passes on memory is explicit, and TVM's modules are refused."""


def built(name: str) -> Any:
    """A module with one call of an operator, as the builder makes it."""
    operands, make = OPERATORS[name]
    n = tvm.tirx.Var("n", "int64")
    params = []
    for p in operands.split():
        shape, dtype = SHAPES[p]
        params.append(relax.Var(p, relax.TensorType([n if d == "n" else d for d in shape], dtype)))
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(make(*params)))
        builder.emit_func_output(out)
    return builder.finalize()


def encoder() -> Any:
    """A transformer block over sequences of any length, as the builder makes it."""
    n, op, rng = tvm.tirx.Var("n", "int64"), relax.op, np.random.default_rng(0)
    x = relax.Var("x", relax.TensorType([2, n, 8], "float32"))
    builder = relax.BlockBuilder()
    e = builder.emit

    def weight(*shape: int) -> Any:
        return relax.const((rng.standard_normal(shape) * 0.3).astype("float32"))

    def heads(h: Any) -> Any:
        split = e(op.reshape(e(op.matmul(h, weight(8, 8))), (2, n, 2, 4)))
        return e(op.permute_dims(split, [0, 2, 1, 3]))

    with builder.function("main", [x]):
        with builder.dataflow():
            h = e(op.nn.layer_norm(x, weight(8), weight(8), axes=[-1]))
            q, k, v = heads(h), heads(h), heads(h)
            scores = e(op.multiply(e(op.matmul(q, e(op.permute_dims(k, [0, 1, 3, 2])))), relax.const(0.5, "float32")))
            mixed = e(op.permute_dims(e(op.matmul(e(op.nn.softmax(scores, axis=-1)), v)), [0, 2, 1, 3]))
            y = e(op.add(x, e(op.reshape(mixed, (2, n, 8)))))
            deep = e(op.matmul(e(op.nn.gelu(e(op.matmul(y, weight(8, 16))))), weight(16, 8)))
            out = builder.emit_output(e(op.add(y, deep)))
        builder.emit_func_output(out)
    return builder.finalize()


def arrays(module: Module, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    made = []
    for p in module.main.params:
        assert isinstance(p.type, TensorType)
        shape = tuple(SIZES.get(getattr(d, "name", ""), 4) if isinstance(d, Expr) else d for d in p.type.shape)
        of = p.type.dtype
        if p.name == "j":  # indices into two rows
            made.append(rng.integers(0, 2, shape))
        elif of.is_float:
            made.append(rng.uniform(0.25, 2.0, shape).astype(of.numpy))
        else:
            made.append(rng.integers(1, 2 if of.kind == "bool" else 3, shape).astype(of.numpy))
    return made


def computed(module: Any, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What TVM's compiled code gives."""
    vm = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    return flat(vm["main"](*map(tvm.runtime.tensor, inputs)))


def flat(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    return [value.numpy()] if hasattr(value, "numpy") else [x for v in value for x in flat(v)]


def read_back(module: Any, name: str) -> Module:
    """What TVM prints, read, found well-formed, printed and read again."""
    read = parse(module.script(show_meta=True), name)
    check(read)
    assert first_difference(parse(show(read)), read) is None
    return read


def agree(read: Module, inputs: list[np.ndarray[Any, Any]], wanted: list[np.ndarray[Any, Any]]) -> None:
    """The module computes what TVM does."""
    results = run(read, dict(zip([p.name for p in read.main.params], inputs, strict=True)))
    for a, b in zip(flat(tuple(results.values())), wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        bound = 2e-3 if a.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=bound, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n not in REFUSED])
def test_an_operator_means_what_tvm_computes(name: str) -> None:
    module = built(name)
    read = read_back(module, name)
    inputs = arrays(read)
    agree(read, inputs, computed(module, inputs))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_operator_that_we_lack_is_refused_by_name(name: str) -> None:
    with pytest.raises(Unsupported, match=r"R\.\w+"):
        parse(built(name).script(show_meta=True))


@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "cumsum"])  # TVM legalizes that one elsewhere
def test_after_legalization_it_means_what_tvm_computes(name: str) -> None:
    module = relax.transform.LegalizeOps()(built(name))
    read = read_back(module, name)
    inputs = arrays(read)
    agree(read, inputs, computed(module, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", ["mobile_net", "encoder"])
def test_each_stage_of_a_network_means_what_tvm_computes(name: str, pipeline: str) -> None:
    """Import, legalization, folding, fusion, and what follows until memory becomes explicit."""
    module = imported(mobile_net()) if name == "mobile_net" else encoder()
    machine = compiled(module, pipeline)
    inputs = arrays(parse(module.script(show_meta=True)))
    wanted = flat(machine(*inputs))
    done = []
    for stage, after in stages(module, machine.snapshots):
        if stage in LATER:
            with pytest.raises(Unsupported, match="later stage of TVM"):
                parse(after.script(show_meta=True))
            break
        agree(read_back(after, f"{name} {stage}"), inputs, wanted)
        done.append(stage)
    assert {"LegalizeOps", "ToNonDataflow"} <= set(done)


# --- what we print, TVM reads ----------------------------------------------------------------------------------------


def same_for_tvm(module: Any, name: str) -> None:
    """Our print of what TVM printed is, for TVM's own parser, the same module."""
    ours = from_source(show(parse(module.script(show_meta=True), name)))
    theirs = from_source(module.script(show_meta=True))
    tvm.ir.assert_structural_equal(ours, theirs)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n not in REFUSED | COMPOSED])
def test_tvm_reads_our_print_as_its_own(name: str) -> None:
    same_for_tvm(built(name), name)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n not in ROUNDED | INFINITE | {"cumsum"}])
def test_tvm_reads_our_print_of_its_legalized_modules(name: str) -> None:
    same_for_tvm(relax.transform.LegalizeOps()(built(name)), name)


def test_tvm_reads_our_print_of_a_network() -> None:
    same_for_tvm(encoder(), "encoder")


def test_the_comparison_sees_a_difference() -> None:
    """The planted fault: another constant, or another operator, is another module for TVM."""
    text = show(parse(encoder().script(show_meta=True)))
    for old, new in (("R.add", "R.subtract"), ("0.5", "0.25")):
        changed = from_source(text.replace(old, new))
        assert not tvm_ffi_equal(changed, from_source(text))


def tvm_ffi_equal(a: Any, b: Any) -> bool:
    try:
        tvm.ir.assert_structural_equal(a, b)
    except ValueError:
        return False
    return True


CONTROL = """
from tvm.script import relax as R
@I.ir_module
class Module:
    @R.function
    def main(i: R.Tensor((), dtype="int64")) -> R.Tensor((), dtype="int64"):
        cls = Module
        cond: R.Tensor((), dtype="bool") = R.less_equal(i, R.const(1, "int64"))
        if cond:
            r: R.Tensor((), dtype="int64") = R.const(1, "int64")
        else:
            a: R.Tensor((), dtype="int64") = R.subtract(i, R.const(1, "int64"))
            b: R.Tensor((), dtype="int64") = cls.main(a)
            r_else: R.Tensor((), dtype="int64") = R.multiply(i, b)
            r: R.Tensor((), dtype="int64") = r_else
        return r

    @R.function(pure=False)
    def effects(x: R.Tensor((2,), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor((2,), dtype="float32"):
        R.print(x, format="hello {}")
        R.assert_op(c, x, format="bad")
        y: R.Tensor((2,), dtype="float32") = R.call_packed("far", x, ty_args=(R.Tensor((2,), dtype="float32"),))
        z: R.Tensor((2,), dtype="float32") = R.call_pure_packed("near", y, ty_args=(R.Tensor((2,), dtype="float32"),))
        @R.function
        def local(p: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
            q: R.Tensor((2,), dtype="float32") = R.add(p, z)
            return q
        w: R.Tensor((2,), dtype="float32") = local(z)
        return w

    @R.function
    def sizes(v: R.Tensor((4, 4), dtype="float32")) -> R.Tensor(ndim=2, dtype="float32"):
        m = T.int64()
        k = T.int64()
        gv: R.Tensor((m, k), dtype="float32") = R.match_cast(v, R.Tensor((m, k), dtype="float32"))
        gv1: R.Tensor((m, k), dtype="float32") = R.exp(gv)
        return gv1
"""


def test_control_effects_and_sizes_are_the_same_for_tvm() -> None:
    """Branches, recursion, closures, effects, extern calls and match-casts, as TVM's own parser reads them."""
    text = CONTROL.replace("from tvm.script import relax as R\n", "")
    theirs = from_source(text)
    tvm.ir.assert_structural_equal(from_source(show(parse(text))), theirs)
    again = parse(theirs.script(show_meta=True))
    check(again)
    assert first_difference(parse(show(again)), again) is None
