"""Hypothesis strategies: programs, operands, memory problems and inputs that are valid by construction
(specs/verify.md, "Programs").

    from assay.verify.strategies import modules_with_inputs

    @given(modules_with_inputs(operators=["nn.*", "add"], branches=True))
    def test_my_compiler(case):
        module, inputs = case

What fails shrinks to something small: every choice that a maker takes is a number of which 0 is the simplest. The
makers themselves need no Hypothesis: `assay.verify.strategies.graphs.a_module(by_random(Random(0)))` is fast. The
strategies need the extra `hypothesis`; without it they raise Invalid (strategies.C1).

    >>> import hypothesis
    >>> @hypothesis.settings(max_examples=5, database=None, deadline=None)
    ... @hypothesis.given(assay.strategies.modules_with_inputs(operators=["nn.relu", "add"], size=3))
    ... def test_my_pass(case):
    ...     module, inputs = case
    ...     before, after = assay.run(module, inputs), assay.run(module, inputs)  # after a pass of one's own
    ...     for name in before:
    ...         numpy.testing.assert_array_equal(before[name], after[name])
    >>> test_my_pass()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from assay.semantics.dtypes import DType, dtype
from assay.semantics.errors import Invalid
from assay.semantics.memory import Problem
from assay.semantics.module import Module
from assay.semantics.ops import operator
from assay.semantics.scalar import Var as Symbol
from assay.semantics.tensor import PrimFunc
from assay.semantics.types import TensorType, Type
from assay.verify.strategies import kinds, values
from assay.verify.strategies.choosing import Pick, Tape, by_random, one_of, reduce_picks
from assay.verify.strategies.features import DATAFLOW, EVERYTHING, LANGUAGE, Features, chosen
from assay.verify.strategies.graphs import a_module
from assay.verify.strategies.invalid import Refusal, a_refusal
from assay.verify.strategies.memory import a_problem
from assay.verify.strategies.nests import Nests
from assay.verify.strategies.operators import ValidUse
from assay.verify.strategies.recipes import fresh_use
from assay.verify.strategies.tensors import a_tensor_function
from assay.verify.strategies.values import Array

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "DATAFLOW",
    "EVERYTHING",
    "LANGUAGE",
    "Features",
    "Pick",
    "Refusal",
    "Tape",
    "ValidUse",
    "arrays",
    "by_random",
    "dims",
    "dtypes",
    "inputs_for",
    "invalid_calls",
    "loop_nests",
    "memory_problems",
    "modules",
    "modules_with_inputs",
    "operator_calls",
    "reduce_picks",
    "scalars",
    "shapes",
    "tensor_functions",
    "tensor_types",
    "types",
]

T = TypeVar("T")


def chosen_by(make: Callable[[Pick], T]) -> SearchStrategy[T]:
    """The strategy of what a maker makes. Invalid (strategies.C1) without Hypothesis."""
    try:
        from hypothesis import strategies as st
    except ImportError:
        raise Invalid("strategies need Hypothesis; pip install 'assay[hypothesis]'", label="strategies.C1") from None

    @st.composite
    def made(draw: st.DrawFn) -> T:
        return make(lambda n: draw(st.integers(0, n - 1)) if n > 1 else 0)

    return made()


# --- small things ----------------------------------------------------------------------------------------------------


def dtypes(names: Sequence[str] = kinds.COMMON) -> SearchStrategy[DType]:
    """Element types of these names; float32 is the simplest. Invalid for an unknown name."""
    known = [dtype(n).name for n in names]
    return chosen_by(lambda pick: kinds.a_dtype(pick, known))


def dims() -> SearchStrategy[int]:
    """Sizes of axes, all at least 2."""
    return chosen_by(lambda pick: one_of(pick, kinds.SIZES))


def shapes(least: int = 0, most: int = 4, *, empty: bool = False) -> SearchStrategy[tuple[int, ...]]:
    """Shapes of `least` to `most` axes, up to six; their sizes differ pairwise, but for ones (and zeros, where
    `empty`)."""
    return chosen_by(lambda pick: kinds.a_shape(pick, kinds.a_rank(pick, least, most), empty=empty))


def tensor_types(
    names: Sequence[str] = kinds.COMMON, *, symbols: Sequence[Symbol] = (), empty: bool = False
) -> SearchStrategy[TensorType]:
    """Types of tensors; some dims are among `symbols`."""
    return chosen_by(lambda pick: kinds.a_tensor_type(pick, names, symbols=symbols, empty=empty))


def types(depth: int = 2, *, symbols: Sequence[Symbol] = ()) -> SearchStrategy[Type]:
    """Types of values: tensors, shapes, and tuples nested at most `depth` deep."""
    return chosen_by(lambda pick: kinds.a_type(pick, depth, symbols))


def scalars(of: str | DType) -> SearchStrategy[Any]:
    """NumPy scalars of an element type: zeros of both signs, infinities, NaN, subnormals, extremes."""
    return chosen_by(lambda pick: kinds.a_scalar(pick, dtype(of)))


def arrays(shape: tuple[int, ...], of: str | DType) -> SearchStrategy[Array]:
    """Contents of a tensor: small whole numbers, random ones, and random ones with special values among them."""
    return chosen_by(lambda pick: values.an_array(pick, shape, dtype(of)))


# --- operators -------------------------------------------------------------------------------------------------------


def operator_calls(name: str, dtypes: Sequence[str] = kinds.COMMON) -> SearchStrategy[ValidUse]:
    """Valid uses of an operator: operand types, attributes, and the ranges of operands that are indices or divisors."""
    operator(name)
    return chosen_by(lambda pick: fresh_use(name, pick, dtypes))


def invalid_calls(name: str, dtypes: Sequence[str] = kinds.COMMON) -> SearchStrategy[Refusal]:
    """Uses that the operator refuses, with the label of the rule that each breaks."""
    operator(name)
    return chosen_by(lambda pick: a_refusal(name, pick, dtypes))


# --- programs --------------------------------------------------------------------------------------------------------


def features_of(operators: Sequence[str] | None, switches: dict[str, Any]) -> Features:
    """The features that keyword arguments say. Invalid (strategies.C2) for an unknown one."""
    known = Features.__dataclass_fields__
    unknown = [n for n in switches if n not in known]
    if unknown:
        raise Invalid(f"no feature {unknown[0]!r}; there are {', '.join(known)}", label="strategies.C2")
    return Features(operators=chosen(operators), **switches)


def modules(operators: Sequence[str] | None = None, *, size: int = 12, **switches: Any) -> SearchStrategy[Module]:
    """Graph modules of about `size` nodes at most.

    `operators` are those that are called, by name or as `nn.*`; by default all whose results have sizes that are known.
    `switches` are the fields of `Features`: branches, sharing, names, functions, recursion, effects, data, casts,
    symbolic, constants, named_constants, kernels, traps, dtypes, devices.
    """
    features = features_of(operators, switches)
    return chosen_by(lambda pick: a_module(pick, size, features))


def inputs_for(module: Module) -> SearchStrategy[dict[str, Any]]:
    """Inputs for `main` by name, with special values. Sizes of symbolic dims agree."""
    return chosen_by(lambda pick: values.picked_inputs(pick, module))


def modules_with_inputs(
    operators: Sequence[str] | None = None, *, size: int = 12, **switches: Any
) -> SearchStrategy[tuple[Module, dict[str, Any]]]:
    """Modules as of `modules`, each with inputs."""
    features = features_of(operators, switches)

    def made(pick: Pick) -> tuple[Module, dict[str, Any]]:
        module = a_module(pick, size, features)
        return module, values.picked_inputs(pick, module)

    return chosen_by(made)


def tensor_functions(*, static: bool = False) -> SearchStrategy[PrimFunc]:
    """Valid tensor functions: loops of all kinds, tiles, guards, triangles, reductions, blocks, views, workspace,
    tables, while loops; `static`: without symbolic sizes."""
    return chosen_by(lambda pick: a_tensor_function(pick, static=static))


def loop_nests() -> SearchStrategy[PrimFunc]:
    """Valid nests with affine accesses: recurrences, stencils, reductions, guards; for schedules and dependence
    analyses."""
    return chosen_by(lambda pick: Nests(pick).make())


def memory_problems(most_buffers: int = 8, *, limits: bool = False) -> SearchStrategy[Problem]:
    """Problems of memory planning; with `limits` there is a small pool, and there may be no answer."""
    return chosen_by(lambda pick: a_problem(pick, most_buffers, limits=limits))
