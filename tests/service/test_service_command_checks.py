"""Command checks: patterns, and a real program."""

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from aliquot.service.sessions.command_checks import CommandChecks, CommandRules, check_input
from aliquot_schema.errors import AliquotError, InvalidRequest, Unavailable
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Preflight, Session, SessionSpec

pytestmark = pytest.mark.anyio


def session(*argv: str) -> Session:
    spec = SessionSpec(argv=argv, slots=ResourceSlot({}))
    return Session(id=SessionId("ses_1"), version=0, owner=UserId("anna"), spec=spec, queued_us=0)


def checked(*preflight: str) -> Session:
    """A Python session with a preflight; without a command, the agent's own check runs."""
    plain = session("python", "train.py")
    return replace(plain, spec=replace(plain.spec, preflight=Preflight(argv=preflight)))


def script(folder: Path, text: str) -> Path:
    path = folder / "check"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def test_commands_must_match_allowed_and_no_denied_patterns() -> None:
    rules = CommandRules(allow=("^python", "^sh"), deny=("curl",))
    checks = CommandChecks(rules)
    await checks.check(session("python", "train.py"))
    with pytest.raises(InvalidRequest, match="none of the allowed command patterns"):
        await checks.check(session("perl", "-e", "1"))
    with pytest.raises(InvalidRequest, match="must not match curl") as refused:
        await checks.check(session("sh", "-c", "curl x"))
    assert refused.value.field == "command"


async def test_a_preflight_command_must_pass_the_patterns_too() -> None:
    checks = CommandChecks(CommandRules(allow=("^python",), deny=("curl",)))
    await checks.check(checked(), checked("python", "check.py"))
    for refused, words in ((checked("perl"), "none of the allowed"), (checked("python", "curl"), "not match curl")):
        with pytest.raises(InvalidRequest, match=f"^preflight: .*{words}") as error:
            await checks.check(session("python"), checked("python", "check.py"), refused)
        assert error.value.field == "preflight"


def test_the_input_of_the_check_program_contains_the_preflight_command() -> None:
    found = [check_input(one)["preflight"] for one in (session("x"), checked(), checked("sh", "-c", "y"))]
    assert found == [None, [], ["sh", "-c", "y"]]


@pytest.mark.parametrize("pattern", ["[;&&||]", "[[;]"])
async def test_a_pattern_with_a_python_warning_is_still_matched(pattern: str) -> None:
    checks = CommandChecks(CommandRules(deny=(pattern,)))
    with pytest.raises(InvalidRequest, match="must not match"):
        await checks.check(session("sh", "-c", "a; b"))


async def test_a_batch_with_a_refused_command_names_the_refused_session() -> None:
    checks = CommandChecks(CommandRules(deny=("curl",)))
    batch = [session("python", str(number)) for number in range(300)]
    await checks.check(*batch)
    batch[217] = session("curl", "x")

    def wrap(error: AliquotError, refused: Session) -> AliquotError:
        return InvalidRequest(f"{batch.index(refused)}: {error.message}", field="command")

    with pytest.raises(
        InvalidRequest, match=r"^217: command: not accepted by this server: commands must not match curl$"
    ):
        await checks.check(*batch, wrap=wrap)


async def test_patterns_that_cannot_be_matched_refuse_all_commands_without_a_traceback() -> None:
    """As when memory runs out."""
    checks = CommandChecks(CommandRules(deny=("(",)))
    with pytest.raises(Unavailable, match="cannot be applied") as refused:
        await checks.check(session("x"))
    assert "Traceback" not in refused.value.message


async def test_a_pattern_that_takes_too_long_is_stopped_and_refused(anyio_backend: str) -> None:
    """`re` blocks all other threads; it is stopped while the event loop goes on."""
    checks = CommandChecks(CommandRules(deny=(r"(\w+\s?)+$",), timeout_s=0.3))
    with pytest.raises(Unavailable, match="did not answer in time"):
        await checks.check(session("a" * 60 + "!"))


async def test_the_check_program_reads_the_request_and_its_stderr_is_the_reason_of_the_refusal(tmp_path: Path) -> None:
    path = script(
        tmp_path, 'if grep -q \'"command": \\["good"\'; then exit 0; fi; echo "not that," >&2; echo please >&2; exit 3'
    )
    checks = CommandChecks(CommandRules(program=path))
    await checks.check(session("good"))
    with pytest.raises(InvalidRequest, match="command: not that, please"):
        await checks.check(session("bad"))


async def test_the_check_program_may_ignore_its_input_and_its_long_output_is_shortened(tmp_path: Path) -> None:
    await CommandChecks(CommandRules(program=script(tmp_path, "exit 0"))).check(session("x" * 100_000))
    loud = script(tmp_path, "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1")
    with pytest.raises(InvalidRequest) as refused:
        await CommandChecks(CommandRules(program=loud)).check(session("x"))
    assert len(refused.value.message) < 1000


async def test_background_processes_of_the_check_program_are_not_waited_for(tmp_path: Path) -> None:
    """In a process session of its own, beyond the check, with its input and outputs."""
    pid = tmp_path / "pid"
    left = f"setsid sh -c 'echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 600' &"
    leaves = script(tmp_path, f"{left}\nwhile [ ! -e {pid} ]; do sleep 0.01; done\nexit 0")
    checks = CommandChecks(CommandRules(program=leaves, timeout_s=60))
    before = len(os.listdir("/proc/self/fd"))
    try:
        await checks.check(session("x"))
        assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_check_program_that_hangs_or_is_missing_refuses_all_commands(tmp_path: Path) -> None:
    hangs = CommandChecks(CommandRules(program=script(tmp_path, "sleep 600"), timeout_s=0.2))
    with pytest.raises(Unavailable, match="did not answer in time"):
        await hangs.check(session("x"))
    with pytest.raises(Unavailable, match="cannot be run"):
        await CommandChecks(CommandRules(program=tmp_path / "missing")).check(session("x"))
