"""The vocabulary's enumerations as GraphQL enums. Values keep their written form: `running`, `after_ok`.

Types take their enumerations from here: Strawberry publishes one that it meets before it was described here bare.
"""

from enum import Enum
from typing import Final

import strawberry
from strawberry.schema.name_converter import NameConverter
from strawberry.types.enum import EnumValue, StrawberryEnumDefinition

from aliquot_schema.agents import AllocationMode as AllocationMode
from aliquot_schema.confinement import SandboxProfile as SandboxProfile
from aliquot_schema.devices import DeviceAccess as DeviceAccess
from aliquot_schema.devices import DeviceHealth as DeviceHealth
from aliquot_schema.devices import Isolation as Isolation
from aliquot_schema.findings import Discrepancy as Discrepancy
from aliquot_schema.history_views import UsageBy as UsageBy
from aliquot_schema.leases import LeaseKind as LeaseKind
from aliquot_schema.notice_views import AlertState as AlertState
from aliquot_schema.notices import AlertRule as AlertRule
from aliquot_schema.notices import DeliveryState as DeliveryState
from aliquot_schema.notices import NoticeKind as NoticeKind
from aliquot_schema.notices import Severity as Severity
from aliquot_schema.orchestration import OrchestratorState as OrchestratorState
from aliquot_schema.policies import Backfill as Backfill
from aliquot_schema.policies import Victims as Victims
from aliquot_schema.quotas import QuotaScope as QuotaScope
from aliquot_schema.reasons import Reason as Reason
from aliquot_schema.requests import AgentOrder as AgentOrder
from aliquot_schema.roles import KeyScope as KeyScope
from aliquot_schema.roles import Role as Role
from aliquot_schema.server_views import ServerRole as ServerRole
from aliquot_schema.session_lists import SessionOrder as SessionOrder
from aliquot_schema.sessions import DependencyCondition as DependencyCondition
from aliquot_schema.sessions import PreemptionCause as PreemptionCause
from aliquot_schema.states import AgentState as AgentState
from aliquot_schema.states import KernelState as KernelState
from aliquot_schema.states import SessionState as SessionState

DESCRIPTIONS: Final[dict[type[Enum], str]] = {
    SessionState: "Where a session is on its way: queued or held, scheduled, allocating, running, preempting, "
    "and for good completed, failed or canceled.",
    KernelState: "Where one rank of an attempt is. Its devices are free when it is exited, and not before.",
    AgentState: "How the server sees an agent. The devices of a lost one stay held: its jobs may still be running.",
    AllocationMode: "How the devices of a node are divided among its agents.",
    DeviceHealth: "Whether a device may be given to somebody new.",
    DeviceAccess: "What keeps a kernel away from devices that it was not given: env is advisory, cgroup is enforced.",
    Discrepancy: "What does not agree: the store, what an agent has, and what runs on its devices.",
    SandboxProfile: "What a job sees of its node. standard: a read-only system, a /tmp and /dev of its own, its home "
    "and what the operator mounts, no processes of others and nothing of the server's; the network is as it is.",
    Isolation: "What keeps two holders of one device apart; each promises more than the one before.",
    LeaseKind: "By what right a device is held: a session's kernel, a person, or a booking.",
    Reason: "Why a session is not placed. The first that holds, in this order, is given.",
    PreemptionCause: "By what right a session was asked to make room: for a higher priority, for the owner of lent "
    "quota, because its agent is drained, or because a device of its is gone.",
    DependencyCondition: "When a dependency is met: the other session ended well, ended at all, or failed.",
    AgentOrder: "In which order agents are listed.",
    Backfill: "Who may start before the head of the queue while the head does not fit.",
    Victims: "Who may be asked to make room: nobody, those who said that they are willing, or any. "
    "What a quota says is its owner's is called back from those who own none of it, willing or not.",
    QuotaScope: "Whom a quota is for: a user, a project, or the cluster as a whole.",
    ServerRole: "What a server does beside answering: the leader decides, launches and listens to agents.",
    OrchestratorState: "Whether anything new is placed; sessions that run and submissions go on in any case.",
    Role: "What somebody may do: look; submit, and change what is his own; change everybody's sessions, agents, quotas "
    "and the policy; make users and keys.",
    KeyScope: "What a key allows at most, whatever its owner's role.",
    AlertRule: "What an alert is opened for.",
    AlertState: "Whether an alert still holds.",
    DeliveryState: "Where a notice for one receiver is: on its way, there, or given up after a day.",
    NoticeKind: "What a notice is about: an alert of a rule, or what became of a session.",
    Severity: "How much it matters. What is critical is told in quiet hours too.",
    UsageBy: "Whose usage is added up.",
    SessionOrder: "In which order sessions are listed: by the time they were submitted, or by a value, asc or desc. "
    "Those that are alike in it follow by the time they were submitted; those that have no such time or name are last.",
}


class SnakeNames(NameConverter):
    """Names as Python writes them; an enum value is named by its text."""

    def __init__(self) -> None:
        super().__init__(auto_camel_case=False)

    def from_enum_value(self, enum: StrawberryEnumDefinition, enum_value: EnumValue) -> str:  # noqa: ARG002
        """`auto-split` -> `auto_split`: GraphQL names have no hyphen. Numbers are known by their name."""
        if isinstance(enum_value.value, int):
            return enum_value.name.lower()
        return str(enum_value.value).replace("-", "_")


for _enum, _description in DESCRIPTIONS.items():
    strawberry.enum(_enum, description=_description)
