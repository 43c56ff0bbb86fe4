"""Is it right? Proofs, differential checks, the certificate, the command line. Chapter: specs/verify.md.

`assay.verify` is this room, and a function too:

    assay.verify(directory, *, model=None, key=None, second=False, on_line=None, progress=None) -> Report

checks a certificate again, from nothing but the directory, as `help(assay.verify.api.check.verify)` says. A package and
a function of one name cannot stand side by side, so the room can be called.

    >>> report = assay.build("model.onnx", "certified", dims={"N": 2})
    >>> assay.verify("certified").holds
    True
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        from assay.verify.api.check import verify
        from assay.verify.api.surface import for_python

        return for_python(verify)(*args, **options)


sys.modules[__name__].__class__ = _Room
