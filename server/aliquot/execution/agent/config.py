"""What an agent is told when it is made."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aliquot.execution.agent.confinement.rules import ConfinementRules
from aliquot.execution.agent.job_user import JobUserPolicy
from aliquot.execution.agent.memory_watch import MemoryPolicy
from aliquot.execution.agent.reach import Reach
from aliquot.execution.devices.identity import NodeIdentity
from aliquot.execution.disk_rules import DiskRules
from aliquot_schema.agents import AllocationMode
from aliquot_schema.ids import AgentId, SlotName


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """One agent. Two agents never share a folder."""

    id: AgentId
    node: NodeIdentity
    folder: Path
    """Holds the kernels' folders; job users must be able to pass through the folders above it."""
    job_user: JobUserPolicy = field(default_factory=JobUserPolicy)
    allocation_mode: AllocationMode = AllocationMode.SHARED
    scaling_factor: Mapping[SlotName, str] = field(default_factory=dict)
    software_version: str = ""
    reach: Reach = field(default_factory=Reach)
    limit_memory: bool = True
    """Hold each process of a kernel that was given `mem` to that much private writable memory (RLIMIT_DATA)."""
    confinement: ConfinementRules = field(default_factory=ConfinementRules)
    """Limits besides, and who is put into a sandbox."""
    gate_devices: bool = True
    """Have the kernel keep jobs from the files of devices that are not theirs, where this host can do that."""
    memory_policy: MemoryPolicy = MemoryPolicy.FLAG
    """What is done about kernels that take more of an accelerator's memory than their share."""
    readings_interval_s: float = 2.0
    devices_interval_s: float = 10.0
    """How often the plugins are asked which devices there are."""
    end_patience_s: float = 5.0
    """How long to try to end what a killed shim left behind, before saying that it is still there."""
    start_patience_s: float = 2.0
    """How long an order may go unanswered before the kernel's folder is looked at."""
    disk: DiskRules = field(default_factory=DiskRules)
    ended_kept_max: int = 10_000
    """How many folders of kernels stay that the server has forgotten, outputs and all."""
    python: str = sys.executable
    """Runs the spawner; any Python of at least 3.11."""
