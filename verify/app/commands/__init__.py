"""The commands, one file each: their options, and what they print (specs/verify.md, "Command line").

Their files import nothing heavy at the top: `assay --help` reads them all.
"""
