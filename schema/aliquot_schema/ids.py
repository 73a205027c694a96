"""Identifiers: typed strings, their formats, and natural order of names.

Generated ids are a prefix and a UUIDv7, so they sort by creation time. A kernel's id is derived:
`<session>.<attempt>.<rank>`. Natural order puts cuda2 before cuda10.
"""

import re
from functools import lru_cache
from typing import Final, NewType

SessionId = NewType("SessionId", str)
"""`ses_<uuid7>`."""
KernelId = NewType("KernelId", str)
"""`<session id>.<attempt>.<rank>`, see `kernel_id`."""
LeaseId = NewType("LeaseId", str)
"""Lease id: the kernel's id for kind `session`, otherwise `lea_<uuid7>`."""
AgentId = NewType("AgentId", str)
"""Agent id: chosen by the operator or derived from host and file name; unique in the cluster."""
NodeId = NewType("NodeId", str)
"""Node id: the machine-id, stable over reboots; agents on one host share it."""
DeviceId = NewType("DeviceId", str)
"""Device id, stable over reboots: a GPU's UUID, `<uuid>/<n>` for a MIG slice, `cpu<n>`, `mem<n>` for the host's."""
SlotName = NewType("SlotName", str)
"""`cpu`, `mem`, `cuda.device`, `cuda.shares`, ..."""
UserId = NewType("UserId", str)
ProjectId = NewType("ProjectId", str)
PoolId = NewType("PoolId", str)
PolicyId = NewType("PolicyId", str)
OrchestrationId = NewType("OrchestrationId", str)
KeyId = NewType("KeyId", str)
"""`key_<uuid7>`: an API key, without its secret."""
QuotaId = NewType("QuotaId", str)
"""`<scope>:<name>`, see `quotas.quota_id`."""
BookingId = NewType("BookingId", str)
"""`bkg_<uuid7>`."""
RequestId = NewType("RequestId", str)
"""`req_<uuid7>`: one API request, quoted in events, logs and masked faults."""

SESSION_PREFIX = "ses_"
REQUEST_PREFIX = "req_"
LEASE_PREFIX = "lea_"
BOOKING_PREFIX = "bkg_"
INDEX_DIGITS_MAX = 9
"""Digits of an index in a job array."""
WORKSPACE_ID: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)


def task_id(array: SessionId, *, index: int) -> SessionId:
    """Id of one task of a job array."""
    return SessionId(f"{array}_{index}")


def task_parts(session_id: str) -> tuple[SessionId, int | None]:
    """Split a task's id into (array, index); the index is None for any other session."""
    array, _, index = session_id.rpartition("_")
    is_number = index.isascii() and index.isdigit() and len(index) <= INDEX_DIGITS_MAX
    if array.startswith(SESSION_PREFIX) and is_number and str(int(index)) == index:
        return SessionId(array), int(index)
    return SessionId(session_id), None


def kernel_id(session_id: SessionId, *, attempt: int, rank: int) -> KernelId:
    """Id of the kernel of one rank (from 0) in one attempt (from 1)."""
    return KernelId(f"{session_id}.{attempt}.{rank}")


def kernel_parts(kernel: KernelId) -> tuple[SessionId, int, int]:
    """Split a kernel id into (session, attempt, rank).

    Raises:
        ValueError: the text is no kernel id.
    """
    session, attempt, rank = kernel.rsplit(".", 2)
    return SessionId(session), int(attempt), int(rank)


NaturalKey = tuple[tuple[tuple[str, int, str], ...], str]

KEYS_KEPT: Final = 32_768
"""Sort keys that are kept: the same agents and devices are sorted again and again."""
_RUN: Final = re.compile(r"([^0-9]*)([0-9]*)")


@lru_cache(maxsize=KEYS_KEPT)
def natural_key(text: str) -> NaturalKey:
    """Sort key that compares runs of the digits 0-9 as numbers of any length, and the rest as text.

    `a1` and `a01` are adjacent, ordered by their text; different texts never have equal keys.
    """
    runs = []
    for letters, digits in _RUN.findall(text):
        number = digits.lstrip("0")
        runs.append((letters, len(number), number))
    return tuple(runs), text
