"""A private Slurm on loopback: munged, slurmctld and slurmd in a temporary folder, as the caller's user."""

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from slurm import configuration
from slurm.programs import program

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 60.0
POLL_S: Final = 0.01
KEY_BYTES: Final = 128


class Slurm:
    """The servers of one cluster, and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = _free_ports()
        self._host = socket.gethostname().partition(".")[0]
        self._environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        for name, mode in {"run": 0o755, "state": 0o700, "spool": 0o755}.items():
            (folder / name).mkdir(mode=mode)
        (folder / "munge.key").touch(mode=0o600)
        (folder / "munge.key").write_bytes(secrets.token_bytes(KEY_BYTES))

    def start(self, *, tuning: str) -> None:
        """Start all three, and wait until the node accepts jobs."""
        conf = configuration.write(self.folder, host=self._host, ports=self._ports, tuning=tuning)
        at = {name: f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")}
        self._begin("munged", "--foreground", "--force", f"--socket={self.folder}/run/munge", *at.values())
        _until((self.folder / "run" / "munge").exists, "munged to listen")
        self.start_controller()
        self._begin("slurmd", "-D", "-f", str(conf))
        _until(lambda: self.run("sinfo", "-h", "-o", "%T").strip() in {"idle", "mixed", "allocated"}, "the node")

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers."""
        self._begin("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        _until(lambda: "is UP" in self.run("scontrol", "ping"), "slurmctld")

    def stop_controller(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Stop slurmctld and wait for its end; it saves its state first, unless it is killed."""
        self._end("slurmctld", by)

    def stop(self) -> None:
        """Stop all three; jobs go on."""
        for name in ("slurmctld", "slurmd", "munged"):
            self._end(name, signal.SIGTERM)

    def run(self, *command: str, timeout_s: float = 120.0) -> str:
        """The output of a command; empty when it fails.

        Raises:
            subprocess.TimeoutExpired: it did not end in time, and was killed.
        """
        found = subprocess.run(
            [program(command[0]), *command[1:]],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return found.stdout if found.returncode == 0 else ""

    def clear(self) -> None:
        """Cancel every job and wait until none is left on the node."""
        self.run("scancel", "--state=PENDING", f"--user={os.getuid()}")
        self.run("scancel", f"--user={os.getuid()}")
        _until(lambda: not self.run("squeue", "-h", "-t", "PD,R,CG").strip(), "the jobs to end", wait_s=0.5)

    def end_what_is_left(self) -> None:
        """Kill each process of this cluster's folder that a server has left behind."""
        for pid in _processes_of(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _until(lambda: not _processes_of(self.folder), "the last processes to end")

    def _begin(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                [program(name), *arguments], env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def _end(self, name: str, by: signal.Signals) -> None:
        if (process := self._running.pop(name, None)) is None:
            return
        process.send_signal(by)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def slurm() -> Iterator[Slurm]:
    """A cluster that is not started yet; all its processes are ended afterwards."""
    with TemporaryDirectory(prefix="aliquot-slurm-") as folder:
        Path(folder).chmod(0o755)
        cluster = Slurm(Path(folder))
        try:
            yield cluster
        finally:
            cluster.stop()
            cluster.end_what_is_left()


def _until(is_so: Callable[[], bool], what: str, *, wait_s: float = POLL_S) -> None:
    give_up = time.monotonic() + START_S_MAX
    while not is_so():
        if time.monotonic() > give_up:
            raise TimeoutError(f"waited {START_S_MAX:.0f} s for {what}")
        time.sleep(wait_s)


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _processes_of(folder: Path) -> list[int]:
    """Jobs have the folder in their environment; slurmstepd overwrites its own, and is found by its open files."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _is_of(Path(f"/proc/{pid}"), str(folder))]


def _is_of(process: Path, folder: str) -> bool:
    with suppress(OSError):
        if f"SLURM_CONF={folder}/".encode() in (process / "environ").read_bytes():
            return True
        program_name = (process / "comm").read_text(encoding="utf-8").strip()
        if program_name.startswith(("slurm", "munged")):
            return any(folder in os.readlink(path) for path in (process / "fd").iterdir())
    return False
