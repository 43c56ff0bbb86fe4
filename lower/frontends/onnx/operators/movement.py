"""Reshaping, permuting, joining and repeating of ONNX (specs/lower.md, "Import")."""

from __future__ import annotations

from collections.abc import Sequence

from assay.lower.frontends import stretching
from assay.lower.frontends.onnx.node import Node, Result, Rule, tensor
from assay.semantics.graph import Expr
from assay.semantics.ops.common import normalize_axes, show_shapes
from assay.semantics.ops.meeting import meeting
from assay.semantics.ops.sizes import ceil_div, floor_div, product
from assay.semantics.scalar import Dim, provably_equal, show, simplify

# --- the same elements in another shape ---------------------------------------------------------------------------


def reshape(node: Node) -> Expr:
    """0 takes the size over from the operand, unless `allowzero`; -1 stands for what is missing."""
    x = tensor(node[0])
    wanted: Sequence[Dim] | None = node.attrs["shape"] if "shape" in node.attrs else node.dims(1)
    if wanted is None:
        raise node.wrong("the attribute shape is missing")
    zero = bool(node.attrs.get("allowzero"))
    target: list[Dim] = []
    for i, d in enumerate(wanted):
        if not isinstance(d, int) or d > 0 or d == -1 or (d == 0 and zero):
            target.append(d)
        elif d < 0 or i >= x.ndim:
            raise node.wrong(f"the shape is {show_shapes([tuple(wanted)])}: {d} at {i} stands for no size of {x}")
        else:
            target.append(x.shape[i])
    known = [d for d in target if not (isinstance(d, int) and d == -1)]
    if len(known) < len(target) and any(isinstance(d, int) and d == 0 for d in known):
        raise node.wrong(f"the shape is {show_shapes([tuple(target)])}: beside a size 0 nothing tells what -1 is")
    return node.shaped(node[0], target)


def flatten(node: Node) -> Expr:
    """The axes before `axis` as one, and those from it on as one."""
    x = tensor(node[0])
    axis = node.attrs["axis"]
    if not -x.ndim <= axis <= x.ndim:
        raise node.wrong(f"axis {axis} is out of range for {x}")
    axis += x.ndim if axis < 0 else 0
    return node.shaped(node[0], (product(x.shape[:axis]), product(x.shape[axis:])))


def _axes(node: Node) -> tuple[int, ...] | None:
    """The axes: an attribute before version 13, an operand since."""
    if "axes" in node.attrs:
        given: tuple[int, ...] | None = node.attrs["axes"]
        return given
    return node.ints(1) if node.has(1) else None


def squeeze(node: Node) -> Expr:
    """Without axes, every axis of size 1 goes; a symbolic size leaves open whether it is 1."""
    x = tensor(node[0])
    axes = _axes(node)
    if axes is None:
        if not x.is_static:
            raise node.unsupported(
                f"no axes are given, and which sizes of {x} are 1 is open; give the symbolic dims values"
            )
        axes = tuple(a for a, d in enumerate(x.shape) if isinstance(d, int) and d == 1)
    axes = normalize_axes(str(node), axes, x.ndim)
    return node.call("squeeze", node[0], axis=axes) if axes else node[0]


def unsqueeze(node: Node) -> Expr:
    """Translate Unsqueeze; axes count in the result's rank."""
    axes = _axes(node) or ()
    return node.call("expand_dims", node[0], axis=normalize_axes(str(node), axes, tensor(node[0]).ndim + len(axes)))


def transpose(node: Node) -> Expr:
    """Translate Transpose; without `perm` the axes are reversed."""
    order = node.attrs["perm"]
    return node.call("permute_dims", node[0], axes=tuple(range(tensor(node[0]).ndim))[::-1] if order is None else order)


# --- several tensors ----------------------------------------------------------------------------------------------


def concat(node: Node) -> Expr:
    """Translate Concat along `axis`."""
    axis = 1 if node.attrs["axis"] is None else node.attrs["axis"]  # only version 1 may leave it out
    return node.call("concat", *node.operands(), axis=node.axis(tensor(node[0]).ndim, axis))


def split(node: Node) -> Sequence[Result]:
    """Into parts of the given sizes; else into equal ones, of which the last may be smaller since version 18."""
    x = tensor(node[0])
    axis = node.axis(x.ndim, node.attrs["axis"] or 0)
    whole, count = x.shape[axis], len(node.outputs)
    if node.has(1) or node.attrs.get("split") is not None:
        if node.attrs.get("num_outputs") is not None:
            raise node.wrong("both operand split and num_outputs are given; only one may be")
        given = node.counts if node.version == 1 else node.dims
        sections: tuple[Dim, ...] = given(1) if node.has(1) else node.attrs["split"]
    elif "num_outputs" in node.attrs:
        if node.attrs["num_outputs"] != count:
            raise node.wrong(f"num_outputs is {node.attrs['num_outputs']}, and {count} outputs are named")
        part = ceil_div(whole, count)
        sections = (*(part for _ in range(count - 1)), simplify(whole - part * (count - 1)))
        if any(isinstance(s, int) and s < 0 for s in sections):
            raise node.wrong(f"axis {axis} of {x} is too short for {count} parts of size {show(part)}")
    else:
        part = ceil_div(whole, count)
        if not provably_equal(simplify(part * count), whole):
            raise node.wrong(f"axis {axis} of {x} has size {show(whole)}, which is no multiple of {count}")
        sections = (part,) * count
    if len(sections) != count:
        raise node.wrong(f"{len(sections)} parts, but {count} outputs are named")
    return node.fields(node.call("split", node[0], sections=sections, axis=axis), count)


