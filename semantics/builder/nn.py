"""Ready-made layers (row R31; specs/semantics.md, "Builder"): what the neural-network modules of other frameworks are
called.

A weight of a linear layer is inputs by outputs; that of a convolution is outputs, inputs of a group, sizes; that of a
transposed convolution inputs, outputs of a group, sizes, as in PyTorch and ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

from assay.semantics.builder import Builder
from assay.semantics.builder.layers import Layer, LayerNorm as LayerNorm, Linear as Linear, Parameter
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.types import TensorType


def _type(x: Expr) -> TensorType:
    if not isinstance(x.type, TensorType):
        raise Invalid(f"a layer takes a tensor, not {x.type}", label="layers.C4")
    return x.type


class _Activation(Layer):
    """One operator on its input, without parameters: an activation or a pool."""

    op = ""

    def __init__(self, **attrs: Any) -> None:
        self.attrs = attrs

    def forward(self, b: Builder, x: Expr) -> Expr:
        return b.call(self.op, x, **self.attrs)


class Identity(Layer):
    """A layer whose result is its input."""

    def forward(self, b: Builder, x: Expr) -> Expr:
        """The operand itself; nothing is emitted."""
        return x


class Dropout(Identity):
    """Its input, as where a trained model is used: elements are dropped in training alone."""


class ReLU(_Activation):
    """max(x, 0), elementwise."""

    op = "nn.relu"


class LeakyReLU(_Activation):
    """x where it is positive, else alpha * x, elementwise."""

    op = "nn.leakyrelu"

    def __init__(self, alpha: float = 0.01) -> None:
        super().__init__(alpha=alpha)


class SiLU(Layer):
    """x * sigmoid(x)"""

    def forward(self, b: Builder, x: Expr) -> Expr:
        """Emits x * sigmoid(x)."""
        return b.multiply(x, b.sigmoid(x))


class GELU(_Activation):
    """By the error function, or by its approximation with tanh."""

    def __init__(self, tanh: bool = False) -> None:
        super().__init__()
        self.op = "nn.gelu_tanh" if tanh else "nn.gelu"


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)), elementwise."""

    op = "sigmoid"


class Tanh(_Activation):
    """The hyperbolic tangent, elementwise."""

    op = "tanh"


class Softmax(_Activation):
    """exp(x) over its sum along an axis."""

    op = "nn.softmax"

    def __init__(self, axis: int = -1) -> None:
        super().__init__(axis=axis)


class Flatten(Layer):
    """All axes but the first in one."""

    def forward(self, b: Builder, x: Expr) -> Expr:
        """Emits a reshape of x[n, ...] to two axes, the first of size n."""
        return b.reshape(x, shape=(_type(x).shape[0], -1))


class ModuleList(Layer):
    """Layers by number: `layers[0]`; as a layer itself, one after another."""

    def __init__(self, layers: Sequence[Layer] = ()) -> None:
        self.layers = list(layers)

    def append(self, layer: Layer) -> None:
        """Adds a layer at the end."""
        self.layers.append(layer)

    def __getitem__(self, index: int) -> Layer:
        return self.layers[index]

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def forward(self, b: Builder, x: Any) -> Any:
        """Emits each layer on the result of the one before."""
        for layer in self.layers:
            x = layer(b, x)
        return x


class Sequential(ModuleList):
    """One layer after another."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__(layers)


class Embedding(Layer):
    """Rows of a table, by their numbers."""

    def __init__(self, count: int, size: int, of: str = "float32") -> None:
        self.weight = Parameter(count, size, of=of)

    def forward(self, b: Builder, indices: Expr) -> Expr:
        """Emits the rows of the table at integer `indices`, in the shape of these with the row's axis after it."""
        return b.take(self.weight.value, indices, axis=0)


class RMSNorm(Layer):
    """x / sqrt(mean(x * x) + epsilon) over the last axis, scaled."""

    def __init__(self, size: int, epsilon: float = 1e-5, of: str = "float32") -> None:
        self.epsilon = epsilon
        self.weight = Parameter(size, of=of)

    def forward(self, b: Builder, x: Expr) -> Expr:
        """Emits the normalisation of `x`, in its own shape."""
        mean = b.mean(b.multiply(x, x), axis=(-1,), keepdims=True)
        return b.multiply(b.divide(x, b.sqrt(b.add(mean, self.epsilon))), self.weight.value)


