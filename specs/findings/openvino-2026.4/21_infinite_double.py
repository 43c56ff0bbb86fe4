"""AveragePool of -inf, a double, is the least finite float.

AveragePool: 'average pooling consisting of computing the average on all values of a subset of the input tensor
according to the kernel size'. MaxPool gives the greatest for infinity. Cast of an infinite float to double does the
same.
"""

import numpy as np
import onnx.parser

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (double[1,1,1,1] x) => (double[1,1,1,1] y) {
    y = AveragePool <kernel_shape = [1, 1]> (x)
}
"""
INPUTS = {"x": np.array([[[[-np.inf]]]])}
RIGHT = np.array([[[[-np.inf]]]])
WITHIN = 0.0
"""It is exact."""


def given():
    import openvino

    core = openvino.Core()
    model = core.read_model(onnx.parser.parse_model(MODEL).SerializeToString())
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
