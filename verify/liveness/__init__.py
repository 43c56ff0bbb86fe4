"""Whether a program of steps is the graph function that it comes from (specs/verify.md, "liveness")."""
