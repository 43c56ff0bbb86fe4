"""Randomly wired networks, as in Xie et al. 2019 ("Exploring Randomly Wired Neural Networks for Image Recognition").

wired("ws", seed=1)                # cells of 32 nodes wired by Watts and Strogatz's model, one after another
wired("er", seed=1, nodes=8)       # by Erdos and Renyi's

A node adds what it is wired to, then has relu, a separable convolution and a scale and shift (batch normalization, for
inference). In a cell the nodes without a predecessor read the cell's input; its output is the mean of those without a
successor.
"""

from __future__ import annotations

import random

import numpy as np
import onnx

from tests.models import Build, model

Wires = list[list[int]]
"""For each node the nodes before it that it reads."""


def watts_strogatz(rng: random.Random, nodes: int, k: int = 4, p: float = 0.75) -> Wires:
    """A ring in which each node has k neighbours; each edge goes to another node with probability p."""
    edges = {(i, (i + d) % nodes) for d in range(1, k // 2 + 1) for i in range(nodes)}
    edges = {(min(e), max(e)) for e in edges}
    for d in range(1, k // 2 + 1):
        for i in range(nodes):
            old = (min(i, (i + d) % nodes), max(i, (i + d) % nodes))
            free = [j for j in range(nodes) if j != i and (min(i, j), max(i, j)) not in edges]
            if rng.random() < p and free and old in edges:
                j = rng.choice(free)
                edges.remove(old)
                edges.add((min(i, j), max(i, j)))
    return directed(nodes, edges)


def erdos_renyi(rng: random.Random, nodes: int, p: float = 0.2) -> Wires:
    """Each pair of nodes is an edge with probability p."""
    return directed(nodes, {(i, j) for j in range(nodes) for i in range(j) if rng.random() < p})


def directed(nodes: int, edges: set[tuple[int, int]]) -> Wires:
    """Every edge from the lower number to the higher."""
    return [sorted(a for a, b in edges if b == i) for i in range(nodes)]


def wired(kind: str, seed: int, nodes: int = 32, cells: int = 3, channels: int = 8, size: int = 16) -> onnx.ModelProto:
    """A network of random cells; each after the first halves the picture and doubles the channels."""
    rng, b = random.Random(f"{kind} {seed}"), Build(seed)
    x, c = "x", channels
    for cell in range(cells):
        if cell:
            x, c = b.node("Conv", x, b.weight(2 * c, c, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]), 2 * c
        wires = watts_strogatz(rng, nodes) if kind == "ws" else erdos_renyi(rng, nodes)
        made: list[str] = []
        for reads in wires:
            h = added(b, [made[r] for r in reads]) if reads else x
            h = b.node("Conv", b.node("Relu", h), b.weight(c, 1, 3, 3), group=c, pads=[1, 1, 1, 1])
            h = b.node("Conv", h, b.weight(c, c, 1, 1))
            made.append(b.node("Add", b.node("Mul", h, b.weight(1, c, 1, 1)), b.weight(1, c, 1, 1)))
        ends = [made[i] for i in range(nodes) if not any(i in reads for reads in wires)]
        x = b.node("Mul", added(b, ends), b.constant(np.float32(1 / len(ends))))
    b.nodes[-1].output[0] = "y"
    return model(b.nodes, {"x": (np.float32, (1, channels, size, size))}, {"y": (np.float32, None)}, b.stored)


def added(b: Build, names: list[str]) -> str:
    """The sum, left to right."""
    total = names[0]
    for name in names[1:]:
        total = b.node("Add", total, name)
    return total
