"""A fleet of agents over the real protocol: the time to admit them, and to readmit them all together."""

import asyncio
import hashlib
import resource
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from math import log
from pathlib import Path
from random import random
from statistics import linear_regression
from typing import Final, NamedTuple

import httpx
from registry import Key, scenario
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

# A fake agent's devices are shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.execution.remote.agent_keys import KEY_FILE, KeyEntry, KeyRecords, write_records
from aliquot.execution.remote.codec import decode, encode, frames
from aliquot_schema.cluster.agent_protocol import (
    AGENT_HEADER,
    PATH,
    PROTOCOLS,
    Acknowledged,
    Heartbeat,
    Hello,
    Message,
    StateReport,
    Welcome,
)
from aliquot_schema.ids import AgentId
from service_bench import agent

SIZES: Final = (10, 1_000, 10_000)
DEVICES: Final = 8
AT_ONCE: Final = 500
"""Concurrent handshakes; the others wait, as they would for a listener's backlog."""
WAIT_S_MAX: Final = 300.0
KEY: Final = "agk_benchmark"
SAMPLE_S: Final = 0.05


class Admitted(NamedTuple):
    """One fleet."""

    agents: int
    first_s: float
    """From the first handshake until every agent has joined, for unknown agents."""
    again_s: float
    """The same after all connections were cut together."""
    still_s: float
    """The longest answer of /healthz in that time."""
    rss_bytes: int


@scenario(
    Key(
        name="scale_agents_10k_s",
        what="10,000 agents reconnect at once, until all have joined",
        reach="<= 60",
    ),
    Key(name="scale_agents_exponent", what="growth of that time with the agents; 1 = like it", reach="<= 1.1"),
    Key(name="scale_agents_rss_bytes", what="server memory with 10,000 agents x 8 devices", reach="<= 1073741824"),
    Key(name="scale_agents_still_s", what="the longest answer of /healthz meanwhile", reach="<= 1"),
)
async def agent_fleet() -> dict[str, float]:
    """The agents of each size are connections of this process."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    found = []
    for size in SIZES:
        found.append(one := await _admit(size))
        print(
            f"  {one.agents:>6,} agents: joined in {one.first_s:.2f} s, back in {one.again_s:.2f} s | longest answer "
            f"{one.still_s:.3f} s | memory {one.rss_bytes / 1e6:.0f} MB",
            file=sys.stderr,
            flush=True,
        )
    slope = linear_regression([log(one.agents) for one in found], [log(one.again_s) for one in found]).slope
    return {
        "scale_agents_10k_s": found[-1].again_s,
        "scale_agents_exponent": slope,
        "scale_agents_rss_bytes": found[-1].rss_bytes,
        "scale_agents_still_s": found[-1].still_s,
    }


async def _admit(size: int) -> Admitted:
    names = [AgentId(f"n{number:05}") for number in range(size)]
    async with OwnServer("--no-local-agents", "--log-level=error") as server:
        entry = KeyEntry(sha256=hashlib.sha256(KEY.encode()).hexdigest(), created_us=1)
        write_records(server.data_folder / "server" / KEY_FILE, KeyRecords(dict.fromkeys(names, entry), []))
        with _health(server) as longest:
            took = []
            for _ in range(2):
                began = time.perf_counter()
                async with _fleet(server, names):
                    took.append(time.perf_counter() - began)
            rss_bytes = _rss_bytes(server)
        return Admitted(size, took[0], took[1], max(longest), rss_bytes)


@asynccontextmanager
async def _fleet(server: OwnServer, names: list[AgentId]) -> AsyncIterator[None]:
    """Connect them all, until the inventory of each is acknowledged; connections are cut at the end."""
    slots = asyncio.Semaphore(AT_ONCE)
    joined: dict[AgentId, asyncio.Event] = {name: asyncio.Event() for name in names}
    agents = [asyncio.create_task(_live(server, name, slots, joined[name])) for name in names]
    try:
        async with asyncio.timeout(WAIT_S_MAX):
            for each in joined.values():
                await each.wait()
        yield
    finally:
        for task in agents:
            task.cancel()
        await asyncio.gather(*agents, return_exceptions=True)


async def _live(server: OwnServer, name: AgentId, slots: asyncio.Semaphore, joined: asyncio.Event) -> None:
    """One agent, until it is cancelled."""
    headers = {AGENT_HEADER: name, "authorization": f"Bearer {KEY}"}
    hello = Hello(agent_id=name, boot_id="boot", instance="one", software_version="0", protocols=PROTOCOLS)
    while True:
        async with slots:
            try:
                wire = await connect(
                    f"ws://127.0.0.1:{server.port}{PATH}",
                    additional_headers=headers,
                    compression=None,
                    ping_interval=None,
                    open_timeout=WAIT_S_MAX,
                    close_timeout=0,
                )
            except InvalidStatus as error:
                again_s = int(error.response.headers["retry-after"])
            else:
                await _send(wire, hello)
                welcome = _read(await wire.recv())
                assert isinstance(welcome, Welcome), welcome
                await _send(wire, StateReport(number=1, inventory=agent(name, devices=DEVICES).inventory()))
                break
        await asyncio.sleep(again_s + random())
    try:
        reading = asyncio.create_task(_drain(wire, joined))
        while not reading.done():
            await asyncio.sleep(welcome.beat_s)
            await _send(wire, Heartbeat())
    finally:
        wire.transport.abort()


async def _send(wire: ClientConnection, message: Message) -> None:
    for frame in frames(encode(message)):
        await wire.send(frame)


def _read(frame: str | bytes) -> Message | None:
    assert isinstance(frame, bytes)
    return decode(frame[1:])


async def _drain(wire: ClientConnection, joined: asyncio.Event) -> None:
    with suppress(ConnectionClosed):
        async for frame in wire:
            if isinstance(_read(frame), Acknowledged):
                joined.set()


@contextmanager
def _health(server: OwnServer) -> Iterator[list[float]]:
    """Seconds that each answer of /healthz took. Asked in a thread: this loop is busy with the agents."""
    took: list[float] = []
    is_over = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=server.url, timeout=WAIT_S_MAX) as client:
            while not (took and is_over.wait(SAMPLE_S)):
                began = time.perf_counter()
                client.get("/healthz")
                took.append(time.perf_counter() - began)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield took
    finally:
        is_over.set()
        looking.join()


def _rss_bytes(server: OwnServer) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024
