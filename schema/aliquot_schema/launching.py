"""What passes between the server and an agent: orders down, reports up. One form for every transport."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aliquot_schema.agents import Agent
from aliquot_schema.confinement import NO_LIMITS, SandboxProfile, SessionLimits
from aliquot_schema.devices import DeviceReading, ResourceSpec
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.leases import EndEvidence
from aliquot_schema.secrets import SecretGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """Start one rank of an attempt. Sending it twice starts it once."""

    kernel_id: KernelId
    epoch: int
    """The leader's; an agent refuses one older than the highest it has seen."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """The user's own and the gang's; the agent adds devices and folders, and removes what is reserved."""
    working_directory: str | None
    """None = the kernel's own work folder."""
    spec: ResourceSpec
    user: str | None = None
    """The Unix account to run as; None = the agent's configured one."""
    time_limit_ms: int | None = None
    grace_ms: int = 10_000
    """Between the polite signal and the last one."""
    not_after_us: int | None = None
    """Refuse to start after this moment."""
    limits: SessionLimits = NO_LIMITS
    sandbox: SandboxProfile | None = None
    """None = as the agent's settings say."""
    secrets: tuple[SecretGrant, ...] = ()
    """The agent keeps their values in memory, and writes the order down without them."""


class KernelPhase(StrEnum):
    """What an agent knows about a kernel."""

    STARTED = "started"
    EXITED = "exited"
    REFUSED = "refused"
    """Was never started and never will be under this attempt."""
    UNCERTAIN = "uncertain"
    """The shim is gone without an exit file, and something of the kernel may still run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """Something an agent found out about a kernel. Late or repeated ones do no harm."""

    kernel_id: KernelId
    phase: KernelPhase
    at_us: int
    """The agent's clock, for display."""
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    ran_ms: int | None = None
    """By the agent's CLOCK_BOOTTIME; what usage is charged by."""
    evidence: EndEvidence | None = None
    """Set exactly when the phase is `exited` or `refused`."""
    code: str | None = None
    """The error's code when refused, as in `errors`."""
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecOnDisk:
    """A resource spec as the agent's file has it; None where the file cannot be read."""

    kernel_id: KernelId
    spec: ResourceSpec | None
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything an agent has, told when it joins and on request."""

    agent: Agent
    """`version`, `state` and times are the server's to fill in."""
    kernels: tuple[KernelReport, ...] = ()
    specs: tuple[SpecOnDisk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJoined:
    """An agent can be asked from now on."""

    inventory: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSilent:
    """An agent cannot be asked; `gone` when it said good-bye, `lost` when it has been silent for long."""

    agent_id: AgentId
    gone: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesChanged:
    """A device was found, lost, or changed its health."""

    inventory: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingsTaken:
    """Fresh measurements; not durable."""

    agent_id: AgentId
    at_us: int
    readings: tuple[DeviceReading, ...]
    disk_shortage: str | None = None
    """In words, where the disk for the kernels' outputs is nearly full; nothing new is launched there then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChanged:
    """A report about one kernel of an agent."""

    agent_id: AgentId
    report: KernelReport


AgentMessage = AgentJoined | AgentSilent | DevicesChanged | ReadingsTaken | KernelChanged


OUTPUT_END: Final = 2**62
"""As the offset that an output is asked for from: where it ends now. The first chunk comes at once, is empty, and its
offset says where that is. No output is that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """A piece of a kernel's output. `offset + len(data)` is where the next one starts."""

    offset: int
    data: bytes
    at_end: bool
    """Nothing will follow: the kernel has exited and all of it was read."""
