"""XLA on the CPU, by jaxlib: the module as StableHLO (specs/verify.md, "Backends").

jaxlib is called without JAX. What its Python interface keeps for JAX is in `CpuClient`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from assay.interp import graph
from assay.lower.simplify.bind_params import with_sizes
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.errors import Crash, Invalid, Unsupported
from assay.semantics.graph.matching import Bound
from assay.semantics.module import Module
from assay.semantics.types import symbols
from assay.verify.app.foreign import Raised
from assay.verify.backends.ours import with_results
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, crashed, run_failed
from assay.verify.oracle.declarations import Accepts

INTERNAL = ("INTERNAL", "UNKNOWN", "ABORTED", "DATA_LOSS")
"""Status codes of faults inside, with which a message of XLA begins."""


@dataclass(frozen=True)
class Xla:
    """The module, its sizes bound to those of the inputs, compiled for the host with XLA's options as they are. It
    takes subnormal numbers for zero (`tests/verify/backends/test_xla.py` measures it).

    Asked for more than the outputs it is compiled without fusion: fused loops compute a tensor again for each who reads
    it, with products that are added unrounded, so what is shown would not be what was used."""

    name: str
    takes_modules: ClassVar[bool] = True
    accepts: ClassVar[Accepts] = Accepts(flushes=True)

    def prepare(self, subject: Subject, wanted: Sequence[str]) -> Prepared:
        """Export and compile the module, at once if its sizes are static, else at the first run of each set of sizes.
        Invalid: not installed (backend.C1), or it cannot be said or compiled (backend.C2)."""
        client = self._client()
        module = with_results(subject, wanted)
        fused = set(wanted) <= set(subject.outputs)
        known: dict[tuple[tuple[int, ...], ...], Any] = {}
        if not any(symbols(p.type) for p in module.main.params):
            known[()] = self._compiled(client, module, fused)

        def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
            arrays = [np.asarray(inputs[p.name]) for p in module.main.params]
            key = () if () in known else tuple(a.shape for a in arrays)
            if key not in known:
                bound: Bound = {s: n for s, n in graph.check_inputs(module.main, inputs).items()}
                sized = module.with_(main=with_sizes(module.main, bound))
                known[key] = self._compiled(client, sized, fused)
            try:
                results = client.run(known[key], arrays)
            except Exception as wrong:
                # of jaxlib's own classes, told apart by their status code
                raise self._failure(wrong, run_failed(self.name, wrong)) from wrong
            return dict(zip(wanted, results, strict=True))

        return run

    def _client(self) -> CpuClient:
        try:
            return CpuClient.of_process()
        except ImportError:
            raise Invalid("the backend xla is not installed; pip install 'assay[jax]'", label="backend.C1") from None

    def _compiled(self, client: CpuClient, module: Module, fused: bool) -> Any:
        try:
            text = export_stablehlo(module)
        except Crash:
            raise
        except (Invalid, Unsupported) as wrong:
            raise cannot(self.name, wrong) from None
        try:
            return client.compile(text, fused)
        except Exception as wrong:
            # as above
            raise self._failure(wrong, cannot(self.name, wrong)) from wrong

    def _failure(self, wrong: Exception, otherwise: Unsupported) -> Unsupported:
        """A crash where XLA says that it is one, else `otherwise`."""
        raised = Raised(wrong)
        if str(wrong).startswith(INTERNAL):
            return crashed(self.name, raised, raised.place_in(""))
        return otherwise


class CpuClient:
    """jaxlib's client for the host."""

    _made: CpuClient | None = None

    def __init__(self) -> None:
        from jaxlib import _jax, xla_client

        self.jax, self.xla = _jax, xla_client
        self.client = xla_client.make_cpu_client()
        self.devices = self.client.devices()[:1]

    @classmethod
    def of_process(cls) -> CpuClient:
        """The one of this process: it holds threads. ImportError: there is no jaxlib."""
        if cls._made is None:
            cls._made = cls()
        return cls._made

    def compile(self, text: str, fused: bool = True) -> Any:
        """The program that a StableHLO text is."""
        options = self.xla.CompileOptions()
        if not fused:
            options.executable_build_options.debug_options.xla_disable_hlo_passes = "fusion"
        return self.client.compile_and_load(text, self.jax.DeviceList(tuple(self.devices)), options)

    def run(self, program: Any, arrays: Sequence[Array]) -> list[Array]:
        """What a program gives, copied."""
        when = self.jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
        given = [
            self.jax.batched_device_put(_Aval(a), self._sharding, [a], self.devices, True, True, when, True)
            for a in map(np.ascontiguousarray, arrays)
        ]
        found = program.execute_sharded(given).disassemble_into_single_device_arrays()
        return [np.array(one[0]._single_device_array_to_np_array_did_copy()[0]) for one in found]

    @cached_property
    def _sharding(self) -> Any:
        """Where arrays lie: on the one device. What JAX's own class adds to jaxlib's is added."""
        xla, of_jaxlib = self.xla, self.jax.SingleDeviceSharding

        class OneDevice(of_jaxlib):  # type: ignore[misc,valid-type]
            memory_kind = None

            def _to_xla_hlo_sharding(self, ndim: int) -> Any:
                return xla.HloSharding.replicate()

        return OneDevice(self.devices[0])


class _Aval:
    """What JAX says of an array, beside its elements."""

    weak_type = False

    def __init__(self, array: Array) -> None:
        self.shape, self.dtype = array.shape, array.dtype
        self.ndim, self.size = array.ndim, array.size
