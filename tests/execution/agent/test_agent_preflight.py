"""Checks before a kernel's command, with real processes."""

import signal
from pathlib import Path

import pytest

from agent_harness import AgentHarness, is_running, marked_processes, order, shell, wait_until
from aliquot_schema.cluster.launching import KernelPhase, LaunchOrder, PreflightOrder
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.sessions import PREFLIGHT_FAILED

pytestmark = pytest.mark.anyio


def checked(check: str, command: str, *, is_released: bool = True, limit_ms: int = 20_000) -> LaunchOrder:
    """An order with one shell string as check, another as command."""
    argv = ("/bin/sh", "-c", check)
    return shell(command, preflight=PreflightOrder(argv=argv, limit_ms=limit_ms, is_released=is_released))


def output_of(harness: AgentHarness, asked: LaunchOrder) -> str:
    return (harness.config.folder / "kernels" / asked.kernel_id / "output.log").read_text()


async def test_after_a_passed_preflight_check_the_command_starts_in_the_same_environment(harness: AgentHarness) -> None:
    asked = checked(
        "echo check $TOY_VISIBLE $ALIQUOT_RANK; id -u", "echo job $TOY_VISIBLE $ALIQUOT_RANK; id -u; exit 3"
    )
    report = await harness.run(asked)
    assert (report.phase, report.exit_code) == (KernelPhase.EXITED, 3)
    uid = output_of(harness, asked).splitlines()[1]
    assert output_of(harness, asked) == f"check toy-a 0\n{uid}\njob toy-a 0\n{uid}\n"


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("echo slow link >&2; exit 7", "it exited with code 7; its output ends with: slow link"),
        ("echo a; echo; echo b; kill -9 $$", "it was ended by signal 9; its output ends with: a / b"),
        ("exit 1", "it exited with code 1, no output"),
    ],
)
async def test_a_failed_preflight_check_refuses_the_kernel_with_the_end_of_its_output(
    harness: AgentHarness, check: str, reason: str, tmp_path: Path
) -> None:
    report = await harness.run(checked(check, f"touch {tmp_path}/started"))
    assert (report.phase, report.code, report.evidence) == (
        KernelPhase.REFUSED,
        PREFLIGHT_FAILED,
        EndEvidence.REFUSED,
    )
    assert report.message == reason
    assert not (tmp_path / "started").exists()


async def test_a_missing_preflight_program_fails_the_check(harness: AgentHarness) -> None:
    asked = order("/bin/true", preflight=PreflightOrder(argv=("/no/such",), is_released=True))
    report = await harness.run(asked)
    assert report.code == PREFLIGHT_FAILED
    assert "No such file" in str(report.message)


async def test_a_preflight_check_ends_at_its_time_limit_with_all_its_processes(harness: AgentHarness) -> None:
    asked = checked("sleep 600 & sleep 600", "true", limit_ms=300)
    report = await harness.run(asked)
    assert report.code == PREFLIGHT_FAILED
    assert str(report.message).startswith("it ran longer than 0.3 s")
    assert not marked_processes(asked.kernel_id)


async def test_processes_left_by_a_preflight_check_are_stopped_before_the_command_starts(harness: AgentHarness) -> None:
    asked = checked("sleep 600 & echo $!", "sleep 600")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    assert not is_running(int(output_of(harness, asked)))
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)


async def test_a_rank_of_a_gang_waits_for_its_release_after_the_preflight_check(harness: AgentHarness) -> None:
    asked = checked("true", "echo job", is_released=False)
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.CHECKED)
    assert output_of(harness, asked) == ""
    await harness.core.launch([checked_again(asked)])
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.exit_code, output_of(harness, asked)) == (0, "job\n")
    phases = [report.phase for report in harness.reports(asked.kernel_id)]
    assert phases.index(KernelPhase.CHECKED) < phases.index(KernelPhase.STARTED)


async def test_a_rank_waiting_for_its_release_survives_an_agent_restart(harness: AgentHarness) -> None:
    asked = checked("true", "echo job", is_released=False)
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.CHECKED)
    await harness.restart()
    await wait_until(lambda: any(r.phase is KernelPhase.CHECKED for r in harness.inventory.kernels))
    await harness.core.launch([checked_again(asked)])
    assert (await harness.wait_for_end(asked.kernel_id)).exit_code == 0


@pytest.mark.parametrize("check", ["sleep 600", "true"])
async def test_a_stop_ends_a_preflight_check_and_the_wait_after_it(harness: AgentHarness, check: str) -> None:
    asked = checked(check, "echo job", is_released=False)
    await harness.core.launch([asked])
    phase = KernelPhase.CHECKED if check == "true" else KernelPhase.CHECKING
    await harness.wait_for_report(asked.kernel_id, phase)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.phase, report.signal) == (KernelPhase.EXITED, signal.SIGTERM)
    assert output_of(harness, asked) == ""


async def test_the_built_in_preflight_check_writes_its_result_to_the_output(harness: AgentHarness) -> None:
    asked = shell("echo job", preflight=PreflightOrder(is_released=True))
    report = await harness.run(asked)
    assert report.exit_code == 0
    first, last = output_of(harness, asked).splitlines()
    assert first.startswith("aliquot: preflight: ")
    assert last == "job"


def checked_again(asked: LaunchOrder) -> LaunchOrder:
    """The same order, released."""
    assert asked.preflight is not None
    released = PreflightOrder(argv=asked.preflight.argv, limit_ms=asked.preflight.limit_ms, is_released=True)
    return shell(asked.argv[2], kernel=asked.kernel_id, preflight=released)
