"""How long the server's event loop is blocked while sessions start on Ray."""

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster import creation, submit, until_count
from http_load import Connection
from registry import Key, scenario

from aliquot.app.composition import Server, serving
from aliquot.cli.acceptance.cluster import UP_S_MAX, OwnRay
from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.listener import Listener, bound_socket
from aliquot.client import Client
from aliquot.settings import read_settings

SESSIONS = 200
TICK_S = 0.002


@dataclass(slots=True, kw_only=True)
class Address:
    """The server's address and token."""

    port: int
    token: str


@scenario(
    Key(name="ray_loop_still_s", what="longest time without a turn of the loop, 200 sessions start", reach="<= 0.100")
)
async def still() -> dict[str, float]:
    """The server runs in this process and on this loop; clients run in another process."""
    clients = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with clients, TemporaryDirectory(prefix="aliquot-loop-") as folder:
        async with OwnRay() as ray, _server(ray, Path(folder)) as address:
            for number in ("1", "2"):
                data = ray.folder / f"data-{number}"
                await ray.add_node(f"node-{number}", "--demo-node", number, "--data-folder", str(data))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(clients, until_all_joined, address)
            working = loop.run_in_executor(clients, start_all, address)
            return {"ray_loop_still_s": await _longest_gap(working)}


def until_all_joined(address: Address) -> None:
    """In the clients' process: wait for the agents, and run one session to load and compile what first use needs."""
    asyncio.run(_until_joined(address))
    asyncio.run(_start(address, count=1, run="first"))


def start_all(address: Address) -> None:
    """In the clients' process: submit all, and await the end."""
    asyncio.run(_start(address, count=SESSIONS, run="all"))


async def _longest_gap(working: asyncio.Future[None]) -> float:
    """Without time in which this thread was ready and waited for a core: the machine's load causes that."""
    longest, last, queued = 0.0, time.perf_counter(), _queued_s()
    while not working.done():
        await asyncio.sleep(TICK_S)
        now, queued_now = time.perf_counter(), _queued_s()
        longest = max(longest, now - last - TICK_S - (queued_now - queued))
        last, queued = now, queued_now
    await working
    return longest


def _queued_s() -> float:
    """Seconds that this thread has waited for a core; second number of proc(5) schedstat."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


async def _until_joined(address: Address) -> None:
    async with Client(f"http://127.0.0.1:{address.port}", address.token) as client:
        await until_joined(client, agents=2, timeout_s=UP_S_MAX)


async def _start(address: Address, *, count: int, run: str) -> None:
    bodies = [creation(argv=["true"], run=run) for _ in range(count)]
    await submit(address, bodies, clients=4)
    async with Connection(address.port, address.token) as connection:
        await until_count(connection, count, run=run, states=["completed"])


@asynccontextmanager
async def _server(ray: OwnRay, folder: Path) -> AsyncIterator[Address]:
    settings = read_settings(
        executor="ray", ray_head=ray.head, ray_token_file=ray.token_file, data_folder=folder / "data", port=0
    )
    stop = asyncio.Event()
    with bound_socket(settings) as taken:
        async with serving(settings) as server:
            gc.freeze()  # as `aliquot serve` does
            listening = asyncio.create_task(_listen(server, taken=taken, stop=stop))
            try:
                yield Address(port=taken.getsockname()[1], token=server.token_file.read_text().strip())
            finally:
                stop.set()
                await listening


async def _listen(server: Server, *, taken: socket.socket, stop: asyncio.Event) -> None:
    listener = Listener(server, certificate=None, behind_proxy=False, on_started=lambda _: None)
    await listener.serve_until(stop, taken=[taken])
