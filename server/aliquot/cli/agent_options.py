"""What an agent is made of, from the settings of its node; for `aliquot agent` and `aliquot node start`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aliquot.execution.remote.agent_setup import AgentOptions
    from aliquot.settings import Settings


def agent_options(
    settings: "Settings",
    *,
    accelerators: Path | None,
    agent_id: str | None,
    demo_node: int | None,
    dials: str,
    hidden: Sequence[Path],
) -> "AgentOptions":
    """Join them.

    Args:
        dials: the host that is dialled; the agent is reached at the address of the way there, unless one was said.
        hidden: files that jobs in the sandbox do not see.
    Raises:
        ConfigurationError: the tables of the settings contradict each other, or a range of ports is none.
    """
    from aliquot.execution.agent.reach import Reach, own_address
    from aliquot.execution.remote.agent_setup import AgentOptions

    return AgentOptions(
        data_folder=settings.data_folder,
        accelerators=accelerators,
        id=agent_id,
        demo_node=demo_node,
        reserved_cpu=settings.reserved_cpu,
        reserved_mem=settings.reserved_mem,
        job_user=settings.job_user,
        allow_root_jobs=settings.allow_root_jobs,
        division=settings.division,
        gate_devices=settings.device_access == "auto",
        disk=settings.disk_rules,
        confinement=settings.confinement_rules(*hidden),
        memory_policy=settings.gpu_memory_policy,
        readings_interval_s=settings.readings_interval_s,
        reach=Reach.of(address=settings.agent_address or own_address(dials), ports=settings.rendezvous_ports),
    )
