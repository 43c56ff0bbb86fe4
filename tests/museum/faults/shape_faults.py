"""Wrong ways to make sizes explicit, each with a program and inputs that show it.

Slots that leak between functions are TVM's own (apache/tvm#15712).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.lower.anf import to_anf
from assay.lower.shapes import Lowering, Meeting, ShapeBinding, lower_shapes
from assay.lower.shapes.host import Host
from assay.lower.shapes.known import KnownSizes
from assay.semantics import graph
from assay.semantics.dtypes import dtype
from assay.semantics.errors import AssayError, Span
from assay.semantics.graph import Dataflow, Expr, Function, GlobalVar, Let
from assay.semantics.module import Definition, Module
from assay.semantics.scalar import Dim, Expr as Scalar, Var as Symbol, cast, substitute, variables
from assay.semantics.tasks import Task, run_task
from assay.semantics.text.module_text import parse
from assay.semantics.types import TensorType
from assay.verify.shapes import check_shapes
from tests.lower.shapes.shape_programs import HEAD
from tests.museum.judges import of_evidence
from tests.museum.planted import PlantedFault
from tests.observation import told_apart


def judge(source: Module, made: Module) -> str | None:
    """The check, for all inputs."""
    return of_evidence(check_shapes(source, made))


def fault(
    name: str, lowering: type[Lowering], program: str | Callable[[], Module], inputs: Mapping[str, Any]
) -> PlantedFault:
    """A wrong pass, a program (or the text of one), and inputs at which it goes wrong: values, or shapes of zeros."""
    arrays = {n: np.zeros(v, np.float32) if isinstance(v, tuple) else v for n, v in inputs.items()}

    def wrong(module: Module) -> Module:
        module = to_anf(module)
        definitions: dict[str, Definition] = dict(module.definitions)
        for name, d in module.definitions.items():
            if isinstance(d, Function):
                definitions[name] = run_task(lowering(name, d, module, definitions).function(d))
        return replace(module, definitions=definitions)

    def seen(source: Module, made: Module) -> str | None:
        """A run that shows it."""
        try:
            return told_apart(source, made, arrays)
        except (AssayError, ValueError) as failed:  # such as a size without a value, where the run needs one
            return str(failed)

    def source() -> Module:
        return parse(HEAD + program, "fault.py") if isinstance(program, str) else program()

    return PlantedFault(name, "shapes", (judge, seen), source, wrong, lower_shapes)


# --- the passes --------------------------------------------------------------------------------------------------


class OnlyStores(Lowering):
    """A symbol that occurs again is not compared."""

    def compare(self, host: Host, d: Dim, size: Scalar, where: str) -> None:
        if not isinstance(d, Symbol):
            super().compare(host, d, size, where)


class ForgetsNumbers(Lowering):
    """A dim that is a number is not compared."""

    def compare(self, host: Host, d: Dim, size: Scalar, where: str) -> None:
        if not isinstance(d, int):
            super().compare(host, d, size, where)


class StoresAgain(Lowering):
    """A symbol that occurs again is stored again."""

    def compare(self, host: Host, d: Dim, size: Scalar, where: str) -> None:
        if isinstance(d, Symbol):
            host.store(d, size)
        else:
            super().compare(host, d, size, where)


class WrongSlot(Lowering):
    """What is computed over a segment reads its first slot."""

    def compute(self, host: Host, d: Dim) -> None:
        if isinstance(d, Scalar) and not self.known.has(d) and host.stored:
            host.store(d, host.computed(substitute(d, {v: host.stored[0] for v in variables(d)})))
            self.known.add(d)
        super().compute(host, d)


class ResultUnchecked(Lowering):
    def returned(self, out: list[ShapeBinding], of: Function, body: Expr) -> None:
        pass


class NegativesPass(Lowering):
    def not_negative(self, host: Host, d: Dim, node: Expr) -> None:
        self.compute(host, d)


class Remembers(KnownSizes):
    def leave(self, mark: int) -> None:
        self.scope = self.forest.parent[self.scope]


class LeaksScopes(Lowering):
    """What a branch or a local function names is still known behind it."""

    def __init__(self, name: str, root: Function, module: Module, definitions: dict[str, Definition]) -> None:
        super().__init__(name, root, module, definitions)
        self.known = Remembers()


class LeaksFunctions(Lowering):
    """A table of sizes for all functions of a module."""

    tables: dict[int, KnownSizes] = {}

    def __init__(self, name: str, root: Function, module: Module, definitions: dict[str, Definition]) -> None:
        super().__init__(name, root, module, definitions)
        self.known = self.tables.setdefault(id(definitions), Remembers())
        self.kept = definitions  # no other table gets its identity


class OwnSizesOnly(Lowering):
    """A local function takes a size of the function around it for one of its own, and stores it anew."""

    def function(self, of: Function) -> Task[Function]:
        outer = self.known
        self.known = KnownSizes()
        self.known.number = outer.number
        made = yield from super().function(of)
        self.known = outer
        assert isinstance(made, Function)
        return made


class Backwards(Lowering):
    """The last parameter is compared first."""

    def meet(
        self, out: list[ShapeBinding], meetings: Sequence[Meeting], head: str, span: Span | None, mark: Dataflow | None
    ) -> None:
        super().meet(out, meetings[::-1], head, span, mark)


class ComputesFirst(Lowering):
    """Larger expressions are computed before anything is compared."""

    def meet(
        self, out: list[ShapeBinding], meetings: Sequence[Meeting], head: str, span: Span | None, mark: Dataflow | None
    ) -> None:
        self.late: list[tuple[Host, Dim, Scalar, str]] = []
        super().meet(out, meetings, head, span, mark)

    def compare(self, host: Host, d: Dim, size: Scalar, where: str) -> None:
        self.compute(host, d)
        self.late.append((host, d, size, where))

    def emit(self, out: list[ShapeBinding], host: Host, mark: Dataflow | None) -> None:
        late, self.late = getattr(self, "late", []), []
        for h, d, size, where in late:
            super().compare(h, d, size, where)
        super().emit(out, host, mark)


class TrustsCalls(Lowering):
    """What is called keeps what it says."""

    def meet(
        self, out: list[ShapeBinding], meetings: Sequence[Meeting], head: str, span: Span | None, mark: Dataflow | None
    ) -> None:
        trusted = [replace(m, shown=m.of) if head.startswith(("f(", "g(")) else m for m in meetings]
        super().meet(out, trusted, head, span, mark)


class Narrow(Lowering):
    """Sizes are computed in 32 bits."""

    def compute(self, host: Host, d: Dim) -> None:
        if isinstance(d, Scalar) and not self.known.has(d):
            host.store(d, cast(cast(host.computed(d), dtype("int32")), dtype("int64")))
            self.known.add(d)


class TooLate(Lowering):
    """The sizes of a value are checked behind the next one."""

    def binding(self, of: Let, out: list[ShapeBinding]) -> Task[None]:
        held: list[ShapeBinding] = getattr(self, "held", [])
        mine: list[ShapeBinding] = []
        yield super().binding(of, mine)
        own = next(i for i, b in enumerate(mine) if b.source is of)
        out += [*mine[: own + 1], *held]
        self.held = mine[own + 1 :]

    def returned(self, out: list[ShapeBinding], of: Function, body: Expr) -> None:
        out += getattr(self, "held", [])
        self.held = []
        super().returned(out, of, body)


class TooStrict(Lowering):
    """Asks that every size is at least 1."""

    def compare(self, host: Host, d: Dim, size: Scalar, where: str) -> None:
        super().compare(host, d, size, where)
        host.require(size > 0, f"{where} is {{}}", [size])


# --- programs ----------------------------------------------------------------------------------------------------


def main(params: str, result: str, body: str, before: str = "") -> str:
    lines = [f"        {line}" for line in ["n = T.int64()", "m = T.int64()", "k = T.int64()", *body.splitlines()]]
    return f"{before}\n    @R.function\n    def main({params}) -> {result}:\n" + "\n".join(lines) + "\n"


def t(*dims: str) -> str:
    inside = ", ".join(f'"{d}"' if d[0].isalpha() else d for d in dims)
    return f'R.Tensor(({inside},), "float32")'


X = f"x: {t('n')}, y: {t('m')}"
TWICE = main(f"x: {t('n')}, y: {t('n')}", t("n"), "return x")
LOCAL = """
@R.function
def f(a: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):
    return a
