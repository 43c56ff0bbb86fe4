"""Backends judged on any model, without a lowering (specs/verify.md, "judge")."""
