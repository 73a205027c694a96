"""GraphQL enums: the domain's enumerations with their descriptions. Values keep their written form: `after_ok`.

Other modules import enumerations from here: Strawberry omits the description of an enum used before its registration.
"""

from typing import Final

import strawberry
from strawberry.schema.name_converter import NameConverter
from strawberry.types.enum import EnumValue, StrawberryEnumDefinition

from aliquot_schema.alerts import AlertRule as AlertRule
from aliquot_schema.alerts import DeliveryState as DeliveryState
from aliquot_schema.alerts import NoticeKind as NoticeKind
from aliquot_schema.alerts import Severity as Severity
from aliquot_schema.billing import AtBudget as AtBudget
from aliquot_schema.billing import TimeKind as TimeKind
from aliquot_schema.bookings import BookingKind as BookingKind
from aliquot_schema.bookings import BookingState as BookingState
from aliquot_schema.cluster.agents import AllocationMode as AllocationMode
from aliquot_schema.cluster.findings import Discrepancy as Discrepancy
from aliquot_schema.enums import DescribedInt, DescribedStr
from aliquot_schema.identity.accounts import KeyScope as KeyScope
from aliquot_schema.identity.accounts import Role as Role
from aliquot_schema.orchestration import OrchestratorState as OrchestratorState
from aliquot_schema.policies import Backfill as Backfill
from aliquot_schema.policies import IdleAction as IdleAction
from aliquot_schema.policies import IdleStep as IdleStep
from aliquot_schema.policies import PreemptScope as PreemptScope
from aliquot_schema.policies import Victims as Victims
from aliquot_schema.quotas import QuotaScope as QuotaScope
from aliquot_schema.reasons import Reason as Reason
from aliquot_schema.reasons import RemedyKind as RemedyKind
from aliquot_schema.requests import AgentOrder as AgentOrder
from aliquot_schema.requests import SessionAction as SessionAction
from aliquot_schema.requests import SessionOrder as SessionOrder
from aliquot_schema.resources.confinement import SandboxProfile as SandboxProfile
from aliquot_schema.resources.devices import DeviceAccess as DeviceAccess
from aliquot_schema.resources.devices import DeviceHealth as DeviceHealth
from aliquot_schema.resources.devices import Isolation as Isolation
from aliquot_schema.resources.leases import LeaseKind as LeaseKind
from aliquot_schema.sessions import DependencyCondition as DependencyCondition
from aliquot_schema.sessions import PreemptionCause as PreemptionCause
from aliquot_schema.sessions import Topology as Topology
from aliquot_schema.states import AgentState as AgentState
from aliquot_schema.states import KernelState as KernelState
from aliquot_schema.states import ServiceState as ServiceState
from aliquot_schema.states import SessionState as SessionState
from aliquot_schema.views.alerts import AlertState as AlertState
from aliquot_schema.views.backtests import BacktestState as BacktestState
from aliquot_schema.views.backtests import TuneApply as TuneApply
from aliquot_schema.views.billing import DocumentFormat as DocumentFormat
from aliquot_schema.views.bookings import ImportedRowState as ImportedRowState
from aliquot_schema.views.right_size import RightSizeKind as RightSizeKind
from aliquot_schema.views.server import ServerRole as ServerRole
from aliquot_schema.views.statistics import UsageBy as UsageBy

DESCRIPTIONS: Final[dict[type[DescribedStr] | type[DescribedInt], str]] = {
    SessionState: "State of a session. queued and held sessions wait; scheduled, allocating, running and preempting "
    "sessions hold devices; completed, failed and canceled are final.",
    KernelState: "State of a kernel. Its devices become free when it is exited, not before.",
    ServiceState: "State of a web service: waiting for its session to start, running, or ended with it. Whether its "
    "program listens is known when it is opened.",
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
    RemedyKind: "What a remedy changes, from what costs the session's owner least.",
    IdleAction: "What happens to a session that does not use its GPUs: nothing; its steps are only recorded; its owner "
    "is told twice; it is then preempted, or ended, if a waiting session starts for it.",
    IdleStep: "Last step for a session that does not use its GPUs. Its owner was told once or twice; it loses its GPUs "
    "when a waiting session starts for it; its owner still needs it; it lost them; it uses them again.",
    PreemptionCause: "Cause of a preemption: a session of higher priority, one before it under a preemptive order, "
    "reclaimed quota, a drained agent, a node that is about to be taken away, a lost device, unused GPUs, "
    "or the restart of an elastic gang with more kernels.",
    DependencyCondition: "Condition of a dependency: the other session completed, ended in any state, or failed.",
    BookingKind: "What a booking is for.",
    BookingState: "State of a booking.",
    ImportedRowState: "What became of a row of a file of bookings, or would in a dry run.",
    Topology: "How near to each other the kernels of a gang have to be: on as few switches as possible now, or all on "
    "one switch. Agents name their switch by the label `switch` or `rack`.",
    AgentOrder: "Sort order of agents, natural: node2 before node10.",
    Backfill: "Which sessions may start before the head of the queue while the head does not fit.",
    PreemptScope: "Which sessions may be preempted: none, those submitted as preemptible, or any. Quota lent to users "
    "without own quota is reclaimed even if their sessions are not preemptible.",
    Victims: "Deprecated names of `PreemptScope`: `nobody` is `none`, `willing` is `preemptible`.",
    QuotaScope: "What a quota applies to: a user, a project, the whole cluster, or the sessions of one API key.",
    AtBudget: "What happens to waiting sessions of an account that has spent its budget of the month.",
    TimeKind: "What device time was held for.",
    DocumentFormat: "Format of a statement.",
    TuneApply: "What becomes of a better policy that a tuning finds: an operator applies it, or the server on trial.",
    RightSizeKind: "Part of a request that right-size advice is about.",
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
    BacktestState: "State of a backtest. Queued ones start after those before them.",
    UsageBy: "Grouping of usage.",
    SessionAction: "What to do with several sessions.",
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
    _definition: StrawberryEnumDefinition = vars(_enum)["__strawberry_definition__"]
    _members: list[DescribedStr | DescribedInt] = [*_enum]
    for _value, _member in zip(_definition.values, _members, strict=True):
        _value.description = _member.description
