"""Whether outputs are right: verdicts without tolerances (rule M9; specs/verify.md, "Verdict").

oracle = Oracle(module)
inputs = oracle.inputs("integers", seed=0)
verdict = oracle.judge(inputs, outputs)              # outcome, layer, the worst element and its interval
verdict = judge_backend(subject, backend, inputs)    # with the first operator that is wrong
"""

from __future__ import annotations

from assay.verify.oracle.declarations import Accepts
from assay.verify.oracle.expected import Expected, Possible
from assay.verify.oracle.judge import Oracle
from assay.verify.oracle.trial import judge_backend, oracle_of
from assay.verify.oracle.verdict import Verdict, Worst

__all__ = ["Accepts", "Expected", "Oracle", "Possible", "Verdict", "Worst", "judge_backend", "oracle_of"]
