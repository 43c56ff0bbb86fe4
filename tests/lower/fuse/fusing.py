"""Programs for the tests of fusion: small, each with the groups that it should give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.lower.anf import to_anf
from assay.lower.fuse import fuse
from assay.lower.legalize import legalize
from assay.semantics.alias import bindings
from assay.semantics.dtypes import dtype
from assay.semantics.graph import CallTIR, Expr, Function, Var, call, constant, function, tuple_of, var
from assay.semantics.module import GROUP, Module
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType


def x(name: str, *shape: int, of: str = "float32") -> Var:
    return var(name, TensorType(shape, dtype(of)))


def legalized(params: Sequence[Var], body: Expr) -> Module:
    """A function of operators as calls of tensor functions."""
    return legalize(to_anf(Module({"main": function(params, body)})))


def groups(module: Module) -> list[list[str]]:
    """The operators of each group that `main` calls, in order."""
    found = []
    for _, value in bindings(module.main):
        if isinstance(value, CallTIR) and (group := module.group(module.kernel(value.func))) is not None:
            found.append(
                [module.kernel(c.func).attrs["operator"] for _, c in bindings(group) if isinstance(c, CallTIR)]
            )
    return found


def only_group(module: Module) -> PrimFunc:
    """The one fused tensor function of a module."""
    (kernel,) = (k for k in module.kernels.values() if GROUP in k.attrs)
    return kernel


def group_of(module: Module, kernel: PrimFunc) -> Function:
    found = module.group(kernel)
    assert found is not None
    return found


def random(params: Sequence[Var], seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {
        p.name: rng.standard_normal(p.type.static_shape).astype(np.float32)
        for p in params
        if isinstance(p.type, TensorType)
    }


# --- programs ----------------------------------------------------------------------------------------------------

Program = Callable[[], tuple[Sequence[Var], Expr]]


def conv_add_relu() -> tuple[Sequence[Var], Expr]:
    a, w, b = x("a", 1, 2, 6, 7), x("w", 3, 2, 3, 3), x("b", 3, 1, 1)
    return (a, w, b), call("nn.relu", call("add", call("nn.conv2d", a, w, padding=(1, 1, 1, 1)), b))


def conv_norm_clip() -> tuple[Sequence[Var], Expr]:
    a, w = x("a", 2, 2, 5, 4), x("w", 4, 1, 2, 2)
    gamma, beta, mean, variance = (x(n, 4) for n in ("gamma", "beta", "mean", "variance"))
    norm = call("nn.batch_norm", call("nn.conv2d", a, w, groups=2), gamma, beta, mean, call("abs", variance))
    return (a, w, gamma, beta, mean, variance), call("clip", norm, min=0.0, max=6.0)


def residual() -> tuple[Sequence[Var], Expr]:
    """Two products meet in a sum: one of them is in its group."""
    a, v, w = x("a", 3, 4), x("v", 4, 5), x("w", 4, 5)
    return (a, v, w), call("nn.relu", call("add", call("matmul", a, v), call("matmul", a, w)))


def diamond() -> tuple[Sequence[Var], Expr]:
    """One value goes two ways that meet again."""
    a = x("a", 3, 4)
    e = call("exp", a)
    return (a,), call("multiply", call("negative", e), call("sqrt", call("add", e, a)))


def second_user() -> tuple[Sequence[Var], Expr]:
    """A value in the middle of a chain that is a result, too."""
    a, b = x("a", 3, 4), x("b", 4)
    s = call("add", a, b)
    return (a, b), tuple_of(call("nn.relu", s), s)


def transposed() -> tuple[Sequence[Var], Expr]:
    a, b = x("a", 3, 4), x("b", 3)
    return (a, b), call("multiply", call("permute_dims", call("exp", a)), b)


def summed() -> tuple[Sequence[Var], Expr]:
    a, b = x("a", 3, 4, 5), x("b", 5)
    return (a, b), call("sum", call("multiply", a, b), axis=(1,))


def joined() -> tuple[Sequence[Var], Expr]:
    """Two values side by side, then a map of them: the one between stays in memory."""
    a, b = x("a", 2, 3), x("b", 2, 4)
    return (a, b), call("negative", call("concat", call("exp", a), call("abs", b), axis=1))


def around_a_pool() -> tuple[Sequence[Var], Expr]:
    """The pool needs what is before it, and what is behind it needs both: no group may be around it."""
    a = x("a", 1, 2, 4, 4)
    r = call("nn.relu", a)
    p = call("nn.max_pool2d", r, pool_size=(1, 1))
    return (a,), call("add", r, p)


def squares() -> tuple[Sequence[Var], Expr]:
    """A square matrix, so that a wrong index stays within it."""
    a, v, b, c = x("a", 4, 4), x("v", 4, 4), x("b", 4), x("c", 4, 4)
    return (a, v, b, c), call(
        "subtract", call("add", call("add", call("matmul", a, v), b), c), constant(np.float32(0.1))
    )


def fused(program: Program) -> tuple[Module, Module]:
    """A program before and after."""
    before = legalized(*program())
    return before, fuse(before)
