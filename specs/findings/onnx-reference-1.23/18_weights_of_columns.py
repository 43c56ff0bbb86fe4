"""TfIdfVectorizer weighs the columns of its result by the weights of other n-grams.

TfIdfVectorizer: 'The i-th element in weights is the weight of the i-th n-gram in pool', and 'The i-th element in
ngram_indexes indicate the coordinate of the i-th n-gram in the output tensor'. The first number of the pool, 7, has the
weight 10 and stands in the second column; it is given the weight of that place.
"""

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

MODEL = """
<ir_version: 8, opset_import: ["" : 21]>
g (int64[1] x) => (float[2] y) {
    y = TfIdfVectorizer <
        mode = "IDF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, pool_int64s = [7, 8],
        ngram_counts = [0], ngram_indexes = [1, 0], weights = [10.0, 20.0]
    > (x)
}
"""
INPUTS = {"x": np.array([7])}
RIGHT = np.array([0, 10], np.float32)
WITHIN = 0.0
"""It is exact."""


def given():
    evaluator = ReferenceEvaluator(onnx.parser.parse_model(MODEL))
    return np.asarray(evaluator.run(["y"], INPUTS)[0])


if __name__ == "__main__":
    print("given", given().tolist())
    print("right", RIGHT.tolist())
