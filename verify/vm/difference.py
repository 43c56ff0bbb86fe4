"""Where bytecode first does something else than its graph function, in words (specs/verify.md, "vm")."""

from __future__ import annotations

from typing import Any

from assay.semantics.graph import show_head
from assay.verify.vm.memory import Outcome
from assay.verify.vm.source import Read, Reader
from assay.verify.vm.target import Runner
from assay.verify.vm.terms import ValueTerms
from assay.verify.vm.wrong import NotThere, at


def first_unlike(terms: ValueTerms, reader: Reader, read: Read, runner: Runner, found: Outcome) -> str | None:
    """What bytecode does or gives that the source does not, if anything."""
    if read.way.events == found.way.events and read.result == found.result:
        return None
    words = _Words(terms, reader, runner)
    if read.way.events != found.way.events:
        return words.events(read.way.events, found.way.events)
    name = runner.function.name
    return f"{name} gives {words.value(found.result)}, and the source {words.value(read.result)}"


def comes_before(terms: ValueTerms, reader: Reader, read: Read, runner: Runner, wrong: NotThere) -> str:
    """Where what has happened before is not what the source does, else what is wrong by itself."""
    words = _Words(terms, reader, runner)
    return words.so_far(read.way.events, wrong.events) or str(wrong)


class _Words:
    def __init__(self, terms: ValueTerms, reader: Reader, runner: Runner) -> None:
        self.terms, self.reader, self.runner = terms, reader, runner

    def chain(self, events: int) -> list[int]:
        """What has happened, first things first."""
        found = []
        while self.terms.keys[events][0] == "after":
            found.append(events)
            events = self.terms.keys[events][1]
        return found[::-1]

    def events(self, source: int, target: int) -> str:
        """The first thing that differs, inside of a choice if it is one that both make."""
        while True:
            ones, others = self.chain(source), self.chain(target)
            k = next((i for i, (a, b) in enumerate(zip(ones, others, strict=False)) if a != b), None)
            if k is None:
                k = min(len(ones), len(others))
            one = ones[k] if k < len(ones) else None
            other = others[k] if k < len(others) else None
            a, b = (self.terms.keys[e][2] if e is not None else None for e in (one, other))
            if a is None or b is None or a[0] != "branch" or b[:2] != a[:2]:
                return self.said(one, other)
            source, target = (a[2], b[2]) if a[2] != b[2] else (a[3], b[3])

    def so_far(self, source: int, target: int | None) -> str | None:
        """The first thing that differs of what has happened up to a place; None if nothing does."""
        others = self.chain(target) if target is not None else []
        ones = self.chain(source)
        k = 0
        while k < len(others):
            if k == len(ones):
                return self.said(None, others[k])
            if ones[k] == others[k]:
                k += 1
                continue
            what = self.terms.keys[ones[k]][2]
            ways = [self.chain(e) for e in what[2:4]] if what[0] == "branch" else []
            into = [w for w in ways if w[k : k + 1] == others[k : k + 1]]
            if not into:
                return self.said(ones[k], others[k])
            ones = into[0]
        return None

    def said(self, source: int | None, target: int | None) -> str:
        function = self.runner.function
        wanted = "is at its end" if source is None else f"{self.what(source)}{self.node(source)}"
        if target is None:
            return f"{function.name} ends where the source {wanted}"
        index = self.runner.places.get(target, len(function.body))
        return f"{at(function, index)} {self.what(target)} where the source {wanted}"

    def node(self, events: int) -> str:
        """The node of the source that does what has happened last."""
        node = self.reader.places.get(events)
        if node is None:
            return ""
        return f", by {show_head(node)}" + (f" at {node.span}" if node.span else "")

    def what(self, events: int) -> str:
        """What has happened last."""
        what: tuple[Any, ...] = self.terms.keys[events][2]
        match what:
            case ("sizes", label, pairs):
                return f"checks sizes ({label}: {self.sizes(' and '.join(pairs))})"
            case ("natural", text):
                return f"needs a size that is no less than 0 ({self.sizes(text)})"
            case ("call", callee, args, _, _):
                return f"calls {self.value(callee)} on {self.values(args)}"
            case ("run", call):
                _, kernel, reads, *_ = self.terms.keys[call]
                return f"runs {kernel} on {self.values(reads)}"
            case ("copy", value):
                return f"copies {self.value(self.terms.keys[value][1])} to {self.terms.devices.get(value)}"
            case ("view", value):
                return f"views {self.value(value)} under a shape of which it is not known that it is as large"
            case ("print", format, shown):
                return f"prints {format!r} of {self.values(shown)}"
            case ("assert", condition, _, _):
                return f"asserts {self.value(condition)}"
            case ("measure", vector, _):
                return f"reads sizes from {self.value(vector)}"
            case ("cell" | "read" | "write" as act, *values):
                verb = {"cell": "makes a reference to", "read": "reads the reference", "write": "writes the reference"}
                return f"{verb[act]} {self.values(values)}"
            case ("trap", kind, label, message):
                return f"ends in a trap {kind} ({label}), {message!r}"
            case ("branch", condition, *_):
                return f"chooses by {self.value(condition)}"
            case ("ends", condition, holds, how):
                last = self.chain(how)[-1:]
                trap = self.what(last[0]) if last else "goes nowhere"
                return f"{trap} {'if' if holds else 'unless'} {self.value(condition)}"
            case _:
                return str(what[0])

    def sizes(self, text: str) -> str:
        """Sizes for a message: each symbol by its name."""
        for key, number in self.terms.numbers.items():
            if key[0] == "symbol" and f"@{number}" in text:
                of = self.terms.known[key[1]]
                text = text.replace(f"@{number}", of.name)
        return text

    def values(self, numbers: Any) -> str:
        return ", ".join(self.value(n) for n in numbers) or "nothing"

    def value(self, number: int) -> str:
        """A value for a message: what the source calls it, else what it is."""
        name = self.reader.names.get(number)
        if name is not None:
            return name
        match self.terms.keys[number]:
            case ("holds", of):
                return self.value(of)
            case ("made", of, constructor):
                return f"{self.value(of)} being {constructor}"
            case ("filled", call, _):
                return f"what {self.terms.keys[call][1]} gives"
            case ("global" | "extern" as kind, name):
                return f"{kind} {name}"
            case ("constant", *_):
                return f"the constant {self.terms.constants[number]!r}"[:60]
            case ("field", of, i):
                return f"field {i} of {self.value(of)}"
            case ("tuple", fields):
                return f"({', '.join(self.value(f) for f in fields[:4])})"
            case key:
                return f"a value ({key[0]})"
