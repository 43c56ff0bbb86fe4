"""Tests for the author of a backend (specs/verify.md, "Backends").

    from assay.verify.backends.kit import BackendTests

    class TestMine(BackendTests):
        backend = Mine()          # or a function of a model and inputs, or a name such as "my_module:run"

`python -m pytest` then asks of it all that its protocol says, and judges it on small programs. What it refuses is
skipped, with its reason; what it declares to take, by `operators` or `dtypes`, it must not refuse.
"""

from __future__ import annotations

from assay.verify.backends.kit.tests import BackendTests

__all__ = ["BackendTests"]
