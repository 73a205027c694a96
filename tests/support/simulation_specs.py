"""Compares leases with the machines: the same kernels, and the same devices of each."""

from aliquot_schema.states import KernelState
from simulation_machine import Machine
from simulation_reference_model import ReferenceModel

UNDER_WAY = frozenset({KernelState.GRANTED, KernelState.STARTING})
"""Held, but not known to have started."""


def different_specs(model: ReferenceModel, machines: dict[str, Machine]) -> list[str]:
    """Kernels that are held but not running, running but not held, or running on other devices."""
    runs = {name: order.spec for machine in machines.values() for name, order in machine.running.items()}
    held = {lease.kernel_id: lease.spec for lease in model.held() if lease.kernel_id is not None}
    under_way = {name for name in held if model.kernels[name].state in UNDER_WAY}
    names = (runs.keys() | held.keys()) - (under_way - runs.keys())
    return sorted(name for name in names if runs.get(name) != held.get(name))
