"""Trials: runs on operands that show what ordinary ones hide (specs/verify.md, "Trials")."""
