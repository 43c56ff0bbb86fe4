"""Make it concrete: passes from module to module, and the C text at the end. Chapter: specs/lower.md."""
