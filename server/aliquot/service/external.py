"""Devices that processes of others use: known by measurement, so kept in memory alone; not given to anybody."""

from collections.abc import Callable, Mapping

from aliquot_schema.ids import DeviceId, NodeId

Blocked = Mapping[NodeId, Mapping[DeviceId, int]]
"""The whole budget of each device."""


class External:
    """Counts such devices as fully held."""

    def __init__(self) -> None:
        self.blocked: Blocked = {}
        """Replaced, never changed."""
        self.listeners: list[Callable[[], None]] = []
        """Called when it is others."""
        self._known: dict[NodeId, tuple[Mapping[DeviceId, int], Mapping[DeviceId, int]]] = {}

    def set(self, blocked: Blocked) -> bool:
        """From now on it is these; whether it was others before."""
        has_moved = blocked != self.blocked
        if has_moved:
            self.blocked = blocked
            self._known = {}
            for listener in self.listeners:
                listener()
        return has_moved

    def over(self, used: Mapping[NodeId, Mapping[DeviceId, int]]) -> dict[NodeId, Mapping[DeviceId, int]]:
        """What is held, these devices included. A node's mapping is the very same one while nothing changes there."""
        counted = dict(used)
        for node_id, budgets in self.blocked.items():
            held = used.get(node_id, {})
            known = self._known.get(node_id)
            if known is None or known[0] is not held:
                known = held, {**held, **budgets}
                self._known[node_id] = known
            counted[node_id] = known[1]
        return counted
