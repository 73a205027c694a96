"""A program that is asked about each new session: it reads JSON, and its exit code is the answer."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from aliquot_schema.errors import Unavailable
from aliquot_schema.sessions import Session

ASKED_AT_ONCE_MAX: Final = 8
_SAID_BYTES_MAX: Final = 65_536
_SHOWN_CHARS_MAX: Final = 500
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
"""Nothing of the server's own."""

log: Final = logging.getLogger("aliquot.command_checks")


class CheckProgram:
    """Runs as the server itself does, once for each session, beside the event loop."""

    def __init__(self, *command: str | Path, patience_s: float) -> None:
        self._command = command
        self._patience_s = patience_s
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def refusal(self, request: Mapping[str, object]) -> str | None:
        """What it says against a request, see `asked`; None when it takes it.

        Raises:
            Unavailable: it cannot be run, or did not answer in time; nothing is taken then.
        """
        async with self._turns:
            with _file_of(request) as file, _Ear() as ear:
                process = await self._begun(file, ear)
                try:
                    async with asyncio.timeout(self._patience_s):
                        code = await process.wait()
                except TimeoutError:
                    log.error("the command check %s did not answer in %g s", self._command[-1], self._patience_s)
                    raise Unavailable("the server's command check did not answer in time; try again") from None
                finally:
                    await _end(process)
                words = " ".join(ear.heard().decode(errors="replace").split())
        if code == 0:
            return None
        return words[:_SHOWN_CHARS_MAX] or f"the command check ended with {code}"

    async def _begun(self, file: int, ear: "_Ear") -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=file,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=ear.mouth,
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        except OSError as error:
            log.error("the command check %s cannot be run: %s", self._command[-1], error)
            raise Unavailable("the server's command check cannot be run; its operator has to look") from None


class _Ear:
    """Hears what a process says, without waiting for others that it leaves running with the same pipe."""

    def __init__(self) -> None:
        self._said = b""
        self._pipe, self.mouth = os.pipe()
        os.set_blocking(self._pipe, False)

    def __enter__(self) -> "_Ear":
        asyncio.get_running_loop().add_reader(self._pipe, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self.mouth)

    def heard(self) -> bytes:
        """The beginning of all that was said up to now."""
        self._hear()
        return self._said

    def _hear(self) -> None:
        """As much as a pipe holds, so that a process that goes on and on leaves the event loop its turns."""
        with suppress(BlockingIOError):
            self._said = (self._said + os.read(self._pipe, _SAID_BYTES_MAX))[:_SAID_BYTES_MAX]


@contextmanager
def _file_of(request: Mapping[str, object]) -> Iterator[int]:
    file = os.memfd_create("request")
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(json.dumps(request).encode())
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def asked(session: Session) -> dict[str, object]:
    """What the program reads: one JSON object."""
    spec = session.spec
    return {
        "owner": session.owner,
        "project": session.project,
        "pool": session.pool,
        "name": session.name,
        "tags": dict(session.tags),
        "command": list(spec.argv),
        "environment": dict(spec.environment),
        "working_directory": spec.working_directory,
        "slots": {slot: str(amount) for slot, amount in spec.slots.items()},
        "cluster_size": spec.cluster_size,
        "secrets": [use.name for use in spec.secrets],
        "sandbox": spec.sandbox,
    }


async def _end(process: asyncio.subprocess.Process) -> None:
    """Nothing of its process group stays."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
