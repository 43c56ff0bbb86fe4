"""Transcendental functions as programs of exact operations (rule M10; specs/semantics.md, "Transcendental functions").

tanh, erf and the functions of `exponential`, `hyperbolic` and `trigonometry` have no correctly rounded definition that
is cheap, and every C library has its own. Here each is ONE straight-line program over float64, a `Routine`:
let-bindings and a result, built only from operations of `scalar.OPERATIONS`, all exact or correctly rounded. The
interpreters evaluate it; the C text is printed from it. So the two agree bit for bit on every target that has IEEE
float64 and does not contract a*b+c.

An operand of any float dtype is converted to float64 (exact), the routine runs, and its result is rounded once. For
dtypes up to 32 bits the result is therefore within 0.51 ulp; for float64 within the `ulps` of the routine.

There are no branches: every lane computes every part, on operands clamped so that no part can trap, and `select` picks.
The polynomials are Chebyshev interpolants over the interval named beside them, computed to 60 digits and rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from assay.semantics.dtypes import FLOAT64, dtype
from assay.semantics.scalar.arithmetic import TRANSCENDENTAL, Operation, convert
from assay.semantics.scalar.exponential import exp_part, exponential
from assay.semantics.scalar.expression import apply, select
from assay.semantics.scalar.hyperbolic import hyperbolic
from assay.semantics.scalar.routine import (
    Routine as Routine,
    RoutineBuilder,
    clamp,
    hexadecimal,
    is_nan,
    is_negative,
    polynomial,
)
from assay.semantics.scalar.trigonometry import trigonometric

# --- numbers -----------------------------------------------------------------------------------------------------

# tanh(x) = x + x*z*p(z - TANH_CENTRE), z = x*x, |x| <= TANH_MIDDLE; centred, so that few bits cancel
TANH = hexadecimal(
    "-0x1.32db86cc23978p-2 0x1.b838c2f26bd69p-4 -0x1.3fd2f3209b982p-5 0x1.d157a259a533ep-7 -0x1.5296e59dcdccfp-8"
    " 0x1.ecbbee98cb688p-10 -0x1.66871f24641bcp-11 0x1.04e01de3a50a4p-12 -0x1.7ba4959b5a297p-14 0x1.143d4b54e8d9bp-15"
    " -0x1.91c7ac3bb0526p-17 0x1.2458d5f4ab976p-18 -0x1.b99fbd5974886p-20 0x1.4156b4ea8824ep-21"
)
TANH_MIDDLE, TANH_CENTRE = 0.75, 0.28125
# erf(x) = x + x*p(z - 1/2), z = x*x, |x| <= 1
ERF = hexadecimal(
    "-0x1.1ae14dc34815ap-5 -0x1.1fd16292151fdp-2 0x1.454368017b042p-4 -0x1.2b902b7b2f28ep-6 0x1.c82aa249df460p-9"
    " -0x1.263991b802ee6p-11 0x1.486638bc9befep-14 -0x1.429e93e668f24p-17 0x1.1ad5edf90dd80p-20 -0x1.bf8d2c72b9b8cp-24"
    " 0x1.428e938efe043p-27 -0x1.acbabce2865e7p-31 0x1.05ffd737fb32ep-34"
)
# 1 - erf(x) = exp(-x*x) * p(t), t = (x-3)/(x+3), 1 <= x <= 6
ERF_TAIL = hexadecimal(
    "0x1.6e9827d229d2dp-3 -0x1.4e102b9cf8512p-2 0x1.f6ff20410599bp-3 -0x1.336ffbef08cbbp-3 0x1.258b13b0139fep-4"
    " -0x1.8fa58eb5bd68fp-6 0x1.17c838fea5806p-8 0x1.73101ea8fe252p-11 -0x1.39085a31b18abp-11 0x1.7b9fc8eb630e9p-15"
    " 0x1.0cb1db32e0c9fp-14 -0x1.af2329d757293p-17 -0x1.0cb4611cc29f6p-17 0x1.0f9a79cee3e31p-19 0x1.57a5fe2b9b75ep-20"
)


# --- routines ----------------------------------------------------------------------------------------------------


def _tanh_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    a = b.let("a", apply("abs", x))
    near = b.let("near", clamp(a, 0.0, TANH_MIDDLE))
    z = b.let("z", near * near)
    inner = b.let("inner", near + near * (z * polynomial(TANH, z - TANH_CENTRE)))
    far = b.let("far", clamp(a, TANH_MIDDLE, 20.0))  # at 20 the result is 1
    outer = 1.0 - 2.0 / (exp_part(b, b.let("twice", far + far), subnormal=False) + 1.0)
    y = b.let("magnitude", select(a < TANH_MIDDLE, inner, outer))
    return b.returns("tanh", select(is_nan(x), x, select(is_negative(x), -y, y)), 1.5, "hyperbolic tangent of x")


def _erf_routine() -> Routine:
    b = RoutineBuilder("x")
    (x,) = b.params
    a = b.let("a", apply("abs", x))
    near = b.let("near", clamp(a, 0.0, 1.0))
    z = b.let("z", near * near)
    inner = b.let("inner", near + near * polynomial(ERF, z - 0.5))
    far = b.let("far", clamp(a, 1.0, 6.0))  # at 6 the result is 1
    t = b.let("t", (far - 3.0) / (far + 3.0))
    rest = b.let("rest", polynomial(ERF_TAIL, t))
    outer = 1.0 - exp_part(b, b.let("minus_square", -(far * far)), subnormal=False) * rest
    y = b.let("magnitude", select(a < 1.0, inner, outer))
    return b.returns("erf", select(is_nan(x), x, select(is_negative(x), -y, y)), 1.5, "the error function of x")


ROUTINES: dict[str, Routine] = {
    r.name: r for r in (*exponential(), _tanh_routine(), _erf_routine(), *hyperbolic(), *trigonometric())
}
"""The programs, by the name of their scalar operation."""

BLOCK = 4096
"""Lanes that go through a routine at a time: its hundred or so intermediate arrays then stay in the cache."""


def _meaning(routine: Routine) -> Callable[..., Any]:
    def meaning(*args: Any) -> Any:
        of = dtype(np.asarray(args[0]).dtype)
        wide = [convert(a, FLOAT64) for a in args]
        shape = np.broadcast_shapes(*(np.shape(a) for a in wide))
        if np.prod(shape, dtype=np.int64) <= BLOCK:
            return convert(routine(*wide), of)
        flat = [np.broadcast_to(a, shape).reshape(-1) for a in wide]
        out = np.empty(flat[0].size, of.numpy)
        for start in range(0, out.size, BLOCK):
            out[start : start + BLOCK] = convert(routine(*(a[start : start + BLOCK] for a in flat)), of)
        return out.reshape(shape)

    return meaning


TRANSCENDENTAL.update(
    (r.name, Operation(r.name, len(r.params), ("float",), "same", _meaning(r), r.doc)) for r in ROUTINES.values()
)
