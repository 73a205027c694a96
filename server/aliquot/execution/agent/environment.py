"""The environment of a job: exactly what is written here, never the server's own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aliquot.execution.agent.confinement.secret_folders import VARIABLE as SECRETS_DIR
from aliquot.execution.agent.confinement.secret_folders import secret_environment
from aliquot.execution.agent.job_user import JobUser
from aliquot_schema.ids import AgentId, kernel_parts
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.slots import format_amount

MARK: Final = "ALIQUOT_ATTEMPT"
"""Names the kernel in the environment of each of its processes; how they are found when their shim is gone."""

_OWN: Final = "ALIQUOT_"
_PASSED: Final = frozenset({"ALIQUOT_ARRAY_ID", "ALIQUOT_ARRAY_INDEX"})
"""Names of ours that the server gives with the order."""
_RESERVED: Final = frozenset({"CUDA_VISIBLE_DEVICES", "CHECKPOINT_DIR", "RESULT_DIR"})
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def job_environment(
    order: LaunchOrder,
    *,
    user: JobUser,
    devices: Mapping[str, str],
    agent_id: AgentId,
    work: Path,
    session: Path,
    resource_file: Path,
    secrets: Path,
) -> dict[str, str]:
    """Put a job's variables together.

    Args:
        devices: what the device plugins say for the order's spec.
        work: the kernel's work folder, which is home where the account has none.
        session: the folder that all attempts of the session share.
        secrets: the folder of secrets that it gets as files.
    Returns:
        First what every login has, then the user's own without reserved names, then what is ours.
    """
    session_id, _, rank = kernel_parts(order.kernel_id)
    login = {
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "HOME": user.home if Path(user.home).is_dir() else str(work),
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": user.shell,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    asked = {name: text for name, text in order.environment.items() if not _is_reserved(name)}
    ours = {
        "CHECKPOINT_DIR": str(session / "checkpoint"),
        "RESULT_DIR": str(session / "result"),
        MARK: order.kernel_id,
        "ALIQUOT_KERNEL_ID": order.kernel_id,
        "ALIQUOT_SESSION_ID": session_id,
        "ALIQUOT_RANK": str(rank),
        "ALIQUOT_AGENT_ID": agent_id,
        "ALIQUOT_SLOTS": json.dumps(_totals(order)),
        "ALIQUOT_RESOURCE_FILE": str(resource_file),
    }
    if any(grant.use.as_file is not None for grant in order.secrets):
        ours[SECRETS_DIR] = str(secrets)
    return login | asked | secret_environment(order) | dict(devices) | ours


def _is_reserved(name: str) -> bool:
    return (name.startswith(_OWN) and name not in _PASSED) or name in _RESERVED


def _totals(order: LaunchOrder) -> dict[str, str]:
    """Decimal text by slot, summed over the devices."""
    return {slot: format_amount(slot, sum(amounts.values())) for slot, amounts in sorted(order.spec.items())}
