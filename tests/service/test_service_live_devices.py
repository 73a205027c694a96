"""Device updates: a client that applies each one has the current state."""

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.service.subscriptions import devices as board_module
from aliquot.service.subscriptions.devices import DeviceBoard
from aliquot.service.views.agents import agent_view
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.ids import AgentId, DeviceId, KernelId
from aliquot_schema.resources.devices import DeviceHealth, DeviceReading
from aliquot_schema.states import AgentState
from aliquot_schema.views.live import DeviceUpdateView
from service_bench import agent, gpus
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio

Known = dict[str, tuple[str, dict[str, Any]]]
"""By agent: its map, and its devices by id."""


def apply_update(known: Known, update: DeviceUpdateView) -> Known:
    """The client's state afterwards."""
    known = {} if update.is_snapshot else {name: one for name, one in known.items() if name not in update.agents_gone}
    for one in update.agents:
        devices = {
            name: device
            for name, device in known.get(one.agent_id, ("", {}))[1].items()
            if name not in one.devices_gone
        }
        known[one.agent_id] = (one.gpu_alloc_map, devices | {device.id: device for device in one.devices})
    return known


def polled(on: Stage) -> Known:
    views = [agent_view(on.state, one) for one in on.state.agents.values() if one.state is not AgentState.LEFT]
    return {view.id: (view.gpu_alloc_map, {device.id: device for device in view.devices}) for view in views}


class Crowd:
    """Applies random changes."""

    def __init__(self, on: Stage, seed: int) -> None:
        self._on = on
        self._chance = random.Random(seed)
        self._sessions: list[Any] = []

    async def act(self) -> None:
        """Submit, end, cancel, measure, or change an agent."""
        acts = [self._submit, self._submit, self._end, self._cancel, self._measure, self._measure, self._refit]
        await self._chance.choice([*acts, self._leave, self._leave])()

    async def _submit(self) -> None:
        limit = self._chance.choice([None, "60"])
        more = {"time_limit": None if limit is None else float(limit)}
        self._sessions.append(await self._on.submit(devices=self._chance.randint(1, 2), **more))
        await self._on.advance()

    async def _end(self) -> None:
        if live := self._on.live():
            self._on.executor.end_kernel(KernelId(self._chance.choice(live)))
            await self._on.settle()

    async def _cancel(self) -> None:
        """A running one keeps its devices until its processes are gone."""
        alive = [name for name, session in self._on.state.sessions.items() if not session.is_ended]
        if alive:
            await self._on.cancel(self._chance.choice(alive))

    async def _measure(self) -> None:
        name = self._chance.choice(list(self._on.state.agents))
        readings = tuple(
            DeviceReading(device_id=device.id, utilization_pct=float(self._chance.randint(0, 2)))
            for device in self._on.state.agents[name].devices
            if self._chance.random() < 0.7
        )
        await self._on.on_event(NewReadings(agent_id=name, at_us=1, readings=readings))

    async def _refit(self) -> None:
        """An agent's devices change; held ones stay."""
        there = [fake for fake in self._on.executor.agents.values() if fake.id not in self._on.executor.silent]
        if not there:
            return
        fake = self._chance.choice(there)
        health = self._chance.choice(list(DeviceHealth))
        found = gpus(self._chance.randint(2, 5), agent=fake.id)
        self._on.executor.change_devices(fake.id, (replace(found[0], health=health), *found[1:]))
        await self._on.settle()

    async def _leave(self) -> None:
        """An agent disconnects, and returns immediately or when called again; a foreign process appears."""
        name = self._chance.choice(list(self._on.executor.agents))
        if name not in self._on.executor.silent:
            self._on.executor.disconnect_agent(name, gone=True)
            await self._on.settle()
            if self._chance.random() < 0.5:
                return
        if self._chance.random() < 0.5:
            self._on.executor.agents[name].devices = gpus(self._chance.randint(1, 2), agent=name)
        self._on.state.foreign_usage.set({self._on.state.node_of(name): {DeviceId(f"{name}-gpu-0"): 1000}})
        self._on.executor.reconnect_agent(name)
        await self._on.settle()


