"""Agent configuration, including the address and rendezvous ports by which kernels of other nodes reach this one."""

import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.gpu_memory import MemoryPolicy
from aliquot.execution.agent.isolation.settings import ConfinementRules
from aliquot.execution.agent.job_user import JobUserPolicy
from aliquot.execution.devices.node import NodeIdentity
from aliquot.execution.settings import DiskRules, HealthRules, NoticeRules
from aliquot_schema.cluster.agents import AllocationMode, Capabilities
from aliquot_schema.ids import AgentId, SlotName

_PROBES: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Documentation addresses (RFC 5737, 3849) to query the default route; nothing is sent there."""
_PORT: Final = 9
_UNPRIVILEGED: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    """Address and rendezvous port range of a node, as configured."""

    address: str | None = None
    """None = the source address of the route to the server, else of the default route."""
    port_first: int = Capabilities().port_first
    port_last: int = Capabilities().port_last

    @classmethod
    def of(cls, *, address: str | None, ports: str | None) -> Self:
        """Parse the settings; ports look like `29500-30499`.

        Raises:
            ConfigurationError: the ports are not a range within 1024..65535.
        """
        if ports is None:
            return cls(address=address)
        first, _, last = ports.partition("-")
        if first.isdecimal() and last.isdecimal() and _UNPRIVILEGED <= int(first) <= int(last) < 1 << 16:
            return cls(address=address, port_first=int(first), port_last=int(last))
        raise ConfigurationError(f"rendezvous-ports: {ports!r} is not a port range like 29500-30499 (1024 to 65535)")


def own_address(server: str = "") -> str:
    """Source address of the route to the server, else of the default route, else 127.0.0.1.

    Args:
        server: host name or address; ignored if it is this machine or does not resolve.
    """
    found = [_source_toward(server)] if server else []
    found += [_source(family, destination) for family, destination in _PROBES]
    return next((address for address in found if address), "127.0.0.1")


def _source_toward(server: str) -> str | None:
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(server, _PORT, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    return _source(family, str(address[0]))


def _source(family: int, destination: str) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((destination, _PORT))
            address = str(probe.getsockname()[0])
    except OSError:
        return None
    return None if address == "::1" or address.startswith("127.") else address


class AgentConfig(Struct, frozen=True, kw_only=True):
    """Configuration of one agent. Two agents never share a folder."""

    id: AgentId
    node: NodeIdentity
    folder: Path
    """Folder of the agent; job users need execute permission on its parents."""
    job_user: JobUserPolicy = msgspec.field(default_factory=JobUserPolicy)
    allocation_mode: AllocationMode = AllocationMode.SHARED
    scaling_factor: Mapping[SlotName, str] = msgspec.field(default_factory=dict)
    software_version: str = ""
    reach: NodeEndpoint = msgspec.field(default_factory=NodeEndpoint)
    limit_memory: bool = True
    """Limit each process of a kernel with `mem` to that much private writable memory (RLIMIT_DATA)."""
    confinement: ConfinementRules = msgspec.field(default_factory=ConfinementRules)
    """Further limits, and which kernels run in a sandbox."""
    gate_devices: bool = True
    """Deny jobs access to device files not granted to them, where the host supports it."""
    memory_policy: MemoryPolicy = MemoryPolicy.FLAG
    """Reaction to kernels that exceed their share of an accelerator's memory."""
    readings_interval_s: float = 2.0
    devices_interval_s: float = 10.0
    """Interval of device discovery."""
    end_patience_s: float = 5.0
    """Time to kill the leftovers of a killed shim before they are reported as still existing."""
    start_patience_s: float = 2.0
    """Time to wait for the report of a start before the kernel's folder is read."""
    disk: DiskRules = msgspec.field(default_factory=DiskRules)
    ended_kept_max: int = 10_000
    """Maximum number of kernel folders kept after the server has stored their end."""
    health: HealthRules = msgspec.field(default_factory=HealthRules)
    """How faults of devices are noticed, and how a device in quarantine returns."""
    notices: NoticeRules = msgspec.field(default_factory=NoticeRules)
    """Where labels of the node and eviction notices come from."""
    python: str = sys.executable
    """Python interpreter (3.11 or newer) that runs the spawner."""
