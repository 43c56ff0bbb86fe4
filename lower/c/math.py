"""Transcendental functions in C: libm, or the shared routines (rule M10; specs/lower.md, "c").

Every function that a model uses stands twice, and the macro NAME_REPRODUCIBLE chooses: the compiler's libm, or the
straight-line program of `assay.semantics.scalar.transcendental`, printed operation by operation, which the interpreters
run too.
"""

from __future__ import annotations

from assay.lower.c.expr import ExprWriter
from assay.lower.c.helpers import Library
from assay.lower.c.ops import SHORT, Code, Ops, scalar_type
from assay.lower.c.range import Ranges
from assay.semantics.dtypes import FLOAT32, FLOAT64, DType
from assay.semantics.errors import Crash
from assay.semantics.scalar.transcendental import ROUTINES


def function(library: Library, op: str, of: DType) -> str:
    """The C name of a transcendental function on a float dtype; its two definitions go to the library."""
    name = f"{op}_{SHORT.get(of.name, f'f{of.bits}')}"
    if not library.has(name):
        _print(library, op)
        type_ = scalar_type(of, None)
        given = ["x", "y", "z"][: len(ROUTINES[op].params)]
        operands = ", ".join(given)
        exact = f"{library.prefix}_{op}({operands if of is FLOAT64 else ', '.join(f'(double){g}' for g in given)})"
        quick = f"{library.math(op)}{'' if of is FLOAT64 else 'f'}({operands})"
        if of is FLOAT32:
            exact = f"(float){exact}"
        elif of.name in SHORT:
            round_ = library.use(f"round_{SHORT[of.name]}")
            exact = f"{round_}({library.reproducible.use('odd_f64')}({exact}))"
            quick = f"{round_}({quick})"
        library.add(
            name,
            f"\nstatic {type_} {library.prefix}_{name}({', '.join(f'{type_} {g}' for g in given)})\n{{\n"
            f"#ifdef {library.macro}_REPRODUCIBLE\n    return {exact};\n#else\n    return {quick};\n#endif\n}}\n",
        )
    return f"{library.prefix}_{name}"


def _print(library: Library, op: str) -> None:
    """The routine itself, over double."""
    if library.reproducible.has(op):
        return
    routine = ROUTINES[op]
    lines: list[str] = []
    names = library.locals()

    def line(text: str) -> None:
        lines.append(f"    {text}\n")

    writer = ExprWriter(Ops(library.reproducible, _nested), names, Ranges(), line, _trap)
    params = [names.fresh(p.name) for p in routine.params]
    for p, word in zip(routine.params, params, strict=True):
        writer.enter(p, Code(word, "double"), None)
    for var, bound in routine.lets:
        code, known = writer.value(writer.fold(bound))
        writer.enter(var, writer.local(code, var.name), known)
    result, _ = writer.value(writer.fold(routine.result))
    head = f"static double {library.prefix}_{op}({', '.join(f'double {p}' for p in params)})"
    library.reproducible.add(op, f"\n/* {routine.doc} */\n{head}\n{{\n{''.join(lines)}    return {result.text};\n}}\n")


def _nested(op: str, of: DType) -> str:
    raise Crash(f"the routine of a transcendental function uses another one: {op} on {of}")


def _trap(kind: str) -> str:
    raise Crash(f"the routine of a transcendental function may trap: {kind}")
