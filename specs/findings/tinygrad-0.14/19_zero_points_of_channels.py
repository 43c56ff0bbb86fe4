"""ConvInteger takes the zero points of channels for those of columns.

ConvInteger: 'a 1-D tensor, which means a per-tensor/layer or per output channel quantization'. All weights are 2; of
the second channel 1 is taken from them.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (uint8[1,1,1,2] x, uint8[2,1,1,2] w) => (int32[1,2,1,1] y) {
    z = Constant <value = uint8 {0}> ()
    v = Constant <value = uint8[2] {0, 1}> ()
    y = ConvInteger(x, w, z, v)
}
"""
INPUTS = {"x": np.array([[[[3, 4]]]], np.uint8), "w": np.full((2, 1, 1, 2), 2, np.uint8)}
RIGHT = np.array([14, 7], np.int32).reshape(1, 2, 1, 1)
WITHIN = 0.0
"""It is exact."""


def given():
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    model = onnx.parser.parse_model(MODEL).SerializeToString()
    return OnnxRunner(Tensor(model))({name: Tensor(value) for name, value in INPUTS.items()})["y"].numpy()


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
