"""Programs of `torch.export`, from the archive that PyTorch writes (specs/lower.md, "torch.export").

    module = parse_torch_export(Path("model.pt2").read_bytes(), "model.pt2")

PyTorch is not needed, and no code of the file is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.semantics.module import Module

__all__ = ["parse_torch_export", "plain_program", "with_buffers"]


def parse_torch_export(data: bytes, source: str = "<bytes>", sizes: Mapping[str, int] | None = None) -> Module:
    """The module of an archive; symbolic sizes may be given as numbers, by name. Invalid or Unsupported, with the node,
    where it is none or not handled."""
    from assay.lower.frontends.torch_export.archive import read_archive
    from assay.lower.frontends.torch_export.translate import module_of_archive

    return module_of_archive(read_archive(data), source, sizes)


def plain_program(data: bytes, source: str = "<bytes>") -> tuple[Module, bytes]:
    """The module of an archive, and the archive again with nothing in it but what was read: what PyTorch may be given
    of a file that comes from somebody else."""
    from assay.lower.frontends.torch_export.archive import plain_archive, read_archive
    from assay.lower.frontends.torch_export.translate import module_of_archive

    archive = read_archive(data)
    return module_of_archive(archive, source), plain_archive(archive)


def with_buffers(data: bytes, values: Mapping[str, Any]) -> bytes:
    """An archive whose buffers of these names, those of the module's table, have these values at first. Unsupported
    (torch_export.C7): two of its tensors have one name, so that it is not known which is meant."""
    from assay.lower.frontends.torch_export.archive import plain_archive, read_archive
    from assay.lower.frontends.torch_export.signature import with_values

    return plain_archive(with_values(read_archive(data), values)) if values else data
