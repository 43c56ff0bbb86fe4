"""Run it: evaluators of graph IR, tensor IR and the planned program. Chapter: specs/interp.md."""
