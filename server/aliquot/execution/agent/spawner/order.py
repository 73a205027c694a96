"""What the agent asks the spawner for."""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import os


class Order:
    """One kernel to start, as the agent sent it; the attributes are the keys of the marshalled request.

    Texts that are handed to the operating system are bytes, so that no locale can change them.
    """

    kernel_id: str
    folder: str
    """The kernel's own, absolute."""
    boot_id: str
    argv: list[bytes]
    environment: dict[bytes, bytes]
    working_directory: bytes
    user: tuple[int, int, list[int]] | None
    """uid, gid and supplementary groups to change to; None = stay who we are."""
    limits: list[tuple[int, int, int]]
    """(RLIMIT_*, soft, hard)."""
    group: str | None
    """The cgroup v2 folder to make for the kernel; None = the host offers none."""
    gates: list[tuple[int, int, int, list[int]]]
    """What keeps the group from device files, see `device_gate.Gate`; nothing without a group."""
    limit_groups: list[tuple[str, list[tuple[str, str]]]]
    """Cgroups to make for limits: the folder, which may be `group`, and what to write into which of its files."""
    sandbox: tuple[bytes, bytes] | None
    """The program that makes the sandbox, and its arguments, each ended by a zero byte; None = no sandbox."""
    secret_files: tuple[str, list[tuple[str, bytes]]] | None
    """A folder to make for the job's user alone, and (name, content) of the files in it; removed at the end."""
    time_limit_ms: int | None
    grace_ms: int
    not_after_us: int | None
    pause_at: str | None
    """For tests alone: stop oneself (SIGSTOP) at this step, so that a kill can hit it there. The steps in order:
    `forked`, `locked`, `claimed`, `child_forked`, `pid_written`, `gate_open`, and `child`
    (the job's process, before it waits at the gate)."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.__dict__.update(fields)

    def reached(self, step: str) -> None:
        """Pause here when asked to."""
        if self.pause_at == step:
            os.kill(os.getpid(), signal.SIGSTOP)
