"""The table of constants while a pass fills it: names by content, each content once (specs/lower.md, "constants").

A constant without a name is called after what it is: dtype, shape, bits and how it is to be stored. So its name
is the same in every run and every module, and two that are equal have one. A name that a user gave stays and stands for
that constant only, whatever it is equal to: its contents may be bound later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.semantics.accounting import laid_out
from assay.semantics.bits import digest, frozen, same_bits
from assay.semantics.devices import VirtualDevice
from assay.semantics.module import PLAIN, ConstantInfo, Module
from assay.semantics.names import unused

Array = np.ndarray[Any, Any]

PREFIX, SHORTEST = "constant_", 8
"""A name by content: the prefix and so many hexadecimal digits, or more where these are another's."""


def constant_offsets(constants: Mapping[str, Array], infos: Mapping[str, ConstantInfo] | None = None) -> dict[str, int]:
    """Offsets in the read-only table: one after another, each aligned as it asks."""
    known = infos or {}
    return laid_out((n, a.nbytes, known.get(n, PLAIN).alignment) for n, a in constants.items())[0]


def is_content_name(name: str) -> bool:
    """Whether a name looks like one by content."""
    digits = name.removeprefix(PREFIX)
    return name.startswith(PREFIX) and len(digits) >= SHORTEST and not digits.strip("0123456789abcdef")


def storage_words(info: ConstantInfo) -> tuple[str, ...]:
    """How a constant is stored, as words that its name depends on; none where it has nothing special."""
    if info == PLAIN:
        return ()
    d = info.device
    return (str(info.alignment), info.section, d.type, str(d.id), d.target, d.scope)


class ConstantTable:
    """Constants by name, and those without a user's name by content. Takes time linear in their bytes."""

    def __init__(self, module: Module) -> None:
        self.arrays: dict[str, Array] = {}
        self.infos: dict[str, ConstantInfo] = {}
        self.taken = set(module.definitions)
        """Names that constants must not have."""
        self.of: dict[str, str] = {}
        """Names by the digest of the content."""
        self.renamed: dict[str, list[str]] = {}
        """What constants became whose name was another's."""
        self._digests: dict[int, tuple[Array, str]] = {}
        for name, array in module.constants.items():
            info = module.info(name)
            if self.is_by_content(name, array, info):
                self.of.setdefault(self.digest(array, info), name)
            self._put(name, array, info)

    def digest(self, array: Array, info: ConstantInfo) -> str:
        """What a content is called after. An array is read once, however often it is asked for."""
        if id(array) not in self._digests:
            self._digests[id(array)] = array, digest(array)
        plain = self._digests[id(array)][1]
        if not storage_words(info):
            return plain
        nothing: Array = np.zeros(0, np.uint8)
        return digest(nothing, plain, *storage_words(info))

    def is_by_content(self, name: str, array: Array, info: ConstantInfo) -> bool:
        """Whether a name is one that the content gives."""
        return is_content_name(name) and self.digest(array, info).startswith(name.removeprefix(PREFIX))

    def add(self, array: Array, info: ConstantInfo = PLAIN) -> str:
        """The name of a constant that has none from a user."""
        key = self.digest(array, info)
        if key not in self.of:
            lengths = range(SHORTEST, len(key) + 1)
            names = (PREFIX + key[:n] for n in lengths)
            found = next((n for n in names if n not in self.arrays and n not in self.taken), None)
            self.of[key] = found if found is not None else unused(PREFIX + key, self.arrays, self.taken)
            self._put(self.of[key], array, info)
        return self.of[key]

    def add_named(self, name: str, array: Array, info: ConstantInfo = PLAIN) -> str:
        """The name of a constant that a user has named: that name, or one like it where it is another's."""
        for known in [name, *self.renamed.get(name, [])]:
            if known in self.arrays and self.infos.get(known, PLAIN) == info and same_bits(self.arrays[known], array):
                return known
        free = unused(name, self.arrays, self.taken)
        if free != name:
            self.renamed.setdefault(name, []).append(free)
        self._put(free, array, info)
        return free

    def on(self, name: str, device: VirtualDevice) -> None:
        """Say on which device a constant is."""
        self.infos[name] = replace(self.infos.get(name, PLAIN), device=device)

    def _put(self, name: str, array: Array, info: ConstantInfo) -> None:
        self.arrays[name] = frozen(array)
        # the array that was handed in and the one that is kept have one content
        if id(array) in self._digests:
            self._digests[id(self.arrays[name])] = self.arrays[name], self._digests[id(array)][1]
        if info != PLAIN:
            self.infos[name] = info
