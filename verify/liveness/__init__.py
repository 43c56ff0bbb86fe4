"""Whether a program of steps is the graph function it comes from, and its lives are long enough (specs/verify.md, "liveness")."""