# --- repeating ----------------------------------------------------------------------------------------------------


def expand(node: Node) -> Expr:
    """Broadcast with a tensor of the given shape: sizes of 1 in it change nothing."""
    x = tensor(node[0])
    wanted = node.dims(1)
    rank = max(x.ndim, len(wanted))
    have: tuple[Dim, ...] = (*(1 for _ in range(rank - x.ndim)), *x.shape)
    want: tuple[Dim, ...] = (*(1 for _ in range(rank - len(wanted))), *wanted)
    shape: list[Dim] = []
    for axis, (d, w) in enumerate(zip(have, want, strict=True)):
        if isinstance(w, int) and w < 0:
            raise node.wrong(f"operand shape is {show_shapes([wanted])}: {w} is no size")
        if (met := meeting((d, w))) is None:
            raise node.wrong(
                f"{x} does not expand to {show_shapes([wanted])}: {show(d)} against {show(w)} in axis {axis}"
            )
        shape.append(met)
    return node.stretched(stretching.stretched(node.builder, node[0], shape, node.span), shape)


def tile(node: Node) -> Expr:
    """Each axis repeated: a new axis before it, stretched, and both taken as one."""
    x = tensor(node[0])
    if node.version == 1:
        counts, axes = node.counts(1), node.counts(2)
        if len(counts) != 1 or len(axes) != 1:
            raise node.wrong(f"operands tiles and axis hold {counts} and {axes}; one number each is wanted")
        axis = node.axis(x.ndim, axes[0])
        repeats: tuple[Dim, ...] = tuple(counts[0] if a == axis else 1 for a in range(x.ndim))
    else:
        repeats = node.dims(1)
    if len(repeats) != x.ndim or any(isinstance(r, int) and r < 0 for r in repeats):
        raise node.wrong(f"operand repeats is {show_shapes([repeats])}; {x.ndim} numbers of at least 0 are wanted")
    split: list[Dim] = []
    stretched: list[Dim] = []
    whole: list[Dim] = []
    for d, r in zip(x.shape, repeats, strict=True):
        once = isinstance(r, int) and r == 1
        split += [d] if once else [1, d]
        stretched += [d] if once else [r, d]
        whole.append(d if once else simplify(d * r))
    if len(split) == x.ndim:
        return node[0]
    return node.shaped(node.call("broadcast_to", node.shaped(node[0], split), shape=tuple(stretched)), whole)


# --- blocks -------------------------------------------------------------------------------------------------------

DEEP = {"DCR": ((0, 3, 4, 1, 5, 2), (0, 3, 5, 1, 2, 4)), "CRD": ((0, 1, 4, 2, 5, 3), (0, 1, 3, 5, 2, 4))}
"""By mode, the order of the axes N, row and column of a block with the channel, H, W; and that of the way back."""


def _block(node: Node) -> tuple[int, str]:
    size, mode = node.attrs["blocksize"], node.attrs.get("mode") or "DCR"
    x = tensor(node[0])
    if size < 1 or mode not in DEEP or x.ndim != 4:
        raise node.wrong(f"operand {x}, blocksize {size}, mode {mode!r}; 4 axes, at least 1, and DCR or CRD are wanted")
    return size, mode


def depth_to_space(node: Node) -> Expr:
    """Translate DepthToSpace: channels become blocks of the plane, in the order that `mode` says."""
    size, mode = _block(node)
    images, channels, height, width = tensor(node[0]).shape
    depth = _part(node, channels, size * size)
    inner = (size, size, depth) if mode == "DCR" else (depth, size, size)
    x = node.call("permute_dims", node.shaped(node[0], (images, *inner, height, width)), axes=DEEP[mode][0])
    return node.shaped(x, (images, depth, simplify(height * size), simplify(width * size)))


def space_to_depth(node: Node) -> Expr:
    """Translate SpaceToDepth: blocks of the plane become channels."""
    size, mode = _block(node)
    images, channels, *plane = tensor(node[0]).shape
    height, width = (_part(node, d, size) for d in plane)
    x = node.shaped(node[0], (images, channels, height, size, width, size))
    x = node.call("permute_dims", x, axes=DEEP[mode][1])
    return node.shaped(x, (images, simplify(channels * (size * size)), height, width))


def _part(node: Node, size: Dim, parts: int) -> Dim:
    part = floor_div(size, parts)
    if not provably_equal(simplify(part * parts), size):
        raise node.wrong(f"operand {node[0].type}: {show(size)} is no multiple of {parts}")
    return part


TABLE: dict[str, Rule] = {
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "Flatten": flatten,
    "Reshape": reshape,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
