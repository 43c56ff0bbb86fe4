"""Schemas of operators that ONNX Runtime adds, which the onnx package does not have (specs/lower.md, "Import").

They are those of its documentation, docs/ContribOperators.md of microsoft/onnxruntime, version 1 of each; a test holds
them to the installed runtime. SimplifiedLayerNormalization is one that its optimiser writes in the standard's domain.

An operand is NAME TYPE, with `?` one that may be left out, with `*` any number; an attribute NAME KIND, with `!` one
that must be given, and its default.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from onnx import helper

from assay.lower.frontends.onnx.signatures import Formal, Schema

DOMAIN = "com.microsoft"

_TEXT = """
com.microsoft Attention -> 2
    operands: input T, weights T, bias? T, mask_index? M, past? T, attention_bias? T, past_sequence_length? M
    types: T bfloat16 float float16; M int32
    attributes: scale FLOAT, mask_filter_value FLOAT, do_rotary INT, past_present_share_buffer INT,
        qkv_hidden_sizes INTS, unidirectional INT = 0, rotary_embedding_dim INT, num_heads! INT
com.microsoft BiasGelu -> 1
    operands: A T, B T
    types: T bfloat16 double float float16
com.microsoft DequantizeLinear -> 1
    operands: x T1, x_scale T2, x_zero_point? T1
    types: T1 int16 int32 int4 int8 uint16 uint4 uint8; T2 float float16
    attributes: axis INT
com.microsoft DynamicQuantizeMatMul -> 1
    operands: A T1, B T2, b_scale T1, b_zero_point? T2, bias? T1
    types: T1 float; T2 int8 uint8
com.microsoft EmbedLayerNormalization -> 3
    operands: input_ids T1, segment_ids? T1, word_embedding T, position_embedding T, segment_embedding? T, gamma
        T, beta T, mask? T1, position_ids? T1
    types: T1 int32; T float float16
    attributes: mask_index_type INT, epsilon FLOAT = 9.999999960041972e-13
com.microsoft FastGelu -> 1
    operands: X T, bias? T
    types: T bfloat16 double float float16
com.microsoft FusedConv -> 1
    operands: X T, W T, B? T, Z? T
    types: T double float float16
    attributes: activation STRING, group INT = 1, activation_params FLOATS, pads INTS, strides INTS, dilations
        INTS, kernel_shape INTS, auto_pad STRING = NOTSET
com.microsoft FusedGemm -> 1
    operands: A T, B T, C? T
    types: T double float float16 int32 int64 uint32 uint64
    attributes: activation_beta FLOAT, activation_alpha FLOAT, activation STRING, activation_gamma FLOAT, beta
        FLOAT = 1.0, transB INT = 0, alpha FLOAT = 1.0, transA INT = 0
com.microsoft FusedMatMul -> 1
    operands: A T, B T
    types: T bfloat16 double float float16
    attributes: transBatchB INT = 0, transBatchA INT = 0, transB INT = 0, transA INT = 0, alpha FLOAT = 1.0
com.microsoft Gelu -> 1
    operands: X T
    types: T bfloat16 double float float16
com.microsoft MatMulIntegerToFloat -> 1
    operands: A T1, B T2, a_scale T3, b_scale T3, a_zero_point? T1, b_zero_point? T2, bias? T3
    types: T1 int8 uint8; T2 int8 uint8; T3 float float16
com.microsoft MatMulNBits -> 1
    operands: A T1, B T2, scales T1, zero_points? T3, g_idx? T4, bias? T1
    types: T1 bfloat16 float float16; T2 uint8; T3 bfloat16 float float16 uint8; T4 int32
    attributes: weight_prepacked INT = 0, accuracy_level INT = 0, block_size! INT, bits INT = 4, N! INT, K! INT
com.microsoft MultiHeadAttention -> 4
    operands: query T, key? T, value? T, bias? T, key_padding_mask? M, attention_bias? T, past_key? T, past_value?
        T, past_sequence_length? M, cache_indirection? M
    types: T bfloat16 float float16; M int32
    attributes: unidirectional INT = 0, scale FLOAT, mask_filter_value FLOAT, num_heads! INT