@R.function
def g(a: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):
    return a
u = f(x)
return g(y)
"""
OUTER = """
@R.function
def f(a: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
    return a
return f(y)
"""
BRANCHES = """
if c:
    a = R.match_cast(x, R.Tensor((k,), "float32"))
    q = R.add(a, R.match_cast(y, R.Tensor((k,), "float32")))
    r = R.sum(q)
else:
    b = R.match_cast(y, R.Tensor((k,), "float32"))
    r = R.sum(b)
return r
"""
LATE = """
a = R.match_cast(x, R.Tensor((2,), "float32"))
R.print(y, format="")
return a
"""
WANTED = f"""
    @R.function
    def apply(f: R.Callable(({t("j")},), {t("j")}), a: {t("j")}) -> {t("j")}:
        b = f(a)
        return a

    @R.function
    def two(a: {t("i")}) -> {t("j")}:
        return R.full(R.shape([2]), R.const(0.0, "float32"), dtype="float32")
"""

IMPURE = main(X, "R.Tensor((2,), 'float32')", LATE).replace("R.function", "R.function(pure=False)")


def shared_symbol() -> Module:
    """Two functions of the module whose parameters have the same symbol."""
    k = Symbol("k")
    of = TensorType((k,), dtype("float32"))
    a, x = graph.var("a", of), graph.var("x", of)
    g = graph.function([a], a)
    return Module({"g": g, "main": graph.function([x], graph.call(GlobalVar(g.type, "g"), x))})


FAULTS = (
    fault("an assertion left out", OnlyStores, TWICE, {"x": (2,), "y": (3,)}),
    fault("numbers not asserted", ForgetsNumbers, main(f"x: {t('n', '4')}", t("n", "4"), "return x"), {"x": (2, 5)}),
    fault("stored twice instead of asserted", StoresAgain, TWICE, {"x": (2,), "y": (3,)}),
    fault(
        "a wrong slot", WrongSlot, main(f"{X}, z: {t('m * 2')}", t("n"), "return x"), {"x": (2,), "y": (3,), "z": (6,)}
    ),
    fault("the result not checked", ResultUnchecked, main(X, t("n"), "return y"), {"x": (2,), "y": (3,)}),
    fault(
        "negative sizes",
        NegativesPass,
        main(X, 'R.Shape(["n - m"])', "return R.shape([n - m])"),
        {"x": (2,), "y": (3,)},
    ),
    fault(
        "symbols of one local function known in the next", LeaksScopes, main(X, t("m"), LOCAL), {"x": (2,), "y": (3,)}
    ),
    fault(
        "symbols of one branch known in the other",
        LeaksScopes,
        main(f'{X}, c: R.Tensor((), "bool")', 'R.Tensor((), "float32")', BRANCHES),
        {"x": (2,), "y": (3,), "c": np.False_},
    ),
    fault("slots of one function known in the next", LeaksFunctions, shared_symbol, {"x": (2,)}),
    fault(
        "a size of the function around taken for an own one",
        OwnSizesOnly,
        main(X, t("m"), OUTER),
        {"x": (2,), "y": (3,)},
    ),
    fault(
        "compared in another order",
        Backwards,
        main(f"x: {t('n', '2')}, y: {t('3')}", t("n", "2"), "return x"),
        {"x": (1, 1), "y": (1,)},
    ),
    fault(
        "computed before something is compared",
        ComputesFirst,
        main(f"{X}, z: {t('4')}, w: {t('n // m')}", t("n"), "return x"),
        {"x": (2,), "y": (0,), "z": (1,), "w": (1,)},
    ),
    fault(
        "the result of a call taken at its word",
        TrustsCalls,
        main(X, t("n"), "return cls.apply(cls.two, x)", WANTED),
        {"x": (3,), "y": (0,)},
    ),
    fault(
        "computed in 32 bits",
        Narrow,
        main(f"{X}, z: {t('n * 2147483648', 'm')}", t("n"), "return x"),
        {"x": (2,), "y": (0,), "z": (2**32, 0)},
    ),
    fault("checked too late", TooLate, IMPURE, {"x": (1,), "y": (1,)}),
    fault("checked too much", TooStrict, TWICE, {"x": (0,), "y": (0,)}),
)
