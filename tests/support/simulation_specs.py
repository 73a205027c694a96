"""Leases against what the machines gave: the same kernels, and the same devices of each."""

from aliquot_schema.states import KernelState
from simulation_machine import Machine
from simulation_truth import Truth

UNDER_WAY = frozenset({KernelState.GRANTED, KernelState.STARTING})
"""Held, and not started yet as far as anybody knows."""


def different_specs(truth: Truth, machines: dict[str, Machine]) -> list[str]:
    """Kernels that are held and do not run, that run and are not held, or that run on other devices."""
    runs = {name: order.spec for machine in machines.values() for name, order in machine.running.items()}
    held = {lease.kernel_id: lease.spec for lease in truth.held() if lease.kernel_id is not None}
    under_way = {name for name in held if truth.kernels[name].state in UNDER_WAY}
    names = (runs.keys() | held.keys()) - (under_way - runs.keys())
    return sorted(name for name in names if runs.get(name) != held.get(name))
