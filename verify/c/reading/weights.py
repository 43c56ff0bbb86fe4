"""What is asked of a file of weights before a run may read it (specs/verify.md, "c").

The check is held against a text that stands here, with the bytes, the alignment and the digest of the constants in it,
as are the functions of SHA-256 that it calls. Their tables are computed from the primes, as FIPS 180-4 defines them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from math import isqrt

import numpy as np

from assay.lower.c.source import CSource
from assay.verify.c.reading.arguments import count_text, same_function
from assay.verify.c.reading.parse import CFile
from assay.verify.c.reading.preprocess import NotRead

_CHECK = """
enum @_status @_check_weights(const void *weights, size_t bytes)
{
    static const uint32_t digest[8] = {DIGEST};
    static const uint16_t one = 1u;
    uint32_t found[8];
    unsigned char low;
    if (weights == NULL) {
        return M_NULL_POINTER;
    }
    if ((uintptr_t)weights % EDGE != 0u) {
        return M_MISALIGNED;
    }
    memcpy(&low, &one, 1);
    if (low != 1u || bytes != BYTES) {
        return M_BAD_WEIGHTS;
    }
    @_sha256((const unsigned char *)weights, bytes, found);
    return (memcmp(found, digest, sizeof digest) == 0) ? M_OK : M_BAD_WEIGHTS;
}
"""
_SHA256 = """
static void @_sha256(const unsigned char *data, size_t bytes, uint32_t *state)
{
    static const uint32_t start[8] = {START};
    unsigned char last[128];
    const size_t whole = bytes / 64u;
    const size_t rest = bytes % 64u;
    const size_t end = (rest < 56u) ? 64u : 128u;
    const uint64_t bits = (uint64_t)bytes * 8u;
    size_t i;
    memcpy(state, start, sizeof start);
    for (i = 0; i < whole; ++i) {
        @_sha256_block(state, data + 64u * i);
    }
    memset(last, 0, sizeof last);
    memcpy(last, data + 64u * whole, rest);
    last[rest] = 0x80u;
    for (i = 0; i < 8u; ++i) {
        last[end - 1u - i] = (unsigned char)((bits >> (8u * i)) & 0xffu);
    }
    for (i = 0; i < end; i += 64u) {
        @_sha256_block(state, last + i);
    }
}
"""
_BLOCK = """
static void @_sha256_block(uint32_t *state, const unsigned char *block)
{
    static const uint32_t k[64] = {ROUNDS};
    uint32_t w[64];
    uint32_t s[8];
    int i;
    for (i = 0; i < 16; ++i) {
        w[i] = ((uint32_t)block[4 * i] << 24) | ((uint32_t)block[4 * i + 1] << 16)
            | ((uint32_t)block[4 * i + 2] << 8) | (uint32_t)block[4 * i + 3];
    }
    for (i = 16; i < 64; ++i) {
        const uint32_t a = w[i - 15];
        const uint32_t b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (@_rotate(a, 7u) ^ @_rotate(a, 18u) ^ (a >> 3))
            + (@_rotate(b, 17u) ^ @_rotate(b, 19u) ^ (b >> 10));
    }
    for (i = 0; i < 8; ++i) {
        s[i] = state[i];
    }
    for (i = 0; i < 64; ++i) {
        const uint32_t e = @_rotate(s[4], 6u) ^ @_rotate(s[4], 11u) ^ @_rotate(s[4], 25u);
        const uint32_t a = @_rotate(s[0], 2u) ^ @_rotate(s[0], 13u) ^ @_rotate(s[0], 22u);
        const uint32_t t = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        const uint32_t u = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        s[7] = s[6];
        s[6] = s[5];
        s[5] = s[4];
        s[4] = s[3] + t;
        s[3] = s[2];
        s[2] = s[1];
        s[1] = s[0];
        s[0] = t + u;
    }
    for (i = 0; i < 8; ++i) {
        state[i] += s[i];
    }
}
"""
_ROTATE = """
static uint32_t @_rotate(uint32_t x, unsigned int n)
{
    return (x >> n) | (x << (32u - n));
}
"""


def require_weights(source: CSource, file: CFile) -> None:
    """The functions that say whether bytes are the file of weights are those that stand here. NotRead where not."""
    for name, text in weights_functions(source).items():
        if not same_function(file, name, text):
            raise NotRead(f"{name} is not what says whether bytes are those of the weights")


def weights_functions(source: CSource) -> dict[str, str]:
    """Their texts, by name; none of a program whose constants stand in the C."""
    if source.weights is None:
        return {}
    told, end = hashlib.sha256(), 0
    for at, array in source.weights.pieces:  # zeros between them
        told.update(bytes(at - end))
        told.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
        end = at + array.nbytes
    told.update(bytes(source.weights.nbytes - end))
    digest = np.frombuffer(told.digest(), ">u4")
    check = _CHECK.replace("DIGEST", _words(map(int, digest))).replace("EDGE", count_text(source.weights.alignment))
    texts = {
        "check_weights": check.replace("BYTES", count_text(source.weights.nbytes)),
        "sha256": _SHA256.replace("START", _words(_square_root(p) for p in primes(8))),
        "sha256_block": _BLOCK.replace("ROUNDS", _words(_cube_root(p) for p in primes(64))),
        "rotate": _ROTATE,
    }
    return {
        f"{source.name}_{n}": t.replace("@", source.name).replace("M_", f"{source.macro}_") for n, t in texts.items()
    }


def primes(count: int) -> list[int]:
    """The first ones."""
    found: list[int] = []
    n = 2
    while len(found) < count:
        if all(n % p for p in found):
            found.append(n)
        n += 1
    return found


def _square_root(p: int) -> int:
    """The first 32 bits of the fraction of a square root."""
    return isqrt(p << 64) & 0xFFFFFFFF


def _cube_root(p: int) -> int:
    """The first 32 bits of the fraction of a cube root."""
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= p << 96 else (low, middle)
    return low & 0xFFFFFFFF


def _words(numbers: Iterable[int]) -> str:
    return ", ".join(f"0x{n:08x}u" for n in numbers)
