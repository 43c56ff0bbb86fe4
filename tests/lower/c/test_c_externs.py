"""Externs in C: the user's functions are called where the model calls them, with what the header says."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from assay.interp import graph, machine, tensor, vector
from assay.interp.values import Event
from assay.lower.c import CSource, Interface, emit
from assay.lower.schedule import reordered
from assay.semantics.alias import bindings
from assay.semantics.errors import Invalid, Trap, Unsupported
from assay.semantics.graph import CallTIR
from assay.semantics.graph.effects import kernel_can_trap
from assay.semantics.module import Module
from assay.semantics.rules import check
from assay.semantics.text.module_text import parse
from assay.verify.app.stages import lowering_passes
from assay.verify.c.compiled import compile_c
from assay.verify.c.tools import STRICT
from assay.verify.schedule import check_call_order
from tests.lower.c.sanitized import run_sanitized
from tests.lower.memory.planned import alone, same_bits

Array = np.ndarray[Any, Any]
X = np.arange(8, dtype=np.float32) - 2
HEAD = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def kernel(x: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")):
        T.func_attr({"num_outputs": 1})
"""
COPY = "for i in range(8):\n    o[i] = x[i]\n"


def kernel(body: str) -> Module:
    found = parse(HEAD + "".join(f"        {line}\n" for line in body.strip("\n").splitlines()), "externs.py")
    check(found)
    return found


def scale(a: Array, b: Array, by: Any) -> None:
    b[:] = a[: len(b)] * np.float32(by)


def shift(a: Array, text: str, by: Any) -> None:
    a[2:6] += np.float32(len(text.encode()) * int(by))


EXTERNS: dict[str, Any] = {
    "scale": scale,
    "shift": shift,
    "mixed": lambda v, h, b: np.float32(v * 2 + np.float32(h) + np.float32(b)),
    "odd": lambda i: int(i) % 2 == 1,
    "half": lambda v: np.float16(v) / np.float16(3),
    "flip": lambda m: np.copyto(m, ~m),
}
C = """
int m_extern_scale(const float *x0, float *x1, int32_t n2)
{
    int i;
    for (i = 0; i < 8; ++i) {
        x1[i] = x0[i] * (float)n2;
    }
    return 0;
}
int m_extern_shift(float *x0, const char *s1, int64_t n2)
{
    int i;
    int32_t count = 0;
    while (s1[count] != 0) {
        ++count;
    }
    for (i = 2; i < 6; ++i) {
        x0[i] += (float)(count * n2);
    }
    return 0;
}
int m_extern_mixed(float n0, uint16_t n1, uint8_t n2, float *result)
{
    *result = n0 * 2.0f + (n1 == 0x3e00u ? 1.5f : -100.0f) + (float)n2;
    return 0;
}
int m_extern_odd(int32_t n0, uint8_t *result)
{
    *result = n0 % 2 == 1;
    return 0;
}
int m_extern_half(float n0, uint16_t *result)
{
    *result = n0 == 3.0f ? 0x3c00u : 0u;
    return 0;
}
int m_extern_flip(uint8_t *x0)
{
    x0[0] = !x0[0];
    return 0;
}
"""
BODIES = {
    "buffers and numbers": (
        "t = T.alloc_buffer((12,), 'float32')\n"
        "T.call_packed('scale', x.data, T.tvm_access_ptr('float32', t.data, 4, 8, 2), 3)\n"
        "for i in range(4):\n    t[i] = T.float32(1)\n"
        "T.call_extern('int32', 'shift', t.data, 'a\"\\\\?? é\\n', T.int64(7))\n"
        "for i in range(8):\n    o[i] = t[i + 2]"
    ),
    "results": (
        f"{COPY}for i in range(8):\n    if T.call_extern('bool', 'odd', i):\n"
        "        o[i] = T.call_extern('float32', 'mixed', x[i], T.float16(1.5), i > 2) + "
        "T.call_extern('float32', 'mixed', o[7 - i], T.float16(1.5), False)"
    ),
    "half": (
        f"{COPY}h = T.alloc_buffer((1,), 'float16')\nh[0] = T.call_extern('float16', 'half', x[5])\n"
        f"o[2] = T.Cast('float32', h[0])"
    ),
    "in a condition of a place": f"{COPY}o[T.Cast('int32', T.call_extern('bool', 'odd', 3))] = T.float32(9)",
    "one element": (
        f"{COPY}m = T.alloc_buffer((1,), 'bool')\nm[0] = x[0] > T.float32(0)\nT.call_packed('flip', m.data)\n"
        f"o[4] = T.Cast('float32', m[0])"
    ),
    "in a block": (

            f"{COPY}with T.sblock('b'):\n    T.reads(x[0:8])\n    T.writes(o[0:8])\n"
            f"    T.call_packed('scale', x.data, o.data, 5)"

    ),
}  # fmt: skip


def source_of(body: str, **options: Any) -> CSource:
    return emit(alone(kernel(body).kernel("kernel")), "m", **options)


