"""What is mutated, and which tests are to notice (specs/verify.md, "Mutants").

A group is a part of Assay with the tests that say what it has to do: a pass with its checker's tests, a checker with
its planted faults, a definition with the independent second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.places import ROOT


@dataclass(frozen=True)
class Group:
    """Sources and tests as patterns of paths below the repository and below tests/."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def files(self) -> list[Path]:
        return sorted({p for pattern in self.sources for p in ROOT.glob(pattern) if p.suffix == ".py"})

    @property
    def test_files(self) -> list[Path]:
        """In the order of the patterns: those that find the most come first."""
        return list(dict.fromkeys(p for pattern in self.tests for p in sorted((ROOT / "tests").glob(pattern))))


GROUPS = (
    Group("sets", ("semantics/sets.py",), ("**/test_sets.py",)),
    Group("integers", ("semantics/integers/*.py",), ("**/integers/*.py",)),
    Group("scalar rules", ("semantics/scalar/*.py",),
        ("**/test_scalar_parts.py", "**/test_scalar.py", "**/test_intrinsics.py", "**/test_transcendental.py",
        "**/test_scalar_smt.py", "**/test_expressions.py", "**/test_text_scalars.py", "**/test_loops.py",
        "**/test_symbolic.py")),
    Group("graph rules", ("semantics/graph/*.py",),
        ("**/test_graph_rules.py", "**/test_matching.py", "**/test_walk_graph.py", "**/test_builder*.py",
        "**/test_bindings.py", "**/test_graph.py", "**/test_graph_*.py", "**/test_patterns.py",
        "**/test_type_cost.py")),
    Group("bounds", ("semantics/bounding/*.py", "semantics/bounds.py"),
        ("**/test_bounds*.py", "**/test_ops_numeric.py")),
    Group("operators", ("semantics/ops/*.py",),
        ("**/test_ops_*.py", "**/test_kernels*.py", "**/test_onnx_operators.py")),
    Group("equality", ("semantics/analyses/*.py",),
        ("**/test_equality*.py", "**/test_analysis.py", "**/test_op_pattern.py")),
    Group("graph interpreter", ("interp/graph/*.py",),
        ("**/test_boundary.py", "**/test_graph*.py", "**/test_session.py", "**/test_contents.py",
        "**/test_partition.py")),
    Group("tensor interpreter", ("interp/tensor.py", "interp/memory.py", "interp/shadow.py"),
        ("**/test_memory.py", "**/test_tensor.py", "**/test_bytes.py", "**/test_blocks.py", "**/test_calls.py",
        "**/test_odd_programs.py", "**/test_sanitizer.py")),
    Group("vector interpreter", ("interp/vector/*.py",),
        ("**/test_vector*.py", "**/test_straight.py", "**/test_apart.py", "**/test_blocks*.py",
        "**/test_odd_programs.py", "**/test_spread_parameters.py")),
    Group(
        "machine", ("interp/machine.py", "interp/device_access.py"), ("**/test_machine*.py", "**/test_device_runs.py")
    ),
    Group("ANF", ("lower/anf/*.py",),
        ("**/test_anf_pass.py", "**/test_bbnf.py", "**/test_anf_names.py", "**/test_anf_failures.py",
        "**/test_anf_random.py")),
    Group("ANF proof", ("verify/anf/*.py", "verify/value_numbering/*.py"),
        ("**/test_anf_faults.py", "**/test_anf_museum.py", "**/test_anf_proof.py", "**/test_anf.py", "**/test_bbnf.py",
        "**/test_fuse*.py", "**/test_constants_check.py", "**/test_anf_random.py")),
    Group("devices", ("lower/devices/*.py",),
        ("**/test_device*.py", "**/test_scopes.py", "**/test_placed.py", "**/test_device_museum.py")),
    Group("devices check", ("verify/devices/*.py",),
        ("**/test_device_museum.py", "**/test_scope_museum.py", "**/test_devices_check.py", "**/test_devices_rules.py",
        "**/test_devices_scopes.py", "**/test_odd_devices.py")),
    Group("fuse", ("lower/fuse/*.py",), ("**/test_fuse*.py", "**/test_placed.py", "**/test_tensor_calls.py")),
    Group("fuse check", ("verify/fuse/*.py",), ("**/test_fuse*.py",)),
    Group("kernels", ("lower/legalize/kernels/*.py",), ("**/test_kernels*.py",)),
    Group("schedule", ("lower/schedule/*.py", "lower/loops/*.py"), ("**/test_schedule.py", "**/test_loops*.py")),
    Group("constants", ("lower/constants/*.py",),
        ("**/test_constant*.py", "**/test_constant_museum.py", "**/test_odd_constants.py",
        "**/test_made_constants.py")),
    Group("constants check", ("verify/constants/*.py",),
        ("**/test_constants*.py", "**/test_constant_museum.py", "**/test_made_constants.py",
        "**/test_constants_link.py")),
    Group("simplify", ("lower/simplify/*.py",),
        ("**/test_lambda_lift.py", "**/test_simplify*.py", "**/test_passes.py")),
    Group("liveness", ("lower/liveness/*.py", "semantics/tensor/phases.py"),
        ("**/test_liveness*.py", "**/test_liveness_museum.py", "**/test_phases.py", "**/test_memory_dynamic.py",
        "**/test_placed.py")),
    Group("planner", ("lower/memory/*.py", "lower/memory/exact/*.py", "lower/pool/__init__.py"),
        ("**/test_memory_rules.py", "**/test_memory_planners.py", "**/test_memory_tokens.py",
        "**/test_memory_exact.py", "**/test_planner_faults.py", "**/test_memory_symbolic.py",
        "**/test_memory_dynamic.py", "**/test_placed.py", "**/test_plan_command.py", "**/test_pools.py")),
    Group("memory proof", ("verify/memory/*.py",),
        ("**/test_memory_forms.py", "**/test_memory_far.py", "**/test_memory_museum.py", "**/test_planner_faults.py",
        "**/test_memory_proof.py", "**/test_memory_symbolic.py", "**/test_plan_dynamic.py")),
    Group("C", ("lower/c/*.py",), ("**/test_c.py", "**/test_c_*.py")),
    Group("equivalence", ("verify/equivalence/*.py",), ("**/test_equivalence_rules.py", "**/test_equivalence*.py")),
    Group("symbolic proof", ("verify/symbolic/*.py",),
        ("**/test_symbolic_goals.py", "**/test_symbolic.py", "**/test_symbolic_faults.py")),
    Group("verdict", ("verify/oracle/*.py",),
        ("**/test_oracle*.py", "**/test_numeric_verdicts.py", "**/test_false_alarms.py", "**/test_backend_faults.py",
        "**/test_adversarial.py")),
)  # fmt: skip
