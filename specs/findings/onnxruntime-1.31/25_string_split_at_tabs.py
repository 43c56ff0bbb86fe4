"""StringSplit without a delimiter does not split at a tab or a line feed.

StringSplit: 'In the case where the `delimiter` is unspecified or the empty string, consecutive whitespace characters
are regarded as a single separator'. A string with a tab and a line feed in it has three parts; it is given as one.
"""

import numpy as np
import onnx.parser
import onnxruntime

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g () => (int64[1] n) {
    x = Constant <value_strings = ["a\tb\nc"]> ()
    y, n = StringSplit(x)
}
"""
INPUTS: dict[str, np.ndarray] = {}
RIGHT = np.array([3], np.int64)
WITHIN = 0


def given():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
