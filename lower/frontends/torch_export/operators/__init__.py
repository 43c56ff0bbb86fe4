"""What each operator of ATen means (specs/lower.md, "torch.export")."""

from __future__ import annotations

from collections.abc import Mapping

from assay.lower.frontends.torch_export.node import AtenRule
from assay.lower.frontends.torch_export.operators import (
    arithmetic,
    bags,
    composites,
    contraction,
    control,
    counts,
    distances,
    elementwise,
    indexing,
    integers,
    losses,
    movement,
    networks,
    normalization,
    numbers,
    orders,
    pooling,
    quantized,
    reduction,
    replaced,
    resizing,
    running,
    sampling,
    windows,
)
from assay.lower.frontends.torch_export.operators.views import COPIES, VIEWS, ViewRule
from assay.lower.frontends.torch_export.signature import UNCHANGING, is_in_place
from assay.semantics.errors import Unsupported

Rule = AtenRule | ViewRule

ATEN: dict[str, Rule] = {
    **elementwise.TABLE,
    **arithmetic.TABLE,
    **reduction.TABLE,
    **normalization.TABLE,
    **contraction.TABLE,
    **pooling.TABLE,
    **movement.TABLE,
    **indexing.TABLE,
    **networks.TABLE,
    **numbers.TABLE,
    **resizing.TABLE,
    **sampling.TABLE,
    **bags.TABLE,
    **windows.TABLE,
    **distances.TABLE,
    **orders.TABLE,
    **composites.TABLE,
    **losses.TABLE,
    **counts.TABLE,
    **integers.TABLE,
    **running.TABLE,
    **replaced.TABLE,
    **quantized.FAKE,
    **VIEWS,
}
"""By name, without the overload."""

DECOMPOSED = "; run_decompositions() may make other operators of it"
UNCOMPOSED = "not composed yet"
"""Nor does PyTorch decompose it."""

UNREAD: Mapping[tuple[str, ...], str] = {
    ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "normal",
     "uniform", "multinomial", "exponential", "geometric", "rrelu_with_noise",
     "rrelu_with_noise_functional"): "random numbers are left open",
    ("convolution_backward", "native_layer_norm_backward", "native_group_norm_backward", "embedding_dense_backward",
     "avg_pool2d_backward", "avg_pool3d_backward", "max_pool2d_with_indices_backward", "_adaptive_avg_pool2d_backward",
     "grid_sampler_2d_backward"): "a gradient: programs for inference have none",
    ("_fft_r2c", "_fft_c2c", "_fft_c2r", "view_as_complex", "view_as_real", "polar", "complex", "stft", "istft"):
        "complex numbers",
    ("unique_dim", "linalg_inv", "linalg_inv_ex", "linalg_solve", "_linalg_solve_ex", "linalg_solve_triangular",
     "linalg_svd", "_linalg_svd", "_linalg_eigh", "linalg_qr", "linalg_lu_factor", "linalg_cholesky_ex", "_linalg_det",
     "linalg_lstsq", "linalg_matrix_exp", "_linalg_check_errors", "geqrf"): UNCOMPOSED,
    ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
     "_scaled_dot_product_cudnn_attention"): "of GPUs",
    ("i0", "special_i0e", "special_i1", "special_i1e", "special_bessel_j0", "special_zeta", "polygamma", "igamma",
     "igammac", "nextafter", "ldexp", "frexp"): UNCOMPOSED,
    ("resize", "resize_", "set_", "_to_sparse", "to_sparse", "sparse_mask", "sym_stride", "sym_storage_offset",
     "sym_is_contiguous"): "how a tensor lies in memory, or sparse tensors",
}  # fmt: skip
"""Operators that are not read, and why."""

HIGHER = control.TABLE


def _copied(rule: ViewRule) -> AtenRule:
    return lambda node: rule(node)


RULES: Mapping[str, Mapping[str, Rule]] = {
    "torch.ops.aten": {**ATEN, **{copy: _copied(VIEWS[name]) for copy, name in COPIES.items()},
                       "_to_copy": _copied(VIEWS["to"]), "_unsafe_split": _copied(VIEWS["split"])},
    "torch.ops.higher_order": HIGHER,
    "torch.ops.quantized_decomposed": quantized.TABLE,
    "_operator": numbers.OPERATOR,
    "torch": numbers.TORCH,
    "math": {},
}  # fmt: skip
"""By where the function is, then by its name."""


def rule_of(target: str) -> tuple[Rule, str, str, bool]:
    """The rule of a function, its name and its overload, and whether it writes to its first operand. Unsupported
    (`torch_export.C4`): there is none."""
    place = next((p for p in RULES if target.startswith(f"{p}.")), "")
    name, _, overload = target[len(place) + 1 :].partition(".")
    table = RULES.get(place, {})
    in_place = place == "torch.ops.aten" and is_in_place(target)
    name = name[:-1] if in_place else name
    in_place = in_place and name not in UNCHANGING
    if name in table and overload != "out" and not (in_place and isinstance(table[name], ViewRule)):
        return table[name], name, overload, in_place
    why = next((f": {w}" for names, w in UNREAD.items() if name in names), "")
    plain = target.removeprefix("torch.ops.")
    raise Unsupported(f"the operator {plain} is not handled{why or DECOMPOSED}", label="torch_export.C4")
