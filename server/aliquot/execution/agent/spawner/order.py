"""Order: the spawner's request to start one kernel."""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import os


class Order:
    """One kernel to start; the attributes are the keys of the marshalled request.

    Strings for the operating system are bytes, so that no locale can change them.
    """

    kernel_id: str
    folder: str
    """Absolute path of the kernel's folder."""
    boot_id: str
    argv: list[bytes]
    environment: dict[bytes, bytes]
    working_directory: bytes
    user: tuple[int, int, list[int]] | None
    """uid, gid and supplementary groups to switch to; None = keep the current user."""
    limits: list[tuple[int, int, int]]
    """(RLIMIT_*, soft, hard)."""
    group: str | None
    """Cgroup v2 folder to create for the kernel; None = not available on this host."""
    gates: list[tuple[int, int, int, list[int]]]
    """Device access rules for `group`, see `device_gate.Gate`; empty without a group."""
    limit_groups: list[tuple[str, list[tuple[str, str]]]]
    """Cgroups to create for limits: (folder, which may be `group`, [(file in it, text to write)])."""
    sandbox: tuple[bytes, bytes] | None
    """Sandbox program and its arguments, each terminated by a zero byte; None = no sandbox."""
    is_container: bool
    """Whether the command makes a container. It may then gain the rights that making one needs (newuidmap)."""
    is_daemons: bool
    """Whether the container's processes belong to a daemon, and `argv` is its client."""
    secret_files: tuple[str, list[tuple[str, bytes]]] | None
    """Folder to create for the job's user, and [(name, content)] of the files in it; removed at the end."""
    time_limit_ms: int | None
    grace_ms: int
    not_after_us: int | None
    checkpoint: tuple[int, int | None, int] | None
    """Signal that asks the job to save its work, its interval (None = only before the limit), and the time from it to
    the time limit, milliseconds; None = the job is not asked."""
    preflight: tuple[list[bytes], int, bool] | None
    """Command of the check before the job, its time limit in milliseconds, and whether the job then waits for
    `go.json`; None = there is no check."""
    pull: tuple[list[bytes], list[bytes], list[bytes], int, str] | None
    """Commands that succeed if the account has the image, that fetch it, and that write its size; the time limit of the
    pull in milliseconds, and the secret file with credentials that is removed after it, or an empty string; None =
    nothing is fetched."""
    pause_at: str | None
    """For tests only: the process stops itself (SIGSTOP) at this step, so that a test can kill it there. In order:
    `forked`, `locked`, `claimed`, `child_forked`, `pid_written`, `gate_open`, and `child`
    (the job's process, before it waits at the gate)."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.__dict__.update(fields)

    def reached(self, step: str) -> None:
        """Pause if `pause_at` names this step."""
        if self.pause_at == step:
            os.kill(os.getpid(), signal.SIGSTOP)
