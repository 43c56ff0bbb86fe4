"""The C text is read back: whole programs are read, and a text that is wrong anywhere is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.lower.c import emit
from assay.verify.c import check_c
from assay.verify.c.reading import read_back
from assay.verify.c.reading.contents import element_bytes
from assay.verify.c.reading.preprocess import NotRead
from tests.lower.c.test_c_rows import CASES, lone
from tests.lower.memory.planned import moved
from tests.verify.c.reading_programs import small, texts

FAULTS: list[tuple[str, str, str, str]] = [
    # what, the program, what stands there, what stands there instead
    ("NaN goes the other way", "odd", "(x[i * 5 + j] < y[i * 5 + j]) ?", "!(x[i * 5 + j] >= y[i * 5 + j]) ?"),
    ("arms exchanged", "odd", "? x[i * 5 + j] : y[i * 5 + j]", "? y[i * 5 + j] : x[i * 5 + j]"),
    ("the larger of zeros by order alone", "odd", "return (a == b) ? equal : other;", "return other;"),
    ("the larger without NaN of the first", "odd", "const float other = (a != a) ? a : one;",
     "const float other = one;"),
    ("the bits of equal numbers put together wrongly", "odd", "p &= q;", "p |= q;"),
    ("relu keeps the other zero", "net", "(t <= 0.0f) ? 0.0f : t", "(t < 0.0f) ? 0.0f : t"),
    ("relu drops NaN", "net", "(t <= 0.0f) ? 0.0f : t", "(t > 0.0f) ? t : 0.0f"),
    ("float for double", "odd", "double total = 0.0;", "float total = 0.0f;"),
    ("rounded in between", "odd", "total + (double)y[i * 5 + j]", "total + (double)(float)(total + y[i * 5 + j])"),
    ("int32 for int64", "odd", "int64_t count = 0;", "int32_t count = 0;"),
    ("a product of 32 bits", "odd", "(int64_t)x[i * 5 + j] * 3", "(int64_t)(x[i * 5 + j] * 3)"),
    ("a sum that is signed", "odd", "(int64_t)((uint64_t)count + (uint64_t)((int64_t)x[i * 5 + j] * 3))",
     "count + (int64_t)x[i * 5 + j] * 3"),
    ("a dropped cast", "odd", "real[i] = (float)total;", "real[i] = (float)(total + 0.0f * (float)total);"),
    ("one iteration less", "net", "ic < 3", "ic < 2"),
    ("one iteration more", "odd", "i < 70000", "i < 70001"),
    ("<= for <", "net", "kv < 2", "kv <= 2"),
    ("the wrong edge", "net", "(t < 7)", "(t <= 7)"),
    ("an edge that is missing", "net", " && (v + kv - 1 >= 0)", ""),
    ("a place off by one", "net", "(v + kv - 1)] * w", "(v + kv)] * w"),
    ("an index that wraps", "odd", "x[(int64_t)i * 70000 + 69999]", "x[(uint32_t)i * 70000u + 69999u]"),
    ("an index that overflows", "odd", "x[(int64_t)i * 70000 + 69999]", "x[i * 70000 + 69999]"),
    ("strides of a square exchanged", "odd", "odd_max_f32(x[j * 5 + i], x[i * 5 + j])",
     "odd_max_f32(x[j * 5 + i], x[j * 5 + i])"),
    ("a store to the square turned", "odd", "out[i * 5 + j] = odd_max", "out[j * 5 + i] = odd_max"),
    ("a shift by the width", "odd", "<< 31)", "<< 32)"),
    ("a shift of one more", "odd", "<< 31)", "<< 30)"),
    ("a shift of negative numbers", "odd", "odd_shr_i32(y[i * 5 + j], 3)", "(y[i * 5 + j] >> 3)"),
    ("a shift that is not the helper's", "odd", "~(~a >> b)", "-(-a >> b)"),
    ("the least number by -1", "odd", "(b == -1) ? (int32_t)((uint32_t)0 - (uint32_t)a) : a / b", "a / b"),
    ("an index that is not checked", "odd", "if (t < 0 || t >= 5)", "if (t < 0)"),
    ("an index checked for one more", "odd", "t >= 5", "t > 5"),
    ("a check that refuses too much", "odd", "if (t < 0 ||", "if (t < 1 ||"),
    ("a check behind the access", "odd", "const float t_2 = x[t];\n", "\n"),
    ("another status", "odd", "return ODD_TRAP_CAST;", "return ODD_TRAP_SHIFT;"),
    ("a float that is not held", "odd", "> -129.0", ">= -129.0"),
    ("NaN as a whole number", "odd", "!((double)t_2 > -129.0 && (double)t_2 < 128.0)",
     "(double)t_2 <= -129.0 || (double)t_2 >= 128.0"),
    ("no check of a divisor", "odd", "if (t_3 == 0)", "if (t_3 == 1)"),
    ("a sum in another order", "net", "acc = acc + x[", "acc = x["),
    ("a sum that begins at another number", "net", "                acc = 0.0f;\n", "                acc = -0.0f;\n"),
    ("a cell that is not cleared", "net", "                acc = 0.0f;\n", ""),
    ("a store too many", "net", "out[c * 24 + h * 6 + v] = acc + b[c];",
     "out[c * 24 + h * 6 + v] = acc + b[c];\n                out[c * 24 + h * 6 + v] = acc;"),
    ("a store left out", "odd", "            out[i * 5 + j] = odd_max_f32(x[j * 5 + i], x[i * 5 + j]);\n", ""),
    ("another constant", "net", "INFINITY, 0x1.65p-140f", "INFINITY, 0x1.66p-140f"),
    ("the other zero in a constant", "net", "-0.0f, INFINITY", "0.0f, INFINITY"),
    ("a place of the pool off by one element", "odd", "#define ODD_OFFSET_T 192u", "#define ODD_OFFSET_T 196u"),
    ("a place of the pool off by one byte", "net", "#define NET_OFFSET_T1 448u", "#define NET_OFFSET_T1 449u"),
    ("a place that another has", "odd", "#define ODD_OFFSET_OTHER 320u", "#define ODD_OFFSET_OTHER 192u"),
    ("arguments exchanged", "odd", "odd_k_turned(real, whole,",
     "odd_k_turned((const float *)(const void *)whole, whole,"),
    ("an output for another", "odd",
     "odd_k_taken((const float *)(const void *)(base + ODD_OFFSET_ROW), at, whole, narrow, by)",
     "odd_k_taken(real, at, whole, narrow, by)"),
    ("the arms of a choice exchanged", "odd", "*is != 0", "*is == 0"),
    ("the condition of another", "odd", "*is != 0", "*plane != 0"),
    ("a kernel for another", "odd", "status = odd_k_large(plane, last);", "status = odd_k_large(is, last);"),
    ("a status that is not asked", "odd", "    if (status == ODD_OK) { /* step 7 */",
     "    if (status != ODD_OK) { /* step 7 */"),
    ("a status that is not returned", "odd", "    return status;\n}\n", "    return ODD_OK;\n}\n"),
    ("a kernel that fails", "odd", "    return ODD_OK;\n}\n#endif\n\n#ifndef ODD_EXTERNAL_TURNED",
     "    return ODD_TRAP_CAST;\n}\n#endif\n\n#ifndef ODD_EXTERNAL_TURNED"),
    ("arguments that may share bytes", "odd", "for (i = 0; i < 7u; ++i)", "for (i = 0; i < 6u; ++i)"),
    ("an alignment that is not asked", "odd", "align[12] = {4u, 8u,", "align[12] = {4u, 4u,"),
    ("a size that is too small", "odd", "bytes[12] = {100u,", "bytes[12] = {96u,"),
    ("an overlap that is not seen", "odd", "(size_t)(q - p) < a_bytes", "(size_t)(q - p) <= a_bytes"),
    ("contraction for one compiler", "net", "#pragma STDC FP_CONTRACT OFF\n", "\n"),
    ("contraction for another", "net", '#pragma GCC optimize("fp-contract=off")\n', "\n"),
    ("another text for one compiler", "net", "    float total = 0.0f;\n",
     "    float total = 0.0f;\n#if defined(__GNUC__)\n    out[0] = 1.0f;\n#endif\n"),
    ("a product that is contracted", "net", "acc = acc + x[ic * 42 + (h * 2 + kh - 1) * 6 + (v + kv - 1)] * w[",
     "acc = fmaf(x[ic * 42 + (h * 2 + kh - 1) * 6 + (v + kv - 1)], 1.0f, acc) * w["),
    ("the platform's function where ours is wanted", "net", "return (float)net_exp((double)x);", "return expf(x);"),
    ("another coefficient of a routine", "net", "0x1.af4ddd84882fep-26", "0x1.af4ddd84882ffp-26"),
    ("another function of the platform", "net", "return expf(x);", "return exp2f(x);"),
    ("a function of double", "net", "return expf(x);", "return (float)exp((double)x);"),
    ("an array of arguments that is too short", "net", "buffers[3] = {prob", "buffers[2] = {prob"),
    ("an argument of another type", "odd", "    const int64_t *at,", "    const uint64_t *at,"),
    ("a condition of another type", "odd", "    const uint8_t *is,", "    const int8_t *is,"),
    ("a variable that hides another", "net", "                for (int32_t ic = 0;",
     "                float acc = 0.0f;\n                for (int32_t ic = 0;"),
    ("a loop whose variable hides another", "net", "for (int32_t kv = 0; kv < 2; ++kv)",
     "for (int32_t kh = 0; kh < 2; ++kh)"),
    ("a pointer that hides another", "odd", "        if (status == ODD_OK) { /* step 4 */",
     "        const float *const real = result;\n        if (status == ODD_OK) { /* step 4 */"),
    ("the bits of one of two zeros", "odd", "    p &= q;\n", "    if (a == b) {\n        q = p;\n    }\n    p &= q;\n"),
    ("a variable with a value on one path", "odd", "    memcpy(&equal, &p, sizeof equal);\n",
     "    if (a != b) {\n        memcpy(&equal, &p, sizeof equal);\n    }\n"),
    ("a function of the system's name", "net", "static float net_exp_f32",
     "static float fabsf(float x)\n{\n    return x;\n}\n\nstatic float net_exp_f32"),
    ("a restrict pointer to what is written", "odd",
     "static int odd_k_large(const uint8_t *restrict x, uint8_t *restrict out)",
     "static int odd_k_large(uint8_t *restrict x, uint8_t *restrict out)"),
    ("a loop that counts twice", "net", "++ic)", "ic += 2)"),
    ("a loop that begins later", "net", "int32_t ic = 0;", "int32_t ic = 1;"),
    ("a loop whose variable is too narrow", "odd", "for (int32_t i = 0; i < 70000; ++i)",
     "for (int16_t i = 0; i < 70000; ++i)"),
    ("arguments that are not checked", "odd", "int status = (int)odd_check(buffers);", "int status = ODD_OK;"),
    ("a table without its alignment", "net", "NET_ALIGNED(64) static const float net_c_w_0",
     "static const float net_c_w_0"),
    ("an alignment that a compiler does not get", "net", "defined(__GNUC__) || defined(__TINYC__)",
     "defined(__GNUC__) && defined(__TINYC__)"),
    ("another text on one system", "net", "    float total = 0.0f;\n",
     "    float total = 0.0f;\n#ifdef __linux__\n    out[0] = 1.0f;\n#endif\n"),
    ("another text by two macros", "net", "    float total = 0.0f;\n",
     "    float total = 0.0f;\n#if defined(__x86_64__) && defined(__linux__)\n    out[0] = 1.0f;\n#endif\n"),
    ("another text where there is no optimizer", "net", "    float total = 0.0f;\n",
     "    float total = 0.0f;\n#if !defined(__OPTIMIZE__)\n#else\n    out[0] = 1.0f;\n#endif\n"),
    ("another text by a later standard", "net", "    float total = 0.0f;\n",
     "    float total = 0.0f;\n#if __STDC_VERSION__ >= 201112L\n    out[0] = 1.0f;\n#endif\n"),
    ("a return in a loop", "net", "            total = 0.0f;\n", "            return NET_OK;\n"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["net", "odd"])
def test_a_text_is_read_back(name: str) -> None:
    module, source = texts()[name]
    found = read_back(source, module)
    assert found.holds, found
    assert found.read == len(found.kernels) == len({s.kernel for s in module.program.calls})
    assert found.calls == len(module.program.calls)


@pytest.mark.parametrize(("name", "old", "new"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_in_the_text_is_not_read(name: str, old: str, new: str) -> None:
    module, source = texts()[name]
    assert old in source.source and old != new
    found = read_back(replace(source, source=source.source.replace(old, new, 1)), module)
    assert not found.holds


def test_calls_in_another_order_are_not_read() -> None:
    module, source = texts()["net"]
    text = source.source
    first, second, third = (text.index(f"    if (status == NET_OK) {{ /* step {i} */") for i in range(3))
    changed = text[:first] + text[second:third] + text[first:second] + text[third:]
    found = read_back(replace(source, source=changed), module)
    assert not found.holds and found.calls < 3


def test_a_plan_that_is_another_is_not_read() -> None:
    """The same text beside a plan with a buffer one element further on, and beside another constant."""
    module, source = texts()["net"]
    at = module.program.slots["t1"].offset or 0
    assert not read_back(source, moved(module, t1={"offset": at + 4})).holds
    bias = module.constants["bias"].copy()
    bias[0] = np.nextafter(bias[0], np.float32(1))
    other = replace(module, constants={**module.constants, "bias": bias})
    assert not read_back(source, other).holds


def test_weights_in_a_file_are_held_against_the_constants() -> None:
    module, _ = texts()["net"]
    source = emit(module, "net", inline_limit=16)
    assert source.weights is not None
    assert read_back(source, module).holds
    (at, array), *rest = source.weights.pieces
    changed = array.copy()
    changed.reshape(-1)[0] += 1
    assert not read_back(replace(source, weights=replace(source.weights, pieces=((at, changed), *rest))), module).holds
    table = source.source.replace("table + 0u", "table + 4u", 1)
    assert not read_back(replace(source, source=table), module).holds


WEIGHT_FAULTS = [
    ("a file of any length", " || bytes != NET_WEIGHTS_BYTES", ""),
    ("a file anywhere", "(uintptr_t)weights % NET_WEIGHTS_ALIGN != 0u", "0"),
    ("the digest of another file", "digest[8] = {0x9", "digest[8] = {0x8"),
    ("half of the digest", "memcmp(found, digest, sizeof digest)", "memcmp(found, digest, 16)"),
    ("another turn", "net_rotate(a, 18u)", "net_rotate(a, 17u)"),
    ("another table", "0x428a2f98u", "0x428a2f99u"),
    ("a round less", "for (i = 0; i < 64; ++i)", "for (i = 0; i < 63; ++i)"),
    ("a length that is left out", "last[end - 1u - i] =", "last[end - 2u - i] ="),
    ("a block that is left out", "i < whole", "i + 1u < whole"),
]


@pytest.mark.parametrize(("old", "new"), [f[1:] for f in WEIGHT_FAULTS], ids=[f[0] for f in WEIGHT_FAULTS])
def test_a_fault_in_the_check_of_weights_is_not_read(old: str, new: str) -> None:
    module, _ = texts()["net"]
    source = emit(module, "net", inline_limit=16)
    assert old in source.source
    assert not read_back(replace(source, source=source.source.replace(old, new, 1)), module).holds


def test_shared_bytes_forbid_restrict() -> None:
    """In place, a pointer is not restrict; a text that says so all the same is not read."""
    module, _ = texts()["net"]
    where = module.program.slots["t0"].offset
    shared = moved(module, t1={"offset": where})
    source = emit(shared, "net")
    assert "net_k_relu(const float *x, float *out)" in source.source
    assert read_back(source, shared).holds
    for old, new in (("*x, float *out", "*restrict x, float *out"), ("*x, float *out", "*x, float *restrict out")):
        changed = source.source.replace(f"net_k_relu(const float {old})", f"net_k_relu(const float {new})", 1)
        assert changed != source.source
        assert not read_back(replace(source, source=changed), shared).holds


def test_what_the_line_says() -> None:
    module, source = texts()["net"]
    _, evidence, _ = check_c(source, module)
    assert evidence.word == "proved"
    assert evidence.detail.startswith("read back: 3 of 3 kernels, 3 of 3 calls and the entry are those of the plan")
    changed = replace(source, source=source.source.replace("(t <= 0.0f) ? 0.0f : t", "(t < 0.0f) ? 0.0f : t"))
    _, evidence, _ = check_c(changed, module)
    assert (evidence.word, evidence.data["kernels_read"]) == ("checked", 2)
    assert "not relu: what is stored to out" in evidence.detail


@pytest.mark.parametrize("text", ["", "int", "#if", "#error no\n", "int net_run(void) { return 1; }\n", "/*", "\\"])
def test_a_text_that_is_none_is_not_read(text: str) -> None:
    module, source = texts()["net"]
    assert not read_back(replace(source, source=text), module).holds


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_symbolic_sizes_is_read(name: str) -> None:
    """Rows that begin before a loop, and loops over whole dims as one, with the entry."""
    kernel, _ = CASES[name]
    module = lone(kernel)
    found = read_back(emit(module, "m"), module)
    assert found.holds and found.read == 1, found


SMALL_FAULTS = [
    ("a variable that ends with the loop", "kept", "    float last = 0.0f;\n", "",
     "{\n        last = ", "{\n        float last = 0.0f;\n        last = "),
    ("an access before the check of another like it", "twice", "        if (t < 0 ",
     "        const float t_0 = x[t];\n        if (t < 0 ", "x[t] * x[t_2]", "t_0 * x[t_2]"),
    ("a bound below 0 beside an unsigned variable", "counted", "(int32_t k = 0;", "(uint32_t k = 0;", "", ""),
    ("a parameter of a table's name", "tabled", "*restrict x,", "*restrict m_c_w,", " = x[", " = m_c_w["),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "old", "new", "then", "instead"), [f[1:] for f in SMALL_FAULTS], ids=[f[0] for f in SMALL_FAULTS]
)
def test_a_fault_in_a_small_kernel_is_not_read(name: str, old: str, new: str, then: str, instead: str) -> None:
    module = small(name)
    source = emit(module, "m")
    assert read_back(source, module).holds
    assert old in source.source and then in source.source
    text = source.source.replace(old, new)
    found = read_back(replace(source, source=text.replace(then, instead) if then else text), module)
    assert not found.holds and found.entry == "", found


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ("float", "0x1f"),
        ("double", "0x10"),
        ("int32_t", "1e5"),
        ("int32_t", "-(5 - 3)"),
        ("int32_t", "010"),
        ("int64_t", "-INT64_C(-3)"),
        ("int32_t", "4 4"),
        ("uint8_t", "256"),
    ],
)
def test_a_number_that_is_another_in_c_is_not_read(of: str, text: str) -> None:
    with pytest.raises(NotRead):
        element_bytes(of, 1, text)


SYMBOLIC_FAULTS = [
    ("a product of 32 bits that overflows", "(int64_t)2 * n * m", "2 * n * m"),
    ("a dim too few", "(int64_t)2 * n * m", "(int64_t)2 * n * n"),
    ("an element further on", "out[k] =", "out[k + 1] ="),
]


@pytest.mark.parametrize(("old", "new"), [f[1:] for f in SYMBOLIC_FAULTS], ids=[f[0] for f in SYMBOLIC_FAULTS])
def test_a_fault_in_a_kernel_of_symbolic_sizes_is_not_read(old: str, new: str) -> None:
    module = lone(CASES["all dims"][0])
    source = emit(module, "m")
    assert old in source.source
    assert read_back(replace(source, source=source.source.replace(old, new)), module).read == 0
