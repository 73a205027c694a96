"""The cost of an attack to a server, in its own process or in this one, by the kernel's counters."""

import gc
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx
from graphql import parse

from rest_server import RestServer

CPU_S_MAX: Final = 0.100
"""Each attack takes less than half of it on a core of its own; on shared cores the same takes up to twice as long.
The limit on a machine of the usual speed: see `cpu_s_max`."""
REFERENCE: Final = f"{{ {' '.join(f'x{number}' for number in range(400))} }}"
USUAL_REFERENCE_S: Final = 0.004
"""The time to parse that on the machine where the limits were set."""
TRIES: Final = 6
DELAY_TRIES: Final = 3
MEMORY_BYTES_MAX: Final = 50_000_000
"""Limit of what a refused request may add to the server's peak memory."""
T = TypeVar("T")


class Attacker:
    """A client with a key, on a connection that it keeps as long as the server does."""

    def __init__(self, server: RestServer, client: httpx.Client) -> None:
        self._server = server
        self._client = client
        self.place = (urlsplit(server.address).hostname or "", urlsplit(server.address).port or 0)

    def post(self, body: bytes, *, path: str = "/graphql") -> tuple[int, bytes]:
        """The server's answer."""
        answer = self._client.post(path, content=body, headers={"content-type": "application/json"})
        return answer.status_code, answer.content

    def cpu_s(self, work: Callable[[], object]) -> float:
        """CPU time of the server in the best of some tries: its other work counts too."""
        spent = []
        for _ in range(TRIES):
            before = cpu_ns(self._server.pid)
            work()
            spent.append(cpu_ns(self._server.pid) - before)
        return min(spent) / 1e9

    def delay_s(self, work: Callable[[], object]) -> float:
        """CPU time of the server from a request for /healthz to its answer, during the given work: the longest of each
        try, in the best of some tries."""
        longest = []
        with httpx.Client(verify=False, base_url=self._server.address, timeout=60) as other:
            for _ in range(DELAY_TRIES):
                beside, waits = threading.Thread(target=work), [0]
                beside.start()
                while beside.is_alive():
                    before = cpu_ns(self._server.pid)
                    assert other.get("/healthz").status_code == 200
                    waits.append(cpu_ns(self._server.pid) - before)
                beside.join()
                longest.append(max(waits))
        return min(longest) / 1e9

    def works(self) -> bool:
        """Whether others get answers."""
        status, body = self.post(b'{"query": "{ __typename }"}')
        return status == 200 and json.loads(body)["data"] == {"__typename": "Query"}


def cpu_s_max(limit_s: float = CPU_S_MAX) -> float:
    """A limit of CPU time: as given on a machine of the usual speed, more on a slower one. The speed is measured now,
    because it varies on a shared machine."""
    return limit_s * _slowness(_reference() for _ in range(TRIES))


def _slowness(references_s: Iterable[float]) -> float:
    """How many times slower than usual the machine was at some references."""
    return max(1.0, median(references_s) / USUAL_REFERENCE_S)


def _reference() -> float:
    """CPU time of a known piece of work, similar to the server's work under most attacks."""
    began = time.thread_time()
    parse(REFERENCE)
    return time.thread_time() - began


def cpu_ns(pid: int) -> int:
    """The CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def memory_bytes_most(pid: int) -> int:
    """The peak memory of a process."""
    return _memory_bytes(pid, "VmHWM")


def _forget_memory_most() -> None:
    """Reset the peak memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def _memory_bytes(pid: int, what: str) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(what)]
    return int(line.split()[1]) * 1024


async def costs_little(attack: Callable[[int], Awaitable[T]], *, limit_s: float = CPU_S_MAX) -> T:
    """Attack a server in this process, and assert the cost of both sides together; returns the last attack's result.

    Args:
        attack: is given the number of the try, so that it can send something that is not cached.
        limit_s: CPU time of all threads in the best of some tries (the others were disturbed), on a machine of the
            usual speed. The speed is measured around each try.
    """
    spent, added = [], []
    gc.collect()
    gc.disable()
    try:
        for number in range(TRIES):
            _forget_memory_most()
            before, at_first = _memory_bytes(os.getpid(), "VmRSS"), _reference()
            began = time.process_time()
            found = await attack(number)
            took = time.process_time() - began
            spent.append(took / _slowness((at_first, _reference())))
            added.append(memory_bytes_most(os.getpid()) - before)
    finally:
        gc.enable()
    assert min(spent) <= limit_s, f"{min(spent) * 1e3:.0f} ms"
    assert max(added) <= MEMORY_BYTES_MAX, f"{max(added)} bytes"
    return found
