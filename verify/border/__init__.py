"""Values outside of a run: in files, as Python has them, at the border of a model (specs/verify.md, "Inputs")."""
