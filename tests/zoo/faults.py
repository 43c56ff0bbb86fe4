"""Miscompilations of the models of the zoo: a table of kinds, and the hundred that a seed draws.

    for fault in read():                            # the hundred of faults.csv
        changed = apply(model, fault, shown)        # None where the fault is not in this model

A fault is a rewrite of whatever graph a backend is given. It is there if all its nodes are, and the tensors between
them are not among what is shown: a fault that only fusion brings does not show in a run that shows every tensor.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from onnx import ModelProto

from tests.zoo import kinds_arithmetic, kinds_layers, kinds_layout, models
from tests.zoo.edit import Edit, Facts
from tests.zoo.kinds import KINDS, Site
from tests.zoo.patterns import Chain, chains

T = TypeVar("T")
TABLE = Path(__file__).with_name("faults.csv")
FIELDS = ("id", "model", "kind", "fused", "node", "nodes", "inner", "params")
SEED, COUNT = 18, 100
SMALL = (
    "epsilon-small", "epsilon-large", "gelu-formula", "half-accumulator", "half-operand", "mask-shift", "rounding",
    "scale-off", "variance-sample",
)  # fmt: skip
"""Kinds whose effect is small, of which there are more."""
STATE = ("stale", "not-cleared")
"""Kinds that change what a run keeps, not the model."""
FAMILIES = (kinds_layout, kinds_arithmetic, kinds_layers)
"""Where the kinds are: they register themselves."""


@dataclass(frozen=True)
class Fault:
    """A miscompilation at `node` of a model. It needs all of `nodes`, and that none of `inner` is shown; `fused` is the
    chain of operators whose fusion brings it, or empty."""

    id: str
    model: str
    kind: str
    fused: str
    node: str
    nodes: tuple[str, ...]
    inner: tuple[str, ...]
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> dict[str, str]:
        """As a row of the table."""
        return {
            "id": self.id, "model": self.model, "kind": self.kind, "fused": self.fused, "node": self.node,
            "nodes": ";".join(self.nodes), "inner": ";".join(self.inner),
            "params": json.dumps(self.params, sort_keys=True),
        }  # fmt: skip

    def is_in(self, model: ModelProto, shown: Collection[str]) -> bool:
        """Whether a backend that is given this model, and has to show these tensors, has the fault in it."""
        there = {n.name for n in model.graph.node}
        outputs = {o.name for o in model.graph.output} | set(shown)
        return there.issuperset(self.nodes) and outputs.isdisjoint(self.inner)


def apply(model: ModelProto, fault: Fault, shown: Collection[str] = ()) -> ModelProto | None:
    """The model as the faulty backend understands it; None where the fault is not in it."""
    if not fault.is_in(model, shown):
        return None
    edit = Edit(model)
    KINDS[fault.kind].change(edit, edit.node(fault.node), fault.params)
    return edit.done()


# --- drawing ------------------------------------------------------------------------------------------------------


@cache
def facts(name: str) -> Facts:
    """What is known of a narrow model."""
    return Facts(models.model(name))


@cache
def chains_of(name: str) -> dict[str, list[Chain]]:
    """What may be fused of a model, by each of its nodes."""
    found: dict[str, list[Chain]] = defaultdict(list)
    for chain in chains(facts(name)):
        for node in chain.nodes:
            found[node].append(chain)
    return found


@cache
def candidates() -> dict[tuple[str, bool], dict[str, list[Site]]]:
    """For each kind, alone and by fusion, the places in each model."""
    found: dict[tuple[str, bool], dict[str, list[Site]]] = defaultdict(dict)
    for name in models.names():
        fused = chains_of(name)
        for kind in KINDS.values():
            sites = list(kind.sites(facts(name)))
            inside = [s for s in sites if s.node in fused and not s.inner]
            if sites:
                found[kind.name, False][name] = sites
            if inside:
                found[kind.name, True][name] = inside
    return found


def draw(seed: int = SEED, count: int = COUNT) -> list[Fault]:
    """Faults drawn by a seed: each kind alone and by fusion, or twice where fusion brings none; then more of those that
    do little. Models that had few before are likelier."""
    rng = np.random.default_rng(seed)
    known = candidates()
    keys = list(known)
    once = sorted([*keys, *((kind, fused) for kind, fused in keys if (kind, True) not in known)])
    small = [key for key in once if key[0] in SMALL]
    order = [once[i] for i in rng.permutation(len(once))]
    used: Counter[str] = Counter()
    taken: set[tuple[str, str, str]] = set()
    drawn: list[Fault] = []
    while len(drawn) < count:
        kind, fused = order[len(drawn)] if len(drawn) < len(order) else small[int(rng.integers(len(small)))]
        name = _rare(rng, known[kind, fused], used)
        by_operator: dict[str, list[Site]] = defaultdict(list)
        for site in known[kind, fused][name]:
            by_operator[facts(name).named[site.node].op_type].append(site)
        operator = _rare(rng, by_operator, used)
        site = _any(rng, by_operator[operator])
        chain = _any(rng, chains_of(name)[site.node]) if fused else None
        if (name, kind, site.node) not in taken:
            taken.add((name, kind, site.node))
            used.update((name, operator))
            drawn.append(_fault(f"F{len(drawn) + 1:03}", name, kind, site, chain))
    return drawn


def _any(rng: np.random.Generator, among: Sequence[T]) -> T:
    return among[int(rng.integers(len(among)))]


def _rare(rng: np.random.Generator, among: Collection[str], used: Counter[str]) -> str:
    """One of some names; those that were used less are likelier."""
    names = sorted(among)
    weights = np.array([1 / (1 + used[n]) ** 2 for n in names])
    return names[int(rng.choice(len(names), p=weights / weights.sum()))]


def _fault(name: str, model: str, kind: str, site: Site, chain: Chain | None) -> Fault:
    fused = chain or Chain("", (), ())
    nodes = tuple(dict.fromkeys((*fused.nodes, *site.others, site.node)))
    return Fault(name, model, kind, fused.ops, site.node, nodes, site.inner + fused.inner, site.params)


# --- the table ----------------------------------------------------------------------------------------------------


def read() -> list[Fault]:
    """The faults of the table."""
    with TABLE.open(newline="") as rows:
        return [
            Fault(
                r["id"], r["model"], r["kind"], r["fused"], r["node"], _listed(r["nodes"]), _listed(r["inner"]),
                json.loads(r["params"]),
            )
            for r in csv.DictReader(rows)
        ]  # fmt: skip


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(";")) if text else ()


def write(faults: list[Fault]) -> None:
    """Write the table."""
    with TABLE.open("w", newline="") as rows:
        out = csv.DictWriter(rows, FIELDS, lineterminator="\n")
        out.writeheader()
        out.writerows(f.row for f in faults)
