"""The algebra of integers: normal forms of sizes and indices, and where their values lie (specs/semantics.md,
"Integers")."""
