"""Gangs on switches: the fewest by brute force, or exactly one; agents without a switch; reservations."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE, AgentRow, PendingRow, RunningRow, Snapshot
from aliquot.core.placement.switches import switch_of
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.feasibility import impossible
from aliquot.core.scheduler.reason_text import explain
from aliquot_schema.errors import ImpossibleRequest
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import SessionSpec, Topology
from allocation_devices import gpus
from core_cluster import NOW_US, after, on, row, snapshot
from placement_clusters import NAMES

ONE_SWITCH = replace(ANYWHERE, topology=Topology.REQUIRE)


def at(name: str, switch: str, *, free: int = 8, label: str = "switch") -> AgentRow:
    return replace(on(name, gpus(free)), labels={label: switch} if switch else {})


def switches_in(plan: Plan, agents: Sequence[AgentRow], name: str = "gang") -> set[str]:
    by_id = {agent.id: agent for agent in agents}
    placed = next(one for one in plan.placements if one.session_id == name)
    return {switch_of(by_id[kernel.agent_id]) for kernel in placed.kernels}


def decided(state: Snapshot, placement: str = "least_waste", **more: object) -> Plan:
    return decide(state, replace(Policy(placement=placement), **more), now_us=NOW_US, seed=0)  # type: ignore[arg-type]


def fewest(agents: Sequence[AgentRow], *, gpus_each: int, kernels: int, held: Snapshot) -> int | None:
    """The fewest switches that hold all kernels, by brute force; None if all together do not."""
    room: dict[str, int] = {}
    for agent in agents:
        left = len(agent.layout.devices) - len(held.used.get(agent.node_id, {}))
        room[switch_of(agent)] = room.get(switch_of(agent), 0) + left // gpus_each
    for count in range(1, len(room) + 1):
        if any(sum(chosen) >= kernels for chosen in combinations(room.values(), count)):
            return count
    return None


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[AgentRow], Snapshot]:
    """Up to seven agents on up to four switches, some without one, partly held."""
    agents = [
        at(f"n{number}", draw(st.sampled_from(["", "a", "b", "c", "d"])), free=draw(st.integers(1, 4)))
        for number in range(draw(st.integers(1, 7)))
    ]
    fillers = [row(f"held{number}", cuda_device="1") for number in range(draw(st.integers(0, 6)))]
    state = snapshot(agents, fillers)
    return agents, after(state, decided(state, draw(st.sampled_from(NAMES))))


@settings(deadline=None, max_examples=250)
@given(
    cluster=clusters(),
    kernels=st.integers(2, 9),
    gpus_each=st.integers(1, 3),
    topology=st.sampled_from(Topology),
    placement=st.sampled_from(NAMES),
)
def test_a_gang_gets_the_fewest_switches_or_exactly_one(
    cluster: tuple[list[AgentRow], Snapshot], kernels: int, gpus_each: int, topology: Topology, placement: str
) -> None:
    agents, held = cluster
    gang = row("gang", kernels=kernels, cuda_device=str(gpus_each), where=replace(ANYWHERE, topology=topology))
    plan = decided(replace(held, queue=(gang,)), placement)
    least = fewest(agents, gpus_each=gpus_each, kernels=kernels, held=held)
    is_named = any(agent.labels for agent in agents)
    if least is None or (topology is Topology.REQUIRE and least > 1):
        assert not plan.placements
    elif is_named or topology is Topology.REQUIRE:
        assert len(switches_in(plan, agents)) == least
    else:
        assert plan.placements


def test_the_smallest_switch_that_holds_the_gang_is_taken() -> None:
    agents = [at("a1", "wide"), at("a2", "wide"), at("a3", "wide"), at("b1", "narrow"), at("b2", "narrow")]
    plan = decided(snapshot(agents, [row("gang", kernels=4, cuda_device="4")]))
    assert switches_in(plan, agents) == {"switch narrow"}


def test_a_switch_label_takes_precedence_over_a_rack_label_and_both_over_the_node() -> None:
    both = replace(on("a"), labels={"switch": "s", "rack": "r"})
    assert [switch_of(one) for one in (both, at("b", "r", label="rack"), on("c"))] == [
        "switch s",
        "rack r",
        "node node-c",
    ]


def test_without_switch_labels_a_gang_is_placed_as_on_one_switch() -> None:
    agents = [on(f"n{number}", gpus(4)) for number in range(4)]
    queue = [row("gang", kernels=5, cuda_device="2")]
    unnamed = decided(snapshot(agents, queue))
    one = decided(snapshot([replace(agent, labels={"switch": "all"}) for agent in agents], queue))
    assert unnamed.placements == one.placements


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_a_gang_that_requires_one_switch_waits_with_a_reservation_on_one_switch(backfill: Backfill) -> None:
    agents = [at("a1", "a"), at("a2", "a"), at("b1", "b"), at("b2", "b")]
    first = snapshot(agents, [row(name, cuda_device="8") for name in ("x", "y")])
    holding = [
        next(one for one in decided(snapshot([agent], [row(name, cuda_device="8")])).placements)
        for agent, name in ((agents[0], "x"), (agents[2], "y"))
    ]
    used = {one.kernels[0].node_id: dict.fromkeys(one.kernels[0].spec["cuda.device"], 1000) for one in holding}
    running = tuple(
        RunningRow.of(one.session_id, one.kernels, ends_us=NOW_US + 60_000_000 * (2 - number), agents=agents)
        for number, one in enumerate(holding)
    )
    queue: list[PendingRow] = [row("gang", kernels=2, cuda_device="8", where=ONE_SWITCH)]
    plan = decided(replace(first, queue=tuple(queue), used=used, running=running), backfill=backfill)
    verdict = plan.verdicts[queue[0].session_id]
    assert (verdict.reason, verdict.evidence.fits_kernels) == (Reason.GANG_INCOMPLETE, 1)
    assert explain(verdict).startswith("At most 1 of its kernels fit on one switch now, and it requires all of them")
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 60_000_000
    assert {kernel.agent_id for kernel in plan.reservation.kernels} == {"b1", "b2"}
    prefers = [replace(queue[0], where=ANYWHERE)]
    assert decided(replace(first, queue=tuple(prefers), used=used, running=running), backfill=backfill).placements


def test_a_gang_that_no_switch_can_ever_hold_is_refused_with_the_most_that_one_holds() -> None:
    agents = [at("a1", "a"), at("a2", "a"), at("b1", "b")]
    spec = SessionSpec(argv=("x",), slots=ResourceSlot({"cuda.device": 8}), cluster_size=3)
    options = Policy().allocation
    assert impossible(spec, agents, options) is None
    refusal = impossible(replace(spec, topology=Topology.REQUIRE), agents, options)
    assert isinstance(refusal, ImpossibleRequest)
    assert (refusal.slot, refusal.limit) == ("topology", "2")
    assert impossible(replace(spec, topology=Topology.REQUIRE, cluster_size=2), agents, options) is None


def test_a_gang_waits_for_its_switch_when_an_agent_there_is_closed() -> None:
    agents = [at("a1", "a"), replace(at("a2", "a"), is_open=False), at("b1", "b")]
    gang = row("gang", kernels=2, cuda_device="8", where=ONE_SWITCH)
    plan = decided(snapshot(agents, [gang]))
    verdict = plan.verdicts[gang.session_id]
    assert (verdict.reason, verdict.evidence.agents) == (Reason.NO_AGENT, ("a2",))


def test_which_switch_is_chosen_does_not_depend_on_what_earlier_passes_tried() -> None:
    """1.2 GPU do not fit on one GPU: an earlier pass has found that the switch of two small nodes holds less than it
    seems to."""
    agents = [
        at("a", "t", free=4),
        at("b", "s", free=4),
        at("c", "s", free=1),
        at("d", "", free=4),
        at("e", "s", free=1),
    ]
    known = PassCache()
    wide, gang = (snapshot(agents, [row("gang", kernels=kernels, cuda_shares="1.2")]) for kernels in (9, 4))
    decide(wide, Policy(), now_us=NOW_US, seed=0, known=known)
    warm = decide(gang, Policy(), now_us=NOW_US, seed=0, known=known)
    assert warm.placements
    assert warm == decide(gang, Policy(), now_us=NOW_US, seed=0)
