"""`python -m assay` is the command line (specs/verify.md, "Command line")."""

from assay.verify.app.cli import main

main()
