"""`assay run --kernels`: how kernels are chosen by the sizes that come, and what is shown of it (specs/verify.md)."""
