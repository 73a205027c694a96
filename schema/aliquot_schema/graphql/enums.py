"""GraphQL enums: the domain's enumerations with their descriptions. Values keep their written form: `after_ok`.

Other modules import enumerations from here: Strawberry omits the description of an enum used before its registration.
"""

from enum import Enum
from typing import Final

import strawberry
from strawberry.schema.name_converter import NameConverter
from strawberry.types.enum import EnumValue, StrawberryEnumDefinition

from aliquot_schema.alerts import AlertRule as AlertRule
from aliquot_schema.alerts import DeliveryState as DeliveryState
from aliquot_schema.alerts import NoticeKind as NoticeKind
from aliquot_schema.alerts import Severity as Severity
from aliquot_schema.cluster.agents import AllocationMode as AllocationMode
from aliquot_schema.cluster.findings import Discrepancy as Discrepancy
from aliquot_schema.identity.accounts import KeyScope as KeyScope
from aliquot_schema.identity.accounts import Role as Role
from aliquot_schema.orchestration import OrchestratorState as OrchestratorState
from aliquot_schema.policies import Backfill as Backfill
from aliquot_schema.policies import PreemptScope as PreemptScope
from aliquot_schema.policies import Victims as Victims
from aliquot_schema.quotas import QuotaScope as QuotaScope
from aliquot_schema.reasons import Reason as Reason
from aliquot_schema.requests import AgentOrder as AgentOrder
from aliquot_schema.requests import SessionOrder as SessionOrder
from aliquot_schema.resources.confinement import SandboxProfile as SandboxProfile
from aliquot_schema.resources.devices import DeviceAccess as DeviceAccess
from aliquot_schema.resources.devices import DeviceHealth as DeviceHealth
from aliquot_schema.resources.devices import Isolation as Isolation
from aliquot_schema.resources.leases import LeaseKind as LeaseKind
from aliquot_schema.sessions import DependencyCondition as DependencyCondition
from aliquot_schema.sessions import PreemptionCause as PreemptionCause
from aliquot_schema.states import AgentState as AgentState
from aliquot_schema.states import KernelState as KernelState
from aliquot_schema.states import SessionState as SessionState
from aliquot_schema.views.alerts import AlertState as AlertState
from aliquot_schema.views.server import ServerRole as ServerRole
from aliquot_schema.views.statistics import UsageBy as UsageBy

DESCRIPTIONS: Final[dict[type[Enum], str]] = {
    SessionState: "State of a session. queued and held sessions wait; scheduled, allocating, running and preempting "
    "sessions hold devices; completed, failed and canceled are final.",
    KernelState: "State of a kernel. Its devices become free when it is exited, not before.",
    AgentState: "State of an agent as the server sees it. Devices of a lost agent stay held, because its jobs may "
    "still be running.",
    AllocationMode: "How the devices of a node are divided among its agents.",
    DeviceHealth: "Health of a device. Only healthy devices are allocated to new sessions.",
    DeviceAccess: "How kernels are kept from devices they were not allocated: env is advisory, cgroup is enforced.",
    Discrepancy: "Kind of discrepancy between the server's records, an agent's state and the processes on its devices.",
    SandboxProfile: "What a job can see of its node. standard: a read-only system, a private /tmp and /dev, its home "
    "and the operator's mounts, no processes of other jobs, no files of the server. The network is not restricted.",
    Isolation: "Isolation between holders of one device, weakest first.",
    LeaseKind: "Kind of lease: held by a session's kernel, by a user's external allocation, or by a reservation.",
    Reason: "Why a session waits. The first reason that applies, in this order, is reported.",
    PreemptionCause: "Cause of a preemption: a session of higher priority, reclaimed quota, a drained agent, or a "
    "lost device.",
    DependencyCondition: "Condition of a dependency: the other session completed, ended in any state, or failed.",
    AgentOrder: "Sort order of agents, natural: node2 before node10.",
    Backfill: "Which sessions may start before the head of the queue while the head does not fit.",
    PreemptScope: "Which sessions may be preempted: none, those submitted as preemptible, or any. Quota lent to users "
    "without own quota is reclaimed even if their sessions are not preemptible.",
    Victims: "Deprecated names of `PreemptScope`: `nobody` is `none`, `willing` is `preemptible`.",
    QuotaScope: "What a quota applies to: a user, a project, or the whole cluster.",
    ServerRole: "Role of a server. The leader schedules, launches and receives the agents' reports; followers answer "
    "queries.",
    OrchestratorState: "Whether sessions are placed. Running sessions and submissions continue in both states.",
    Role: "Role of a user; each includes those before it. viewer: read. user: submit sessions and change their own. "
    "operator: change all sessions, agents, quotas and the policy. admin: manage users and keys, and read everything.",
    KeyScope: "Upper bound on what a key allows, whatever its owner's role.",
    AlertRule: "Condition that opens an alert.",
    AlertState: "Whether an alert is still open.",
    DeliveryState: "State of a delivery: waiting to be sent, sent, or given up after a day or a permanent rejection.",
    NoticeKind: "Subject of a notice: an alert of a rule, or a change of a session.",
    Severity: "Severity. Critical notices are sent during quiet hours too.",
    UsageBy: "Grouping of usage.",
    SessionOrder: "Sort order of sessions: by submission (newest, oldest), or by a value, ascending or descending. "
    "Equal values are ordered by submission; sessions without a value come last.",
}


class SnakeNames(NameConverter):
    """Snake-case names; an enum value is named by its text."""

    def __init__(self) -> None:
        super().__init__(auto_camel_case=False)

    def from_enum_value(self, enum: StrawberryEnumDefinition, enum_value: EnumValue) -> str:  # noqa: ARG002
        """`auto-split` -> `auto_split`, because GraphQL names have no hyphen. Integer enums use the member's name."""
        if isinstance(enum_value.value, int):
            return enum_value.name.lower()
        return str(enum_value.value).replace("-", "_")


for _enum, _description in DESCRIPTIONS.items():
    strawberry.enum(_enum, description=_description)
