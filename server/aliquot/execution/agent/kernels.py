"""Kernel table: the agent's in-memory state of its kernels. The authoritative state is in the kernels' folders."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from threading import Lock
from typing import Final

from aliquot.execution.agent.agent_folder import AgentFolder, KernelFolder
from aliquot.execution.agent.json_files import read_file
from aliquot_schema.cluster.launching import KernelPhase, KernelReport, LaunchOrder, PullProgress
from aliquot_schema.ids import DeviceId, KernelId, SessionId, kernel_parts
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.resources.leases import HostUse


@dataclass(slots=True, eq=False)
class KernelHandle:
    """In-memory state of one kernel."""

    folder: KernelFolder
    order: LaunchOrder | None = None
    ordered_boot_id: str | None = None
    group: str | None = None
    report: KernelReport | None = None
    """The last report sent."""
    request: dict[str, object] | None = None
    """The spawner request; None unless the start was ordered since this agent was opened."""
    prepared: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the folder is written or not needed; stops and repeated orders wait for it."""
    shim: int | None = None
    """Pidfd of the shim while it is watched."""
    shim_pid: int | None = None
    seen_at: float = 0.0
    """Start of the watch, seconds of the monotonic clock."""
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)
    resumed_ms: int | None = None
    """As of `KernelReport`; likewise the next two."""
    resume_note: str | None = None
    saved_ms: int | None = None
    told_ms: int | None = None
    """The `saved_ms` last reported; `told_at` is when, seconds of the monotonic clock."""
    told_at: float = -inf
    is_shared: bool = True
    """Whether the checkpoint of `saved_ms` needs no copy any more."""
    is_copied: bool = False
    """Whether it is being copied now."""
    checkpoint_mark: tuple[int, int] | None = None
    """See `checkpoints.Mark`."""
    checkpoint_lock: Lock = field(default_factory=Lock, repr=False)
    """Held while its checkpoint is looked at; `copy_lock`, while it is copied."""
    copy_lock: Lock = field(default_factory=Lock, repr=False)
    pull: PullProgress | None = None
    """As of `KernelReport`."""
    host_use: HostUse | None = None
    """The last measurement, taken at `measured_at`, in seconds of the monotonic clock."""
    measured_at: float = -inf
    takes_limit: bool = False
    """As of `KernelReport`."""
    ending: bool = False
    """Whether leftovers of its killed shim are being killed now."""

    @property
    def kernel_id(self) -> KernelId:
        return self.folder.kernel_id

    @property
    def session_id(self) -> SessionId:
        return kernel_parts(self.kernel_id)[0]

    @property
    def attempt(self) -> int:
        return kernel_parts(self.kernel_id)[1]

    @property
    def spec(self) -> ResourceSpec:
        return {} if self.order is None else self.order.spec

    @property
    def has_ended(self) -> bool:
        """Whether the last report is final."""
        return self.report is not None and self.report.phase in (KernelPhase.EXITED, KernelPhase.REFUSED)


_log = logging.getLogger(__name__)


ATTEMPTS_KEPT: Final = 20_000
"""Sessions without a kernel here whose highest attempt is remembered; the oldest is forgotten first."""


class KernelTable:
    """Kernels by id, and the highest attempt seen of each session."""

    def __init__(self) -> None:
        self._kernels: dict[KernelId, KernelHandle] = {}
        self._attempts: dict[SessionId, int] = {}
        """Of sessions with a kernel here."""
        self._past: dict[SessionId, int] = {}
        """Of the others, in the order of their ends."""

    def __iter__(self) -> Iterator[KernelHandle]:
        return iter(tuple(self._kernels.values()))

    def get(self, kernel_id: KernelId) -> KernelHandle | None:
        """The kernel, or None if it is unknown."""
        return self._kernels.get(kernel_id)

    def add(self, kernel: KernelHandle) -> None:
        """Add a kernel and record its attempt."""
        self._kernels[kernel.kernel_id] = kernel
        attempt = max(kernel.attempt, self.attempt_seen(kernel.session_id))
        self._past.pop(kernel.session_id, None)
        self._attempts[kernel.session_id] = attempt

    def remove(self, kernel_id: KernelId) -> None:
        """Remove a kernel. Its attempt stays recorded until `ATTEMPTS_KEPT` other sessions have ended, or the agent
        restarts."""
        kernel = self._kernels.pop(kernel_id, None)
        if kernel is None or any(other.session_id == kernel.session_id for other in self._kernels.values()):
            return
        self._past[kernel.session_id] = self._attempts.pop(kernel.session_id, kernel.attempt)
        while len(self._past) > ATTEMPTS_KEPT:
            del self._past[next(iter(self._past))]

    def attempt_seen(self, session_id: SessionId) -> int:
        """The highest attempt of a session that was ordered or stopped here; 0 = none."""
        return max(self._attempts.get(session_id, 0), self._past.get(session_id, 0))

    def holders(self) -> dict[DeviceId, list[SessionId]]:
        """Device -> sessions whose kernels hold it and have not ended."""
        found: dict[DeviceId, list[SessionId]] = {}
        for kernel in self:
            for device_id in {id for amounts in kernel.spec.values() for id in amounts}:
                found.setdefault(device_id, []).append(kernel.session_id)
        return found

    def running(self) -> list[KernelHandle]:
        """Kernels with a watched shim."""
        return [kernel for kernel in self._kernels.values() if kernel.shim is not None]


def read_kernels(folder: AgentFolder) -> list[KernelHandle]:
    """All kernels on disk that are not marked as forgotten; unreadable ones have no order. Blocks."""
    found = (known for known in folder.known_kernels() if not known.forgotten.exists())
    return [_read_kernel(KernelHandle(folder=known)) for known in found]


def _read_kernel(kernel: KernelHandle) -> KernelHandle:
    kernel.prepared.set()
    try:
        found = kernel.folder.read_order()
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the order of kernel %s cannot be read: %s", kernel.kernel_id, error)
        return kernel
    if found is not None:
        kernel.order, kernel.ordered_boot_id, kernel.group = found
        kernel.resumed_ms = 0
    try:
        resumed = read_file(kernel.folder.resumed)
    except (OSError, ValueError) as error:
        _log.warning("kernel %s: %s cannot be read: %s", kernel.kernel_id, kernel.folder.resumed, error)
        return kernel
    if resumed is not None:
        kernel.resumed_ms, kernel.resume_note = int(resumed["kept_ms"]), resumed["note"]
    return kernel
