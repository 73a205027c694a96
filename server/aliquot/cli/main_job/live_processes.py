"""What really runs on this machine, read from /proc and from nowhere else."""

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aliquot_schema.slots import parse_amount

PROC: Final = Path("/proc")
KERNEL_ID: Final = "ALIQUOT_KERNEL_ID"
RESOURCE_FILE: Final = "ALIQUOT_RESOURCE_FILE"
SHARES: Final = "ALIQUOT_GPU_SHARES"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
KILL_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKernel:
    """A kernel that has at least one live process, as that process's environment tells it."""

    kernel_id: str
    pid: int
    visible: tuple[str, ...]
    """The ids in CUDA_VISIBLE_DEVICES."""
    shares: Mapping[str, int]
    """Milli of each device."""


def live_kernels(data_folder: Path) -> dict[str, LiveKernel]:
    """Every kernel with a live process that was started by the agents of one server.

    Zombies have no environment, and are not live. Another server may run on this machine: its kernels are told apart by
    where their resource file is.
    """
    found: dict[str, LiveKernel] = {}
    for pid, environment in _environments():
        kernel_id = environment.get(KERNEL_ID)
        is_ours = environment.get(RESOURCE_FILE, "").startswith(f"{data_folder}/")
        if kernel_id and is_ours and kernel_id not in found:
            found[kernel_id] = LiveKernel(
                kernel_id=kernel_id,
                pid=pid,
                visible=tuple(id for id in environment.get(VISIBLE, "").split(",") if id),
                shares=_shares(environment.get(SHARES, "{}")),
            )
    return found


def kill_mentioning(text: str) -> int:
    """Kill every process with the text in its command line or environment, and say how many there were.

    They have done their last write when it returns; one that the system cannot end is given up after 10 seconds.

    Args:
        text: something that is in no other process: the path of a temporary folder.
    """
    killed: set[int] = set()
    given_up = time.monotonic() + KILL_PATIENCE_S
    # Again until a look finds nobody: who was killed may have started another one just before.
    while (pids := _mentioning(text)) and time.monotonic() < given_up:
        for pid in pids - killed:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids
        time.sleep(0.005)
    return len(killed)


def _shares(text: str) -> dict[str, int]:
    amounts = {id: parse_amount("cuda.shares", amount) for id, amount in json.loads(text).items()}
    return {id: amount for id, amount in amounts.items() if isinstance(amount, int)}


def _environments() -> Iterator[tuple[int, dict[str, str]]]:
    for pid in _pids():
        pairs = (entry.partition(b"=") for entry in _read(pid, "environ").split(b"\0"))
        yield pid, {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def _mentioning(text: str) -> set[int]:
    needle = text.encode()
    found = {pid for pid in _pids() if needle in _read(pid, "cmdline") or needle in _read(pid, "environ")}
    return found - {os.getpid()}


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdecimal()]


def _read(pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty when the process is gone or not ours to see."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
