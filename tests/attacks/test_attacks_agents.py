"""Agents that send endless messages are cut off at a small size, before registration."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from aliquot.execution.remote.codec import (
    FRAME_BYTES_MAX,
    HELLO_BYTES_MAX,
    INVENTORY_BYTES_MAX,
    Channel,
    encode,
    frames,
)
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot_schema.cluster.agent_protocol import Heartbeat, StateReport
from aliquot_schema.cluster.launching import KernelPhase, KernelReport, SpecOnDisk
from aliquot_schema.ids import DeviceId, KernelId, SlotName
from aliquot_schema.resources.devices import DEVICES_MAX
from remote_in_memory import AGENT, KEY, QUICK, MemoryWire, OneKey, hello, wire_pair
from service_bench import agent

pytestmark = pytest.mark.anyio

PATIENCE_S = 60
MORE = b"\1"


async def endless(wire: MemoryWire, *, bytes_max: int) -> int:
    """Send one endless message; return the bytes taken."""
    piece, sent = MORE + b"x" * (FRAME_BYTES_MAX - 1), 0
    while not wire.is_over and sent < 4 * bytes_max:
        try:
            async with asyncio.timeout(2):
                await wire.send(piece)
        except TimeoutError:
            break
        sent += len(piece)
    return sent


def test_the_largest_inventory_that_an_agent_needs_is_within_the_limit() -> None:
    described = agent("a", devices=DEVICES_MAX).inventory()
    kernels = [KernelId(f"ses_01a2079b-5ef1-7675-af07-56d6534bc24e_{index}.1.0") for index in range(10_000)]
    spec = {SlotName("cuda.device"): {described.agent.devices[0].id: 1}, SlotName("mem"): {DeviceId("mem"): 2**34}}
    inventory = replace(
        described,
        kernels=tuple(
            KernelReport(kernel_id=id, phase=KernelPhase.EXITED, at_us=2**51, exit_code=1, message="x" * 100)
            for id in kernels
        ),
        specs=tuple(SpecOnDisk(kernel_id=id, spec=spec, ended=True) for id in kernels),
    )
    assert len(encode(StateReport(number=1, inventory=inventory))) < INVENTORY_BYTES_MAX


@pytest.mark.parametrize(("has_greeted", "bytes_max"), [(False, HELLO_BYTES_MAX), (True, INVENTORY_BYTES_MAX)])
async def test_an_endless_agent_message_is_cut_off(has_greeted: bool, bytes_max: int) -> None:
    executor = RemoteExecutor(keys=OneKey(), timing=QUICK, now_us=lambda: time.time_ns() // 1000)
    await executor.start()
    server, agent = wire_pair()
    try:
        meeting = asyncio.create_task(executor.meet(server, agent_id=AGENT, key=KEY))
        if has_greeted:
            for frame in frames(encode(hello())):
                await agent.send(frame)
            assert await Channel(agent).receive() is not None
            for frame in frames(encode(Heartbeat())):
                await agent.send(frame)
        sending = asyncio.create_task(endless(agent, bytes_max=bytes_max))
        async with asyncio.timeout(PATIENCE_S):
            await meeting
        sending.cancel()
        assert server.code is not None
        assert server.bytes_taken <= bytes_max + 70 * FRAME_BYTES_MAX, "what was under way is taken too"
    finally:
        await executor.close()