class GroupNorm(Layer):
    """The channels (axis 1) in groups, each normalised over its channels and all that follows; then scaled and
    shifted."""

    def __init__(self, groups: int, channels: int, epsilon: float = 1e-5, of: str = "float32") -> None:
        if groups < 1 or channels % groups:
            raise Invalid(f"{channels} channels are not {groups} groups of one size", label="layers.C4")
        self.groups, self.epsilon = groups, epsilon
        self.weight, self.bias = Parameter(channels, of=of), Parameter(channels, of=of)

    def forward(self, b: Builder, x: Expr) -> Expr:
        """Emits the normalisation of x[batch, channels, ...], in its own shape."""
        shape = _type(x).shape
        y = b.reshape(x, shape=(shape[0], self.groups, -1))
        centred = b.subtract(y, b.mean(y, axis=(2,), keepdims=True))
        variance = b.mean(b.multiply(centred, centred), axis=(2,), keepdims=True)
        y = b.reshape(b.divide(centred, b.sqrt(b.add(variance, self.epsilon))), shape=shape)
        return b.add(b.multiply(y, _channels(b, self.weight, len(shape))), _channels(b, self.bias, len(shape)))


def _channels(b: Builder, of: Parameter, rank: int) -> Expr:
    """A parameter with a number for each channel, for a tensor whose axis 1 they are."""
    return b.reshape(of.value, shape=(-1, *[1] * (rank - 2)))


class BatchNorm2d(Layer):
    """By the mean and the variance that were found in training, over axis 1; then scaled and shifted."""

    def __init__(self, channels: int, epsilon: float = 1e-5, of: str = "float32") -> None:
        self.epsilon = epsilon
        self.weight, self.bias = Parameter(channels, of=of), Parameter(channels, of=of)
        self.running_mean, self.running_var = Parameter(channels, of=of), Parameter(channels, of=of)

    def forward(self, b: Builder, x: Expr) -> Expr:
        """Emits the normalisation of x[batch, channels, ...], in its own shape."""
        given = (self.weight, self.bias, self.running_mean, self.running_var)
        return b.nn.batch_norm(x, *(p.value for p in given), axis=1, epsilon=self.epsilon)


class _Conv(Layer):
    axes = 0

    def __init__(
        self, inputs: int, outputs: int, size: int, strides: int = 1, padding: int = 0, dilation: int = 1,
        groups: int = 1,
        bias: bool = True, of: str = "float32",
    ) -> None:  # fmt: skip
        if groups < 1 or inputs % groups or outputs % groups:
            raise Invalid(
                f"{inputs} channels and {outputs} features are not {groups} groups of one size", label="layers.C4"
            )
        n = self.axes
        self.strides, self.padding, self.dilation = (strides,) * n, (padding,) * 2 * n, (dilation,) * n
        self.groups = groups
        self.weight = Parameter(*self.weights(inputs, outputs), *(size,) * n, of=of)
        self.bias = Parameter(outputs, of=of) if bias else None
        self.size = size

    def weights(self, inputs: int, outputs: int) -> tuple[int, int]:
        return outputs, inputs // self.groups

    def forward(self, b: Builder, x: Expr) -> Expr:
        return self.conv(b, x, self.weight.value, strides=self.strides, padding=self.padding, dilation=self.dilation)

    def conv(self, b: Builder, x: Expr, weight: Expr, **attrs: Any) -> Expr:
        operands = (x, weight, self.bias.value) if self.bias else (x, weight)
        return b.call(f"nn.conv{self.axes}d", *operands, groups=self.groups, **attrs)


class Conv1d(_Conv):
    """A convolution of x[batch, inputs, length]."""

    axes = 1


class Conv2d(_Conv):
    """A convolution of x[batch, inputs, height, width]."""

    axes = 2


class Conv3d(_Conv):
    """A convolution of x[batch, inputs, depth, height, width]."""

    axes = 3


