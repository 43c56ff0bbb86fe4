"""What `assay judge` prints and writes (specs/verify.md, "judge")."""
