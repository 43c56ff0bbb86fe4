"""scikit-learn's pipelines to ONNX, fitted to random numbers: `python -m tests.exported.learned DIR`.

Needs scikit-learn and skl2onnx. Each takes `x`, any number of rows of 4 features.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def pipelines() -> dict[str, Callable[[], Any]]:
    """Pipelines by name, not yet fitted."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
    from sklearn.svm import SVC, SVR
    from sklearn.tree import DecisionTreeRegressor

    return {
        "sk_linear": lambda: make_pipeline(StandardScaler(), LinearRegression()),
        "sk_logistic": lambda: make_pipeline(MinMaxScaler(), LogisticRegression()),
        "sk_forest": lambda: RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0),
        "sk_boosting": lambda: GradientBoostingRegressor(n_estimators=4, max_depth=2, random_state=0),
        "sk_tree": lambda: make_pipeline(SimpleImputer(), DecisionTreeRegressor(max_depth=3)),
        "sk_pca": lambda: make_pipeline(PCA(2), LogisticRegression()),
        "sk_polynomial": lambda: make_pipeline(PolynomialFeatures(2), Normalizer(), LinearRegression()),
        "sk_means": lambda: KMeans(3, n_init=1, random_state=0),
        "sk_neighbours": lambda: KNeighborsClassifier(3),
        "sk_bayes": lambda: GaussianNB(),
        "sk_network": lambda: MLPClassifier((5,), max_iter=5, random_state=0),
        "sk_svc": lambda: SVC(),
        "sk_svr": lambda: make_pipeline(StandardScaler(), SVR()),
    }


def fitted(make: Callable[[], Any]) -> onnx.ModelProto:
    """The pipeline, fitted, as a model of any number of rows."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 4)).astype(np.float32)
    y = (x.sum(1) > 0).astype(np.int64) + (x[:, 0] > 1)
    model = make().fit(x, y)
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    made: onnx.ModelProto = to_onnx(model, initial_types=[("x", FloatTensorType([None, 4]))], options=options)
    return made


def main() -> None:
    """Write each."""
    for name, make in pipelines().items():
        onnx.save(fitted(make), Path(sys.argv[1]) / f"{name}.onnx")


if __name__ == "__main__":
    main()
