"""Images that are resized, sampled, pooled and put back: cases for ONNX Runtime, in every version."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.lower.frontends.onnx.onnx_cases import cases, floats, ints, whole

F, D = np.float32, np.float64
IMAGE, LINE = floats(1, 2, 4, 6), floats(2, 1, 8)
NO_REGION = np.array([], F)


def scales(*numbers: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(numbers, F)


# Coordinates are halves and quarters, which float32 has: ONNX Runtime computes them in that.
RESIZED = [
    *(
        c
        for mode, by in product(("nearest", "linear"), (scales(1, 1, 2, 1.5), scales(1, 1, 0.5, 0.5)))
        for c in cases("Resize", [IMAGE, by], 10, 10, constants=[1], mode=mode)
    ),
    *(
        c
        for mode, transform, by in product(
            ("nearest", "linear", "cubic"),
            ("half_pixel", "asymmetric", "pytorch_half_pixel"),
            (scales(1, 1, 2, 4), scales(1, 1, 0.5, 0.5), scales(1, 1, 0.25, 2)),
        )
        for c in cases(
            "Resize",
            [IMAGE, NO_REGION, by],
            11 if transform == "half_pixel" and mode == "cubic" else 19,
            constants=[1, 2],
            mode=mode,
            coordinate_transformation_mode=transform,
        )
    ),
    *(
        c
        for nearest, transform in product(
            ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"), ("half_pixel", "asymmetric")
        )
        for c in cases(
            "Resize",
            [IMAGE, NO_REGION, NO_REGION, ints(1, 2, 8, 3)],
            19,
            constants=[1, 2, 3],
            nearest_mode=nearest,
            coordinate_transformation_mode=transform,
        )
    ),
    *(
        c
        for mode in ("nearest", "linear", "cubic")
        for c in cases(
            "Resize",
            [floats(1, 1, 5, 3), NO_REGION, NO_REGION, ints(1, 1, 9, 5)],
            19,
            constants=[1, 2, 3],
            mode=mode,
            coordinate_transformation_mode="align_corners",
        )
    ),
    *cases(
        "Resize",
        [IMAGE, NO_REGION, scales(1, 1, 2, 0.5)],
        11,
        12,
        constants=[1, 2],
        mode="nearest",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    ),
    *cases(
        "Resize",
        [IMAGE, np.array([0, 0, -0.25, 0.25, 1, 1, 0.75, 1.25], F), NO_REGION, ints(1, 2, 7, 3)],
        11,
        constants=[1, 2, 3],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.5,
    ),
    *cases(
        "Resize",
        [IMAGE, NO_REGION, scales(1, 1, 2, 0.5)],
        11,
        constants=[1, 2],
        mode="cubic",
        cubic_coeff_a=-0.5,
        exclude_outside=1,
    ),
    *cases("Resize", [IMAGE, None, scales(0.5, 2)], 18, constants=[2], axes=[3, 2], mode="linear"),
    *(
        c
        for policy in ("not_larger", "not_smaller")
        for c in cases(
            "Resize",
            [IMAGE, None, None, ints(8, 6)],
            18,
            constants=[3],
            axes=[2, 3],
            keep_aspect_ratio_policy=policy,
            mode="nearest",
        )
    ),
    *(
        c
        for mode in ("linear", "cubic")
        for c in cases("Resize", [IMAGE, None, scales(1, 1, 0.5, 0.25)], 18, constants=[2], mode=mode, antialias=1)
    ),
    *cases(
        "Resize",
        [IMAGE, None, scales(1, 1, 2, 2)],
        19,
        constants=[2],
        mode="linear",
        coordinate_transformation_mode="half_pixel_symmetric",
    ),
    *cases("Resize", [whole(1, 2, 4, 6, of=np.uint8, low=0, high=255), None, scales(1, 1, 2, 0.5)], 13, constants=[2]),
    *(
        c
        for mode in ("nearest", "linear")
        for c in cases("Upsample", [IMAGE], 7, 8, scales=[1.0, 1.0, 2.0, 3.0], mode=mode)
    ),
    *(
        c
        for mode in ("nearest", "linear")
        for c in cases("Upsample", [IMAGE, scales(1, 1, 2, 4)], 9, 9, constants=[1], mode=mode)
    ),
]

GRID, CUBE = floats(1, 3, 5, 2, low=-1.3, high=1.3), floats(1, 3, 2, 4, 3, low=-1.3, high=1.3)
SAMPLED = [
    *(
        c
        for (old, new), padding, corners in product(
            (("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")),
            ("zeros", "border", "reflection"),
            (0, 1),
        )
        for c in (
            *cases(
                "GridSample",
                [IMAGE, GRID],
                16,
                19 if corners else 15,
                mode=old,
                padding_mode=padding,
                align_corners=corners,
            ),
            *cases("GridSample", [IMAGE, GRID], 22, mode=new, padding_mode=padding, align_corners=corners),
        )
    ),
    *(
        c
        for mode in ("linear", "nearest")
        for c in cases("GridSample", [floats(1, 2, 3, 4, 5), CUBE], 20, mode=mode, align_corners=1)
    ),
    *cases("DeformConv", [floats(1, 4, 5, 6), floats(6, 4, 3, 2), floats(1, 12, 3, 5)], 19),
    *cases(
        "DeformConv",
        [floats(2, 4, 7, 6), floats(6, 2, 3, 2), floats(2, 24, 4, 3), floats(6), floats(2, 12, 4, 3)],
        19,
        group=2,
        offset_group=2,
        strides=[2, 2],
        pads=[1, 1, 1, 0],
        dilations=[1, 1],
    ),
]

BOXES = np.array([[0.3, 1.1, 7.2, 9.6], [2.4, 0.2, 11.7, 5.3], [5.1, 5.2, 5.6, 5.4]], F)
IMAGES = np.array([1, 0, 1])
REGIONS = [
    *(
        c
        for mode, ratio in product(("avg", "max"), (0, 2))
        for c in cases(
            "RoiAlign",
            [floats(2, 3, 6, 7), BOXES, IMAGES],
            10,
            16,
            mode=mode,
            output_height=3,
            output_width=2,
            sampling_ratio=ratio,
            spatial_scale=0.5,
        )
    ),
    *cases(
        "RoiAlign",
        [floats(2, 3, 6, 7), BOXES, IMAGES],
        16,
        16,
        output_height=2,
        output_width=3,
        coordinate_transformation_mode="output_half_pixel",
    ),
    *cases(
        "MaxRoiPool",
        [floats(2, 3, 6, 7), np.array([[1, 0, 0, 6, 5], [0, 3, 1, 14, 12], [1, 5, 5, 3, 3], [0, 20, 2, 30, 4]], F)],
        7,
        7,
        pooled_shape=[3, 2],
        spatial_scale=0.4,
    ),
]

PUT_BACK = [
    *cases("ConvTranspose", [floats(1, 3, 4, 5), floats(3, 2, 3, 2)], 7),
    *cases(
        "ConvTranspose", [floats(2, 3, 4), floats(3, 2, 3), floats(2)], 7, strides=[3], pads=[1, 0], output_padding=[2]
    ),
    *cases(
        "ConvTranspose",
        [floats(1, 4, 4, 5), floats(4, 3, 3, 2), floats(6)],
        7,
        group=2,
        dilations=[2, 3],
        strides=[1, 2],
    ),
    *cases(
        "ConvTranspose", [floats(1, 2, 3, 4, 2), floats(2, 3, 2, 2, 1)], 7, strides=[2, 1, 3], pads=[1, 0, 0, 1, 1, 0]
    ),
    *cases("ConvTranspose", [floats(1, 2, 3, 4), floats(2, 3, 2, 2)], 7, pads=[2, 1, 1, 2], strides=[3, 2], note="cut"),
    *(
        c
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
        for c in cases("ConvTranspose", [floats(1, 2, 3, 4), floats(2, 3, 4, 3)], 7, auto_pad=mode, strides=[2, 3])
    ),
    *(
        c
        for mode in ("SAME_UPPER", "SAME_LOWER", "NOTSET")
        for c in cases(
            "ConvTranspose",
            [floats(1, 2, 3, 4), floats(2, 3, 4, 3)],
            7,
            auto_pad=mode,
            strides=[2, 3],
            output_shape=[7, 10],
        )
    ),
    *cases("Col2Im", [floats(2, 12, 12), ints(5, 4), ints(2, 3)], 18, constants=[1, 2], pads=[0, 1, 0, 0]),
    *cases(
        "Col2Im",
        [floats(1, 8, 4), ints(4, 6), ints(2, 2)],
        18,
        constants=[1, 2],
        strides=[2, 3],
        dilations=[1, 2],
        pads=[0, 0, 0, 0],
    ),
    *cases("MaxUnpool", [floats(1, 1, 2, 2), np.array([[[[1, 3], [8, 14]]]])], 9, kernel_shape=[2, 2], strides=[2, 2]),
]

POOLED = [
    *(
        c
        for order in (0, 1)
        for c in (
            *cases("MaxPool", [floats(2, 3, 9)], 8, outputs=2, kernel_shape=[3], storage_order=order),
            *cases(
                "MaxPool",
                [np.round(floats(2, 3, 7, 6))],
                8,
                outputs=2,
                kernel_shape=[3, 2],
                strides=[2, 1],
                pads=[1, 1, 1, 0],
                storage_order=order,
            ),
            *cases(
                "MaxPool",
                [floats(1, 2, 4, 5, 6)],
                10,
                outputs=2,
                kernel_shape=[2, 2, 3],
                dilations=[2, 1, 2],
                storage_order=order,
            ),
        )
    ),
    *cases("LpPool", [floats(2, 3, 9)], 7, kernel_shape=[3]),
    *cases("LpPool", [floats(2, 3, 7, 6)], 7, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0], p=3),
    *cases("LpPool", [floats(1, 2, 4, 5, 6)], 7, kernel_shape=[2, 2, 3], p=1),
    *cases("LpPool", [floats(2, 3, 7, 6)], 7, kernel_shape=[3, 2], strides=[2, 3], auto_pad="SAME_LOWER"),
    *cases("LpPool", [floats(2, 3, 7, 6)], 18, kernel_shape=[3, 2], dilations=[2, 3]),
    *cases("LpPool", [floats(2, 3, 7, 6)], 18, kernel_shape=[3, 2], strides=[3, 4], ceil_mode=1),
    *(c for p in (1, 2, 3) for c in cases("GlobalLpPool", [floats(2, 3, 5, 4)], 7, 7, p=p)),
]

BESIDE = [
    *cases("InstanceNormalization", [floats(2, 3, 4, 5), floats(3), floats(3) + 1], 7),
    *cases("InstanceNormalization", [floats(2, 3, 4), floats(3), floats(3) + 1], 7, epsilon=0.25),
    *cases(
        "BatchNormalization",
        [floats(2, 3, 4, 5), floats(3), floats(3) + 1, floats(3) / 2, floats(3, low=0.5)],
        14,
        training_mode=1,
        momentum=0.75,
        outputs=3,
    ),
    *cases("PRelu", [floats(2, 3), floats(3)], 7),
    *cases("PRelu", [floats(2, 3, 4), floats(3, 1)], 7),
    *cases("Sign", [floats(2, 3)], 9),
    *cases("Sign", [whole(2, 3, of=np.int8)], 9),
    *cases("Sign", [whole(2, 3, of=np.uint8, low=0, high=3)], 9),
    *cases("DepthToSpace", [floats(2, 12, 3, 4)], 7, blocksize=2),
    *(c for mode in ("DCR", "CRD") for c in cases("DepthToSpace", [floats(2, 12, 3, 4)], 11, blocksize=2, mode=mode)),
    *cases("SpaceToDepth", [floats(2, 3, 4, 6)], 7, blocksize=2),
]

SPATIAL = [*RESIZED, *SAMPLED, *REGIONS, *PUT_BACK, *POOLED, *BESIDE]
ELSEWHERE = [
    *(
        c
        for ratio in (0, 2)
        for c in cases(
            "RoiAlign",
            [floats(2, 3, 6, 7), BOXES, IMAGES],
            22,
            output_height=3,
            output_width=2,
            sampling_ratio=ratio,
            spatial_scale=0.5,
        )
    ),
    *cases("MaxRoiPool", [floats(2, 3, 6, 7), np.array([[1, 0, 0, 6, 5]], F)], 22, pooled_shape=[3, 2]),
    *cases("GlobalLpPool", [floats(2, 3, 5, 4)], 22, p=3),
]
"""Versions that ONNX Runtime does not have; they mean what the version before does."""
