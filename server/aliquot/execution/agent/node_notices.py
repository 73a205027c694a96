"""Node notices: what an agent tells about its node besides its devices: labels, and that it is about to be taken away.

Labels come from the settings and from a file, which is read again every few seconds. An eviction notice comes from a
signal to the agent, or from a command that is polled: a cloud's metadata service answers such a command shortly before
it takes a spot machine back.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from aliquot.execution.settings import NoticeRules, parse_labels
from aliquot_schema.cluster.agents import TOLD_EVICTION, TOLD_LABEL

COMMAND_S: Final = 10.0
"""An eviction command that takes longer is killed and counts as failed."""
REASON_CHARS_MAX: Final = 200

_log: Final = logging.getLogger(__name__)


class NodeNotices:
    """The present labels and eviction notice of one agent."""

    def __init__(self, rules: NoticeRules) -> None:
        self._rules = rules
        self._labels = dict(rules.labels)
        self._is_readable = True
        self._signalled: str | None = None
        self._commanded: str | None = None
        self._woken = asyncio.Event()

    @property
    def attributes(self) -> Mapping[str, str]:
        """What the agent tells the server, as attributes of its record."""
        found = {f"{TOLD_LABEL}{name}": value for name, value in sorted(self._labels.items())}
        notice = self._signalled or self._commanded
        return found if notice is None else {**found, TOLD_EVICTION: notice}

    def note_signal(self, name: str) -> None:
        """Record a notice by a signal; it stays until the agent's process ends."""
        self._signalled = f"signal {name}"
        self._woken.set()

    async def refresh(self) -> None:
        """Read the file and run the command. Failures are logged, and leave what was known."""
        if self._rules.labels_file is not None:
            await asyncio.to_thread(self._read, self._rules.labels_file)
        if self._rules.eviction_command is not None:
            try:
                self._commanded = await self._run(self._rules.eviction_command)
            except OSError as error:
                _log.warning("the eviction command cannot be started: %s", error)

    async def follow(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Refresh until cancelled; `tell` is called after each change of `attributes`."""
        sent = self.attributes
        while True:
            self._woken.clear()
            if self.attributes != sent:
                sent = self.attributes
                await tell()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rules.interval_s):
                    await self._woken.wait()
                continue  # a signal came; what is known is reported now
            await self.refresh()

    def _read(self, path: Path) -> None:
        try:
            self._labels = {**self._rules.labels, **parse_labels(path.read_text(encoding="utf-8"))}
        except (OSError, ValueError) as error:
            if self._is_readable:
                _log.warning("the labels in %s cannot be read, and stay as they were: %s", path, error)
            self._is_readable = False
            return
        self._is_readable = True

    async def _run(self, command: str) -> str | None:
        """The reason of a notice; None without one."""
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(COMMAND_S):
                output, _ = await process.communicate()
        except TimeoutError:
            _log.warning("the eviction command took longer than %g s and is stopped: %s", COMMAND_S, command)
            return self._commanded
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipe that it is read from
                await process.wait()
        if process.returncode:
            return None
        words = " ".join(output.decode(errors="replace").split())
        printable = "".join(char for char in words if char.isprintable())[:REASON_CHARS_MAX]
        return printable or "the eviction command reported it"