def defined(source: CSource) -> str:
    """Those of the functions above that a model calls."""
    parts = re.findall(r"^int (\w+)\(.*?^}\n", C, re.S | re.M)
    texts = [m.group(0) for m in re.finditer(r"^int (\w+)\(.*?^}\n", C, re.S | re.M)]
    return "".join(t for name, t in zip(parts, texts, strict=True) if name in source.externs)


@pytest.mark.row("U8")
@pytest.mark.parametrize("name", BODIES)
def test_the_user_s_functions_do_what_the_caller_s_do(name: str) -> None:
    func = kernel(BODIES[name]).kernel("kernel")
    (want,) = tensor.run(func, [X], externs=EXTERNS)
    (fast,) = vector.run(func, [X], externs=EXTERNS)
    assert same_bits(fast, want) and not same_bits(want, X)
    source = source_of(BODIES[name])
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O2"), externs=defined(source))
    assert same_bits(compiled.run({"x": X})["o"], want)


def test_under_the_sanitizers() -> None:
    source = source_of(BODIES["buffers and numbers"])
    (want,) = tensor.run(kernel(BODIES["buffers and numbers"]).kernel("kernel"), [X], externs=EXTERNS)
    assert same_bits(run_sanitized(source, {"x": X}, externs=defined(source))["o"], want)
    over = defined(source).replace("i < 8", "i < 9")  # one element behind the memory that it is handed
    with pytest.raises(Trap):
        run_sanitized(
            source_of("t = T.alloc_buffer((8,), 'float32')\nT.call_packed('scale', x.data, t.data, 3)\n" + COPY),
            {"x": X},
            externs=over,
        )


def test_the_header_says_what_is_handed_over(tmp_path: Any) -> None:
    source = source_of(BODIES["results"])
    assert "int m_extern_mixed(float n0, uint16_t n1, uint8_t n2, float *result);" in source.header
    assert ' *   m_extern_odd: called "odd"\n' in source.header
    assert "kernel: float32, float16, bool, float32 returned" in source.header
    assert (
        "kernel: x float32[8] (not to be changed), t_from float32[8], int32"
        in source_of(BODIES["buffers and numbers"]).header
    )
    source.write(tmp_path)
    assert CSource.read(tmp_path, "m").externs == source.externs == ("m_extern_odd", "m_extern_mixed")
    assert source_of(COPY).externs == () and "Externs" not in source_of(COPY).header


def test_names_of_the_user_s_own() -> None:
    source = source_of(BODIES["half"], externs={"half": "my_half"})
    assert source.externs == ("my_half",)
    text = defined(source_of(BODIES["half"])).replace("m_extern_half", "my_half")
    (want,) = tensor.run(kernel(BODIES["half"]).kernel("kernel"), [X], externs=EXTERNS)
    assert same_bits(compile_c(source, reproducible=True, externs=text).run({"x": X})["o"], want)
    for name in ("my half", "m_half", "int", "1st", ""):
        with pytest.raises(Invalid) as caught:
            source_of(BODIES["half"], externs={"half": name})
        assert caught.value.label == "c.C22"


def test_two_names_that_look_alike_in_c() -> None:
    source = source_of(
        f"{COPY}T.call_packed('a b', o.data)\nT.call_packed('a.b', o.data)\nT.call_packed('a b', o.data)"
    )
    assert source.externs == ("m_extern_a_b", "m_extern_a_b_2")


@pytest.mark.parametrize("interface", list(Interface))
def test_a_status_of_the_user_s_ends_the_run(interface: Interface) -> None:
    body = f"{COPY}T.call_packed('first', o.data)\nT.call_packed('second', o.data)"
    source = source_of(body, interface=interface)
    text = (
        "int m_extern_first(float *x0)\n{\n    x0[0] = 1.0f;\n    return 300;\n}\nint m_extern_second(float *x0)\n{\n  "
        "  x0[0] = 2.0f;\n    return -1;\n}\n"
    )
    compiled = compile_c(source, reproducible=True, flags=(*STRICT, "-O1"), externs=text)
    with pytest.raises(Trap) as caught:
        compiled.run({"x": X})
    assert (caught.value.kind, caught.value.label) == (
        "extern",
        "compiled.T8",
    ) and "returned 300" in caught.value.message
    assert ("the extern first has failed" in caught.value.message) == (interface is not Interface.UNPACKED)
    compiled = compile_c(source, reproducible=True, externs=text.replace("300", "0").replace("-1", "0"))
    assert compiled.run({"x": X})["o"][0] == 2


def test_what_c_cannot_hand_over_is_refused() -> None:
    cases = {
        "tensor.C20": "v = T.decl_buffer((4,), data=x.data, strides=[2])\nT.call_packed('f', v.data)",
        "tensor.C18": "v = x.view('int32')\nT.call_packed('f', v.data)",
        "c.C21": "T.call_packed('f', o.data)\nT.call_packed('f', o.data, 1)",
    }
    for label, line in cases.items():
        with pytest.raises(Unsupported) as refused:
            source_of(COPY + line)
        assert refused.value.label == label
    with pytest.raises(Unsupported, match="one list of types"):
        source_of(f"{COPY}T.call_packed('f', o.data)\nT.call_packed('f', x.data)")
    with pytest.raises(Unsupported, match="none of them 0"):
        source_of(f"{COPY}T.call_packed('f', 'a\\0b')")


