"""XLA on the CPU or a GPU, by jaxlib: the module as StableHLO (specs/verify.md, "Backends").

jaxlib is called without JAX. What its Python interface keeps for JAX is in `Client`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from assay.interp import graph
from assay.lower.simplify.bind_params import with_sizes
from assay.lower.simplify.told_sizes import with_told_sizes
from assay.lower.stablehlo_export import export_stablehlo
from assay.semantics.errors import Crash, Invalid, Unsupported
from assay.semantics.graph.matching import Bound
from assay.semantics.module import Module
from assay.semantics.types import symbols
from assay.verify.app.foreign import Raised
from assay.verify.backends.gpu import CUDA, ON_CUDA, xla_plugin
from assay.verify.backends.ours import with_results
from assay.verify.backends.protocol import Array, Prepared, Subject, cannot, crashed, run_failed
from assay.verify.oracle.declarations import Accepts

INTERNAL = ("INTERNAL", "UNKNOWN", "ABORTED", "DATA_LOSS")
"""Status codes of faults inside, with which a message of XLA begins."""


@dataclass(frozen=True)
class Xla:
    """The module, its sizes bound to those of the inputs, compiled with XLA's options as they are. On the host it takes
    subnormal numbers for zero (`tests/verify/backends/test_xla.py` measures it).

    Asked for more than the outputs it is compiled without fusion: fused loops compute a tensor again for each who reads
    it, with products that are added unrounded, so what is shown would not be what was used."""

    name: str
    device: str = ""
    accepts: Accepts = Accepts(flushes=True)
    takes_modules: ClassVar[bool] = True

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
                sized = with_told_sizes(module.with_(main=with_sizes(module.main, bound)), graph.evaluate)
                known[key] = self._compiled(client, sized, fused)
            try:
                results = client.run(known[key], arrays)
            except Exception as wrong:
                # of jaxlib's own classes, told apart by their status code
                raise self._failure(wrong, run_failed(self.name, wrong)) from wrong
            return dict(zip(wanted, results, strict=True))

        return run

    def _client(self) -> Client:
        try:
            return Client.of_process(self.device)
        except ImportError:
            raise Invalid(
                f"the backend {self.name} is not installed; pip install 'assay[jax]'", label="backend.C1"
            ) from None
        except RuntimeError as wrong:  # what the plugin of a device says
            raise Invalid(
                f"the backend {self.name} needs a GPU with CUDA: {Raised(wrong).first_line}", label="backend.C1"
            ) from None

    def _compiled(self, client: Client, module: Module, fused: bool) -> Any:
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


ON_CPU = "", Accepts(flushes=True)
ON_GPU = CUDA, ON_CUDA
"""A device, and what is declared of it. XLA's own option to flush on a GPU is off by default."""


class Client:
    """jaxlib's client for the host, or for the first device of a plugin."""

    _made: ClassVar[dict[str, Client]] = {}

    def __init__(self, device: str = "") -> None:
        from jaxlib import _jax, xla_client

        self.jax, self.xla = _jax, xla_client
        self.client = self._of_plugin(device) if device else xla_client.make_cpu_client()
        self.devices = self.client.devices()[:1]

    @classmethod
    def of_process(cls, device: str = "") -> Client:
        """The one of this process: it holds threads. ImportError: there is no jaxlib. Invalid (backend.C1) or
        RuntimeError: there is no such device."""
        if device not in cls._made:
            cls._made[device] = cls(device)
        return cls._made[device]

    def _of_plugin(self, device: str) -> Any:
        """A client for a device that a package beside jaxlib gives."""
        xla = self.xla
        if not xla.pjrt_plugin_loaded(device):
            xla.load_pjrt_plugin_dynamically(device, str(xla_plugin(f"xla:{device}")))
        if not xla.pjrt_plugin_initialized(device):
            xla.initialize_pjrt_plugin(device)
        return xla.make_c_api_client(device)

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
