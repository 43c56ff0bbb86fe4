"""The kernels of one check, each against its operator (specs/verify.md, "legalize")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from assay.semantics.tensor import PrimFunc
from assay.verify.evidence import Evidence
from assay.verify.legalize.proofs import KernelProofs
from assay.verify.legalize.uses import KernelUse, SizesTried
from assay.verify.side_by_side import side_by_side
from assay.verify.trials.batch import stores
from assay.verify.trials.kernels import KernelTrials
from assay.verify.trials.sizes import Sizes, SizesToTry

Check: TypeAlias = Callable[[PrimFunc, KernelUse, int, KernelTrials, SizesTried, KernelProofs], Evidence]
Progress: TypeAlias = Callable[[int, int], None]
Numbered: TypeAlias = tuple[tuple[int, int], ...]
"""Sizes, each by the number of its symbol among those of the use."""


@dataclass(frozen=True)
class UseShown:
    """What was found of one kernel: nothing in it is an object of the program, so that another process can send it."""

    verdict: Evidence
    tried: KernelTrials
    points: tuple[Numbered, ...]
    """The sizes that were tried."""
    excluded: tuple[tuple[Numbered, str], ...]
    """Those that were not, and why."""


@dataclass
class UsesShown:
    """Checks each of some kernels, by name. Where all is proved, kernels of one operator and attributes, which share
    their proofs, are checked one after another, and the others side by side."""

    uses: Mapping[str, tuple[PrimFunc, KernelUse]]
    check: Check
    seed: int
    proofs: KernelProofs
    verdicts: dict[str, Evidence] = field(default_factory=dict)

    def each(self, tried: KernelTrials, sizes: SizesTried, progress: Progress) -> Iterator[tuple[str, Evidence]]:
        """The verdict on each kernel, up to the first that is not right, in order."""
        if not self.proofs.thorough:
            for k, name in enumerate(self.uses):
                progress(k, len(self.uses))
                verdict = self.one(name, tried, sizes, self.proofs)
                yield name, verdict
                if not verdict.holds:
                    return
            return
        batches = self.batches()
        found: dict[str, UseShown] = {}
        for names, (shown, proofs) in zip(
            batches, side_by_side(lambda k: self.batch(batches[k]), len(batches), progress), strict=True
        ):
            found.update(zip(names, shown, strict=False))
            self.proofs.join(proofs)
        for name, (kernel, use) in self.uses.items():
            if name not in found:  # one before it in its batch was not right
                continue
            one = found[name]
            yield name, one.verdict
            tried.add(one.tried)
            sizes.add(kernel.name, _sizes_of(use, one))
            self.verdicts[name] = one.verdict

    def one(self, name: str, tried: KernelTrials, sizes: SizesTried, proofs: KernelProofs) -> Evidence:
        """One kernel."""
        kernel, use = self.uses[name]
        self.verdicts[name] = verdict = self.check(kernel, use, self.seed, tried, sizes, proofs)
        if verdict.holds:
            proofs.add_general(kernel, use)
        return verdict

    def batches(self) -> list[list[str]]:
        """The names by what kernels share, the most work first. What is more than half of it is two batches, whatever
        the number of processes: what a batch shows hangs on nothing else."""
        found: dict[str, list[str]] = {}
        for name, (_, use) in self.uses.items():
            found.setdefault(f"{use.operator.name} {sorted(use.call.attrs.items(), key=str)}", []).append(name)
        work = {name: 1 if use.symbols else 1 + stores(kernel) for name, (kernel, use) in self.uses.items()}

        def much(names: list[str]) -> int:
            return sum(work[n] for n in names)

        whole = much([*self.uses])
        parts = [[n[::2], n[1::2]] if len(n) > 1 and 2 * much(n) > whole else [n] for n in found.values()]
        return sorted((names for part in parts for names in part), key=much, reverse=True)

    def batch(self, names: list[str]) -> tuple[list[UseShown], KernelProofs]:
        """What is found of some kernels, one after another, up to the first that is not right."""
        proofs = self.proofs.part()
        found: list[UseShown] = []
        for name in names:
            tried, sizes, use = KernelTrials(), _Noted(), self.uses[name][1]
            verdict = self.one(name, tried, sizes, proofs)
            points = tuple(_numbered(use, at) for at in sizes.noted.points)
            excluded = tuple((_numbered(use, at), why) for at, why in sizes.noted.excluded)
            found.append(UseShown(verdict, tried, points, excluded))
            if not verdict.holds:
                break
        return found, proofs.without_kernels()


class _Noted(SizesTried):
    """The sizes of one kernel, as they are."""

    noted = SizesToTry(({},))

    def add(self, name: str, tried: SizesToTry) -> None:
        self.noted = tried


def _numbered(use: KernelUse, sizes: Sizes) -> Numbered:
    return tuple((use.symbols.index(s), n) for s, n in sizes.items())


def _sizes_of(use: KernelUse, shown: UseShown) -> SizesToTry:
    """The sizes that were tried of a use."""

    def there(at: Numbered) -> Sizes:
        return {use.symbols[k]: n for k, n in at}

    return SizesToTry(tuple(map(there, shown.points)), tuple((there(at), why) for at, why in shown.excluded))
