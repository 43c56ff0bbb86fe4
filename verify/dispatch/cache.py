"""A bounded table that makes each entry once, whoever asks (specs/verify.md, "Kernels for unknown sizes")."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(eq=False)
class _Making(Generic[V]):
    """An entry that one thread makes and others wait for."""

    done: Event = field(default_factory=Event)
    value: list[V] = field(default_factory=list)


@dataclass
class BoundedCache(Generic[K, V]):
    """At most `most` entries; the one that was not asked for the longest goes first, and `evicted` is told of it.

    `get` makes an entry that is not there, outside of the lock: others that want the same one wait for it, and those
    that want another do not. Where it cannot be made, each that waited tries for itself and gets its own error.
    """

    most: int
    evicted: Callable[[K], None] = lambda key: None
    entries: OrderedDict[K, V] = field(default_factory=OrderedDict)
    making: dict[K, _Making[V]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def get(self, key: K, make: Callable[[], V]) -> tuple[V, bool]:
        """The entry, and whether it was there, or another thread was making it."""
        while True:
            with self.lock:
                if key in self.entries:
                    self.entries.move_to_end(key)
                    return self.entries[key], True
                making = self.making.get(key)
                if making is None:
                    mine = self.making[key] = _Making()
                    break
            making.done.wait()
            if making.value:
                return making.value[0], True
        try:
            made = make()
            mine.value.append(made)
            self.put(key, made)
            return made, False
        finally:
            with self.lock:
                del self.making[key]
            mine.done.set()

    def put(self, key: K, value: V) -> None:
        """Add an entry; those that are too many go."""
        gone: list[K] = []
        with self.lock:
            self.entries[key] = value
            self.entries.move_to_end(key)
            while len(self.entries) > self.most:
                gone.append(self.entries.popitem(last=False)[0])
        for old in gone:
            self.evicted(old)

    def __len__(self) -> int:
        return len(self.entries)

    def values(self) -> list[V]:
        """The entries that are there now."""
        with self.lock:
            return list(self.entries.values())
