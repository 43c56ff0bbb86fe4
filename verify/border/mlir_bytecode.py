"""MLIR bytecode of StableHLO as text, by jaxlib (specs/verify.md, "Budgets"; specs/lower.md, "StableHLO").

A file may come from a stranger, and the reader is C++: it runs in a process of its own, with limits, and only text
comes back, which is then read as any other.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from assay.semantics.errors import Invalid
from assay.semantics.files import on_disk, open_regular
from assay.verify import children

MAGIC = b"ML\xefR"
"""How MLIR bytecode begins."""

SECONDS = 120.0
MOST_BYTES = 8 << 30
"""Memory of the process, of which the libraries alone map some."""

_PROGRAM = """
import importlib.util, resource, sys
if importlib.util.find_spec("jaxlib") is None:
    sys.exit(17)
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo
data = open(sys.argv[1], "rb").read()
with ir.Context() as context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    if b"StableHLO_v" in data[:64]:
        module = stablehlo.deserialize_portable_artifact(context, data)
    else:
        module = ir.Module.parse(data)
    sys.stdout.buffer.write(str(module).encode())
"""
_MISSING = 17


def is_bytecode(path: Path) -> bool:
    """Whether a file begins as MLIR bytecode does."""
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def bytecode_text(path: Path) -> str:
    """The text of a file of bytecode. Invalid (`stablehlo.C9`): jaxlib is not installed, or cannot read it."""
    words = [sys.executable, "-c", _PROGRAM, str(path), str(MOST_BYTES)]
    try:
        with on_disk():
            done = children.run_child(words, seconds=SECONDS)
    except subprocess.TimeoutExpired:
        message = f"jaxlib has not read the bytecode in {SECONDS:g} seconds"
        raise Invalid(message, where=str(path), label="stablehlo.C9") from None
    if done.returncode == _MISSING:
        message = "StableHLO as bytecode is read by jaxlib: install assay[jax], or give the text"
        raise Invalid(message, where=str(path), label="stablehlo.C9")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = lines[-1][:200] if lines else f"it ended with {done.returncode}"
        raise Invalid(f"jaxlib cannot read the bytecode: {said}", where=str(path), label="stablehlo.C9")
    return done.stdout.decode(errors="replace")
