"""`==` of types is that of rule M4.4, in sets and dictionaries too (specs/semantics.md, "Types")."""

from __future__ import annotations

from dataclasses import replace

import assay
from assay import builder
from assay.semantics.dtypes import BOOL, FLOAT32, INT64
from assay.semantics.scalar import Var
from assay.semantics.types import (
    DataType,
    FuncType,
    ObjectType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
)

N, M = Var("n"), Var("m")
T = TypeVar("t")


def test_types_of_one_meaning_are_equal_and_have_one_hash() -> None:
    def made(of: TensorType) -> list[Type]:
        return [
            of, TupleType((of, of)), FuncType((of,), of), RefType(of), DataType("List", (of,)), ShapeType(of.shape),
        ]  # fmt: skip

    one, two = (made(TensorType((2, d), FLOAT32)) for d in (N + 1, 1 + N))
    assert one == two and [*map(hash, one)] == [*map(hash, two)]
    assert set(one) == set(two) and len({*one, *two}) == len(one)
    assert ObjectType() == ObjectType() and TensorType((), BOOL) in (TensorType((3,), BOOL), TensorType((), BOOL))
    k = Var("k")
    assert FuncType((TensorType((N,), FLOAT32),), TensorType((N,), FLOAT32)) == FuncType(
        (TensorType((k,), FLOAT32),), TensorType((k,), FLOAT32)
    )


def test_types_of_other_meanings_differ() -> None:
    of = TensorType((2, N), FLOAT32)
    others: list[Type] = [
        TensorType((2, M), FLOAT32), TensorType((2, Var("n")), FLOAT32), TensorType((2, N), INT64),
        TensorType((2, N, 1), FLOAT32), TensorType((2, N + 1), FLOAT32), TupleType((of,)), RefType(of), T,
    ]  # fmt: skip
    assert of not in others and all(of != other for other in others)
    assert TypeVar("t") != T and len({T, TypeVar("t")}) == 2
    assert of != "Tensor((2, n), float32)" and of is not None
    assert FuncType((), of) != FuncType((), of, pure=False) and DataType("A", (of,)) != DataType("B", (of,))


def test_a_person_compares_the_types_of_a_module() -> None:
    b = builder.Builder()
    with b.function("main", x=builder.tensor(2, 3), y=builder.tensor(2, 3)) as f:
        b.result(b.add(f.x, f.y))
    main = b.module().main
    x, y = main.params
    assert x.type == y.type == main.result_type == TensorType((2, 3), FLOAT32)
    assert assay.run(b.module(), seed=1) and replace(x).type == x.type
