"""The program that an operator has asked about each new session: it reads JSON, and its exit code is the answer."""

import asyncio
import json
import logging
import os
import signal
from contextlib import suppress
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

    def __init__(self, path: Path, *, patience_s: float) -> None:
        self._path = path
        self._patience_s = patience_s
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def refusal(self, session: Session) -> str | None:
        """What it says against a session; None when it takes it.

        Raises:
            Unavailable: it cannot be run, or did not answer in time; nothing is taken then.
        """
        async with self._turns:
            try:
                process = await asyncio.create_subprocess_exec(
                    self._path,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env=_ENVIRONMENT,
                    start_new_session=True,
                    limit=_SAID_BYTES_MAX,
                )
            except OSError as error:
                log.error("the command check %s cannot be run: %s", self._path, error)
                raise Unavailable("the server's command check cannot be run; its operator has to look") from None
            try:
                async with asyncio.timeout(self._patience_s):
                    return await self._answer(process, session)
            except TimeoutError:
                log.error("the command check %s did not answer in %g s", self._path, self._patience_s)
                raise Unavailable("the server's command check did not answer in time; try again") from None
            finally:
                await _end(process)

    async def _answer(self, process: asyncio.subprocess.Process, session: Session) -> str | None:
        assert process.stdin is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read
            process.stdin.write(json.dumps(asked(session)).encode("utf-8", "surrogateescape"))
            await process.stdin.drain()
        process.stdin.close()
        said = b""
        while part := await process.stderr.read(4096):
            said = (said + part)[:_SAID_BYTES_MAX]
        if await process.wait() == 0:
            return None
        words = " ".join(said.decode(errors="replace").split())
        return words[:_SHOWN_CHARS_MAX] or f"the command check ended with {process.returncode}"


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
    """Nothing of it stays, whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
