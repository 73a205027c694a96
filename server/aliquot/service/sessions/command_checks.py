"""Command checks: an operator's patterns and check program, which may reject a new session by its commands: the one
it runs, and the preflight.

Patterns are checked first, then the program. The program reads one JSON object per session on its standard input;
exit code 0 accepts the session, any other code rejects it with the program's standard error as the message.
A command check is no security boundary: a running job can execute anything that its account may.
"""

import asyncio
import json
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from aliquot.service.sessions import command_patterns
from aliquot.service.sessions.batches import ErrorWrapper, unchanged
from aliquot.service.setting_errors import Seconds, wrong
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.sessions import Session

TIMEOUT_S: Final = 5.0
CONCURRENT_MAX: Final = 8
"""Check processes that run at the same time."""
_OUTPUT_BYTES_MAX: Final = 65_536
_MESSAGE_CHARS_MAX: Final = 500
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
"""Of the check program. The server's own environment may hold secrets."""

log: Final = logging.getLogger("aliquot.command_checks")


class CheckProgram:
    """A check program, run under the server's account, one process per request."""

    def __init__(self, *command: str | Path, timeout_s: float) -> None:
        self._command = command
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(CONCURRENT_MAX)

    async def refusal(self, request: Mapping[str, object]) -> str | None:
        """Why the program rejects a request, see `check_input`; None when it accepts it.

        Raises:
            Unavailable: the program cannot be started, or did not exit within the timeout.
        """
        async with self._slots:
            with _input_file(request) as file, _OutputPipe() as output:
                process = await self._start(file, output)
                try:
                    async with asyncio.timeout(self._timeout_s):
                        code = await process.wait()
                except TimeoutError:
                    log.error("the command check %s did not exit within %g s", self._command[-1], self._timeout_s)
                    raise Unavailable("the server's command check did not answer in time; try again") from None
                finally:
                    await _kill(process)
                words = " ".join(output.read().decode(errors="replace").split())
        if code == 0:
            return None
        return words[:_MESSAGE_CHARS_MAX] or f"the command check exited with code {code}"

    async def _start(self, file: int, output: "_OutputPipe") -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=file,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=output.write_end,
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        except OSError as error:
            log.error("the command check %s cannot be run: %s", self._command[-1], error)
            raise Unavailable("the server's command check cannot be run; ask the operator to see the log") from None


class _OutputPipe:
    """Reads the output of a process; does not wait for its descendants, which may keep the pipe open."""

    def __init__(self) -> None:
        self._received = b""
        self._pipe, self.write_end = os.pipe()
        os.set_blocking(self._pipe, False)

    def __enter__(self) -> "_OutputPipe":
        asyncio.get_running_loop().add_reader(self._pipe, self._drain)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self.write_end)

    def read(self) -> bytes:
        """The output up to now, cut at `_OUTPUT_BYTES_MAX`."""
        self._drain()
        return self._received

    def _drain(self) -> None:
        """One read per turn of the event loop: a process that writes without end must not block it."""
        with suppress(BlockingIOError):
            self._received = (self._received + os.read(self._pipe, _OUTPUT_BYTES_MAX))[:_OUTPUT_BYTES_MAX]


@contextmanager
def _input_file(request: Mapping[str, object]) -> Iterator[int]:
    file = os.memfd_create("request")
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(json.dumps(request).encode())
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def check_input(session: Session) -> dict[str, object]:
    """The JSON object that the check program reads."""
    spec = session.spec
    return {
        "owner": session.owner,
        "project": session.project,
        "pool": session.pool,
        "name": session.name,
        "tags": dict(session.tags),
        "command": list(spec.argv),
        "preflight": None if spec.preflight is None else list(spec.preflight.argv),
        "environment": dict(spec.environment),
        "working_directory": spec.working_directory,
        "slots": {slot: str(amount) for slot, amount in spec.slots.items()},
        "cluster_size": spec.cluster_size,
        "secrets": [use.name for use in spec.secrets],
        "sandbox": spec.sandbox,
    }


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process group, and reap the process."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


class CommandRules(Struct, frozen=True, kw_only=True):
    """An operator's rules; a command, and a preflight command, must each pass all of them."""

    allow: tuple[str, ...] = ()
    """If not empty, at least one must match somewhere in the command."""
    deny: tuple[str, ...] = ()
    """None may match anywhere in the command."""
    program: Path | None = None
    timeout_s: float = TIMEOUT_S
    """Timeout of the program, and of the patterns."""

    @property
    def is_empty(self) -> bool:
        """Whether every command is accepted."""
        return not (self.allow or self.deny or self.program)