com.microsoft QGemm -> 1
    operands: A TA, a_scale T, a_zero_point TA, B TB, b_scale T, b_zero_point TB, C? TC, y_scale? T, y_zero_point? TYZ
    types: T float; TA int8 uint8; TB int8 uint8; TC int32; TYZ int8 uint8
    attributes: transB INT = 0, alpha FLOAT = 1.0, transA INT = 0
com.microsoft QLinearAdd -> 1
    operands: A T, A_scale float, A_zero_point? T, B T, B_scale float, B_zero_point? T, C_scale float, C_zero_point? T
    types: T int8 uint8
com.microsoft QLinearAveragePool -> 1
    operands: X T, x_scale float, x_zero_point? T, y_scale float, y_zero_point? T
    types: T int8 uint8
    attributes: ceil_mode INT = 0, pads INTS, auto_pad STRING = NOTSET, strides INTS, kernel_shape! INTS,
        channels_last INT = 0, count_include_pad INT = 0
com.microsoft QLinearConcat -> 1
    operands: Y_scale TF, Y_zero_point T8, inputs* TV
    types: T8 int8 uint8; TF float; TV float int8 uint8
    attributes: axis! INT
com.microsoft QLinearGlobalAveragePool -> 1
    operands: X T, x_scale float, x_zero_point T, y_scale float, y_zero_point T
    types: T int8 uint8
    attributes: channels_last INT = 0
com.microsoft QLinearLeakyRelu -> 1
    operands: X T, X_scale float, X_zero_point? T, Y_scale float, Y_zero_point? T
    types: T int8 uint8
    attributes: alpha FLOAT = 0.009999999776482582
com.microsoft QLinearMul -> 1
    operands: A T, A_scale float, A_zero_point? T, B T, B_scale float, B_zero_point? T, C_scale float, C_zero_point? T
    types: T int8 uint8
com.microsoft QLinearSigmoid -> 1
    operands: X T, X_scale float, X_zero_point? T, Y_scale float, Y_zero_point? T
    types: T int8 uint8
com.microsoft QLinearSoftmax -> 1
    operands: X T, X_scale float, x_zero_point? T, y_scale float, y_zero_point T
    types: T int8 uint8
    attributes: opset! INT, axis INT = -1
com.microsoft QuantizeLinear -> 1
    operands: x T1, y_scale T1, y_zero_point? T2
    types: T1 float float16; T2 int16 int4 int8 uint16 uint4 uint8
    attributes: axis INT
com.microsoft QuickGelu -> 1
    operands: X T
    types: T bfloat16 double float float16
    attributes: alpha FLOAT = 1.7020000219345093
ai.onnx SimplifiedLayerNormalization -> 2
    operands: X T, scale V
    types: T bfloat16 double float float16; V bfloat16 double float float16
    attributes: stash_type INT = 1, epsilon FLOAT = 9.999999747378752e-06, axis INT = -1
com.microsoft SkipLayerNormalization -> 4
    operands: input T, skip T, gamma T, beta? T, bias? T
    types: T bfloat16 float float16
    attributes: epsilon FLOAT = 9.999999960041972e-13
com.microsoft SkipSimplifiedLayerNormalization -> 4
    operands: input T, skip T, gamma T, bias? T
    types: T bfloat16 float float16
    attributes: epsilon FLOAT = 9.999999960041972e-13
com.microsoft TransposeMatMul -> 1
    operands: A T, B T
    types: T bfloat16 double float float16
    attributes: transB INT = 0, transA INT = 0, alpha FLOAT = 1.0
com.microsoft QAttention -> 2
    operands: input T1, weight T2, bias T3, input_scale T3, weight_scale T3, mask_index? T4, input_zero_point?
        T1, weight_zero_point? T2, past? T3
    types: T1 int8 uint8; T2 int8 uint8; T3 float float16; T4 int32
    attributes: scale FLOAT, mask_filter_value FLOAT, past_present_share_buffer INT, do_rotary INT,
        unidirectional INT = 0, num_heads! INT
com.microsoft RotaryEmbedding -> 1
    operands: input T, position_ids M, cos_cache T, sin_cache T
    types: T bfloat16 float float16; M int64
    attributes: num_heads INT, rotary_embedding_dim INT, interleaved INT, is_packed_batching INT, scale FLOAT
com.microsoft QLinearWhere -> 1
    operands: condition B, X T, x_scale TF, x_zero_point T, Y T, y_scale TF, y_zero_point T, z_scale TF,
        z_zero_point T
    types: B bool; TF float; T int8 uint8
