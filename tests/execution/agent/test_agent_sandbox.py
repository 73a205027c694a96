"""Kernels in the sandbox: what they see, what they cannot do, and how they end.

Skipped where the product finds no usable sandbox.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import (
    PATIENCE_S,
    AgentHarness,
    agent_config,
    marked_processes,
    order,
    parent_pid,
    process_state,
    shell,
    wait_until,
)
from aliquot.execution.agent.isolation.sandbox import sandbox_fault
from aliquot.execution.agent.isolation.settings import ConfinementRules, Mount, SandboxMode
from aliquot.execution.agent.job_user import JobUserPolicy, resolve_user
from aliquot_schema.cluster.launching import KernelPhase, LaunchOrder, PreflightOrder
from aliquot_schema.resources.confinement import SandboxProfile

USER = resolve_user(JobUserPolicy(), asked=None, uid=os.geteuid(), environment=os.environ)
WHY_NOT = sandbox_fault(USER)

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(WHY_NOT is not None, reason=f"no sandbox: {WHY_NOT}")]


def inside(text: str, **fields: object) -> LaunchOrder:
    """A shell string in the sandbox."""
    return replace(shell(text), sandbox=SandboxProfile.STANDARD, **fields)  # type: ignore[arg-type] # its own fields


@pytest.fixture
async def walled(agent_home: Path, anyio_backend: str) -> AsyncIterator[AgentHarness]:
    """An agent that sandboxes kernels on request; a folder is mounted in each mode."""
    readable, writable = agent_home.parent / "readable", agent_home.parent / "writable"
    for folder in (readable, writable):
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
    (readable / "data").write_text("data\n")
    server = agent_home.parent / "server"
    server.mkdir()
    (server / "token").write_text("the server's own token")
    (readable / "key").write_text("the server's own token")
    (readable / "link").symlink_to(readable / "key")
    rules = ConfinementRules(
        mounts=(Mount(path=readable, writable=False), Mount(path=writable, writable=True)),
        hidden=(server, readable / "link"),
    )
    harness = AgentHarness(agent_config(agent_home, confinement=rules))
    await harness.open()
    yield harness
    await harness.close()


async def test_a_sandboxed_job_cannot_read_write_or_see_outside_its_own_files(
    walled: AgentHarness, agent_home: Path
) -> None:
    """Each line tries to get out; its output is what it reached."""
    home = agent_home.parent
    asked = inside(
        f"cat {home}/server/token {home}/readable/key; ls -A {home}/server; ls {agent_home}\n"
        f"touch /usr/written {home}/readable/written /etc/written {agent_home}/kernels/written\n"
        f"kill -0 {os.getpid()} && echo sees the server\n"
        "ls -d /proc/[0-9]* | wc -l\n"
        f"for p in {os.getpid()} {os.getppid()}; do cat /proc/$p/environ /proc/$p/cmdline; done\n"
        "ls /run; echo tmp: $(ls -A /tmp); echo x >/tmp/mine && rm /tmp/mine && echo own tmp\n"
        "grep CapEff /proc/self/status; unshare -m true; mount -t tmpfs none /mnt; echo done"
    )
    assert (await walled.run(asked)).exit_code == 0
    said = walled.output(asked.kernel_id)
    assert "the server's own token" not in said
    assert "sees the server" not in said
    assert "token" not in said.replace(f"{home}/server/token", "")
    assert said.count("Read-only file system") >= 4, said
    assert "own tmp" in said
    assert f"tmp: {home.name}\n" in said  # the path to its own folder
    assert "CapEff:\t0000000000000000" in said
    assert not (home / "readable" / "written").exists()
    processes = [int(line) for line in said.splitlines() if line.strip().isdecimal()]
    assert processes
    assert processes[0] <= 8


async def test_a_sandboxed_job_can_use_its_mounts_folders_devices_and_variables(
    walled: AgentHarness, agent_home: Path
) -> None:
    home = agent_home.parent
    asked = inside(
        f"cat {home}/readable/data && echo written >{home}/writable/by_job && pwd && echo here >here && "
        'echo result >"$RESULT_DIR/it" && echo point >"$CHECKPOINT_DIR/it" && cat "$ALIQUOT_RESOURCE_FILE" && '
        "ls -l /dev/null && echo $TOY_VISIBLE $HELLO; exit 7",
        environment={"HELLO": "a value"},
    )
    assert (await walled.run(asked)).exit_code == 7
    said = walled.output(asked.kernel_id)
    assert "data\n" in said
    assert "toy-a a value" in said
    assert (home / "writable" / "by_job").read_text() == "written\n"
    assert (walled.folder(asked.kernel_id) / "work" / "here").read_text() == "here\n"
    session = asked.kernel_id.partition(".")[0]
    assert (agent_home / "sessions" / session / "result" / "it").read_text() == "result\n"


@pytest.mark.parametrize(("name", "variable"), [("printer", "some.dotted-name"), ("-x", "A"), ("with=sign", "A")])
async def test_a_sandboxed_job_gets_all_its_variables(
    walled: AgentHarness, agent_home: Path, name: str, variable: str
) -> None:
    """Also those that a shell could not name, and for any name of the program."""
    program = agent_home.parent / "writable" / name
    program.write_text("#!/usr/bin/env python3\nimport os\nprint(*os.environ)\n")
    program.chmod(0o755)
    path = f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
    asked = replace(order(name), sandbox=SandboxProfile.STANDARD, environment={"PATH": path, variable: "its"})
    assert (await walled.run(asked)).exit_code == 0
    assert variable in walled.output(asked.kernel_id).split()


async def test_variables_of_a_sandboxed_job_do_not_affect_the_sandbox_program(
    walled: AgentHarness, agent_home: Path
) -> None:
    """A preloaded library is looked up inside the sandbox, where it is missing, and not by the sandbox's launcher."""
    library = agent_home.parent / "library.so"
    asked = inside("echo inside", environment={"LD_PRELOAD": str(library)})
    await walled.run(asked)
    said = walled.output(asked.kernel_id)
    assert "inside" in said
    # The loader prints one error for each program: for the shells inside, and not for the sandbox's launcher.
    assert "bwrap" not in said


