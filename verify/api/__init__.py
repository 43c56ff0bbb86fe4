"""What `import assay` offers, one job a file: load, run, check, build, verify, prove, plan (specs/verify.md, "From
Python").

`assay` itself names these functions and imports each where it is first used. The command line calls the same ones.
"""