com.microsoft GroupQueryAttention -> 4
    operands: query T, key? T, value? T, past_key? T_CACHE, past_value? T_CACHE, seqlens_k M,
        total_sequence_length M, cos_cache? T, sin_cache? T, position_ids? int64, attention_bias? T, head_sink? T,
        k_scale? T_KV_SCALE, v_scale? T_KV_SCALE, q_norm_weight? T, k_norm_weight? T, query_seqlens? M
    types: T bfloat16 float float16; T_CACHE bfloat16 float float16 float8e4m3fn int8 uint8; T_KV_SCALE float; M
        int32
    attributes: k_norm_epsilon FLOAT, q_norm_epsilon FLOAT, kv_cache_bit_width INT, num_heads! INT, softcap
        FLOAT, kv_num_heads! INT, sliding_window_cache INT = 0, do_rotary INT, causal INT = 1, scale FLOAT,
        local_window_size INT = -1, rotary_interleaved INT, qk_output INT = 0, qk_norm_epsilon FLOAT =
        9.999999974752427e-07, v_quant_type STRING = NONE, smooth_softmax INT = -1, k_quant_type STRING = NONE
com.microsoft NhwcMaxPool -> 1
    operands: x T
    types: T int8 uint8
    attributes: pads INTS, strides INTS, ceil_mode INT = 0, dilations INTS, kernel_shape! INTS, auto_pad STRING
        = NOTSET
com.microsoft QLinearConv -> 1
    operands: x T1, x_scale float, x_zero_point T1, w T2, w_scale float, w_zero_point T2, y_scale float,
        y_zero_point T3, B? T4
    types: T1 int8 uint8; T2 int8 uint8; T3 int8 uint8; T4 int32
    attributes: channels_last INT = 0, group INT = 1, pads INTS, strides INTS, dilations INTS, kernel_shape
        INTS, auto_pad STRING = NOTSET
com.microsoft Tokenizer -> 1
    operands: X T
    types: T string
    attributes: mark! INT, mincharnum! INT, pad_value! STRING, separators STRINGS, tokenexp STRING
"""


@cache
def contrib_schemas() -> dict[tuple[str, str], Schema]:
    """The schemas by domain and name; ai.onnx is the domain without a name."""
    blocks: list[list[str]] = []
    for line in _TEXT.strip().splitlines():
        if not line.startswith(" "):
            blocks.append([line])
        elif line.startswith(" " * 8):
            blocks[-1][-1] += f" {line.strip()}"
        else:
            blocks[-1].append(line.strip())
    found = (_read(b) for b in blocks)
    return {(s.domain, s.name): s for s in found}


def _read(block: list[str]) -> Schema:
    domain, name, _, outputs = block[0].split()
    parts = {key: rest for key, _, rest in (line.partition(": ") for line in block[1:])}
    types = {
        of: frozenset(f"tensor({t})" for t in names)
        for of, *names in (t.split() for t in parts.get("types", "").split("; ") if t)
    }
    operands = []
    for given in parts["operands"].split(", "):
        title, of = given.split()
        allowed = types.get(of, frozenset((f"tensor({of})",)))
        one_type = of in types and "*" not in title  # any number of operands may be of several types
        operands.append((Formal(title.rstrip("?*"), "?" in title, of if one_type else "", allowed), title))
    least = max(i + 1 for i, (formal, _) in enumerate(operands) if not formal.optional)
    most = 1 << 30 if "*" in operands[-1][1] else len(operands)
    kinds, required, defaults, protos = _attributes(parts.get("attributes", ""))
    return Schema(
        name, "" if domain == "ai.onnx" else domain, 1, tuple(f for f, _ in operands), least, most, int(outputs), kinds,
        required, defaults, tuple(protos), False,
    )  # fmt: skip


def _attributes(text: str) -> tuple[dict[str, str], frozenset[str], dict[str, Any], list[Any]]:
    kinds: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    required = set()
    for given in filter(None, text.split(", ")):
        title, kind, *rest = given.split()
        name = title.rstrip("!")
        kinds[name] = kind
        if "!" in title:
            required.add(name)
        if rest:
            defaults[name] = {"INT": int, "FLOAT": float}.get(kind, str)(rest[1])
    return kinds, frozenset(required), defaults, [helper.make_attribute(k, v) for k, v in defaults.items()]