async def test_a_missing_program_in_the_sandbox_exits_with_127(walled: AgentHarness) -> None:
    missing = replace(order("no-such-program"), sandbox=SandboxProfile.STANDARD)
    assert (await walled.run(missing)).exit_code == 127
    assert "no-such-program" in walled.output(missing.kernel_id)


async def test_a_stop_signal_reaches_a_sandboxed_job_and_its_grace_time_is_kept(walled: AgentHarness) -> None:
    asked = inside(
        "trap 'sleep 0.5; echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done", grace_ms=20_000
    )
    await walled.core.launch([asked])
    await walled.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: "ready" in walled.output(asked.kernel_id))
    await walled.core.stop(asked.kernel_id, epoch=1, grace_ms=20_000)
    report = await walled.wait_for_end(asked.kernel_id)
    assert "saved" in walled.output(asked.kernel_id)
    assert report.exit_code == 3


async def test_a_signal_is_passed_on_to_the_job(walled: AgentHarness) -> None:
    asked = inside("trap 'echo heard; exit 0' USR1; echo ready; while :; do sleep 0.05; done")
    await walled.core.launch([asked])
    await walled.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: "ready" in walled.output(asked.kernel_id))
    await walled.core.send_signal(asked.kernel_id, epoch=1, signal=signal.SIGUSR1)
    assert (await walled.wait_for_end(asked.kernel_id)).exit_code == 0
    assert "heard" in walled.output(asked.kernel_id)


async def test_a_sandboxed_job_that_ignores_sigterm_is_killed_with_its_daemons(walled: AgentHarness) -> None:
    asked = inside("trap '' TERM; (setsid sleep 600 &) ; (setsid sleep 600 &); echo ready; sleep 600")
    await walled.core.launch([asked])
    await walled.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: "ready" in walled.output(asked.kernel_id))
    await walled.core.stop(asked.kernel_id, epoch=1, grace_ms=100)
    await walled.wait_for_end(asked.kernel_id)
    assert not marked_processes(asked.kernel_id)


async def test_processes_left_by_a_sandboxed_job_end_with_it(walled: AgentHarness) -> None:
    asked = inside("(setsid sleep 600 &); exit 5")
    assert (await walled.run(asked)).exit_code == 5
    assert not marked_processes(asked.kernel_id)


