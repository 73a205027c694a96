"""Launch orders and agent reports: the messages between server and agents, independent of the transport."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from aliquot_schema.cluster.agents import TIME_US_MAX, Agent, agent_fault, prose_fault
from aliquot_schema.cluster.workspaces import WorkspaceFault, WorkspaceUse
from aliquot_schema.identity.secrets import SecretGrant
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.confinement import NO_LIMITS, SandboxProfile, SessionLimits
from aliquot_schema.resources.devices import (
    DEVICES_MAX,
    DeviceReading,
    ResourceSpec,
    number_fault,
    reading_fault,
    spec_fault,
    text_fault,
)
from aliquot_schema.resources.leases import EndEvidence, HostUse
from aliquot_schema.resources.slots import AMOUNT_MAX
from aliquot_schema.sessions import PREFLIGHT_LIMIT_MS


class CheckpointOrder(Struct, frozen=True, kw_only=True):
    """When an agent asks a job to save its work, and which checkpoint the job starts from."""

    signal: int | None = None
    """None = the job is not asked."""
    every_ms: int | None = None
    """Interval of the signal; None = it is sent before the time limit only."""
    before_limit_ms: int = 0
    """Time from the signal to the time limit."""
    kept_ms: int = 0
    """Run time whose work the session's last acknowledged checkpoint holds; 0 = there is none."""
    agent_id: AgentId | None = None
    """The agent that has it."""


class PreflightOrder(Struct, frozen=True, kw_only=True):
    """A check that runs in the place of the command, before it."""

    argv: tuple[str, ...] = ()
    """Empty = the agent's own check."""
    limit_ms: int = PREFLIGHT_LIMIT_MS
    is_released: bool = False
    """Whether the command may start once the check has passed. Else the kernel waits until the order is sent again with
    this set, because the other ranks have passed too."""


class LaunchOrder(Struct, frozen=True, kw_only=True):
    """Order to start one rank of an attempt. Idempotent: sent twice, it starts once."""

    kernel_id: KernelId
    epoch: int
    """The leader's; an agent rejects an epoch below the highest it has seen."""
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    """The user's and the gang's variables; the agent adds those of devices and folders, and removes reserved ones."""
    working_directory: str | None
    """None = the kernel's own work folder."""
    spec: ResourceSpec
    user: str | None = None
    """The Unix account to run as; None = the agent's configured one."""
    time_limit_ms: int | None = None
    grace_ms: int = 10_000
    """Time from the stop signal to SIGKILL."""
    not_after_us: int | None = None
    """Deadline: the agent rejects the order after it."""
    limits: SessionLimits = NO_LIMITS
    sandbox: SandboxProfile | None = None
    """None = the agent's settings."""
    secrets: tuple[SecretGrant, ...] = ()
    """The agent keeps the values in memory; the order on disk omits them."""
    checkpoint: CheckpointOrder = field(default_factory=CheckpointOrder)
    workspace: WorkspaceUse | None = None
    """Unpacked into the kernel's own work folder before its start."""
    workspace_fault: WorkspaceFault | None = None
    """Why the workspace was not brought, if it is not on the agent; agents of the release before this field ignore
    it."""
    activates: str | None = None
    """Environment that is activated before the command: `uv`, or the absolute path of a venv or conda environment."""
    image: str | None = None
    """Container image to run it in."""
    preflight: PreflightOrder | None = None


NO_WORKSPACE: Final = "no_workspace"
"""Code of a refused launch: the workspace is not on the agent, or cannot be unpacked. The session fails."""
WORKSPACE_NO_SPACE: Final = "workspace_no_space"
"""Code of a refused launch: the agent cannot store the workspace. The session starts on another one, or fails."""
WORKSPACE_UNREADABLE: Final = "workspace_unreadable"
"""Code of a start that was given up: the server cannot read its workspaces for now. The session waits."""
NO_ACCOUNT: Final = "no_account"
"""Code of a refused launch: the job's Unix account does not exist on the host, or the agent may not use it. It would be
refused again, so the session fails."""


IMAGE_NOT_FOUND: Final = "image_not_found"
"""Code of a refused launch, and of a failed session: its registry does not have the image. Likewise the next four."""
IMAGE_UNAUTHORIZED: Final = "image_unauthorized"
"""The registry wants other credentials."""
REGISTRY_UNREACHABLE: Final = "registry_unreachable"
IMAGE_NO_SPACE: Final = "image_no_space"
"""The disk of the node is full."""
IMAGE_FAILED: Final = "image_failed"
"""The image could not be fetched or started for another reason."""


class KernelPhase(StrEnum):
    """State of a kernel on its agent."""

    PULLING = "pulling"
    """Its image is fetched, or has been; its command has not started."""
    CHECKING = "checking"
    """Its preflight runs."""
    CHECKED = "checked"
    """Its preflight has passed; its command has not started."""
    STARTED = "started"
    EXITED = "exited"
    REFUSED = "refused"
    """Its command never started, and never will in this attempt."""
    UNCERTAIN = "uncertain"
    """The shim is gone without an exit file; processes of the kernel may still run."""


