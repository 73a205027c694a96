"""Spawner process: starts the spawner, sends it requests, reads its reports, and restarts it when it dies."""

import asyncio
import fcntl
import logging
import marshal
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot_schema.ids import KernelId

PROGRAM: Final = Path(__file__).parent / "spawner"
_PIPE_BYTES: Final = 1 << 20
_WRITE_PATIENCE_MS: Final = 10_000
_END_PATIENCE_S: Final = 5.0
_LIFE_S_MIN: Final = 1.0
"""Back-off: a spawner that lived shorter than this is restarted only after this time."""

_log = logging.getLogger(__name__)


class ShimOutcome(Struct, frozen=True, kw_only=True):
    """A shim's report on its start: `pulling`, `checked`, `started`, `failed`, `late` or `withdrew`."""

    kernel_id: KernelId
    outcome: str
    pid: int
    start_time: int


class SpawnerProcess:
    """One spawner at a time. `send` may be called from any thread, all else from the event loop's thread."""

    def __init__(
        self, *, python: str, log: Path, on_outcome: Callable[[ShimOutcome], None], on_restart: Callable[[], None]
    ) -> None:
        self._python = python
        self._log = log
        self._on_outcome = on_outcome
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._sending = threading.Lock()
        self._on_restart = on_restart

    @property
    def pid(self) -> int | None:
        """Pid of the spawner; None if there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start a spawner. When it dies it is restarted, and `on_restart` is called."""
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                [self._python, "-I", "-S", "-E", str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={},
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(log)
        requests, outcomes = self._pipes(self._process)
        fcntl.fcntl(requests, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(requests, False)
        os.set_blocking(outcomes, False)
        self._rest = b""
        self._began = time.monotonic()
        asyncio.get_running_loop().add_reader(outcomes, self._listen)

    async def close(self) -> None:
        """Stop the spawner; shims keep running."""
        if self._timer is not None:
            self._timer.cancel()
        process, self._process = self._process, None
        if process is not None:
            self._close_pipes(process)
            await asyncio.to_thread(_wait_for_end, process)

    def send(self, requests: Sequence[dict[str, object]]) -> bool:
        """Request shims, see `spawner.order`; False if the spawner cannot accept all requests now. Blocks."""
        with self._sending:
            process = self._process
            if process is None:
                return False
            pipe, _ = self._pipes(process)
            try:
                if all(_write(pipe, _frame(request)) for request in requests):
                    return True
            except OSError:
                pass
            # A frozen spawner may have read half a request; a new one starts with a complete request.
            process.kill()
            return False

    def _listen(self) -> None:
        assert self._process is not None
        _, outcomes = self._pipes(self._process)
        try:
            text = os.read(outcomes, 65_536)
        except BlockingIOError:
            return
        if not text:
            self._restart()
            return
        *lines, self._rest = (self._rest + text).split(b"\n")
        for line in lines:
            outcome, kernel_id, pid, start_time = line.decode().split(" ")
            self._on_outcome(
                ShimOutcome(kernel_id=KernelId(kernel_id), outcome=outcome, pid=int(pid), start_time=int(start_time))
            )

    def _restart(self) -> None:
        assert self._process is not None
        dead = self._process
        _log.warning("the spawner (pid %d) has ended; restarting it", dead.pid)
        with self._sending:
            self._process = None
            self._close_pipes(dead)
            dead.kill()
            dead.wait()
        if time.monotonic() - self._began >= _LIFE_S_MIN:
            self._replace()
        else:
            self._timer = asyncio.get_running_loop().call_later(_LIFE_S_MIN, self._replace)

    def _replace(self) -> None:
        self._timer = None
        try:
            self.start()
        except OSError as error:
            _log.warning("the spawner cannot be started, and is tried again: %s", error)
            self._timer = asyncio.get_running_loop().call_later(_LIFE_S_MIN, self._replace)
        else:
            self._on_restart()

    def _close_pipes(self, process: subprocess.Popen[bytes]) -> None:
        _, outcomes = self._pipes(process)
        asyncio.get_running_loop().remove_reader(outcomes)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()

    @staticmethod
    def _pipes(process: subprocess.Popen[bytes]) -> tuple[int, int]:
        assert process.stdin is not None
        assert process.stdout is not None
        return process.stdin.fileno(), process.stdout.fileno()


def _wait_for_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _frame(request: dict[str, object]) -> memoryview:
    body = marshal.dumps(request, 2)
    return memoryview(len(body).to_bytes(4, "little") + body)


def _write(pipe: int, frame: memoryview) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    while frame:
        if not poll.poll(_WRITE_PATIENCE_MS):
            return False
        try:
            frame = frame[os.write(pipe, frame) :]
        except BlockingIOError:
            continue
    return True