def test_what_is_missing_or_wrong_in_the_user_s_c() -> None:
    source = source_of(f"{COPY}T.call_packed('f', o.data)")
    with pytest.raises(Invalid) as missing:
        compile_c(source, reproducible=True)
    assert missing.value.label == "compiled.C5" and "m_extern_f" in missing.value.message
    refused = (
        "int m_extern_f(int *x0)\n{\n    return *x0;\n}\n",
        "int m_extern_f(float *x0)\n{",
        "int m_extern_f(float *x0);\n",
    )
    for text in refused:
        with pytest.raises(Invalid) as wrong:
            compile_c(source, reproducible=True, externs=text)
        assert wrong.value.label == "compiled.C6"


def test_a_block_that_does_not_say_what_is_handed_over() -> None:
    """Regions hold for what an extern may touch, in C as in the definition."""
    func = kernel(BODIES["in a block"].replace("T.writes(o[0:8])", "T.writes(o[0:7])")).kernel("kernel")
    with pytest.raises(Trap) as want:
        tensor.run(func, [X], externs=EXTERNS)
    source = emit(alone(func), "m")
    with pytest.raises(Trap) as got:
        compile_c(source, reproducible=True, externs=defined(source)).run({"x": X})
    assert got.value.kind == want.value.kind == "undeclared access"


# --- a whole model -------------------------------------------------------------------------------------------------

MODEL = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def log(x: T.Buffer((4,), "float32"), o: T.Buffer((4,), "float32")):
        T.func_attr({"num_outputs": 1})
        for i in range(4):
            o[i] = x[i] + T.float32(1)
        T.call_packed("log", o.data)

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.log, (x,), out_ty=R.Tensor((4,), dtype="float32"))
            b = R.multiply(x, x)
            c = R.call_tir(cls.log, (b,), out_ty=R.Tensor((4,), dtype="float32"))
            unused = R.call_tir(cls.log, (a,), out_ty=R.Tensor((4,), dtype="float32"))
            d = R.call_tir(cls.log, (R.const([1.0, 2.0, 3.0, 4.0], "float32"),), out_ty=R.Tensor((4,), dtype="float32"))
            y = R.add(R.add(a, c), d)
            R.output(y)
        return y
"""
LOG = """
static float calls;
int m_extern_log(float *x0)
{
    int i;
    calls += 1.0f;
    for (i = 0; i < 4; ++i) {
        x0[i] = x0[i] * 2.0f + calls * 100.0f;
    }
    return 0;
}
"""


def logging() -> dict[str, Any]:
    """An extern whose results tell in which order it was called."""
    calls = [0]

    def log(a: Array) -> None:
        calls[0] += 1
        a[:] = a * np.float32(2) + np.float32(calls[0]) * np.float32(100)

    return {"log": log}


def test_effects_keep_their_order_from_the_graph_to_c() -> None:
    """No pass drops, folds, merges or moves a call of an extern: neither one that nobody needs nor one of constants."""
    m = parse(MODEL, "model.py")
    check(m)
    x = np.arange(4, dtype=np.float32)
    events: list[Event] = []
    (want,) = graph.run(m, {"x": x}, externs=logging(), trace=events).values()
    assert len(events) == 4
    stages = {"": m}
    for name, stage in lowering_passes(vector.run).items():
        before, m = m, stage(m)
        stages[name] = m
        check(m)
        if name == "schedule":
            assert check_call_order(before, m).holds
    assert kernel_can_trap(m.kernel("log"))
    run = partial(vector.run, externs=logging())
    (got,) = machine.run(m, {"x": x}, execute=run).values()
    assert same_bits(got, want)
    (got,) = compile_c(emit(m, "m"), reproducible=True, externs=LOG).run({"x": x}).values()
    assert same_bits(got, want)
    assert stages["legalize"].kernel("log") is stages["anf"].kernel("log")


def test_a_call_that_moved_is_seen() -> None:
    """Planted: two calls of an extern change places. The check of schedules refuses it."""
    m = parse(MODEL, "model.py")
    for name, stage in lowering_passes(vector.run).items():
        if name == "schedule":
            break
        m = stage(m)
    calls = [v for v, value in bindings(m.main) if isinstance(value, CallTIR)]
    assert check_call_order(m, m.with_(main=reordered(m, calls))).holds
    last = next(
        v for v in reversed(calls) if dict(bindings(m.main))[v].func == "log"
    )  # of a constant: it needs no other
    calls.insert(0, calls.pop(calls.index(last)))
    verdict = check_call_order(m, m.with_(main=reordered(m, calls)))
    assert not verdict.holds and "may trap" in verdict.detail
