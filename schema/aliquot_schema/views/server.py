"""Read models of the servers: leadership, the Ray cluster, discrepancies and database copies."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from aliquot_schema.cluster.findings import Discrepancy
from aliquot_schema.enums import DescribedStr
from aliquot_schema.orchestration import OrchestratorState


class ServerRole(DescribedStr):
    """Role of a server."""

    LEADER = "leader", "Schedules, launches and receives the agents' reports."
    FOLLOWER = "follower", "Follows the event log and answers queries."


class OrchestratorView(Struct, frozen=True, kw_only=True):
    """State of the cluster's servers, as seen by the answering one."""

    role: ServerRole
    """Role of the answering server."""
    address: str
    """Address of the answering server."""
    leader_address: str | None
    """None = no server leads, or the leader has no configured address."""
    epoch: int
    """Epoch of the newest term of leadership; increases from term to term."""
    leads_since: datetime | None
    """Start of that term; None = there was none yet."""
    state: OrchestratorState = OrchestratorState.RUNNING
    """Shared by all servers."""
    stopped_by: str | None = None
    stopped_at: datetime | None = None
    """Both None = it runs."""
    changed_by: str | None = None
    changed_at: datetime | None = None
    """Last stop or start; None = never changed."""
    note: str | None = None
    """Reason, in the operator's words."""
    is_demo: bool = False
    """Whether this is the living demo: its users, history and load are invented."""


class OrchestratorChanged(Struct, frozen=True, kw_only=True):
    """Result of stopping or starting the orchestrator."""

    orchestrator: OrchestratorView
    revision: int


ALONE: Final = OrchestratorView(role=ServerRole.LEADER, address="", leader_address=None, epoch=0, leads_since=None)
"""View of a standalone server without a configured address."""


class RayView(Struct, frozen=True, kw_only=True):
    """State of the Ray cluster. Counts are 0 while disconnected."""

    head_node: str
    """`HOST:PORT`, as configured."""
    connected: bool = False
    version: str | None = None
    workers: int = 0
    """Nodes with a reachable agent."""
    nodes: int = 0
    """Nodes that Ray reports alive."""
    reason: str | None = None
    """Why it is disconnected, or why nodes have no agent."""


class SlotCapacityView(Struct, frozen=True, kw_only=True):
    """Capacity of a slot. Amounts are decimal text; `total` = `available` + `allocated`."""

    slot: str
    total: str
    available: str
    allocated: str


class DifferenceView(Struct, frozen=True, kw_only=True):
    """A discrepancy between store, agent and devices."""

    kind: Discrepancy
    agent_id: str
    subject: str
    """The kernel or the device."""
    evidence: str
    since: datetime | None
    """When the reaper confirmed it; None = unconfirmed, and possibly gone with the next message."""
    repair: str | None
    """The reaper's action."""


class ExaminationView(Struct, frozen=True, kw_only=True):
    """Result of one inspection of all agents."""

    differences: tuple[DifferenceView, ...]
    asked: tuple[str, ...]
    """Agents that answered."""
    silent: tuple[str, ...]
    """Unreachable agents; nothing is known about them."""


class RescanView(Struct, frozen=True, kw_only=True):
    """The resource specs of one agent or all, read from their files."""

    agent_id: str | None
    """None = all agents."""
    agents: tuple[str, ...]
    """Agents whose files were read."""
    silent: tuple[str, ...]
    """Agents that did not answer."""
    scanned: int
    """Number of files of kernels that have not ended."""
    unreadable: tuple[str, ...]
    """Kernels with an unreadable file; they are not in the map."""
    differences: tuple[DifferenceView, ...]
    """Differences between the files and the grants."""
    gpu_alloc_map: str
    """According to the files, of this agent's kernels alone; format as in `AgentView`."""


class DatabaseCopy(Struct, frozen=True, kw_only=True):
    """A copy of the server's database."""

    path: str
    """Path on the server's machine."""
    size_bytes: int
