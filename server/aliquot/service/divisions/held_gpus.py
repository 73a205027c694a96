"""How many GPUs the sessions of each project hold, parts as parts."""

from collections import Counter
from collections.abc import Mapping

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.service.state import State
from aliquot_schema.devices import Device
from aliquot_schema.ids import DeviceId, ProjectId
from aliquot_schema.leases import Lease
from aliquot_schema.sessions import DEFAULT_PROJECT
from aliquot_schema.slots import MILLI, is_accelerator


def gpus_by_project(state: State) -> Mapping[ProjectId, float]:
    """Of what is not released; what no session holds counts where it is charged, in the default project."""
    held: Counter[ProjectId] = Counter()
    for leases in state.open_leases.values():
        for lease in leases.values():
            session = None if lease.session_id is None else state.sessions.get(lease.session_id)
            project = DEFAULT_PROJECT if session is None else session.project
            held[project] += _milli(lease, state.layouts[lease.agent_id].devices)
    return {project: milli / MILLI for project, milli in held.items()}


def _milli(lease: Lease, devices: Mapping[DeviceId, Device]) -> int:
    held = occupancy_on([{slot: lease.spec[slot] for slot in lease.spec if is_accelerator(slot)}], devices)
    return sum(_of_device(units, devices.get(device_id)) for device_id, units in held.items())


def _of_device(units: int, device: Device | None) -> int:
    return units if device is None else units * MILLI // device.budget
