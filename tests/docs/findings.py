"""The versions and the differences of specification in the pages of findings (specs/verify.md, "Findings").

These parts of a page are made from `specs/findings/seen.csv`, from the table of what a standard leaves open, and from
the cases beside this file; the rest is kept by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from assay.semantics.left_open.entries import BY_NAME
from tests.docs.left_open_cases import CASES, GIVES, RAN, Case
from tests.docs.seen import with_versions

HEAD = "## Differences of specification"
PAGES = {
    "onnxruntime-1.31.md": ("onnxruntime", "ONNX Runtime"),
    "onnx-reference-1.23.md": ("reference", "ReferenceEvaluator"),
    "tvm-0.27.md": ("tvm", "TVM"),
    "openvino-2026.4.md": ("openvino", "OpenVINO"),
    "tract-0.23.md": ("tract", "tract"),
    "opencv-5.0.md": ("opencv", "OpenCV"),
    "mnn-3.6.md": ("mnn", "MNN"),
    "iree-3.13.md": ("iree", "IREE"),
    "tinygrad-0.14.md": ("tinygrad", "tinygrad"),
    "emx-onnx-cgen-1.4.md": ("emx-onnx-cgen", "emx-onnx-cgen"),
    "torch-2.14.md": ("torch:eager", "PyTorch"),
    "xla-0.10.md": ("xla", "XLA"),
}
BY_HAND = (
    "tvm-0.27.md", "openvino-2026.4.md", "tract-0.23.md", "opencv-5.0.md", "mnn-3.6.md", "iree-3.13.md",
    "tinygrad-0.14.md", "torch-2.14.md", "emx-onnx-cgen-1.4.md", "xla-0.10.md",
)  # fmt: skip
"""Pages whose differences of specification are kept by hand, or that have none."""


def findings_page(path: Path) -> str:
    """The page with what is generated of it made anew: the versions, and the differences of specification."""
    page = path.read_text("utf-8")
    if path.name in BY_HAND:
        return with_versions(page, path.stem, "")
    kept, _, _ = with_versions(page, path.stem, HEAD).partition(HEAD)
    who, name = PAGES[path.name]
    return kept + "\n".join([HEAD, "", *_lines(who, name), ""])


def _lines(who: str, name: str) -> Iterator[str]:
    yield (
        "This part is generated from `semantics/left_open/entries.py` and the cases in `tests/docs/left_open_cases.py`;"
    )
    yield (
        "`tests/verify/test_findings.py` runs them all. Here ONNX says nothing, or says that it is undefined, so the"
        " verdict is not *wrong*."
    )
    yield f"What is given is of version {RAN[who]}x."
    yield ""
    yield f"| entry | case | {name} gives | verdict | under this condition | allowed | ONNX |"
    yield "|---|---|---|---|---|---|---|"
    for case in CASES:
        if case.entry and who in case.verdicts:
            entry = BY_NAME[case.entry]
            yield (
                f"| {case.entry} | {case.name} | {_given(case, who)} | {case.verdicts[who]} | {entry.condition} |"
                f" {entry.allowed} | {_said(entry.source_of(case.body))} |"
            )
    others = [c for c in CASES if not c.entry and who in c.verdicts]
    if others:
        yield ""
        yield "No entry is needed for these: what is given is within its interval, or no interval says anything."
        yield ""
        yield f"| case | {name} gives | verdict | why |"
        yield "|---|---|---|---|"
        for case in others:
            yield f"| {case.name} | {_given(case, who)} | {case.verdicts[who]} | {case.why} |"


def _given(case: Case, who: str) -> str:
    return GIVES[case.name][who]


def _said(source: str) -> str:
    return source.replace("|", "\\|")


def shown(array: Any) -> str:
    """An array as the pages have it."""
    flat = np.asarray(array).reshape(-1).tolist()
    return ", ".join(f"{x:.10g}" if isinstance(x, float) else str(x) for x in flat)
