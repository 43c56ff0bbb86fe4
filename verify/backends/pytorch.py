"""PyTorch on the CPU or a GPU: the graph as calls of its functions, exported by `torch.export` (specs/verify.md,
"Backends").
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from assay.interp import graph
from assay.lower.simplify.bind_params import with_sizes
from assay.semantics.dtypes import DTYPES, DType
from assay.semantics.errors import Invalid, Unsupported
from assay.semantics.graph import Call
from assay.semantics.graph.matching import Bound
from assay.semantics.operator import Operator
from assay.semantics.walk import post_order
from assay.verify.app.foreign import Raised
from assay.verify.backends.gpu import CUDA, ON_CUDA, require_cuda
from assay.verify.backends.ours import with_results
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, crashed, run_failed
from assay.verify.backends.pytorch_programs import Compiled, original_run, torch_tensor
from assay.verify.backends.torch_module import learns_sizes, to_torch, torch_module
from assay.verify.oracle.declarations import EVERYTHING_KEPT, Accepts

Mode = Literal["export", "eager", "compile", "aot_eager", "aot"]


@dataclass(frozen=True)
class Torch:
    """The program as torch.export has it, or decomposed into PyTorch's core operators (`core`); called as it is
    (eager), compiled by inductor when it is first run (compile), or ahead of time to a library (aot), or traced ahead
    of time and called (aot_eager). A subject that was read from a program of torch.export is run as that program. Else
    the graph is calls of PyTorch's functions, and symbolic sizes get those of the inputs, once for each: branches and
    loops are PyTorch's, or Python's where the program is called as it is."""

    name: str
    core: bool = False
    mode: Mode = "export"
    device: str = "cpu"
    accepts: Accepts = EVERYTHING_KEPT  # on the CPU no freedom of its compilers was measured
    takes_originals: ClassVar[bool] = True

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Build and export a module of PyTorch. Invalid: not installed (backend.C1), or it cannot be said
        (backend.C2)."""
        try:
            import torch
        except ImportError:
            raise Invalid(
                f"the backend {self.name} is not installed; pip install 'assay[torch]'", label="backend.C1"
            ) from None
        if self.device == CUDA:
            require_cuda(self.name, torch.cuda.is_available(), "PyTorch finds none, or was built without CUDA")
        if (
            self.mode in ("compile", "aot")
            and self.device == "cpu"
            and shutil.which("g++") is None
            and shutil.which("clang++") is None
        ):
            raise Invalid(f"the backend {self.name} needs a C++ compiler, and there is no g++", label="backend.C1")
        if subject.original:
            return self._prepared_original(torch, subject, wanted)
        return self._prepared_graph(torch, subject, wanted)

    def _prepared_original(self, torch: Any, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """The program that the subject was read from. It shows its outputs and nothing else."""
        inner = [n for n in wanted if n not in subject.outputs]
        if inner:
            raise cannot(self.name, f"of a program of torch.export it shows the outputs, and not {inner[0]!r}")
        names = list(wanted)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = original_run(
                    torch, subject, self.name, self.core, lambda m: self._compiled(torch, m), self.device
                )
        except Exception as wrong:
            raise self._failure(wrong, cannot) from wrong

        def prepared(inputs: Mapping[str, Array]) -> dict[str, Array]:
            tensors = {n: to_torch(torch, np.asarray(a)).to(self.device) for n, a in inputs.items()}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = run(tensors)
            except Exception as wrong:
                raise self._failure(wrong, run_failed) from wrong
            return {n: from_torch(torch, torch_tensor(torch, found[n])) for n in names}

        return prepared

    def _compiled(self, torch: Any, module: Any, example: Sequence[Any] | None = None) -> Compiled:
        """A module as this backend runs it."""
        match self.mode:
            case "compile":
                return compiled_whole(torch, module, "inductor")
            case "aot_eager":
                return compiled_whole(torch, module, "aot_eager")
            case "aot":
                return ahead_of_time(torch, module, example)
        made: Compiled = module
        return made

    def _prepared_graph(self, torch: Any, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """The graph as calls of PyTorch's functions."""
        from assay.verify.backends.torch_table import TABLE

        module = with_results(subject, wanted)
        names = list(wanted)
        for node in chain.from_iterable(post_order(f) for f in module.graphs.values()):
            if isinstance(node, Call) and isinstance(node.op, Operator) and node.op.name not in TABLE:
                raise cannot(self.name, f"PyTorch has no function that is {node.op.name}")
        known: dict[Any, Compiled] = {}
        learning: dict[Any, Any] = {}
        # what is compiled is compiled for sizes: those that elements tell are learned from a run one by one
        learns = self.mode != "eager" and learns_sizes(module.main)

        def made_for(sizes: Bound, traced: bool) -> Any:
            at = module.with_(main=with_sizes(module.main, sizes))
            return torch_module(torch, TABLE, at, traced).to(self.device)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            arrays = [np.asarray(inputs[p.name]) for p in module.main.params]
            shapes = tuple(a.shape for a in arrays)
            sizes: Bound = {s: n for s, n in graph.check_inputs(module.main, inputs).items()}
            with torch.no_grad(), self._making(torch), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what PyTorch calls in itself
                try:
                    given = [to_torch(torch, a).to(self.device) for a in arrays]
                    if learns:
                        if shapes not in learning:
                            learning[shapes] = made_for(sizes, traced=False)
                        learning[shapes](*given)
                        sizes |= learning[shapes].sizes
                except Exception as wrong:
                    raise self._failure(wrong, run_failed) from wrong
                key = (*shapes, *sizes.values())
                try:
                    if key not in known:
                        made = made_for(sizes, self.mode != "eager")
                        if self.mode != "eager":
                            exported = torch.export.export(made, tuple(given))
                            made = (exported.run_decompositions() if self.core else exported).module()
                        known[key] = self._compiled(torch, made, given)
                except Exception as wrong:
                    # tracing raises classes of all kinds
                    raise self._failure(wrong, cannot) from wrong
                try:
                    results = known[key](*given)
                except Exception as wrong:
                    raise self._failure(wrong, run_failed) from wrong
            return {n: from_torch(torch, r) for n, r in zip(names, results, strict=True)}

        return run

    def _making(self, torch: Any) -> AbstractContextManager[Any]:
        """Where functions put tensors that they make of nothing."""
        there: AbstractContextManager[Any] = nullcontext() if self.device == "cpu" else torch.device(self.device)
        return there

    def _failure(self, wrong: Exception, otherwise: Callable[[str, BaseException], Unsupported]) -> Unsupported:
        """A crash where PyTorch says that it is one, a refusal where it says that, and `otherwise` else."""
        raised = Raised(wrong)
        if "INTERNAL ASSERT FAILED" in str(raised) or raised.kind.startswith("Internal"):
            return crashed(self.name, raised, raised.place_in(""))
        return (cannot if isinstance(wrong, (NotImplementedError, Unsupported)) else otherwise)(self.name, wrong)


MODES: Mapping[str, Mapping[str, Any]] = {
    "torch": {}, "torch:core": {"core": True}, "torch:eager": {"mode": "eager"}, "torch:compile": {"mode": "compile"},
    "torch:aot_eager": {"mode": "aot_eager"}, "torch:aot": {"mode": "aot"},
    "torch:cuda": {"mode": "eager", "device": CUDA, "accepts": ON_CUDA},
    "torch:compile:cuda": {"mode": "compile", "device": CUDA, "accepts": ON_CUDA},
}  # fmt: skip
"""The backends of PyTorch by name, and how each runs a program."""


def compiled_whole(torch: Any, module: Any, backend: str) -> Compiled:
    """A module as `torch.compile` has it, in one graph, for the very sizes of each run. Where PyTorch would leave a
    part uncompiled, or after a number of sizes all of it, and run that as it is, it raises here: what was not compiled
    is not judged."""
    compiled: Compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=False)
    return compiled


def ahead_of_time(torch: Any, module: Any, example: Sequence[Any] | None) -> Compiled:
    """A library that AOTInductor makes of a module, loaded again. Where the inputs are not known yet, it is made at the
    first run, for their sizes; and for others again."""
    known: dict[tuple[Any, ...], Compiled] = {}

    def call(*args: Any, **named: Any) -> Any:
        leaves = torch.utils._pytree.tree_leaves((args, named))
        key = tuple((tuple(a.shape), str(a.dtype)) if isinstance(a, torch.Tensor) else a for a in leaves)
        if key not in known:
            exported = torch.export.export(module, args, named)
            with tempfile.TemporaryDirectory() as folder:
                path = torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/program.pt2")
                known[key] = torch._inductor.aoti_load_package(path)
        return known[key](*args, **named)

    return call


def from_torch(torch: Any, x: Any) -> Array:
    """The array of a PyTorch tensor, copied; dtypes that NumPy lacks go by their bits."""
    of: DType = DTYPES[str(x.dtype).removeprefix("torch.")]
    x = x.detach().cpu().contiguous()
    if of.numpy.isbuiltin == 1:
        return np.array(x.numpy())
    bits: Array = x.view(torch.int16 if of.bits == 16 else torch.uint8).numpy()
    return np.array(bits).view(of.numpy)
