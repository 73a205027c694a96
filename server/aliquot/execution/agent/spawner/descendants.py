"""Process tree of a shim: lists, signals and kills its descendants.

The shim is the child subreaper of the tree: a process whose parent ends becomes the shim's child. So no process can
leave the tree, and a shim without children has no descendants.
"""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import os

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory


def signal_tree(root: int, number: int, *, besides: list[int]) -> int:
    """Signal every descendant except `besides`, guarding against reused pids; returns the number signalled."""
    sent = 0
    for pid, parent in _descendants(root):
        if pid in besides:
            continue
        try:
            process = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if _parent(pid) in (parent, root):
                signal.pidfd_send_signal(process, number)
                sent += 1
        except OSError:
            pass
        finally:
            os.close(process)
    return sent


def catches(pid: int, number: int) -> bool:
    """Whether a process handles or ignores a signal; any other would end it."""
    try:
        with open(f"/proc/{pid}/status") as status:
            masks = [int(line[8:], 16) for line in status if line.startswith(("SigCgt:", "SigIgn:"))]
    except (OSError, ValueError):
        return False
    return any(mask >> (number - 1) & 1 for mask in masks)


def kill_tree(root: int, group: str | None) -> None:
    """Kill the whole cgroup, and the direct children.

    Without a cgroup only one generation dies; the next one then belongs to the shim, which calls again. A child's pid
    cannot be reused before the shim has reaped it.
    """
    if group is not None:
        try:
            with open(f"{group}/cgroup.kill", "wb", buffering=0) as kill:
                kill.write(b"1")
        except OSError:
            pass
    for pid in children(root):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def tree_use(root: int) -> tuple[int, int]:
    """(CPU time in clock ticks, resident pages) of a process's descendants.

    The CPU time includes that of descendants already reaped. Shared pages count once for each process.
    """
    ticks = sum(int(field) for field in _stat_if_there(root)[13:15])
    pages = 0
    for pid, _ in _descendants(root):
        fields = _stat_if_there(pid)
        ticks += sum(int(field) for field in fields[11:15])
        pages += sum(int(field) for field in fields[21:22])
    return ticks, pages


def tree_pids(root: int) -> list[int]:
    """Pids of a process's current descendants."""
    return [pid for pid, _ in _descendants(root)]


def inner_processes(root: int) -> dict[int, tuple[int, int]]:
    """Descendants in a process namespace of their own, which are the processes of a container.

    Returns:
        Pid -> (pid in the namespace, number of namespaces below the root's), parents first.
    """
    own = len(_namespace_pids(root))
    found: dict[int, tuple[int, int]] = {}
    for pid, _ in _descendants(root):
        numbers = _namespace_pids(pid)
        if len(numbers) > own:
            found[pid] = numbers[-1], len(numbers) - own
    return found


def runtime_processes(root: int) -> list[int]:
    """Descendants that are not a container's job: the container runtime, and the container's first process, which
    passes signals on. Empty if there is no job."""
    inner = inner_processes(root)
    jobs = [pid for pid, place in inner.items() if place != (1, 1)]
    return [pid for pid in tree_pids(root) if pid not in jobs] if jobs else []


def container_job(root: int) -> int | None:
    """Pid of the main process of a container's job; None if it is not a descendant."""
    for pid, place in inner_processes(root).items():
        below = children(pid) if place == (1, 1) else []
        if below:
            return below[0]
    return None


def children(pid: int) -> list[int]:
    """Pids of a process's children, in the order in which they were forked or adopted; empty if it is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
    except OSError:
        pass
    return found


def start_time(pid: int) -> int:
    """Start time of a process, clock ticks since boot; with pid and boot id it identifies a process uniquely."""
    return int(_stat(pid)[19])


def _descendants(root: int) -> list[tuple[int, int]]:
    """(pid, parent pid) of each descendant, parents first."""
    found: list[tuple[int, int]] = []
    parents = [root]
    while parents:
        parent = parents.pop()
        below = children(parent)
        found += [(child, parent) for child in below]
        parents += below
    return found


def _namespace_pids(pid: int) -> list[int]:
    """A process's pids, from that of the namespace of /proc to that of its own; empty if it is gone."""
    try:
        numbers = _read(f"/proc/{pid}/status").partition(b"\nNSpid:")[2].partition(b"\n")[0]
    except OSError:
        return []
    return [int(number) for number in numbers.split()]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat_if_there(pid: int) -> list[bytes]:
    """Fields of `_stat`; empty if the process is gone."""
    try:
        return _stat(pid)
    except OSError:
        return []


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the third on; the second is the name, which may contain any characters."""
    return _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()


def _read(path: str) -> bytes:
    """Contents of a /proc file; `open` would touch, and so unshare, twice the memory."""
    file = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(file, 65_536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)
