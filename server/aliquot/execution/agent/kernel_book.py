"""The kernels that an agent knows, in memory."""

import logging
from collections.abc import Iterator

from aliquot.execution.agent.agent_folder import AgentFolder
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot_schema.ids import KernelId, SessionId

_log = logging.getLogger(__name__)


class KernelBook:
    """Kernels by id, and the highest attempt seen of each session."""

    def __init__(self) -> None:
        self._kernels: dict[KernelId, HeldKernel] = {}
        self._attempts: dict[SessionId, int] = {}

    def __iter__(self) -> Iterator[HeldKernel]:
        return iter(tuple(self._kernels.values()))

    def get(self, kernel_id: KernelId) -> HeldKernel | None:
        """The kernel, if it is known."""
        return self._kernels.get(kernel_id)

    def add(self, kernel: HeldKernel) -> None:
        """Know it from now on."""
        self._kernels[kernel.kernel_id] = kernel
        self._attempts[kernel.session_id] = max(kernel.attempt, self.attempt_seen(kernel.session_id))

    def remove(self, kernel_id: KernelId) -> None:
        """Know it no more. The attempt stays seen until the agent is started again."""
        self._kernels.pop(kernel_id, None)

    def attempt_seen(self, session_id: SessionId) -> int:
        """The highest attempt of a session that was ordered or stopped here; 0 when there was none."""
        return self._attempts.get(session_id, 0)

    def running(self) -> list[HeldKernel]:
        """Those whose shim is watched."""
        return [kernel for kernel in self._kernels.values() if kernel.shim is not None]


def read_kernels(folder: AgentFolder) -> list[HeldKernel]:
    """Every kernel on disk that is not forgotten. One that cannot be read is there without its order, and hides no
    other. Blocks."""
    found = (known for known in folder.known_kernels() if not known.forgotten.exists())
    return [_read_kernel(HeldKernel(folder=known)) for known in found]


def _read_kernel(kernel: HeldKernel) -> HeldKernel:
    kernel.prepared.set()
    try:
        found = kernel.folder.read_order()
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the order of kernel %s cannot be read: %s", kernel.kernel_id, error)
        return kernel
    if found is not None:
        kernel.order, kernel.ordered_boot_id, kernel.group = found
    return kernel
