"""A memo changes the duration of a pass, not its plan."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.placement.scoreboard import Scoreboard
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot.core.scheduler.placer import Placer
from aliquot_schema.ids import AgentId, NodeId, SessionId
from aliquot_schema.policies import Backfill
from allocation_devices import cores, gpus, pool
from core_cluster import NOW_US, after, on, placed, row, snapshot
from core_plan_probe import encoded
from core_strategies import queues, snapshots
from placement_clusters import NAMES

every_strategy = pytest.mark.parametrize("name", NAMES)


@every_strategy
@settings(deadline=None, max_examples=40)
@given(state=snapshots(), data=st.data())
def test_consecutive_passes_give_the_same_bytes_with_and_without_a_cache(
    name: str, state: Snapshot, data: st.DataObject
) -> None:
    """Across placements, ends, and agents that close and reopen."""
    policy = Policy(placement=name, backfill=Backfill.EASY)
    memo = PassCache()
    for number in range(3):
        warm = decide(state, policy, now_us=NOW_US, seed=number, known=memo)
        assert encoded(warm) == encoded(decide(state, policy, now_us=NOW_US, seed=number))
        state = _later(state, warm, data, number=number)


def _later(state: Snapshot, plan: Plan, data: st.DataObject, *, number: int) -> Snapshot:
    more = data.draw(queues(prefix=f"later{number}-"))
    state = after(state, plan, queue=[*_left(state.queue, plan), *more])
    state = replace(state, asked=Counter(pending.request for pending in state.queue))
    emptied = data.draw(st.sampled_from([None, *state.used]))
    if emptied is not None:
        state = replace(state, used={node: {} if node == emptied else held for node, held in state.used.items()})
    if data.draw(st.integers(0, 3)) == 0:
        first, *rest = state.agents
        state = replace(state, agents=(replace(first, is_open=not first.is_open), *rest))
    return state


def _left(queue: Iterable[PendingRow], plan: Plan) -> list[PendingRow]:
    gone = {*placed(plan), *plan.failures}
    return [pending for pending in queue if pending.session_id not in gone]


def _placer(state: Snapshot, memo: PassCache) -> Placer:
    return Placer(state, Policy(), capacity=FreeCapacity(state, Policy(), cache=memo), seed=0)


def test_only_agents_where_something_changed_are_scored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []
    score = Scoreboard._score

    def counted(board: Scoreboard, ask: object, kept: object, rows: list[int]) -> None:
        scored.append(len(rows))
        score(board, ask, kept, rows)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(Scoreboard, "_score", counted)
    agents = [on(f"a{number}", [*gpus(2), *cores(range(4)), pool(0, size=100)]) for number in range(5)]
    ask = row("one", cuda_shares="0.5", cpu="1", mem="10")
    state, memo = snapshot(agents, [ask]), PassCache()
    first = _placer(state, memo)
    kernels = first.place(ask)
    first.take(SessionId("one"), kernels)
    first.keep()
    then = after(state, decide(state, Policy(), now_us=NOW_US, seed=0))
    scored.clear()
    second = _placer(then, memo)
    assert len(second.place(ask)) == 1
    assert scored == [1]
    second.keep()
    scored.clear()
    assert len(_placer(then, memo).place(ask)) == 1
    assert scored == []


def test_a_second_placer_on_the_same_cache_does_not_disturb_the_kept_scores() -> None:
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    state, memo = snapshot(agents, [row("a")]), PassCache()
    full = {agent.node_id: dict.fromkeys(agent.layout.devices, 1000) for agent in agents}
    main = _placer(state, memo)
    beside = _placer(replace(state, used=full), memo)
    assert beside.place(row("a")) == ()
    assert len(main.place(row("a", kernels=4))) == 4
    main.take(SessionId("a"), main.place(row("a", kernels=3)))
    assert len(main.place(row("b", kernels=4))) == 1
    assert len(_placer(state, memo).place(row("a", kernels=4))) == 4


def test_random_placement_draws_the_same_with_and_without_a_cache() -> None:
    """The random draws of a pass do not depend on how much was cached."""
    policy, memo = Policy(placement="random"), PassCache()
    state = snapshot([on(f"a{number}", gpus(2)) for number in range(7)], [])
    for number in range(6):
        state = replace(state, queue=(row(f"s{number}", cuda_shares="0.1"), row(f"t{number}", cuda_shares="0.1")))
        warm = decide(state, policy, now_us=NOW_US, seed=number, known=memo)
        assert encoded(warm) == encoded(decide(state, policy, now_us=NOW_US, seed=number))
        state = after(state, warm)


def test_a_cached_placer_sees_a_changed_device_layout() -> None:
    memo = PassCache()
    state = snapshot([on("x", gpus(1))], [row("a")])
    assert len(_placer(state, memo).place(row("a", kernels=2))) == 1
    larger = snapshot([on("x", gpus(2))], [row("a")])
    assert len(_placer(larger, memo).place(row("a", kernels=2))) == 2


def test_cached_free_capacity_equals_that_of_a_new_count() -> None:
    memo = PassCache()
    agents = [on("x", gpus(2)), on("y", gpus(3))]
    state = snapshot(agents, [])
    one, other = FreeCapacity(state, Policy(), cache=memo), FreeCapacity(state, Policy(), cache=memo)
    placer = Placer(state, Policy(), capacity=one, seed=0)
    assert one.free_milli() == other.free_milli() == 5000
    placer.take(SessionId("a"), placer.place(row("a", kernels=4)))
    assert (one.free_milli(), other.free_milli()) == (1000, 5000)
    assert (one.most_free(row("a").request[0][0], row("a")), other.most_free(row("a").request[0][0], row("a"))) == (
        1,
        3,
    )
    held = {NodeId("node-y"): one.used_on(NodeId("node-y"))}
    without = row("a", excluded_agents=(AgentId("x"),))
    assert FreeCapacity(replace(state, used=held), Policy(), cache=memo).most_free(without.request[0][0], without) == 0