ALIVE: Final = frozenset(KernelPhase) - {KernelPhase.EXITED, KernelPhase.REFUSED}
"""Phases in which a kernel has, or may have, processes."""


class PullProgress(Struct, frozen=True, kw_only=True):
    """How far the pull of a kernel's image is. Layers are counted from their start: the total grows."""

    ran_ms: int
    """Time since its begin; once it is done, how long it took."""
    bytes_done: int = 0
    bytes_total: int = 0
    """Of the layers that were begun; compressed, as they are sent."""
    layers_done: int = 0
    layers: int = 0
    size_bytes: int | None = None
    """Size of the image on the node; None = it is not there yet, or unknown."""
    is_done: bool = False


class KernelReport(Struct, frozen=True, kw_only=True):
    """An agent's report about a kernel. Late and repeated reports are harmless."""

    kernel_id: KernelId
    phase: KernelPhase
    at_us: int
    """The agent's clock, for display."""
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    ran_ms: int | None = None
    """Run time by the agent's CLOCK_BOOTTIME. The server counts by its own clock, between the times of reports."""
    evidence: EndEvidence | None = None
    """Set if and only if the phase is `exited` or `refused`."""
    code: str | None = None
    """Error code of a rejected launch, as in `errors`."""
    message: str | None = None
    saved_ms: int | None = None
    """Run time, with that of earlier attempts, whose work the kernel's last acknowledged checkpoint holds; None = this
    kernel acknowledged none."""
    resumed_ms: int | None = None
    """`saved_ms` of the checkpoint that the kernel started from; 0 = none, None = unknown."""
    resume_note: str | None = None
    """Why that is less than the order's `kept_ms`; None = it is not."""
    host_use: HostUse | None = None
    """With the phase `exited`: what its processes have used; None = not measured."""
    takes_limit: bool = False
    """Whether its time limit can be changed while it runs; agents and shims of earlier releases cannot."""
    pull: PullProgress | None = None
    """None = no image was fetched for it."""


class SpecOnDisk(Struct, frozen=True, kw_only=True):
    """A resource spec in the agent's file; `spec` is None if the file is unreadable."""

    kernel_id: KernelId
    spec: ResourceSpec | None
    ended: bool


class Inventory(Struct, frozen=True, kw_only=True):
    """Complete state of an agent, sent when it joins and on request."""

    agent: Agent
    """The server sets `version`, `state` and times."""
    kernels: tuple[KernelReport, ...] = ()
    specs: tuple[SpecOnDisk, ...] = ()


class AgentJoined(Struct, frozen=True, kw_only=True):
    """An agent is reachable."""

    inventory: Inventory


class AgentSilent(Struct, frozen=True, kw_only=True):
    """An agent is unreachable; `gone` = it signed off, `lost` = it missed heartbeats for long."""

    agent_id: AgentId
    gone: bool = False
    lost: bool = False


class DevicesChanged(Struct, frozen=True, kw_only=True):
    """A device appeared, disappeared or changed its health."""

    inventory: Inventory


class NewReadings(Struct, frozen=True, kw_only=True):
    """New measurements; not durable."""

    agent_id: AgentId
    at_us: int
    readings: tuple[DeviceReading, ...]
    disk_shortage: str | None = None
    """Message if the disk for output is nearly full, which blocks launches there; None = enough space."""
    host_uses: Mapping[KernelId, HostUse] = field(default_factory=dict)
    """CPU time and host memory of the running kernels."""
    copy_fault: str | None = None
    """Message if results of ended sessions cannot be copied to `results-folder`; None = no copy has failed."""


class KernelChanged(Struct, frozen=True, kw_only=True):
    """A report about one kernel of an agent."""

    agent_id: AgentId
    report: KernelReport


AgentMessage = AgentJoined | AgentSilent | DevicesChanged | NewReadings | KernelChanged


OUTPUT_END: Final = 2**62
"""Requested as an offset: follow output from its current end. The first chunk is sent immediately, is empty, and has
the actual offset. No output is that long."""


class LogChunk(Struct, frozen=True, kw_only=True):
    """A piece of a kernel's output. The next one starts at `offset + len(data)`."""

    offset: int
    data: bytes
    at_end: bool
    """Whether the output is complete: the kernel has exited and everything was read."""


KERNELS_MAX: Final = 500_000
"""Kernels per inventory, and per set of readings."""
CPU_MILLI_MAX: Final = 1_000_000_000
_LAYERS_MAX: Final = 1_000_000
NO_HOST_USES: Final[Mapping[KernelId, HostUse]] = {}


