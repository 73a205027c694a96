"""Finds the processes of Ray's parts by their unique marks."""

import os
from pathlib import Path

PROC = Path("/proc")


def actor_pid(agent_folder: Path) -> int | None:
    """The process that holds the agent's folder."""
    lock = str(agent_folder / "lock")
    return next((pid for pid in _pids() if lock in _open_files(pid) and b"ray::" in _cmdline(pid)), None)


def raylet_pid(address: str) -> int | None:
    """The raylet at an address."""
    needle = f"--node_ip_address={address}".encode()
    return next((pid for pid in _pids() if needle in _arguments(pid) and b"raylet/raylet" in _cmdline(pid)), None)


def gcs_pid(port: str) -> int | None:
    """The control store that listens at a port."""
    needle = f"--gcs_server_port={port}".encode()
    return next((pid for pid in _pids() if needle in _arguments(pid)), None)


def gateway_pid(server_pid: int) -> int | None:
    """The gateway of a server."""
    mine = (pid for pid in _pids() if b"aliquot.execution.ray.gateway" in _arguments(pid))
    return next((pid for pid in mine if _parent(pid) == server_pid), None)


def environment(pid: int) -> dict[str, str]:
    """A process's variables."""
    pairs = (entry.partition(b"=") for entry in (PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name}


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdecimal()]


def _cmdline(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def _arguments(pid: int) -> list[bytes]:
    return _cmdline(pid).split(b"\0")


def _open_files(pid: int) -> set[str]:
    folder = PROC / str(pid) / "fd"
    try:
        return {os.readlink(folder / name) for name in os.listdir(folder)}
    except OSError:
        return set()


def _parent(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
