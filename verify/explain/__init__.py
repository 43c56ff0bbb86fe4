"""What a word of this project means: `assay explain X` (specs/verify.md, "explain")."""
