"""What `assay judge --report` writes (specs/verify.md, "judge")."""

from __future__ import annotations

from pathlib import Path

from assay.verify.app.judgement.judge_json import judgement_data
from assay.verify.app.report.judged import judged_page
from assay.verify.app.report.write import write_page
from assay.verify.judge.judgement import Judgement
from assay.verify.judge.pieces import Dataflow


def write_judged(directory: Path, judgement: Judgement) -> Path:
    """Write the page and the judgement as data; the path of the page. Invalid: nothing can be written."""
    title = judgement.source or "a model"
    flow = Dataflow(judgement.subject.model)
    text = judged_page(title, judgement.opening(), flow, judgement.verdicts)
    answer = {"format": "assay-judge-1", **judgement_data(title, judgement), "exit": int(judgement.exit)}
    return write_page(directory, text, answer)
