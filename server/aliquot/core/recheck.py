"""The re-check: whether a placement that was decided on a snapshot still holds on the newest state."""

from collections.abc import Mapping, MutableMapping

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.plan import Placement
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import AgentId, DeviceId, NodeId


def still_fits(
    placement: Placement,
    *,
    layouts: Mapping[AgentId, DeviceLayout],
    used: MutableMapping[NodeId, Mapping[DeviceId, int]],
) -> bool:
    """Whether every kernel can be given exactly what was decided.

    Args:
        layouts: of the agents as they are now.
        used: budget units held per node; when the answer is yes, the placement is added to it.
    """
    after: dict[NodeId, Mapping[DeviceId, int]] = {}
    for kernel in placement.kernels:
        layout = layouts.get(kernel.agent_id)
        if layout is None:
            return False
        held = after.get(kernel.node_id)
        devices = DeviceMap(layout, used.get(kernel.node_id, {}) if held is None else held)
        try:
            devices.check(kernel.spec)
        except (AllocationRefused, InvalidRequest):
            return False
        after[kernel.node_id] = devices.apply(kernel.spec).used
    used.update(after)
    return True
