"""Infeasible requests are refused by name and limit; reasons have texts."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PlacementConstraints
from aliquot.core.scheduler.feasibility import impossible
from aliquot.core.scheduler.reason_text import explain
from aliquot_schema.errors import AliquotError, ImpossibleRequest, NotMultipleOfQuantum
from aliquot_schema.ids import AgentId, DeviceId, PoolId, SessionId, SlotName
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import SessionSpec
from allocation_devices import GB, cores, gpu, gpus, pool, slice_of
from core_cluster import decided, on, row, waits

TWO_NODES = [on("x", [*gpus(8), *cores(range(4)), pool(0, size=8 * 2**30)]), on("y", gpus(4), is_open=False)]


def refusal(
    slots: dict[str, str], agents: list[AgentRow] = TWO_NODES, *, kernels: int = 1, memory_gb: int | None = None
) -> AliquotError | None:
    spec = SessionSpec(
        argv=("true",),
        slots=ResourceSlot.parse(slots),
        cluster_size=kernels,
        gpu_memory_bytes=None if memory_gb is None else memory_gb * GB,
    )
    return impossible(spec, agents, Policy().allocation)


@pytest.mark.parametrize(
    ("slots", "more"),
    [
        ({"cuda.device": "8"}, {}),
        ({"cuda.device": "4"}, {"kernels": 3}),
        ({"cuda.shares": "8"}, {}),
        ({"cpu": "4", "mem": "8g", "cuda.device": "8"}, {}),
        ({"cuda.device": "1"}, {"memory_gb": 80}),
    ],
    ids=str,
)
def test_a_request_that_an_empty_cluster_could_run_is_accepted_closed_agents_included(
    slots: dict[str, str], more: dict[str, Any]
) -> None:
    assert refusal(slots, **more) is None


@pytest.mark.parametrize(
    ("slots", "more", "slot", "requested", "limit"),
    [
        ({"cuda.device": "9"}, {}, "cuda.device", "9", "8"),
        ({"cuda.shares": "8.5"}, {}, "cuda.shares", "8.50", "8.00"),
        ({"mem": "9g"}, {}, "mem", "9g", "8g"),
        ({"cpu": "5", "cuda.device": "1"}, {}, "cpu", "5", "4"),
        ({"cuda.device": "4"}, {"kernels": 4}, "cluster_size", "4", "3"),
        ({"tpu.device": "1"}, {}, "tpu.device", "1", "0"),
    ],
    ids=str,
)
def test_a_request_that_could_never_run_is_refused_with_the_limit(
    slots: dict[str, str], more: dict[str, Any], slot: str, requested: str, limit: str
) -> None:
    refused = refusal(slots, **more)
    assert isinstance(refused, ImpossibleRequest)
    assert (refused.slot, refused.requested, refused.limit) == (slot, requested, limit)
    assert all(part in refused.message for part in (slot, requested, limit))


def test_a_share_that_is_not_a_multiple_of_its_step_is_refused_with_the_step() -> None:
    refused = refusal({"cuda.shares": "0.005"})
    assert isinstance(refused, NotMultipleOfQuantum)
    assert "0.01" in refused.message


def test_a_refusal_for_too_much_gpu_memory_names_the_memory() -> None:
    refused = refusal({"cuda.device": "1"}, memory_gb=96)
    assert isinstance(refused, ImpossibleRequest)
    assert "memory" in refused.message


@pytest.mark.parametrize(
    ("slots", "memory_gb", "message"),
    [
        (
            {"cuda.device": "1"},
            96,
            "gpu_memory_gb: 96 GB per GPU requested, and the largest GPU has 80 GB; ask for at most 80",
        ),
        (
            {"cuda.shares": "0.5"},
            60,
            "gpu_memory_gb: 60 GB per GPU requested, and the largest GPU has 80 GB, of which 0.50 has 40 GB; "
            "ask for a larger share or less memory",
        ),
    ],
    ids=str,
)
def test_a_refusal_names_the_largest_gpu_memory_that_would_fit(
    slots: dict[str, str], memory_gb: int, message: str
) -> None:
    refused = refusal(slots, [*TWO_NODES, on("b1", [amd(0)])], memory_gb=memory_gb)
    assert isinstance(refused, ImpossibleRequest)
    assert refused.message == message


def amd(index: int, **fields: Any) -> Device:
    """An AMD GPU."""
    costs = {SlotName("rocm.device"): 1000, SlotName("rocm.shares"): 1}
    return gpu(index, id=DeviceId(f"rocm{index}"), name=f"rocm{index}", kind="rocm", costs=costs, **fields)


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        (
            {"cuda.device": "1", "cuda.shares": "0.5"},
            "cuda.device and cuda.shares are parts of the same devices; ask for one of them",
        ),
        (
            {"cuda.device": "1", "rocm.device": "1"},
            "no agent has cuda.device and rocm.device together: cuda.device is on x, y; rocm.device is on b1. "
            "Submit a session of its own for each",
        ),
    ],
    ids=str,
)
def test_slots_that_exclude_each_other_are_refused_as_such_beside_other_kinds_of_agents(
    slots: dict[str, str], message: str
) -> None:
    refused = refusal(slots, [*TWO_NODES, on("b1", [amd(0)])])
    assert isinstance(refused, ImpossibleRequest)
    assert refused.message == message


def test_a_smaller_request_is_not_advised_when_the_last_device_of_a_kind_is_gone() -> None:
    agents = [on("x", gpus(1)), on("b1", [amd(0, health=DeviceHealth.GONE)])]
    refused = refusal({"rocm.device": "1"}, agents)
    assert isinstance(refused, ImpossibleRequest)
    assert refused.message == (
        "rocm.device: a kernel asks for 1, and these agents have 0: the last device with it is gone (rocm0). "
        "A smaller amount does not help"
    )


def test_devices_of_which_less_than_one_unit_is_left_are_named_as_too_small() -> None:
    agents = [on("x", gpus(1)), on("b1", [replace(amd(0), budget=500)])]
    refused = refusal({"rocm.device": "1"}, agents)
    assert isinstance(refused, ImpossibleRequest)
    assert refused.message == (
        "rocm.device: a kernel asks for 1, and these agents have 0: the devices with it report less than 1 (rocm0). "
        "A smaller amount does not help"
    )


def test_a_waiting_session_names_the_last_device_of_its_kind_that_is_gone() -> None:
    agents = [on("x", gpus(1)), on("b1", [amd(0, health=DeviceHealth.GONE)])]
    verdict = waits(decided(agents, [row("a", rocm_device="1")]), "a")
    assert verdict.reason is Reason.NO_AGENT
    assert verdict.evidence == Evidence(slot="rocm.device", requested="1", available="0", devices=(DeviceId("rocm0"),))


@pytest.mark.parametrize(
    ("agents", "wanted", "text"),
    [
        (
            [on("x", gpus(4))],
            {"where": PlacementConstraints(labels=(("rack", "2"), ("room", "1")))},
            "No agent of its pool with a CUDA GPU has the labels rack=2, room=1 now.",
        ),
        (
            [replace(on("x", gpus(4)), labels={"rack": "2"}), on("y", [amd(0)])],
            {"where": PlacementConstraints(labels=(("rack", "2"), ("room", "1")))},
            "No agent of its pool with a CUDA GPU has the label room=1 now.",
        ),
        (
            [replace(on("x", gpus(4)), pool=PoolId("lab")), on("y", [amd(0)])],
            {},
            "No agent of its pool default has a CUDA GPU; agents of other pools have.",
        ),
        ([on("x", gpus(4))], {"excluded_agents": (AgentId("x"),)}, "Only x can run it, which takes no sessions now."),
        (
            [on("x", gpus(2)), on("y", gpus(1), is_open=False)],
            {"cuda_device": "4"},
            "Each kernel needs 4 GPUs, and the largest agent has 2. Ask for less, or for more kernels.",
        ),
        (
            [on("x", gpus(8)), on("y", gpus(8), is_open=False), on("z", gpus(1))],
            {"cuda_device": "8", "kernels": 2},
            "At most 1 of its kernels fit on the agents in service; the others need y, which takes no sessions now.",
        ),
        (
            [on("x", gpus(2)), on("y", gpus(2), is_open=False), on("z", gpus(2), is_open=False)],
            {"cuda_device": "2", "kernels": 3},
            "At most 1 of its kernels fit on the agents in service; the others need y, z, which take no sessions now.",
        ),
        (
            [on("x", gpus(2)), on("y", gpus(1), is_open=False)],
            {"cuda_device": "2", "kernels": 2},
            "At most 1 of its kernels fit on the agents in service; all must start together.",
        ),
    ],
    ids=["labels", "one label", "pool", "excluded", "too small", "gang", "larger gang", "gang too small"],
)
def test_a_session_that_no_agent_in_service_can_run_says_what_is_missing(
    agents: list[AgentRow], wanted: dict[str, Any], text: str
) -> None:
    verdict = waits(decided(agents, [row("a", **wanted)]), "a")
    assert verdict.reason is Reason.NO_AGENT
    assert explain(verdict) == text


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (
            {"aliquot.images": "yes"},
            "image: no registered agent can run container images; a node needs Podman, Docker or Apptainer for that",
        ),
        ({"aliquot.sandbox": "private"}, "sandbox: no registered agent has a sandbox"),
        (
            {"aliquot.sandbox": "private", "rack": "2"},
            "labels: no registered agent has the label rack=2 and has a sandbox",
        ),
        ({"rack": "2", "room": "1"}, "labels: no registered agent has the labels rack=2, room=1"),
    ],
)
def test_a_refusal_for_an_image_or_a_sandbox_does_not_speak_of_labels(labels: dict[str, str], text: str) -> None:
    spec = SessionSpec(argv=("true",), slots=ResourceSlot.parse({"cuda.device": "1"}), labels=labels)
    found = impossible(spec, TWO_NODES, Policy().allocation)
    assert found is not None
    assert found.message == text


def test_a_request_for_slots_that_no_single_agent_has_is_impossible() -> None:
    agents = [on("x", gpus(1)), on("y", cores(range(2)))]
    refused = refusal({"cuda.device": "1", "cpu": "1"}, agents)
    assert isinstance(refused, ImpossibleRequest)
    assert refusal({"cuda.device": "1"}, agents) is None


def test_unhealthy_devices_count_as_possible_and_gone_devices_do_not() -> None:
    agents = [on("x", [gpu(0), gpu(1, health=DeviceHealth.UNHEALTHY), gpu(2, health=DeviceHealth.GONE)])]
    assert refusal({"cuda.device": "2"}, agents) is None
    refused = refusal({"cuda.device": "3"}, agents)
    assert isinstance(refused, ImpossibleRequest)
    assert refused.limit == "2"


def test_a_device_shared_by_agents_of_one_node_counts_once() -> None:
    agents = [on("x", gpus(2), node="n"), on("y", gpus(2), node="n")]
    refused = refusal({"cuda.device": "1"}, agents, kernels=3)
    assert isinstance(refused, ImpossibleRequest)
    assert refused.limit == "2"
    one = refusal({"cuda.device": "2"}, agents, kernels=2)
    assert one is not None
    assert one.message.startswith("cluster_size: all agents together hold 1 such kernel when empty, and 2 were")


def test_the_limit_of_a_node_with_only_slices_is_their_number() -> None:
    parent = gpu(0)
    refused = refusal({"cuda.device": "4"}, [on("x", [slice_of(parent, number) for number in range(3)])])
    assert isinstance(refused, ImpossibleRequest)
    assert refused.limit == "3"


FULL = Evidence(
    slot="cuda.device",
    requested="2",
    available="1",
    fits_kernels=3,
    blocked_by=tuple(SessionId(f"ses_{number}") for number in range(5)),
    agents=(AgentId("x"), AgentId("y")),
    devices=(DeviceId("cuda0"),),
    until_us=5,
)


@pytest.mark.parametrize("evidence", [FULL, Evidence()], ids=["full", "empty"])
@pytest.mark.parametrize("reason", Reason)
def test_every_waiting_reason_has_a_text_with_and_without_evidence(reason: Reason, evidence: Evidence) -> None:
    words = explain(Verdict(reason=reason, evidence=evidence))
    assert len(words) > 9
    assert "<" not in words


def test_the_text_of_a_waiting_reason_contains_the_evidence() -> None:
    def words(reason: Reason) -> str:
        return explain(Verdict(reason=reason, evidence=FULL))

    assert "2 GPUs" in words(Reason.INSUFFICIENT)
    assert "at most 1 free; held by ses_0, ses_1, ses_2 and 2 more" in words(Reason.INSUFFICIENT)
    assert "ses_0, ses_1, ses_2 and 2 more" in words(Reason.DEPENDENCY)
    assert "3 of its kernels" in words(Reason.GANG_INCOMPLETE)
    assert words(Reason.NO_AGENT).startswith("No agent has a CUDA GPU any more: cuda0 is gone.")