def inventory_fault(inventory: Inventory) -> str | None:
    """Message about the first invalid value of an inventory, with its limit; None = valid."""
    fault = (
        number_fault("the number of devices", len(inventory.agent.devices), least=0, most=DEVICES_MAX)
        or number_fault("the number of kernels", len(inventory.kernels), least=0, most=KERNELS_MAX)
        or number_fault("the number of specs", len(inventory.specs), least=0, most=KERNELS_MAX)
        or agent_fault(inventory.agent)
        or next(filter(None, map(report_fault, inventory.kernels)), None)
        or next(filter(None, (_kernel_id_fault(spec.kernel_id) for spec in inventory.specs)), None)
        or next(filter(None, (spec_fault(spec.spec) for spec in inventory.specs if spec.spec is not None)), None)
    )
    return (
        fault
        or _duplicate("kernel", (report.kernel_id for report in inventory.kernels))
        or _duplicate("spec of kernel", (spec.kernel_id for spec in inventory.specs))
    )


def report_fault(report: KernelReport) -> str | None:
    """Message about the first invalid value of a report about a kernel; None = valid."""
    fault = _kernel_id_fault(report.kernel_id) or (
        number_fault("at_us", report.at_us, least=0, most=TIME_US_MAX)
        or number_fault("exit_code", report.exit_code, least=-(2**31), most=2**31 - 1)
        or number_fault("signal", report.signal, least=0, most=128)
        or number_fault("ran_ms", report.ran_ms, least=0, most=TIME_US_MAX)
        or number_fault("saved_ms", report.saved_ms, least=0, most=TIME_US_MAX)
        or number_fault("resumed_ms", report.resumed_ms, least=0, most=TIME_US_MAX)
        or (None if report.resume_note is None else prose_fault("resume_note", report.resume_note))
        or (None if report.host_use is None else host_use_fault(report.host_use))
        or (None if report.pull is None else _pull_fault(report.pull))
        or (None if report.code is None else text_fault("code", report.code))
        or (None if report.message is None else prose_fault("message", report.message))
    )
    return None if fault is None else f"kernel {report.kernel_id[:80]!a}: {fault}"


def _pull_fault(pull: PullProgress) -> str | None:
    return (
        number_fault("pull.ran_ms", pull.ran_ms, least=0, most=TIME_US_MAX)
        or number_fault("pull.bytes_done", pull.bytes_done, least=0, most=AMOUNT_MAX)
        or number_fault("pull.bytes_total", pull.bytes_total, least=0, most=AMOUNT_MAX)
        or number_fault("pull.layers_done", pull.layers_done, least=0, most=_LAYERS_MAX)
        or number_fault("pull.layers", pull.layers, least=0, most=_LAYERS_MAX)
        or number_fault("pull.size_bytes", pull.size_bytes, least=0, most=AMOUNT_MAX)
    )


def host_use_fault(use: HostUse) -> str | None:
    """Message about the first invalid value of a kernel's use of its host; None = valid."""
    return (
        number_fault("cpu_ms", use.cpu_ms, least=0, most=TIME_US_MAX)
        or number_fault("cpu_milli", use.cpu_milli, least=0, most=CPU_MILLI_MAX)
        or number_fault("cpu_milli_max", use.cpu_milli_max, least=0, most=CPU_MILLI_MAX)
        or number_fault("memory_bytes", use.memory_bytes, least=0, most=AMOUNT_MAX)
        or number_fault("memory_bytes_max", use.memory_bytes_max, least=0, most=AMOUNT_MAX)
    )


def readings_fault(
    at_us: int,
    readings: Sequence[DeviceReading],
    *,
    disk_shortage: str | None,
    host_uses: Mapping[KernelId, HostUse] = NO_HOST_USES,
    copy_fault: str | None = None,
) -> str | None:
    """Message about the first invalid value of a set of readings; None = valid."""
    return (
        number_fault("at_us", at_us, least=0, most=TIME_US_MAX)
        or number_fault("the number of readings", len(readings), least=0, most=DEVICES_MAX)
        or (None if disk_shortage is None else prose_fault("disk_shortage", disk_shortage))
        or (None if copy_fault is None else prose_fault("copy_fault", copy_fault))
        or next(filter(None, map(reading_fault, readings)), None)
        or _duplicate("reading of device", (reading.device_id for reading in readings))
        or number_fault("the number of host_uses", len(host_uses), least=0, most=KERNELS_MAX)
        or next(filter(None, map(_kernel_id_fault, host_uses)), None)
        or next(filter(None, map(host_use_fault, host_uses.values())), None)
    )


def _kernel_id_fault(kernel_id: str) -> str | None:
    """Message if a kernel id cannot be a folder name, which it is on its agent; None = valid."""
    fault = text_fault("kernel_id", kernel_id)
    return fault or (f"kernel_id {kernel_id!a} contains a /" if "/" in kernel_id else None)


def _duplicate(what: str, ids: Iterable[str]) -> str | None:
    duplicates = (id_ for id_, count in Counter(ids).items() if count > 1)
    return next((f"{what} {id_!a} occurs twice" for id_ in duplicates), None)