@pytest.mark.parametrize("seed", range(6))
async def test_device_updates_applied_in_order_give_the_current_state_of_the_devices(seed: int) -> None:
    async with stage([agent("a", devices=3), agent("b", devices=2, node="b"), agent("c", devices=2, node="b")]) as on:
        board, seldom = DeviceBoard(on.state, begun=7), DeviceBoard(on.state, begun=7)
        on.journal.subscribe(board.on_event)
        on.journal.subscribe(seldom.on_event)
        crowd, followers = Crowd(on, seed), [(0, board), (3, board), (4, seldom)]
        known: dict[int, tuple[Known, int | None]] = {every: ({}, None) for every, _ in followers}
        for step in range(60):
            await crowd.act()
            for every, board in followers:
                if every and step % every:
                    continue
                before, number = known[every]
                await board.refresh()
                update = board.since(number)
                known[every] = apply_update(before, update), update.number
                assert known[every][0] == polled(on), (seed, step, every)


async def test_changes_found_by_a_canceled_refresh_are_reported_by_the_next_refresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader may cancel at any turn."""
    monkeypatch.setattr(board_module, "AGENTS_PER_STEP", 1)
    async with stage([agent(name, devices=1) for name in "abc"]) as on:
        board = DeviceBoard(on.state, begun=7)
        await board.refresh()
        known = board.number
        for name in "abc":
            busy = DeviceReading(device_id=on.state.agents[AgentId(name)].devices[0].id, utilization_pct=50.0)
            await on.on_event(NewReadings(agent_id=AgentId(name), at_us=1, readings=(busy,)))
        looking = asyncio.create_task(board.refresh())
        await asyncio.sleep(0)
        assert len(board._marked) == 2
        looking.cancel()
        await asyncio.wait([looking])
        for name in list(board._marked):  # nothing else is another way
            del on.state.readings[name, on.state.agents[name].devices[0].id]
        await board.refresh()
        assert board.number > known
        assert [one.agent_id for one in board.since(known).agents] == ["a"]


async def test_update_numbers_of_one_server_are_unknown_at_another_server() -> None:
    async with stage([agent("a", devices=1)]) as one, stage([agent("a", devices=1)]) as other:
        for on in (one, other):
            await on.watching._board.refresh()
        number = one.watching.place("device_updates", None).newest
        assert one.watching.place("device_updates", number).known == number
        assert other.watching.place("device_updates", number).known is None


async def test_foreign_processes_cause_a_device_update() -> None:
    async with stage([agent("a", devices=1)]) as on:
        board = DeviceBoard(on.state, begun=7)
        await board.refresh()
        on.state.foreign_usage.set(
            {on.state.node_of(AgentId("a")): {on.state.agents[AgentId("a")].devices[0].id: 1000}}
        )
        await asyncio.wait_for(board.news(), 60)
        await board.refresh()
        assert [device.foreign_usage for one in board.since(8).agents for device in one.devices] == [True]


async def test_foreign_processes_that_appear_during_a_refresh_are_reported_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long look ends with the state of that moment: a client waiting for updates would otherwise miss it."""
    monkeypatch.setattr(board_module, "AGENTS_PER_STEP", 1)
    async with stage([agent(name, devices=1) for name in "abc"]) as on:
        board = DeviceBoard(on.state, begun=7)
        looking = asyncio.create_task(board.refresh())
        await asyncio.sleep(0)
        assert 0 < len(board._marked) < 3
        on.state.foreign_usage.set(
            {on.state.node_of(AgentId("a")): {on.state.agents[AgentId("a")].devices[0].id: 1000}}
        )
        await looking
        external = {device.id for one in board.since(None).agents for device in one.devices if device.foreign_usage}
        assert external == {on.state.agents[AgentId("a")].devices[0].id}


async def test_the_number_of_remembered_removed_devices_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """As slices do, each with a new name. A client with none of them gets everything."""
    monkeypatch.setattr(board_module, "GONE_KEPT", 3)
    async with stage([agent("a", devices=1)]) as on:
        board = DeviceBoard(on.state, begun=7)
        await board.refresh()
        known, numbers = apply_update({}, board.since(None)), [board.number]
        first = known
        for count in range(10):
            devices = tuple(replace(one, id=DeviceId(f"slice-{count}")) for one in gpus(1, agent="a"))
            on.executor.change_devices(AgentId("a"), devices)
            await on.settle()
            board.measured(AgentId("a"))
            await board.refresh()
            known = apply_update(known, board.since(numbers[-1]))
            numbers.append(board.number)
            assert known == polled(on), count
        assert len(board._entries[AgentId("a")].gone) <= 3
        assert apply_update(first, board.since(numbers[0])) == polled(on)
        assert [board.since(number).is_snapshot for number in (numbers[0], numbers[-2])] == [True, False]