async def test_a_sandboxed_job_survives_an_agent_restart(walled: AgentHarness) -> None:
    asked = inside("while [ ! -e go ]; do sleep 0.05; done; exit 4")
    await walled.core.launch([asked])
    await walled.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await walled.restart()
    work = walled.folder(asked.kernel_id) / "work"
    (work / "go").touch()
    assert (await walled.wait_for_end(asked.kernel_id)).exit_code == 4


async def test_a_killed_shim_leaves_no_process_of_its_sandbox(walled: AgentHarness) -> None:
    asked = inside("echo ready; sleep 600")
    await walled.core.launch([asked])
    await walled.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    await wait_until(lambda: "ready" in walled.output(asked.kernel_id))
    children = marked_processes(asked.kernel_id)
    assert len(children) >= 3  # the two processes of the sandbox, and the job
    shim = parent_pid(min(children))
    os.kill(shim, signal.SIGKILL)
    await walled.wait_for_end(asked.kernel_id)
    assert all(process_state(pid) in ("", "Z", "X") for pid in children)


async def test_a_sandboxed_job_cannot_read_server_files_through_a_link(walled: AgentHarness, agent_home: Path) -> None:
    token = agent_home.parent / "server" / "token"
    asked = inside(f'ln -s {token} "$RESULT_DIR/link" && cat "$RESULT_DIR/link"')
    assert (await walled.run(asked)).exit_code != 0
    assert "own token" not in walled.output(asked.kernel_id)


async def test_a_working_directory_outside_the_sandbox_is_refused(walled: AgentHarness, agent_home: Path) -> None:
    report = await walled.run(inside("true", working_directory=str(agent_home.parent / "server")))
    assert report.phase is KernelPhase.REFUSED
    assert report.message is not None
    assert "sandbox-mounts" in report.message


async def test_the_sandbox_mode_decides_which_jobs_run_in_the_sandbox(agent_home: Path) -> None:
    """By default only jobs that ask for the sandbox run in it; where it is required, all do."""
    for mode, expected in (
        (SandboxMode.WHEN_ASKED, False),
        (SandboxMode.WHEN_POSSIBLE, True),
        (SandboxMode.REQUIRED, True),
        (SandboxMode.OFF, False),
    ):
        harness = AgentHarness(agent_config(agent_home, confinement=ConfinementRules(sandbox=mode)))
        await harness.open()
        try:
            told = harness.inventory.agent.capabilities
            assert told.sandbox == ("none" if mode is SandboxMode.OFF else "standard"), told.sandbox_note
            asked = shell("touch /usr/written 2>&1; exec grep -c . /proc/self/mountinfo")
            await asyncio.wait_for(harness.run(asked), PATIENCE_S)
            assert ("Read-only" in harness.output(asked.kernel_id)) is expected
            if mode is SandboxMode.OFF:
                report = await harness.run(inside("true"))
                assert report.phase is KernelPhase.REFUSED
        finally:
            await harness.close()


@pytest.mark.parametrize(("code", "phase"), [(0, KernelPhase.EXITED), (7, KernelPhase.REFUSED)])
async def test_a_preflight_check_runs_in_the_sandbox(
    walled: AgentHarness, agent_home: Path, code: int, phase: KernelPhase
) -> None:
    look = f"cat {agent_home.parent}/server/token; touch /usr/written; kill -0 {os.getpid()} && echo sees the server"
    check = PreflightOrder(argv=("/bin/sh", "-c", f"echo check; {look}; exit {code}"), is_released=True)
    asked = inside("echo job; exit 5", preflight=check)
    report = await walled.run(asked)
    said = walled.output(asked.kernel_id)
    assert (report.phase, report.exit_code) == (phase, 5 if code == 0 else None)
    assert "check" in said
    assert "the server's own token" not in said
    assert "sees the server" not in said
    assert ("job" in said.splitlines()) is (code == 0)


async def test_a_preflight_check_in_the_sandbox_ends_at_its_time_limit(walled: AgentHarness) -> None:
    asked = inside("true", preflight=PreflightOrder(argv=("/bin/sleep", "600"), limit_ms=300, is_released=True))
    report = await walled.run(asked)
    assert str(report.message).startswith("it ran longer than 0.3 s")
    assert not marked_processes(asked.kernel_id)
