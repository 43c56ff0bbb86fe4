"""The table of what a standard leaves open (specs/semantics.md, "Left open")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.semantics.left_open import Entry, Quote, accuracy, conditions as when, nodes, order, padding
from assay.semantics.ops.functions import TRIGONOMETRY

POOLS = tuple(f"nn.max_pool{r}d" for r in (1, 2, 3))
ELEMENTARY = (
    "exp", "log", "tanh", "erf", *TRIGONOMETRY, "sigmoid", "power", "nn.gelu", "nn.gelu_tanh",
)  # fmt: skip
SILENT = "NaN, or a number among those that meet there"


def _silent(*operators: str) -> tuple[Quote, ...]:
    return tuple(Quote(f"ONNX {o}") for o in operators)


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "overflow", ("add", "subtract", "multiply", "sum", "prod", "cumsum", "cumprod", "matmul", "negative", "abs",
                     "Pow", "ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1"),
        "an integer result is out of the range of its dtype",
        "it wraps; or it is the end of the range; or the least number",
        (*_silent("Add", "Sub", "Mul", "ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1", "CumSum", "CumProd",
         "MatMul", "Pow", "Neg", "Abs"),
         Quote("C17 6.5.5",
          "If an exceptional condition occurs during the evaluation of an expression, the behavior is undefined")),
        when.overflow, ("Add", "Sub", "Mul", "ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1", "CumSum",
        "CumProd",
                        "MatMul", "Pow", "Neg", "Abs"),
    ),
    Entry(
        "nan.two", ("maximum", "minimum", "Max", "Min"), "one of two numbers is NaN, or of those of a Max or Min",
        "NaN, or one of the others",
        (*_silent("Max", "Min"), Quote("IEEE 754-2019 9.6", "maximumNumber")), when.nan_of_two, ("Max", "Min"),
    ),
    Entry(
        "nan.bounds", ("clip", "nn.relu", "Clip", "HardSigmoid", *when.WITHIN), "the number is NaN, or a bound is",
        "NaN, or a bound, or the number", _silent("Clip", "Relu", "HardSigmoid"),
        when.nan_against_bounds, ("Clip", "Relu", "HardSigmoid"),
    ),
    Entry(
        "nan.window", ("max", "min", *POOLS), "one of the numbers is NaN",
        "NaN, or one of the numbers; where all are NaN, also where an accumulator begins: an infinity or the last"
        " finite number",
        _silent("ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool"), when.nan_in_window,
        ("ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool"),
    ),
    Entry(
        "nan.scatter", ("scatter_nd",), "one of the numbers that meet in a place is NaN, the reduction is max or min",
        SILENT,
        _silent("ScatterND", "ScatterElements"), when.nan_in_scatter, ("ScatterND", "ScatterElements"),
    ),
    Entry(
        "scatter.order", ("scatter_nd",), "updates that differ meet in a place, and there is no reduction",
        "one of the updates that meet there",
        (Quote("ONNX ScatterND", "The order of iteration in the above loop is not specified"),
         Quote("ONNX ScatterElements", "indices should not have duplicate entries"), *_silent("MaxUnpool")),
        when.updates_that_meet, ("ScatterND", "ScatterElements", "MaxUnpool"),
    ),
    Entry(
        "nan.place", ("ArgMax", "ArgMin"), "one of the numbers is NaN", "any place of the row",
        _silent("ArgMax", "ArgMin"),
        when.nan_in_places, ("ArgMax", "ArgMin"),
    ),
    Entry(
        "nan.hardmax", ("Hardmax",), "one of the numbers is NaN", "a one at any place of the row, or none",
        _silent("Hardmax"),
        when.nan_in_hardmax, ("Hardmax",),
    ),
    Entry(
        "nan.order", ("topk",), "one of the numbers of a row is NaN",
        "any elements of the row, each with its own place",
        _silent("TopK"), order.topk_nan, ("TopK",),
    ),
    Entry(
        "topk.order", ("topk",), "sorted is 0", "the same elements with their places, in any order",
        (Quote("ONNX TopK", 'If "sorted" is 0, order of returned \'Values\' and \'Indices\' are undefined'),),
        order.topk_unsorted, ("TopK",),
    ),
    Entry(
        "topk.ties", ("topk",), "stable is False, and elements of a row are equal, as -0 and +0 are",
        "the place of any of them, each once",
        (Quote("PyTorch torch.topk", "the indices of tied elements are not guaranteed to be stable"),
         Quote("StableHLO sort", "If `is_stable` is true, then the sorting is stable")),
        order.topk_ties,
    ),
    Entry(
        "cast.range", ("astype",), "a float is NaN, or out of the range of the integer dtype", "anything",
        (Quote("ONNX Cast", "fixed point: undefined if OOR"),
         Quote("C17 6.3.1.4",
          "If the value of the integral part cannot be represented by the integer type, the behavior is undefined")),
        when.cast_out_of_range, ("Cast", "CastLike"),
    ),
    Entry(
        "division", ("truncate_divide", "floor_divide"), "an integer is divided by 0, or the least one by -1",
        "anything; the run may also be refused",
        (*_silent("Div", "Mod"), Quote("C17 6.5.5",
         "if the value of the second operand is zero, the behavior is undefined")),
        when.no_quotient, ("Div", "Mod"), fails=True,
    ),
    Entry(
        "shift", ("left_shift", "right_shift", "BitShift"),
        "an integer is shifted by less than 0 bits, or by its width or more",
        "anything; the run may also be refused",
        (*_silent("BitShift-11"),  # BitShift-28 says what it is
         Quote("C17 6.5.7",
                "If the value of the right operand is negative or is greater than or equal to the width of the"
                " promoted left operand, the behavior is undefined")),
        when.far_shift, ("BitShift",), fails=True,
    ),
    Entry(
        "softmax.infinite", ("nn.softmax", "nn.log_softmax"), "a number of the row is +inf, another is not",
        "NaN, or the limit: 0, or its logarithm",
        (Quote("ONNX LogSoftmax", "LogSoftmax(input, axis) = Log(Softmax(input, axis=axis))"),
         Quote("ONNX Softmax", "Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)")),
        when.beside_infinity, ("Softmax", "LogSoftmax"),
    ),
    Entry(
        "padding.infinite", (*(f"nn.conv{r}d" for r in (1, 2, 3)), "ConvTranspose"),
        "a zero that is no element, of the padding, between the elements of a ConvTranspose, or of a plane of zeros"
        " beside other planes, meets an infinite weight or NaN",
        "NaN, or the sum of the other products", _silent("Conv", "ConvTranspose"), padding.products_of_zeros,
        ("Conv", "ConvTranspose"),
    ),
    Entry(
        "mean.nothing", ("mean",), "there are no elements", "anything",
        (Quote("ONNX ReduceMean", "Reduction over an empty set of values yields undefined"),), when.mean_of_nothing,
        ("ReduceMean",),
    ),
    Entry(
        "zero.sign", ("maximum", "minimum", "nn.relu", "clip", "max", "min", *POOLS, "ceil", "round", "fmod"),
        "a zero comes of zeros of both signs, or of a negative number that is rounded", "a zero of either sign",
        (*_silent("Max", "Min", "Relu", "Clip", "ReduceMax", "ReduceMin", "MaxPool", "Ceil", "Round"),
         Quote("ONNX Mod-28", "either `+0` or `-0` may be returned")),
        when.sign_of_zero, ("Max", "Min", "Relu", "Clip", "ReduceMax", "ReduceMin", "MaxPool", "Ceil", "Round", "Mod"),
    ),
    Entry(
        "small", ELEMENTARY,
        "the result of an elementary function is so small that 2**-16 of the least normal number is more than 4 units"
        " in its last place",
        "within 2**-16 of the least normal number, on the same side of 0", _silent("Tanh", "Exp", "Sin"),
        accuracy.small_results, ("Tanh", "Exp", "Sin"),
    ),
    Entry(
        "det.one", ("det",), "the matrix has one element", "within 16 units in the last place", _silent("Det"),
        accuracy.det_of_one,
        ("Det",),
    ),
    Entry(
        "gelu.constants", ("nn.gelu_tanh",), "the dtype is float64", "its two constants may be rounded to float32",
        _silent("Gelu"), accuracy.constants_as_float, ("Gelu",),
    ),
    Entry(
        "zero.made", ("ThresholdedRelu", "Shrink"), "a number is left out, and 0 stands for it",
        "a zero of either sign",
        (Quote("ONNX ThresholdedRelu", "y = 0 otherwise"), Quote("ONNX Shrink", "Otherwise, y = 0")), nodes.zeros_made,
        ("ThresholdedRelu", "Shrink"),
    ),
    Entry(
        "mod.steps", ("Mod",), "the dtype is a float, and both numbers are finite and none is 0",
        "what A - floor(A / B) * B gives, with fmod A - trunc(A / B) * B, where each step is rounded, of the sign that"
        " the text says",
        (Quote("ONNX Mod-28", "the output is calculated as `A - floor(A / B) * B`"),
         Quote("ONNX Mod-28", "the output is calculated as `A - trunc(A / B) * B`")), nodes.rounded_remainder, ("Mod",),
    ),
    Entry(
        "resize.length", ("Resize",),
        "scales are given, the mode is linear or cubic, and scale * length is no whole number",
        "the resized length is the whole number of elements, and the scale is that of the lengths",
        (Quote("ONNX Resize", "`length_resized` as the length of the resized tensor in axis x"),
         Quote("ONNX Resize", "`scale = length_resized / length_original`")), nodes.whole_length,
        ("Resize",),
    ),
    Entry(
        "unpool.indices", ("MaxUnpool",), "output_shape is given, and is not what the attributes make",
        "the indices count in that shape",
        (Quote("ONNX MaxUnpool",
         "The indices are linear, i.e. computed considering the tensor as flattened 1-D tensor"),),
        nodes.unpooled_shape, ("MaxUnpool",),
    ),
    Entry(
        "loss.mean", ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
        "the mean is asked for, there are no weights, and a label is ignored",
        "the mean of all losses, those that are ignored being 0",
        (Quote("ONNX NegativeLogLikelihoodLoss", 'mean(loss), if "weight" is not provided'),
         Quote("ONNX SoftmaxCrossEntropyLoss", "the sum of the output will be divided by the number of elements")),
        nodes.mean_of_losses, ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
    ),
    Entry(
        "quantize.zeros", ("DynamicQuantizeLinear",), "all elements are 0: the formula of the zero point is 0 / 0",
        "any scale that is not negative, any zero point, and numbers that are the zero point",
        (Quote("ONNX DynamicQuantizeLinear", "intermediate_zero_point = qmin - min(x)/y_scale"),), when.scale_of_zeros,
        ("DynamicQuantizeLinear",),
    ),
)  # fmt: skip


def _by_operator() -> Mapping[str, Sequence[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in ENTRIES:
        for name in entry.operators:
            found.setdefault(name, []).append(entry)
    return found


BY_OPERATOR: Mapping[str, Sequence[Entry]] = _by_operator()
BY_NAME: Mapping[str, Entry] = {e.name: e for e in ENTRIES}
