"""stub"""
from assay.verify.evidence import proved
def check(before, after, context):
    return proved("stub")
