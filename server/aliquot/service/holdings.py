"""Holdings: what is held on each node, and by whom, as leases come and go."""

from collections.abc import Iterable, Mapping

from aliquot.core.allocation.occupancy import added, occupancy_of, occupancy_on
from aliquot.core.snapshot import HoldersOn
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, NodeId, SessionId
from aliquot_schema.leases import Lease


class Holdings:
    """Open leases by node, with their sums. The sums of a node are replaced, never changed."""

    def __init__(self) -> None:
        self.open_leases: dict[NodeId, dict[LeaseId, Lease]] = {}
        self.used: dict[NodeId, Mapping[DeviceId, int]] = {}
        """Budget units held on each physical device."""
        self.holders: dict[NodeId, HoldersOn] = {}
        """The sessions that hold a part of each device that is held."""
        self._devices: dict[NodeId, Mapping[DeviceId, Device]] = {}

    def leases_on(self, node_id: NodeId) -> Iterable[Lease]:
        """Leases on a node that are not released."""
        return self.open_leases.get(node_id, {}).values()

    def put(self, lease: Lease, node_id: NodeId) -> None:
        """A lease was granted, changed or released."""
        on_node = self.open_leases.setdefault(node_id, {})
        is_new = lease.id not in on_node
        if lease.released_us is None:
            on_node[lease.id] = lease
        else:
            on_node.pop(lease.id, None)
        if not is_new:
            self._count(node_id)
        elif lease.released_us is None:
            self._add(lease, node_id)

    def set_devices(self, node_id: NodeId, devices: Mapping[DeviceId, Device]) -> None:
        """What the agents of a node have, by which its sums are made."""
        self._devices[node_id] = devices
        self._count(node_id)

    def move(self, agent_id: AgentId, *, to: NodeId, of: NodeId) -> bool:
        """What an agent holds goes with it to another node; returns whether that is anything."""
        on_node = self.open_leases.get(of, {})
        moved = {lease.id: lease for lease in on_node.values() if lease.agent_id == agent_id}
        for lease_id in moved:
            del on_node[lease_id]
        self.open_leases.setdefault(to, {}).update(moved)
        self._count(of)
        self._count(to)
        return bool(moved)

    def _add(self, lease: Lease, node_id: NodeId) -> None:
        held = occupancy_on((lease.spec,), self._devices.get(node_id, {}))
        self.used[node_id] = added(self.used.get(node_id, {}), held)
        if lease.session_id is not None:
            known = self.holders.get(node_id, {})
            self.holders[node_id] = {
                **known,
                **{device_id: (*known.get(device_id, ()), lease.session_id) for device_id in held},
            }

    def _count(self, node_id: NodeId) -> None:
        specs = [lease.spec for lease in self.leases_on(node_id)]
        self.used[node_id] = occupancy_of(specs, self._devices.get(node_id, {}).values())
        holders: dict[DeviceId, tuple[SessionId, ...]] = {}
        for lease in self.leases_on(node_id):
            if lease.session_id is not None:
                for device_id in dict.fromkeys(place for amounts in lease.spec.values() for place in amounts):
                    holders[device_id] = (*holders.get(device_id, ()), lease.session_id)
        self.holders[node_id] = holders
