"""Typed identifiers. All are text; the ones made here are a prefix and a UUIDv7, so they sort by time of birth.

A kernel has no id of its own making: it is named by what it is, `<session>.<attempt>.<rank>`.
"""

from typing import NewType

SessionId = NewType("SessionId", str)
"""`ses_<uuid7>`."""
KernelId = NewType("KernelId", str)
"""`<session id>.<attempt>.<rank>`, see `kernel_id`."""
LeaseId = NewType("LeaseId", str)
"""The kernel's id for a lease of kind `session`; `lea_<uuid7>` otherwise."""
AgentId = NewType("AgentId", str)
"""Chosen by the operator or derived from host and file name; unique in the cluster."""
NodeId = NewType("NodeId", str)
"""Stable over reboots (machine-id); several agents of one host share it."""
DeviceId = NewType("DeviceId", str)
"""Stable over reboots: a GPU's UUID, `<uuid>/<n>` for a MIG slice, `cpu<n>`, `mem<n>` for the host's own."""
SlotName = NewType("SlotName", str)
"""`cpu`, `mem`, `cuda.device`, `cuda.shares`, ..."""
UserId = NewType("UserId", str)
ProjectId = NewType("ProjectId", str)
PoolId = NewType("PoolId", str)
PolicyId = NewType("PolicyId", str)
OrchestrationId = NewType("OrchestrationId", str)
KeyId = NewType("KeyId", str)
"""`key_<uuid7>`: an API key, which is shown with its secret behind it."""
QuotaId = NewType("QuotaId", str)
"""`<scope>:<name>`, see `quotas.quota_id`."""
RequestId = NewType("RequestId", str)
"""`req_<uuid7>`: one API request, quoted in events, logs and masked faults."""

SESSION_PREFIX = "ses_"
REQUEST_PREFIX = "req_"
LEASE_PREFIX = "lea_"
INDEX_DIGITS_MAX = 9
"""Of an index in a job array."""


def task_id(array: SessionId, *, index: int) -> SessionId:
    """Name one task of a job array."""
    return SessionId(f"{array}_{index}")


def task_parts(session_id: str) -> tuple[SessionId, int | None]:
    """Split the name of a task into (array, index); the index of any other session is None."""
    array, _, index = session_id.rpartition("_")
    is_number = index.isascii() and index.isdigit() and len(index) <= INDEX_DIGITS_MAX
    if array.startswith(SESSION_PREFIX) and is_number and str(int(index)) == index:
        return SessionId(array), int(index)
    return SessionId(session_id), None


def kernel_id(session_id: SessionId, *, attempt: int, rank: int) -> KernelId:
    """Name the kernel of one rank in one attempt; both count from 1 and 0."""
    return KernelId(f"{session_id}.{attempt}.{rank}")


def kernel_parts(kernel: KernelId) -> tuple[SessionId, int, int]:
    """Split a kernel id into (session, attempt, rank).

    Raises:
        ValueError: the text is no kernel id.
    """
    session, attempt, rank = kernel.rsplit(".", 2)
    return SessionId(session), int(attempt), int(rank)
