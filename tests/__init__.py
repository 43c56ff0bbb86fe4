"""Tests, by room. Helpers that several files share are imported as `from tests.<helper> import ...`."""
