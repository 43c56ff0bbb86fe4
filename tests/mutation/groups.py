"""What is mutated, and which tests are to notice (specs/verify.md, "Mutants").

A group is a part of Assay with the tests that say what it has to do: a pass with its checker's tests, a checker with
its planted faults, a definition with the independent second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
    Group("sets", ("semantics/sets.py",), ("semantics/test_sets.py",)),
    Group("scalar rules", ("semantics/scalar/*.py",), ("semantics/test_affine.py", "semantics/test_scalar_parts.py", "semantics/test_scalar.py", "semantics/test_intrinsics.py", "semantics/test_transcendental.py", "semantics/test_scalar_smt.py", "semantics/test_expressions.py", "semantics/test_text_scalars.py", "lower/test_loops.py", "verify/test_symbolic.py")),
    Group("graph rules", ("semantics/graph/*.py",), ("semantics/test_graph_rules.py", "semantics/test_matching.py", "semantics/test_walk_graph.py", "semantics/test_builder*.py", "semantics/test_bindings.py", "interp/test_graph.py", "interp/test_graph_*.py", "semantics/test_patterns.py", "semantics/test_type_cost.py")),
    Group("bounds", ("semantics/bounding/*.py", "semantics/bounds.py"), ("semantics/test_bounds*.py", "semantics/test_ops_numeric.py")),
    Group("operators", ("semantics/ops/*.py",), ("semantics/test_ops_*.py", "lower/test_kernels*.py", "lower/test_onnx_operators.py")),
    Group("equality", ("semantics/analyses/*.py",), ("semantics/test_equality*.py", "semantics/test_analysis.py", "semantics/test_op_pattern.py")),
    Group("graph interpreter", ("interp/graph/*.py",), ("interp/test_boundary.py", "interp/test_graph*.py", "interp/test_session.py", "interp/test_contents.py", "lower/test_partition.py")),
    Group("tensor interpreter", ("interp/tensor.py", "interp/memory.py", "interp/shadow.py"), ("interp/test_memory.py", "interp/test_tensor.py", "interp/test_bytes.py", "interp/test_blocks.py", "interp/test_calls.py", "interp/test_odd_programs.py", "museum/test_sanitizer.py")),
    Group("vector interpreter", ("interp/vector/*.py",), ("interp/test_vector*.py", "interp/test_straight.py", "interp/test_apart.py", "interp/test_blocks*.py", "interp/test_odd_programs.py", "interp/test_spread_parameters.py")),
    Group("machine", ("interp/machine.py", "interp/across.py"), ("interp/test_machine*.py", "verify/test_device_runs.py")),
    Group("ANF", ("lower/anf/*.py",), ("lower/test_anf_pass.py", "lower/test_bbnf.py", "lower/test_anf_names.py", "lower/test_anf_failures.py", "verify/test_anf_random.py")),
    Group("ANF proof", ("verify/anf/*.py", "verify/numbering/*.py"), ("verify/test_anf_faults.py", "museum/test_anf_museum.py", "verify/test_anf_proof.py", "verify/test_anf.py", "lower/test_bbnf.py", "verify/test_fuse*.py", "verify/test_constants_check.py", "verify/test_anf_random.py")),
    Group("devices", ("lower/devices/*.py",), ("lower/test_device*.py", "lower/test_scopes.py", "lower/test_placed.py", "museum/test_device_museum.py")),
    Group("devices check", ("verify/devices/*.py",), ("museum/test_device_museum.py", "museum/test_scope_museum.py", "verify/test_devices_check.py", "verify/test_devices_rules.py", "verify/test_devices_scopes.py", "verify/test_odd_devices.py")),
    Group("fuse", ("lower/fuse/*.py",), ("lower/test_fuse*.py", "lower/test_placed.py", "lower/test_tensor_calls.py")),
    Group("fuse check", ("verify/fuse/*.py",), ("verify/test_fuse*.py",)),
    Group("kernels", ("lower/kernels/*.py",), ("lower/test_kernels*.py",)),
    Group("schedule", ("lower/schedule/*.py", "lower/loops/*.py"), ("lower/test_schedule.py", "lower/test_loops*.py")),
    Group("constants", ("lower/constants/*.py",), ("lower/test_constant*.py", "museum/test_constant_museum.py", "lower/test_odd_constants.py", "lower/test_made_constants.py")),
    Group("constants check", ("verify/constants/*.py",), ("verify/test_constants*.py", "museum/test_constant_museum.py", "lower/test_made_constants.py", "lower/test_constants_link.py")),
    Group("simplify", ("lower/simplify/*.py",), ("lower/test_lambda_lift.py", "lower/test_simplify*.py", "lower/test_passes.py")),
    Group("liveness", ("lower/liveness/*.py", "semantics/tensor/phases.py"), ("lower/test_liveness*.py", "museum/test_liveness_museum.py", "semantics/test_phases.py", "lower/test_memory_dynamic.py", "lower/test_placed.py")),
    Group("planner", ("lower/memory/*.py", "lower/memory/exact/*.py", "lower/pool.py"), ("lower/test_memory_rules.py", "lower/test_memory_planners.py", "lower/test_memory_tokens.py", "lower/test_memory_exact.py", "museum/test_planner_faults.py", "lower/test_memory_symbolic.py", "lower/test_memory_dynamic.py", "lower/test_placed.py", "verify/test_plan_command.py", "verify/test_pools.py")),
    Group("memory proof", ("verify/memory/*.py",), ("verify/test_memory_forms.py", "verify/test_memory_far.py", "museum/test_memory_museum.py", "museum/test_planner_faults.py", "verify/test_memory_proof.py", "verify/test_memory_symbolic.py", "verify/test_plan_dynamic.py")),
    Group("C", ("lower/c/*.py",), ("lower/test_c.py", "lower/test_c_*.py")),
    Group("equivalence", ("verify/equivalence/*.py",), ("verify/test_equivalence_rules.py", "verify/test_equivalence*.py")),
    Group("symbolic proof", ("verify/symbolic/*.py",), ("verify/test_symbolic_goals.py", "verify/test_symbolic.py", "verify/test_symbolic_faults.py")),
    Group("verdict", ("verify/oracle/*.py",), ("verify/test_oracle*.py", "verify/test_numeric_verdicts.py", "verify/test_false_alarms.py", "verify/test_backend_faults.py", "verify/test_adversarial.py")),
)  # fmt: skip
