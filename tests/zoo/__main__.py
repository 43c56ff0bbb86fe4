"""python -m tests.zoo list | faults | write NAME -o FILE [--inputs FILE.npz --seed N] [--real] | fault ID -o FILE
                  | score [ID ...] [--kinds ...] [--runs N] | draw --write | effects --write

`list` shows the models, `faults` the hundred faults with their effects. `write` writes a model, and inputs for it;
`fault` a model as a fault leaves it when nothing but its outputs is shown. `score` judges a backend with each fault.
`draw` and `effects` make the tables again.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

from assay.verify.api.judge import DEFAULT_KINDS
from tests.zoo import effects, faults, models, score
from tests.zoo.kinds import KINDS

TABLE = Path(__file__).with_name("models.csv")


def rows() -> list[dict[str, str]]:
    """What is known of each narrow model."""
    made = [(name, models.model(name)) for name in models.names()]
    return [
        {"model": n, "nodes": str(len(m.graph.node)), "bytes": str(m.ByteSize()), "digest": models.digest(m)}
        for n, m in made
    ]


def show_models() -> None:
    """Print the models, and the operators of each that are most often there."""
    for name in models.names():
        made = models.model(name)
        often = Counter(n.op_type for n in made.graph.node).most_common(6)
        real = " (real size too)" if name in models.names(real=True) else ""
        print(f"{name:20} {len(made.graph.node):5} nodes {made.ByteSize() / 1e6:6.2f} MB  ", end="")
        print(", ".join(f"{count} {op}" for op, count in often) + real)


def show_faults() -> None:
    """Print the faults, each with how far its outputs are from a correct run."""
    found = {e.id: e for e in effects.read()}
    for fault in faults.read():
        e = found[fault.id]
        said = "inside" if e.inside else f"{e.most:.3g} spreads"
        where = f"{fault.node}, fused as {fault.fused}" if fault.fused else fault.node
        print(f"{fault.id} {fault.model:20} {fault.kind:18} {said:18} {where}: {KINDS[fault.kind].said}")


def show_scores(ids: list[str], kinds: list[str], runs: int) -> None:
    """Judge backends with these faults, or all, and print what is found."""
    chosen = [_fault(i) for i in ids] or faults.read()
    found = []
    for s in score.scores(chosen, kinds, runs):
        print(s, flush=True)
        found.append(s)
    print(score.summary(found))


def _fault(name: str) -> faults.Fault:
    fault = next((f for f in faults.read() if f.id == name), None)
    if fault is None:
        raise SystemExit(f"no fault {name!r}; there are F001 to F{faults.COUNT:03}")
    return fault


def write(name: str, to: Path, real: bool, given: Path | None, seed: int) -> None:
    """Write a model, and inputs for it."""
    made = models.model(name, real)
    onnx.save(made, to)
    if given is not None:
        np.savez(given, **models.inputs(made, seed))  # type: ignore[arg-type]


def write_fault(name: str, to: Path) -> None:
    """Write a model with one of the faults in it."""
    fault = _fault(name)
    if fault.kind in faults.STATE:
        raise SystemExit(f"{name} is a fault of what a run keeps ({fault.kind}); no model says it")
    onnx.save(faults.apply(models.model(fault.model), fault), to)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__.partition("\n\n")[2])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("faults")
    to_write = commands.add_parser("write")
    to_write.add_argument("name")
    to_write.add_argument("-o", "--output", type=Path, required=True)
    to_write.add_argument("--inputs", type=Path)
    to_write.add_argument("--seed", type=int, default=0)
    to_write.add_argument("--real", action="store_true")
    a_fault = commands.add_parser("fault")
    a_fault.add_argument("name")
    a_fault.add_argument("-o", "--output", type=Path, required=True)
    a_score = commands.add_parser("score")
    a_score.add_argument("ids", nargs="*")
    a_score.add_argument("--kinds", default=",".join(DEFAULT_KINDS))
    a_score.add_argument("--runs", type=int, default=1)
    for table in ("draw", "effects"):
        commands.add_parser(table).add_argument("--write", action="store_true", required=True)
    args = parser.parse_args()
    match args.command:
        case "list":
            show_models()
        case "faults":
            show_faults()
        case "write":
            try:
                write(args.name, args.output, args.real, args.inputs, args.seed)
            except KeyError as wrong:
                raise SystemExit(str(wrong.args[0])) from None
        case "fault":
            write_fault(args.name, args.output)
        case "score":
            show_scores(args.ids, args.kinds.split(","), args.runs)
        case "draw":
            with TABLE.open("w", newline="") as out:
                table = csv.DictWriter(out, ["model", "nodes", "bytes", "digest"], lineterminator="\n")
                table.writeheader()
                table.writerows(rows())
            faults.write(faults.draw())
        case "effects":
            effects.write([effects.effect(f) for f in faults.read()])


if __name__ == "__main__":
    main()
