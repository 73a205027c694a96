"""Read models with plausible content, for tests of the API."""

import json
from datetime import UTC, datetime

from msgspec.structs import replace

from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import DeviceAccess, DeviceHealth, Isolation
from aliquot_schema.resources.leases import LeaseKind
from aliquot_schema.sessions import DependencyCondition, PreemptionCause, Priority
from aliquot_schema.states import AgentState, KernelState, SessionState
from aliquot_schema.views.agents import (
    AgentView,
    CapabilitiesView,
    DeviceView,
    HolderView,
)
from aliquot_schema.views.preview import DisplacedView, PlannedKernelView, SessionPreview
from aliquot_schema.views.session_parts import FailureView
from aliquot_schema.views.sessions import (
    DependencyView,
    DeviceAmountView,
    KernelView,
    NameValueView,
    SessionView,
    SlotAmountView,
    SlotGrantView,
    VerdictView,
)

MOMENT = datetime(2026, 3, 1, 9, 30, 0, 250_000, tzinfo=UTC)
MOMENT_TEXT = "2026-03-01T09:30:00.250000Z"
MEMORY_BYTES = 85_899_345_920


def holder(session_id: str = "ses_1", share: str = "0.50") -> HolderView:
    return HolderView(
        lease_id=f"{session_id}.1.0",
        kind=LeaseKind.SESSION,
        user="ada",
        session_id=session_id,
        kernel_id=f"{session_id}.1.0",
        agent_id="agent-1",
        share=share,
        since=MOMENT,
        until=None,
        isolation=Isolation.NONE,
    )


def device(index: int, *holders: HolderView) -> DeviceView:
    return DeviceView(
        id=f"GPU-{index}",
        name=f"cuda{index}",
        kind="cuda",
        model="H100",
        health=DeviceHealth.HEALTHY,
        isolation=Isolation.NONE,
        numa_node=index % 2,
        parent_id=None,
        memory_bytes=MEMORY_BYTES,
        capacity="1.00",
        used="0.50",
        free="0.50",
        holders=holders,
        utilization_pct=12.5,
        memory_used_bytes=1024,
        temperature_c=40.0,
        power_w=None,
    )


def kernel(session_id: str = "ses_1") -> KernelView:
    return KernelView(
        id=f"{session_id}.1.0",
        session_id=session_id,
        attempt=1,
        rank=0,
        agent_id="agent-1",
        state=KernelState.RUNNING,
        resource_spec=(
            SlotGrantView(slot="cuda.shares", devices=(DeviceAmountView(device_id="GPU-0", amount="0.50"),)),
        ),
        holds_devices=True,
        granted_at=MOMENT,
        started_at=MOMENT,
        ended_at=None,
        exit_code=None,
        signal=None,
        timed_out=False,
        message=None,
    )


def agent(number: int = 1) -> AgentView:
    return AgentView(
        id=f"agent-{number}",
        version=3,
        node_id="node-1",
        hostname="host",
        state=AgentState.ALIVE,
        schedulable=True,
        capacity=(SlotAmountView(slot="cuda.shares", amount="2.00"),),
        occupied=(SlotAmountView(slot="cuda.shares", amount="0.50"),),
        devices=(device(0, holder()), device(1)),
        kernels=(kernel(),),
        gpu_alloc_map=json.dumps({"GPU-0": "0.50", "GPU-1": "0.00"}),
        allocation_mode=AllocationMode.AUTO_SPLIT,
        scaling_factors=(SlotAmountView(slot="cuda.shares", amount="0.4"),),
        attributes=(NameValueView(name="driver", value="mock"),),
        capabilities=CapabilitiesView(
            kill="subreaper", limits="rlimits", switches_user=False, device_access=DeviceAccess.ENV
        ),
        software_version="0.1.0",
        registered_at=MOMENT,
        state_changed_at=MOMENT,
    )


def verdict() -> VerdictView:
    return VerdictView(
        reason=Reason.INSUFFICIENT,
        message="2 of cuda.device are asked for, 1 is free",
        slot="cuda.device",
        requested="2",
        available="1",
        quota=None,
        limit=None,
        held=None,
        may_borrow=False,
        fits_kernels=0,
        blocked_by=("ses_0",),
        agents=("agent-1",),
        devices=("GPU-0",),
        until=None,
    )


def session(number: int = 1, state: SessionState = SessionState.QUEUED) -> SessionView:
    return SessionView(
        id=f"ses_{number}",
        version=1,
        owner="ada",
        project="default",
        pool="default",
        name=f"job {number}",
        run_id=None,
        tags=(NameValueView(name="team", value="vision"),),
        command=("/bin/true",),
        slots=(SlotAmountView(slot="cuda.shares", amount="0.50"),),
        cluster_size=1,
        cluster_size_min=None,
        gpu_memory_gb="40",
        environment=(),
        working_directory=None,
        estimated_duration=60.0,
        time_limit=None,
        max_retries=0,
        retry_count=0,
        preemptible=False,
        depends_on=(
            DependencyView(session_id="ses_0", condition=DependencyCondition.AFTER_OK, state=SessionState.COMPLETED),
        ),
        priority=Priority.HIGH,
        state=state,
        attempt=0,
        queue_position=number,
        waits=verdict(),
        kernels=(kernel(f"ses_{number}"),),
        holds_devices=False,
        queued_at=MOMENT,
        scheduled_at=None,
        started_at=None,
        ended_at=None,
        exit_code=None,
        signal=None,
        failure=None,
    )


def failed(number: int) -> SessionView:
    failure = FailureView(code="exit_code", message="rank 0 exited with 3")
    return replace(session(number, SessionState.FAILED), exit_code=3, failure=failure, waits=None)


def preview() -> SessionPreview:
    """A session that waits for a preemption."""
    spec = (SlotGrantView(slot="cpu", devices=(DeviceAmountView(device_id="cpu-0", amount="1"),)),)
    return SessionPreview(
        revision=41,
        slots=(SlotAmountView(slot="cpu", amount="1"),),
        starts_now=False,
        kernels=(PlannedKernelView(rank=0, agent_id="agent-1", node_id="node-1", resource_spec=spec),),
        tasks_starting=0,
        queue_position=1,
        waits=None,
        expected_start=MOMENT,
        failure=None,
        displaces=(DisplacedView(session_id="ses_1", owner="bob", cause=PreemptionCause.PRIORITY, has_run=1.5),),
        order_estimate=None,
    )
