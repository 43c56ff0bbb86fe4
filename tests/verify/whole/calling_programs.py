"""Random programs, as text, whose functions are called on several devices: nested, with tuples in and out, with one
argument twice. Each value may be annotated."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

T = 'R.Tensor((5,), "float32")'
PAIR = f"R.Tuple({T}, {T})"
ANNOTATIONS = (
    *("constrain_body=True, constrain_result=True",) * 3,
    "constrain_body=True",
    "constrain_body=False, constrain_result=True",
)


class _Body:
    """The lines of one function, and what may be used in it."""

    def __init__(
        self, random: Random, tensors: Sequence[str], pairs: Sequence[str], calls: Sequence[tuple[str, str, str]]
    ) -> None:
        self.random, self.tensors, self.pairs, self.calls = random, [*tensors], [*pairs], calls
        self.lines: list[str] = []

    def tensor(self) -> str:
        if self.pairs and (not self.tensors or self.random.random() < 0.25):
            return f"{self.random.choice(self.pairs)}[{self.random.randrange(2)}]"
        if self.random.random() < 0.05:
            return 'R.const([1, 2, 3, 4, 5], "float32")'
        return self.random.choice(self.tensors)

    def value(self, kind: str) -> str:
        if kind == "t":
            return self.tensor()
        return (
            self.random.choice(self.pairs)
            if self.pairs and self.random.random() < 0.7
            else f"({self.tensor()}, {self.tensor()})"
        )

    def step(self) -> tuple[str, str]:
        """An expression and its kind, a tensor or a pair."""
        r = self.random
        if self.calls and r.random() < 0.65:
            name, kinds, result = r.choice(self.calls)
            args = [self.value(k) for k in kinds]
            if r.random() < 0.2 and len({*kinds}) == 1:
                args = [args[0]] * len(args)
            return f"{name}({', '.join(args)})", result
        if r.random() < 0.1:
            return f"({self.tensor()}, {self.tensor()})", "p"
        if r.random() < 0.5:
            return f"{r.choice(('R.exp', 'R.tanh'))}({self.tensor()})", "t"
        return f"{r.choice(('R.add', 'R.multiply'))}({self.tensor()}, {self.tensor()})", "t"

    def steps(self, count: int, devices: Sequence[str], often: float) -> None:
        for i in range(count):
            made, kind = self.step()
            if self.random.random() < often:
                made = f'A.on_device({made}, "{self.random.choice(devices)}", {self.random.choice(ANNOTATIONS)})'
            self.lines.append(f"v{i} = {made}")
            (self.tensors if kind == "t" else self.pairs).append(f"v{i}")


def calling(seed: int) -> tuple[str, list[str]]:
    """A program as text, and the devices that there are."""
    random = Random(seed)
    devices = random.choice((["cpu", "cuda"], ["cuda", "cpu"], ["cpu", "cuda", "cuda:1"]))
    text = "@I.ir_module\nclass Module:\n"
    calls: list[tuple[str, str, str]] = []
    for i in range(random.randint(1, 3)):
        kinds, result = "".join(random.choice("tttp") for _ in range(random.randint(1, 3))), random.choice("ttp")
        names = {k: [f"x{j}" for j, of in enumerate(kinds) if of == k] for k in "tp"}
        body = _Body(random, names["t"], names["p"], calls)
        body.steps(random.randint(0, 3), devices, random.choice((0, 0, 0, 0, 0.06)))
        body.lines.append(f"return {body.value(result)}")
        text += _function(f"f{i}", kinds, body)
        calls.append((f"Module.f{i}", kinds, result))
    body = _Body(random, ["x0", "x1"], [], calls)
    body.steps(random.randint(2, 7), devices, 0.6)
    body.lines.append(f"return ({', '.join((body.tensors + body.pairs)[-3:])},)")
    return text + _function("main", "tt", body), devices


def _function(name: str, kinds: str, body: _Body) -> str:
    params = ", ".join(f"x{i}: {T if k == 't' else PAIR}" for i, k in enumerate(kinds))
    lines = "".join(f"        {line}\n" for line in body.lines)
    return f"    @R.function\n    def {name}({params}):\n{lines}"