class _ConvTranspose(_Conv):
    """Each input adds a multiple of the kernel to the output: a convolution of the input, with zeros between its
    elements, by the kernel the other way round."""

    def __init__(
        self, inputs: int, outputs: int, size: int, strides: int = 1, padding: int = 0, output_padding: int = 0,
        dilation: int = 1, groups: int = 1, bias: bool = True, of: str = "float32",
    ) -> None:  # fmt: skip
        super().__init__(inputs, outputs, size, strides, padding, dilation, groups, bias, of)
        self.inputs, self.outputs, self.more = inputs, outputs, output_padding
        if padding > dilation * (size - 1) or not 0 <= output_padding < max(strides, dilation):
            raise Invalid(
                f"a padding of {padding} or {output_padding} is too large for a kernel of {size}", label="layers.C4"
            )

    def weights(self, inputs: int, outputs: int) -> tuple[int, int]:
        return inputs, outputs // self.groups

    def forward(self, b: Builder, x: Expr) -> Expr:
        shape = _type(x).shape
        for k, stride in enumerate(self.strides):
            x = _spread(b, x, k + 2, stride, shape[k + 2])
        n, g = self.axes, self.groups
        spatial = tuple(range(2, 2 + n))
        flipped = b.strided_slice(
            self.weight.value, axes=spatial, begin=(-1,) * n, end=(-(2**31),) * n, strides=(-1,) * n
        )
        sizes = (self.size,) * n
        flipped = b.reshape(flipped, shape=(g, self.inputs // g, self.outputs // g, *sizes))
        flipped = b.permute_dims(flipped, axes=(0, 2, 1, *(a + 1 for a in spatial)))
        flipped = b.reshape(flipped, shape=(self.outputs, self.inputs // g, *sizes))
        around = [d * (self.size - 1) - p for d, p in zip(self.dilation, self.padding[:n], strict=True)]
        padding = (*around, *(p + self.more for p in around))
        return self.conv(b, x, flipped, strides=(1,) * n, padding=padding, dilation=self.dilation)


def _spread(b: Builder, x: Expr, axis: int, stride: int, size: Any) -> Expr:
    """An axis with zeros between its elements."""
    if stride == 1:
        return x
    shape = list(_type(x).shape)
    rank = len(shape)
    wide = b.expand_dims(x, axis=(axis + 1,))
    zeros = [0] * (2 * (rank + 1))
    zeros[rank + 1 + axis + 1] = stride - 1
    shape[axis] = size * stride
    wide = b.reshape(b.nn.pad(wide, pad_width=tuple(zeros)), shape=tuple(shape))
    return b.strided_slice(wide, axes=(axis,), begin=(0,), end=(-(stride - 1),))


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution of x[batch, inputs, length]."""

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution of x[batch, inputs, height, width]."""

    axes = 2


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution of x[batch, inputs, depth, height, width]."""

    axes = 3


class _Pool2d(_Activation):
    def __init__(self, size: int, strides: int | None = None, padding: int = 0) -> None:
        super().__init__(pool_size=(size,) * 2, strides=(strides or size,) * 2, padding=(padding,) * 4)


class MaxPool2d(_Pool2d):
    """The greatest element of each window of x[batch, channels, height, width]."""

    op = "nn.max_pool2d"


class AvgPool2d(_Pool2d):
    """The mean of each window of x[batch, channels, height, width]."""

    op = "nn.avg_pool2d"


def attention(b: Builder, q: Expr, k: Expr, v: Expr, mask: Expr | None = None) -> Expr:
    """softmax(q k^T / sqrt(size) + mask) v, over the last two axes (positions, size)."""
    rank, size = len(_type(q).shape), _type(q).shape[-1]
    if not isinstance(size, int):
        raise Invalid("the last axis of an attention's queries has a size that is known", label="layers.C4")
    swapped = b.permute_dims(k, axes=(*range(rank - 2), rank - 1, rank - 2))
    scores = b.multiply(b.matmul(q, swapped), 1 / sqrt(size))
    scores = scores if mask is None else b.add(scores, mask)
    return b.matmul(b.nn.softmax(scores, axis=-1), v)


class MultiHeadAttention(Layer):
    """Attention of positions to positions, in several heads: of x[batch, positions, size] to itself, or to `memory`."""

    def __init__(self, size: int, heads: int, bias: bool = True, of: str = "float32") -> None:
        if heads < 1 or size % heads:
            raise Invalid(f"a size of {size} is not {heads} heads of one size", label="layers.C4")
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (Linear(size, size, bias, of) for _ in range(4))

    def forward(self, b: Builder, x: Expr, memory: Expr | None = None, mask: Expr | None = None) -> Expr:
        """Emits attention of `x` to itself or to `memory`, where `mask` allows it, in the shape of `x`."""
        memory = x if memory is None else memory
        q, k, v = (
            self.split(b, p.forward(b, y)) for p, y in ((self.q_proj, x), (self.k_proj, memory), (self.v_proj, memory))
        )
        y = b.permute_dims(attention(b, q, k, v, mask), axes=(0, 2, 1, 3))
        return self.out_proj.forward(b, b.reshape(y, shape=_type(x).shape))

    def split(self, b: Builder, x: Expr) -> Expr:
        """Emits x[batch, positions, size] as [batch, heads, positions, size // heads]."""
        batch, positions, size = _type(x).shape
        assert isinstance(size, int)
        return b.permute_dims(b.reshape(x, shape=(batch, positions, self.heads, size // self.heads)), axes=(0, 2, 1, 3))
