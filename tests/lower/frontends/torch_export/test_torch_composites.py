"""Operators that ATen composes of others, against NumPy; special values, sizes 0 and 1 among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from assay.interp.graph import run
from assay.lower.frontends.stablehlo.build import HloBuilder
from assay.lower.frontends.torch_export.node import AtenNode
from assay.lower.frontends.torch_export.operators import ATEN
from assay.lower.frontends.torch_export.operators.views import ViewRule
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Expr, constant, function, tuple_of
from assay.semantics.module import Module

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


def f(*x: Any) -> Array:
    return np.array(x, np.float32)


def given(name: str, **args: Any) -> list[Array]:
    """What an operator gives for arrays, lists of them, and other arguments."""
    builder = HloBuilder()

    def known(v: Any) -> Any:
        if isinstance(v, list) and v and all(isinstance(a, np.ndarray) for a in v):
            return [constant(a) for a in v]
        return constant(v) if isinstance(v, np.ndarray) else v

    node = AtenNode(builder, name, "default", {k: known(v) for k, v in args.items()})
    rule = ATEN[name]
    made: Any = rule.read(node, node.tensor(rule.operand)) if isinstance(rule, ViewRule) else rule(node)
    made = made if isinstance(made, list) else [made]
    assert all(isinstance(y, Expr) for y in made)
    body = builder.around(tuple_of(*made) if len(made) > 1 else made[0], builder.scope)
    return list(run(Module({"main": function([], body)}), {}).values())


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
V, M = f(3, -1, NAN, 0), f([1, 2, 3, 4], [-0.0, INF, 7, 8], [9, 1, 1, 2])
SHAPES: Mapping[str, tuple[str, dict[str, Any], Any]] = {
    "a number": ("atleast_2d", {"self": np.array(3, np.float32)}, [np.atleast_2d(np.float32(3))]),
    "a vector": ("atleast_3d", {"self": V}, [V.reshape(1, 4, 1)]),
    "several": ("atleast_1d", {"tensors": [np.array(np.float32(3)), V]}, [f(3), V]),
    "vectors in a row": ("hstack", {"tensors": [V, f()]}, [V]),
    "matrices in a row": ("hstack", {"tensors": [M, M[:, :1]]}, [np.hstack([M, M[:, :1]])]),
    "rows": ("vstack", {"tensors": [V, M]}, [np.vstack([V, M])]),
    "depths": ("dstack", {"tensors": [V, V]}, [np.dstack([V, V])]),
    "columns": ("column_stack", {"tensors": [V[:3], M]}, [np.column_stack([V[:3], M])]),
    "a grid": ("meshgrid", {"tensors": [V, f(1, 2)]}, np.meshgrid(V, f(1, 2), indexing="ij")),
    "a grid by columns": ("meshgrid", {"tensors": [V, f(1, 2), f(5)], "indexing": "xy"}, np.meshgrid(V, f(1, 2), f(5))),
    "one shape": ("broadcast_tensors", {"tensors": [V, M]}, np.broadcast_arrays(V, M)),
    "left and right": ("fliplr", {"self": M}, [np.fliplr(M)]),
    "up and down": ("flipud", {"self": M}, [np.flipud(M)]),
    "a quarter": ("rot90", {"self": X, "k": 1, "dims": [1, 2]}, [np.rot90(X, 1, (1, 2))]),
    "a half": ("rot90", {"self": X, "k": -6, "dims": [2, 0]}, [np.rot90(X, 2, (2, 0))]),
    "a quarter back": ("rot90", {"self": X, "k": -1, "dims": [0, -1]}, [np.rot90(X, -1, (0, 2))]),
    "no quarter": ("rot90", {"self": X, "k": 4, "dims": [0, 1]}, [X]),
    "as a diagonal": ("diag", {"self": V}, [np.diag(V)]),
    "a diagonal": ("diag", {"self": M, "diagonal": -1}, [np.diag(M, -1)]),
    "the trace": ("trace", {"self": M}, [f(1 + INF + 1)[0]]),
    "the shape of another": ("reshape_as", {"self": X, "other": np.zeros((6, 4))}, [X.reshape(6, 4)]),
    "a line": ("ravel", {"self": X}, [X.ravel()]),
    "places of rows": ("take_along_dim", {"self": X, "indices": np.array([[[2], [0]]]), "dim": 1},
                       [np.take_along_axis(X, np.broadcast_to(np.array([[[2], [0]]]), (2, 2, 4)), 1)]),
    "places of all": ("take_along_dim", {"self": X, "indices": np.array([[5, 0]])}, [X.ravel()[[5, 0]]]),
    "the sum of what was stretched": ("sum_to_size", {"self": X, "size": [3, 1]}, [X.sum((0, 2)).reshape(3, 1)]),
    "minus infinity": ("isneginf", {"self": f(-INF, INF, NAN, -3e38)}, [np.array([True, False, False, False])]),
    "no infinity": ("isposinf", {"self": np.array([1, 2])}, [np.array([False, False])]),
    "near": ("isclose", {"self": f(1, 1, INF, INF, NAN, 0), "other": f(1.000005, 1.0001, INF, -INF, NAN, 1e-9)},
             [np.array([True, False, True, False, False, True])]),
    "near, and NaN": ("isclose", {"self": f(NAN, 1), "other": f(NAN, NAN), "equal_nan": True},
        [np.array([True, False])]),
    "equal": ("isclose", {"self": np.array([1, 2]), "other": np.array([1, 3]), "rtol": 0.0, "atol": 0.0},
              [np.array([True, False])]),
    "one of some": ("isin", {"elements": f(1, NAN, -0.0), "test_elements": f(NAN, 0, 5)},
        [np.array([False, False, True])]),
    "one of none": ("isin", {"elements": np.array([[1, 2]]), "test_elements": np.array([], np.int64), "invert": True},
                    [np.array([[True, True]])]),
    "a sum without NaN": ("nansum", {"self": f([1, NAN], [NAN, NAN]), "dim": [1]}, [f(1, 0)]),
    "a mean without NaN": ("nanmean", {"self": f([1, NAN, 3], [NAN, NAN, NAN]), "dim": [1]}, [f(2, NAN)]),
    "inner products": ("inner", {"self": X, "other": X[0]}, [np.inner(X, X[0])]),
    "inner with a number": ("inner", {"self": V, "other": np.array(2, np.float32)}, [V * 2]),
    "sums over axes": ("tensordot", {"self": X, "other": X[0], "dims_self": [2, 1], "dims_other": [-1, 0]},
                       [np.tensordot(X, X[0], ([2, 1], [1, 0]))]),
    "all products": ("tensordot", {"self": f(1, 2), "other": f(3, 4, 5), "dims_self": [], "dims_other": []},
                     [np.multiply.outer(f(1, 2), f(3, 4, 5))]),
    "blocks": ("kron", {"self": X, "other": f([1, -2])}, [np.kron(X, f([1, -2]))]),
    "a cross product": ("cross", {"self": f(1, 2, 3), "other": f([4, 5, 7])}, [np.cross(f(1, 2, 3), f([4, 5, 7]))]),
    "of the first axis of three": ("cross", {"self": X, "other": X[:, ::-1] * 2},
        [np.cross(X, X[:, ::-1] * 2, axis=1)]),
    "of the last axis": ("linalg_cross", {"self": f([1, 0, 0]), "other": f([0, 1, 0])}, [f([0, 0, 1])]),
    "in order": ("msort", {"self": f([2, 1], [1, 5])}, [f([1, 1], [2, 5])]),
    "a product of vectors": ("vdot", {"self": f(1, 2), "other": f(3, 4)}, [np.float32(11)]),
    "the mean of squares": ("mse_loss", {"self": f(1, 2), "target": f(3, 5)}, [np.float32(6.5)]),
    "the sum of distances": ("l1_loss", {"self": f(1, 2), "target": f(3, -5), "reduction": 2}, [np.float32(9)]),
    "smooth": ("smooth_l1_loss", {"self": f(0, 0, 0), "target": f(1, 2, -4), "reduction": 0, "beta": 2.0},
        [f(0.25, 1, 3)]),
    "not smooth": ("smooth_l1_loss", {"self": f(0), "target": f(-4), "reduction": 0, "beta": 0.0}, [f(4)]),
    "by Huber": ("huber_loss", {"self": f(0, 0, 0), "target": f(1, 2, -4), "reduction": 0, "delta": 2.0},
        [f(0.5, 2, 6)]),
    "the same way": ("cosine_similarity", {"x1": f([3, 4], [0, 0]), "x2": f([6, 8], [1, 0]), "dim": -1}, [f(1, 0)]),
    "how far": ("pairwise_distance", {"x1": f([3, 4]), "x2": f([0, 0]), "eps": 0.0, "keepdim": True}, [f([5])]),
    "how far along": ("pairwise_distance", {"x1": f([3, -4]), "x2": f([0, 0]), "eps": 1.0, "p": 1.0}, [f(7)]),
    "of given norms": ("_weight_norm", {"v": f([3, 4], [0, 2]), "g": f([10], [1]), "dim": 0}, [f([6, 8], [0, 1])]),
    "norms of columns": ("norm_except_dim", {"v": f([3, 5], [4, 12]), "pow": 2, "dim": 1}, [f([5, 13])]),
    "a norm of all": ("norm_except_dim", {"v": f([3], [4]), "pow": 2, "dim": -1}, [np.float32(5)]),
    "a norm": ("linalg_norm", {"self": f([3, 4], [0, 12])}, [np.float32(13)]),
    "a norm of rows": ("linalg_norm", {"self": f([3, -4], [0, 12]), "ord": 1, "dim": [1]}, [f(7, 12)]),
    "a norm of matrices": ("linalg_norm", {"self": f([3, 4], [0, 12]), "ord": "fro", "dim": [0, 1]}, [np.float32(13)]),
    "between two vectors": ("bilinear", {"input1": f([1, 2]), "input2": f([3, 5]), "weight": f([[1, 0], [0, 1]]),
                                         "bias": f(0.5)}, [f([13.5])]),
    "equal parts": ("tensor_split", {"self": f(*range(7)), "sections": 3, "dim": 0}, np.split(f(*range(7)), [3, 5])),
    "more parts than elements": ("tensor_split", {"self": f(1, 2), "sections": 3}, [f(1), f(2), f()]),
    "parts at places": ("tensor_split", {"self": X, "indices": [1, -2, 9], "dim": -1},
                        [X[..., :1], X[..., 1:2], X[..., 2:], X[..., 4:]]),
    "places out of order": ("tensor_split", {"self": f(1, 2, 3, 4), "indices": [3, 1]},
        [f(1, 2, 3), f(), f(2, 3, 4)]),
    "by columns": ("hsplit", {"self": X, "sections": 3}, np.split(X, 3, axis=1)),
    "a vector by columns": ("hsplit", {"self": f(1, 2, 3), "indices": [1]}, [f(1), f(2, 3)]),
    "by rows": ("vsplit", {"self": X, "sections": 2}, [X[:1], X[1:]]),
    "by depth": ("dsplit", {"self": X, "indices": [3]}, [X[..., :3], X[..., 3:]]),
    "sinc": ("sinc", {"self": f(0, -0.0, 0.5, INF, NAN)}, [f(1, 1, 2 / np.pi, NAN, NAN)]),
    "sinc of whole numbers": ("special_sinc", {"self": np.array([0])}, [f(1)]),
    "a power in doubles": ("float_power", {"self": np.array([1 << 40, -1]), "exponent": 2},
                           [np.array([2.0**80, 1])]),
    "powers in doubles": ("float_power", {"self": f(-8, 4), "exponent": f(3, 0.5)}, [np.array([-512.0, 2])]),
    "a number to powers": ("float_power", {"self": 2, "exponent": f(0.5, -1)}, [np.array([2**0.5, 0.5])]),
    "angles": ("cosine_embedding_loss", {"input1": f([3, 4], [3, 4], [1, 0]), "input2": f([6, 8], [6, 8], [0, 1]),
               "target": np.array([1, -1, 0]), "margin": 0.25, "reduction": 0}, [f(0, 0.75, 0)]),
    "an angle": ("cosine_embedding_loss", {"input1": f(1, 0), "input2": f(0, 2), "target": np.array(1)}, [f(1)[0]]),
}  # fmt: skip


@pytest.mark.parametrize("what", SHAPES)
def test_as_numpy(what: str) -> None:
    name, args, wanted = SHAPES[what]
    with np.errstate(all="ignore"):
        found = given(name, **args)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-6, atol=0)


def test_a_step_of_a_recurrent_layer() -> None:
    """i = f = o = 1/2 and g = 0 of no weights; a bias of the hidden state moves g."""
    zeros, h, c = np.zeros((4, 1), np.float32), f([0.5]), f([4])
    args = {"input": f([1]), "w_ih": zeros, "w_hh": zeros}
    found = given("lstm_cell", hx=[h, c], **args, b_ih=f(0, 0, 0, 0), b_hh=f(0, 0, 100, 0))
    np.testing.assert_allclose(found[1], [[2.5]], rtol=1e-6)
    np.testing.assert_allclose(found[0], np.tanh([[2.5]]) / 2, rtol=1e-6)
    args = {"input": f([1]), "w_ih": zeros[:3], "w_hh": zeros[:3]}
    np.testing.assert_allclose(given("gru_cell", hx=h, **args)[0], [[0.25]])
    args = {"input": f([-3]), "w_ih": f([2]), "w_hh": f([4])}
    assert given("rnn_relu_cell", hx=h, **args)[0] == 0
    np.testing.assert_allclose(given("rnn_tanh_cell", hx=h, **args)[0], np.tanh([[-4]]), rtol=1e-6)


def test_what_is_not_as_it_is_wanted() -> None:
    for name, args, wrong, said in (
        ("cross", {"self": f(1, 2), "other": f(1, 2)}, Invalid, "an axis of size 3 is wanted"),
        ("linalg_norm", {"self": M, "ord": 1}, Unsupported, "the order 1 of a matrix"),
        ("diag", {"self": X}, Invalid, "a vector or a matrix is wanted"),
        ("mse_loss", {"self": V, "target": V, "reduction": 3}, Invalid, "reduction is 3"),
        ("tensor_split", {"self": V, "sections": 0}, Invalid, "a number above 0 is wanted"),
        ("dsplit", {"self": M, "sections": 1}, Invalid, "3 axes are wanted"),
        ("cosine_embedding_loss", {"input1": V, "input2": V, "target": V}, Invalid, "wanted"),
        ("tensordot", {"self": V, "other": V, "dims_self": [0], "dims_other": []}, Invalid, "as many of each"),
    ):
        with pytest.raises(wrong, match=said):
            given(name, **args)