# Without warnings: those of `re` would precede the answer on standard error.
_PATTERNS: Final = (sys.executable, "-I", "-S", "-W", "ignore", command_patterns.__file__)


class CommandChecks:
    """Applies the command rules to new sessions; external allocations run no command and are skipped."""

    def __init__(self, rules: CommandRules) -> None:
        self._rules = rules
        self._patterns = CheckProgram(*_PATTERNS, timeout_s=rules.timeout_s)
        self._program = None if rules.program is None else CheckProgram(rules.program, timeout_s=rules.timeout_s)

    async def check(self, *sessions: Session, wrap: ErrorWrapper = unchanged) -> None:
        """Reject sessions that break the operator's rules.

        Raises:
            InvalidRequest: a session is rejected; the message says why.
            Unavailable: the rules cannot be checked now.
        """
        inside = [session for session in sessions if not session.is_external_allocation]
        if inside and (self._rules.allow or self._rules.deny):
            await self._match(inside, wrap)
        if self._program is not None:
            for begin in range(0, len(inside), CONCURRENT_MAX):
                await _run(self._program, inside[begin : begin + CONCURRENT_MAX], wrap)

    async def _match(self, sessions: Sequence[Session], wrap: ErrorWrapper) -> None:
        """Match a whole batch in one process: starting a process takes longer than matching."""
        commands = [(session, *command) for session in sessions for command in _commands(session)]
        texts = [shlex.join(argv) for _, _, argv in commands]
        answer = await self._patterns.refusal({"texts": texts, "allow": self._rules.allow, "deny": self._rules.deny})
        if answer is None:
            return
        position, _, words = answer.partition(" ")
        if not position.isdecimal():
            log.error("the settings command_allow and command_deny cannot be applied: %s", answer)
            raise Unavailable("the server's command patterns cannot be applied; ask the operator to see the log")
        session, field, _ = commands[int(position)]
        raise wrap(_refusal(words, field=field), session)


def _commands(session: Session) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(field, program and arguments) of each command that the session's owner wrote."""
    yield "command", session.spec.argv
    preflight = session.spec.preflight
    if preflight is not None and preflight.argv:  # without: the agent's own check
        yield "preflight", preflight.argv


async def _run(program: CheckProgram, sessions: Sequence[Session], wrap: ErrorWrapper) -> None:
    answers = await asyncio.gather(
        *(program.refusal(check_input(session)) for session in sessions), return_exceptions=True
    )
    for session, answer in zip(sessions, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            raise wrap(_refusal(answer), session)


def _refusal(words: str, *, field: str = "command") -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", field=field)


class CommandCheckSettings(BaseSettings):
    """Settings of the command check; part of `aliquot.settings.Settings`."""

    command_allow: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Regular expressions; if any are set, a command must match at least one of them, and so must a "
        "preflight command.",
    )
    command_deny: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Regular expressions; a session is rejected if its command or preflight command matches any.",
    )
    command_check: Path | None = Field(
        None, description="Program that checks each new session: reads JSON on standard input, exit code 0 accepts it."
    )
    command_check_s: Seconds = Field(
        TIMEOUT_S, gt=0, le=60, description="Timeout of the command check, and of the command patterns, in seconds."
    )

    @property
    def command_rules(self) -> CommandRules:
        """These settings as command rules."""
        return CommandRules(
            allow=self.command_allow,
            deny=self.command_deny,
            program=self.command_check,
            timeout_s=self.command_check_s,
        )

    @field_validator("command_allow", "command_deny", mode="before")
    @classmethod
    def _are_patterns(cls, value: object) -> object:
        """An environment variable holds one pattern per line."""
        patterns = tuple(filter(None, value.splitlines())) if isinstance(value, str) else value
        for pattern in patterns if isinstance(patterns, list | tuple) else ():
            try:
                re.compile(str(pattern))
            except re.error as error:
                raise wrong(f"{pattern} is not a regular expression: {error}") from None
        return patterns

    @field_validator("command_check")
    @classmethod
    def _is_absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise wrong("give an absolute path")
        return value
