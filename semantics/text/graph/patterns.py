"""Match statements of the text format (specs/semantics.md, "Text").

    match xs:
        case List.Cons(head, tail):
            y = head
        case _:
            y = zero

`match A.partial(xs):` traps where no case matches; the cases of any other match cover every value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from assay.semantics import graph
from assay.semantics.graph import Bind, Expr, Fields, Made, Pattern, Var, Wildcard
from assay.semantics.tasks import Task, run_task
from assay.semantics.text.graph.scope import Path
from assay.semantics.text.graph.values import Values
from assay.semantics.types import DataType, TupleType, Type


class PatternReader:
    """Reads match statements: their expressions by `values`, the bodies of their cases by `block`."""

    def __init__(self, values: Values, block: Callable[[Sequence[ast.stmt], str | None], Task[Expr]]) -> None:
        self.values = values
        self.block = block
        self.source = values.source

    def match(self, stmt: ast.Match, target: str | None) -> Task[Expr]:
        """Reads a match statement; its clauses are worth what their bodies give to `target`, or return."""
        subject, partial = stmt.subject, False
        if isinstance(subject, ast.Call) and self.values.path(subject.func) == Path(("A", "partial")):
            if len(subject.args) != 1 or subject.keywords:
                raise self.source.error(subject, "A.partial takes the value", "text.C5")
            subject, partial = subject.args[0], True
        value = self.values.expr(subject)
        clauses: list[tuple[Pattern, Expr]] = []
        for case in stmt.cases:
            if case.guard is not None:
                raise self.source.error(case.guard, "a case has no condition", "text.C13")
            mark = self.values.scope.mark()
            pattern = run_task(self.pattern(case.pattern, value.type))
            body = yield self.block(case.body, target)
            self.values.scope.leave(mark)
            clauses.append((pattern, body))
        with self.values.at(stmt.subject):
            return graph.match(value, *clauses, partial=partial, span=self.source.span(stmt))

    def pattern(self, node: ast.pattern, of: Type) -> Task[Pattern]:
        """Reads a pattern for values of type `of` and declares the names that it binds."""
        fields: list[Pattern] = []
        match node:
            case ast.MatchAs(pattern=None, name=None):
                return Wildcard()
            case ast.MatchAs(pattern=None, name=str(name)):
                var = Var(of, name, span=self.source.span(node))
                self.values.scope.declare(name, var)
                return Bind(var)
            case ast.MatchSequence():
                types = of.fields if isinstance(of, TupleType) else ()
                if len(types) != len(node.patterns):
                    raise self.source.error(
                        node, f"a pattern of {len(node.patterns)} fields is matched with {of}", "match.C4"
                    )
                for p, t in zip(node.patterns, types, strict=True):
                    fields.append((yield self.pattern(p, t)))
                return Fields(tuple(fields))
            case ast.MatchClass():
                made = self._constructor(node)
                if not isinstance(of, DataType) or of.name != made.data:
                    raise self.source.error(node, f"{made.name} of {made.data} is matched with {of}", "match.C3")
                types = graph.field_types(made, of)
                if node.kwd_attrs or len(types) != len(node.patterns):
                    message = f"{made.name} has {len(types)} fields, {len(node.patterns)} patterns given by place"
                    raise self.source.error(node, message, "match.C4")
                for p, t in zip(node.patterns, types, strict=True):
                    fields.append((yield self.pattern(p, t)))
                return Made(made, tuple(fields))
            case _:
                raise self.source.error(node, "a pattern is a constructor, a tuple, a name or _", "text.C13")

    def _constructor(self, node: ast.MatchClass) -> graph.Constructor:
        path = self.values.path(node.cls)
        if path is None or path.parts[0] != "data" or len(path.parts) != 3:
            raise self.source.error(node.cls, "a constructor of a data type expected, such as List.Cons", "text.C3")
        with self.values.at(node.cls):
            return self.values.constructor(path.parts[1], path.parts[2], node.cls)
