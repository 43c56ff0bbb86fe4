"""The page of `assay check --report DIR`: stages, memory maps, pressure, devices, a refuted plan (specs/verify.md).

`collect` makes the data of a run, `write` the files; `maps` draws memory maps, for `assay plan --plot` too.
"""
