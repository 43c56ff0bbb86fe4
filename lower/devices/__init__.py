"""The stage `devices`: where every value lives, and the copies between (rule M8; specs/lower.md, "devices").

`plan_devices` gives every expression a full device. Two parts of a device are planned one after the other by the same
rules: the place (type, id, target) and the scope. Both are solved as a whole, so the plan does not depend on the order
of definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.lower.devices.capture import Plan, capture, crossing
from assay.lower.devices.configure import default_config
from assay.lower.devices.constraints import Constraints, DevicePart
from assay.lower.devices.instances import planned_with_instances
from assay.lower.devices.scopes import specialise
from assay.lower.devices.solve import solve_domains
from assay.semantics.compilation import CompilationConfig
from assay.semantics.devices import VirtualDevice
from assay.semantics.errors import Invalid
from assay.semantics.graph import Expr
from assay.semantics.module import Module
from assay.semantics.walk import post_order

__all__ = ["DeviceMap", "default_config", "device_map", "plan_devices"]


def plan_devices(module: Module, config: CompilationConfig | None = None) -> Module:
    """The module with a full device on every expression, copies where a value is wanted elsewhere, and no annotation.

    Without a configuration there is that of `default_config`; the module stays as it is where nothing names a device.
    Names stay; functions get instances where their calls want them on several devices, or where they leave scopes open
    (`instances`, `scopes`). A planned module is its own plan. Invalid (devices.C1): what cannot be copied apart is said
    to be on two devices; (config.C6): there is no device such as one that is named (rule M8.3).
    """
    config = config or default_config(module)
    if config is None:
        return module
    return specialise(planned_with_instances(module, config, lambda m: plan_once(m, config)))


def plan_once(module: Module, config: CompilationConfig) -> Module:
    """The plan in which each function has one domain for all its calls, and no instance is made."""
    place = Constraints(module, config, DevicePart.PLACE)
    places = solve_domains(place)
    scope = Constraints(module, config, DevicePart.SCOPE, crossing(place, places))
    plan = Plan(place, scope, places, solve_domains(scope))
    captured = {n: capture(plan, n, d) for n, d in module.graphs.items()}
    return module if all(captured[n] is d for n, d in module.graphs.items()) else module.with_(**captured)


class DeviceMap(Mapping[Expr, VirtualDevice]):
    """Where each expression of a module's graph functions lives: by the node, in the order of evaluation's text (parts
    before wholes), or by the name of a definition and the number of a node in it."""

    def __init__(self, module: Module) -> None:
        self._orders: dict[str, list[Expr]] = {}
        for name, d in module.graphs.items():
            root: Expr = d
            self._orders[name] = list(post_order(root))
        self._nodes = dict.fromkeys(n for order in self._orders.values() for n in order)

    def __getitem__(self, node: Expr) -> VirtualDevice:
        if node not in self._nodes:
            raise KeyError(node)
        return node.device

    def __iter__(self) -> Iterator[Expr]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def of(self, name: str = "main") -> list[VirtualDevice]:
        """The devices of a definition's expressions: the one of number `i` at index `i`."""
        if name not in self._orders:
            raise Invalid(f"the module has no graph function {name}", label="devices.C2")
        return [n.device for n in self._orders[name]]


def device_map(module: Module) -> DeviceMap:
    """Where each expression of a module lives, as far as its fields say."""
    return DeviceMap(module)
