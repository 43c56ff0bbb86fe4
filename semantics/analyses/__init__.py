"""What can be read off a program: equality, variables, its tree as text (specs/semantics.md, "Analyses")."""
