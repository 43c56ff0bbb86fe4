"""Where things are in the checkout, for tests."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPECS = ROOT / "specs"
SHARED = ROOT.parent / "shared"
"""Public instances and programs beside the checkout; what reads them skips where they are missing."""
