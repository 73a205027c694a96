"""One kernel from its order to its end, with real processes."""

import json
import os
import signal
from pathlib import Path

import pytest

from agent_harness import (
    PATIENCE_S,
    SHARES,
    TOYS,
    AgentHarness,
    agent_config,
    is_running,
    marked_processes,
    new_kernel,
    order,
    shell,
    wait_until,
)
from aliquot.execution.agent.cgroups import members
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.leases import EndEvidence

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("code", [0, 1, 7, 126, 255])
async def test_exit_codes_are_exact(harness: AgentHarness, code: int) -> None:
    report = await harness.run(shell(f"exit {code}"))
    assert (report.exit_code, report.signal, report.evidence) == (code, None, EndEvidence.EXIT_FILE)
    assert not report.timed_out
    assert report.ran_ms is not None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE, signal.SIGXFSZ])
async def test_signals_are_exact(harness: AgentHarness, number: signal.Signals) -> None:
    report = await harness.run(shell(f"kill -{int(number)} $$"))
    assert (report.exit_code, report.signal) == (None, int(number))


async def test_the_start_of_a_kernel_is_reported_before_its_end(harness: AgentHarness) -> None:
    asked = order("true")
    await harness.run(asked)
    assert [report.phase for report in harness.reports(asked.kernel_id)] == [KernelPhase.STARTED, KernelPhase.EXITED]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no-such-program",), 127, "no such program in PATH"),
        (("/no/such/program",), 127, "No such file or directory"),
        (("/etc/passwd",), 126, "Permission denied"),
        (("/",), 126, "Permission denied"),
        (("true", "x" * 200_000), 126, "Argument list too long"),
    ],
)
async def test_a_program_that_cannot_be_run_is_reported_with_the_reason(
    agent_home: Path, argv: tuple[str, ...], code: int, words: str
) -> None:
    harness = AgentHarness(
        agent_config(agent_home, start_patience_s=PATIENCE_S)
    )  # an earlier check would find it starting
    await harness.open()
    asked = order(*argv)
    report = await harness.run(asked)
    await harness.close()
    assert report.exit_code == code
    assert words in (report.message or "")
    assert [each.phase for each in harness.reports(asked.kernel_id)] == [KernelPhase.EXITED]


async def test_a_missing_working_directory_is_reported_with_its_path(harness: AgentHarness) -> None:
    report = await harness.run(order("true", working_directory="/no/such/folder"))
    assert (report.exit_code, "/no/such/folder" in (report.message or "")) == (126, True)


async def test_a_script_with_a_missing_interpreter_is_reported_with_the_reason(
    harness: AgentHarness, agent_home: Path
) -> None:
    script = agent_home.parent / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    report = await harness.run(order(str(script)))
    assert (report.exit_code, "interpreter" in (report.message or "")) == (127, True)


async def test_a_daemonised_grandchild_is_stopped(harness: AgentHarness) -> None:
    asked = shell("(setsid sh -c 'setsid sleep 1000 & sleep 1000' >/dev/null 2>&1 &) ; sleep 1000")
    await harness.core.launch([asked])
    await wait_until(lambda: len(marked_processes(asked.kernel_id)) >= 4)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=2000)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.signal, report.evidence) == (signal.SIGTERM, EndEvidence.EXIT_FILE)
    assert marked_processes(asked.kernel_id) == []


async def test_processes_left_by_a_job_are_stopped_before_its_exit_is_reported(harness: AgentHarness) -> None:
    asked = shell("(trap '' TERM; setsid sleep 1000 &) ; exit 3")
    report = await harness.run(asked)
    assert report.exit_code == 3
    assert marked_processes(asked.kernel_id) == []


async def test_grace_lets_a_child_finish_after_its_shell_has_ended(harness: AgentHarness) -> None:
    text = "(trap 'echo saving; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done) & wait"
    asked = shell(text)
    await harness.core.launch([asked])
    await wait_until(lambda: "ready" in harness.output(asked.kernel_id))
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=20_000)
    await harness.wait_for_end(asked.kernel_id)
    assert "saved" in harness.output(asked.kernel_id)


async def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(harness: AgentHarness) -> None:
    asked = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    await harness.core.launch([asked])
    await wait_until(lambda: "ready" in harness.output(asked.kernel_id))
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=300)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.signal, report.ran_ms is not None and report.ran_ms >= 300) == (signal.SIGKILL, True)


async def test_a_second_stop_can_shorten_the_grace(harness: AgentHarness) -> None:
    asked = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    await harness.core.launch([asked])
    await wait_until(lambda: "ready" in harness.output(asked.kernel_id))
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=3_600_000)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(asked.kernel_id)).signal == signal.SIGKILL


async def test_the_shim_enforces_the_time_limit(harness: AgentHarness) -> None:
    report = await harness.run(order("sleep", "1000", time_limit_ms=300))
    assert (report.timed_out, report.signal) == (True, signal.SIGTERM)
    assert report.ran_ms is not None
    assert report.ran_ms >= 300


async def test_a_time_limit_kills_a_job_that_ignores_sigterm(harness: AgentHarness) -> None:
    report = await harness.run(shell("trap '' TERM; while :; do sleep 0.05; done", time_limit_ms=200, grace_ms=200))
    assert (report.timed_out, report.signal) == (True, signal.SIGKILL)


async def test_a_time_limit_is_moved_while_the_job_runs(harness: AgentHarness) -> None:
    asked = shell("echo ready; sleep 60", time_limit_ms=1500)
    await harness.core.launch([asked])
    assert (await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)).takes_limit
    await wait_until(lambda: "ready" in harness.output(asked.kernel_id))
    await harness.core.set_limit(asked.kernel_id, epoch=1, time_limit_ms=3000)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.timed_out, report.ran_ms is not None and report.ran_ms >= 3000) == (True, True)
    with pytest.raises(NotFound):
        await harness.core.set_limit(asked.kernel_id, epoch=1, time_limit_ms=9000)
    with pytest.raises(InvalidRequest):
        await harness.core.set_limit(asked.kernel_id, epoch=1, time_limit_ms=0)


async def test_a_job_of_an_earlier_release_keeps_its_time_limit(harness: AgentHarness) -> None:
    asked = shell("echo ready; sleep 60", time_limit_ms=60_000)
    await harness.core.launch([asked])
    await wait_until(lambda: "ready" in harness.output(asked.kernel_id))
    written = harness.core.config.folder / "kernels" / asked.kernel_id / "pid.json"
    fields = json.loads(written.read_text())
    del fields["takes_limit"]
    written.write_text(json.dumps(fields))
    with pytest.raises(NotFound):
        await harness.core.set_limit(asked.kernel_id, epoch=1, time_limit_ms=90_000)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)


async def test_a_sent_signal_reaches_the_main_process(harness: AgentHarness) -> None:
    asked = shell("trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
    await harness.core.launch([asked])
    await wait_until(lambda: "ready" in harness.output(asked.kernel_id))
    await harness.core.send_signal(asked.kernel_id, epoch=1, signal=signal.SIGUSR1)
    assert (await harness.wait_for_end(asked.kernel_id)).exit_code == 5
    with pytest.raises(NotFound):
        await harness.core.send_signal(asked.kernel_id, epoch=1, signal=signal.SIGUSR1)
    with pytest.raises(InvalidRequest):
        await harness.core.send_signal(asked.kernel_id, epoch=1, signal=64)


async def test_a_job_sees_its_own_environment_and_not_that_of_the_agent(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIQUOT_SECRET", "server")
    monkeypatch.setenv("RAY_ADDRESS", "server")
    own = {"MINE": "a=b\nc ü", "ALIQUOT_ATTEMPT": "forged", "TOY_VISIBLE": "forged", "RESULT_DIR": "/"}
    asked = shell("tr '\\0' '\\n' < /proc/self/environ > all; env -0", environment=own)
    await harness.run(asked)
    seen = dict(pair.partition("=")[::2] for pair in harness.output(asked.kernel_id).split("\0") if pair)
    session = harness.config.folder / "sessions" / asked.kernel_id.split(".")[0]
    work = str(harness.folder(asked.kernel_id) / "work")
    assert seen.pop("PWD") == work
    seen.pop("SHLVL", None), seen.pop("_", None), seen.pop("OLDPWD", None)
    user = {name: seen.pop(name) for name in ("HOME", "USER", "LOGNAME", "SHELL", "PATH")}
    assert user["USER"] == ("nobody" if os.geteuid() == 0 else user["LOGNAME"])
    assert seen == {
        "MINE": "a=b\nc ü",
        "LANG": "C.UTF-8",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TOY_VISIBLE": "toy-a",
        "CHECKPOINT_DIR": str(session / "checkpoint"),
        "RESULT_DIR": str(session / "result"),
        "ALIQUOT_ATTEMPT": asked.kernel_id,
        "ALIQUOT_KERNEL_ID": asked.kernel_id,
        "ALIQUOT_SESSION_ID": asked.kernel_id.split(".")[0],
        "ALIQUOT_RANK": "0",
        "ALIQUOT_AGENT_ID": "agent-1",
        "ALIQUOT_DEVICE_IDS": "toy-a",
        "ALIQUOT_DEVICE_NAMES": "toy0",
        "ALIQUOT_SLOTS": '{"toy.shares": "0.20"}',
        "ALIQUOT_RESOURCE_FILE": str(harness.folder(asked.kernel_id) / "resource.json"),
        "ALIQUOT_GPU_SHARES": '{"toy-a": "0.20"}',
        "ALIQUOT_GPU_MEMORY_BYTES": json.dumps({"toy-a": (1 << 30) // 5}),
    }


async def test_a_job_ignores_no_signal_although_the_agent_was_started_with_nohup(agent_home: Path) -> None:
    ignored = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    harness = AgentHarness(agent_config(agent_home))
    try:
        await harness.open()
        asked = shell("grep SigIgn: /proc/self/status")
        await harness.run(asked)
        assert harness.output(asked.kernel_id).split() == ["SigIgn:", "0" * 16]
    finally:
        await harness.close()
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_a_job_gets_no_descriptor_no_privilege_and_no_blocked_signal(harness: AgentHarness) -> None:
    asked = shell("ls /proc/$$/fd; grep -E '^(NoNewPrivs|SigBlk|SigIgn|Uid|Groups|CapEff):' /proc/self/status; umask")
    await harness.run(asked)
    lines = harness.output(asked.kernel_id).splitlines()
    assert lines[:4] == ["0", "1", "2", lines[3]]
    facts = {name: text.split() for name, _, text in (line.partition(":") for line in lines) if text}
    assert facts["NoNewPrivs"] == ["1"]
    assert int(facts["SigBlk"][0], 16) == 0
    assert int(facts["SigIgn"][0], 16) == 0
    if os.geteuid() == 0:
        assert set(facts["Uid"]) == {"65534"}
        assert int(facts["CapEff"][0], 16) == 0
    assert "0022" in lines


async def test_checkpoints_are_kept_across_attempts_and_each_kernel_has_its_own_output(harness: AgentHarness) -> None:
    first = shell("echo one > $CHECKPOINT_DIR/state; echo mine > file; echo to-stderr > /dev/stderr")
    await harness.run(first)
    second = new_kernel()
    session = first.kernel_id.split(".")[0]
    again = shell("cat $CHECKPOINT_DIR/state; ls", kernel=type(second)(f"{session}.2.0"))
    await harness.run(again)
    assert harness.output(again.kernel_id) == "one\n"
    assert harness.output(first.kernel_id) == "to-stderr\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="without root, jobs run as the agent's own user")
async def test_a_job_cannot_change_the_files_of_the_agent(harness: AgentHarness) -> None:
    asked = shell(
        "cd ..; for f in claim exit.json lock order.json pid.json; do echo x > $f; rm -f $f; done; cat order.json"
    )
    report = await harness.run(asked)
    assert report.exit_code == 1
    assert set(os.listdir(harness.folder(asked.kernel_id))) >= {"claim", "exit.json", "lock", "order.json", "pid.json"}


async def test_the_resource_spec_is_on_disk_and_in_the_inventory(harness: AgentHarness) -> None:
    spec = {SHARES: {TOYS[0]: 600, TOYS[1]: 120}}
    asked = order("sleep", "1000", spec=spec, epoch=3)
    await harness.core.launch([asked])
    session = asked.kernel_id.split(".")[0]
    assert json.loads((harness.folder(asked.kernel_id) / "resource.json").read_text()) == {
        "format": 1,
        "session": session,
        "attempt": 1,
        "rank": 0,
        "agent": "agent-1",
        "epoch": 3,
        "slots": {"toy.shares": {"toy-a": "0.60", "toy-b": "0.12"}},
    }
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    inventory = await harness.core.inventory()
    assert [(each.kernel_id, each.spec, each.ended) for each in inventory.specs] == [(asked.kernel_id, spec, False)]
    (harness.folder(asked.kernel_id) / "resource.json").write_text("{")
    inventory = await harness.core.inventory()
    assert [each.spec for each in inventory.specs] == [None]
    await harness.core.stop(asked.kernel_id, epoch=3, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"spec": {SlotName("warp.device"): {TOYS[0]: 1}}}, "unsupported_resource"),
        ({"spec": {SHARES: {DeviceId("toy-c"): 100}}}, "unsupported_resource"),
        ({"spec": {SHARES: {TOYS[0]: 1010}}}, "unsupported_resource"),
        ({"not_after_us": 1}, "too_late"),
        ({"user": "root"}, "no_account"),
        ({"user": "no-such-account"}, "no_account"),
        ({"argv": ()}, "invalid_request"),
        ({"argv": ("echo", "a\0b")}, "invalid_request"),
        ({"argv": ("echo", "\ud800")}, "invalid_request"),
        ({"environment": {"A=B": "c"}}, "invalid_request"),
    ],
)
async def test_a_refused_order_stays_refused_after_a_restart(
    harness: AgentHarness, fields: dict[str, object], code: str
) -> None:
    asked = order("true", **fields)  # type: ignore[arg-type] # fields of several types
    report = await harness.run(asked)
    assert (report.phase, report.code, report.evidence) == (KernelPhase.REFUSED, code, EndEvidence.REFUSED)
    await harness.restart()
    again = await harness.run(order("true", kernel=asked.kernel_id))
    assert (again.phase, again.code) == (KernelPhase.REFUSED, code)


async def test_an_order_with_a_zero_amount_of_an_unknown_slot_is_accepted(harness: AgentHarness) -> None:
    spec = {SlotName("warp.device"): {DeviceId("warp0"): 0}, SHARES: {TOYS[0]: 10}}
    assert (await harness.run(order("true", spec=spec))).exit_code == 0


async def test_memory_is_limited_for_each_process(harness: AgentHarness) -> None:
    text = "ulimit -d; ulimit -c"
    plain, limited = shell(text), shell(text, spec={SlotName("mem"): {DeviceId("mem0"): 1 << 20}})
    await harness.run(plain)
    await harness.run(limited)
    assert harness.output(plain.kernel_id).split() == ["unlimited", "0"]
    assert harness.output(limited.kernel_id).split() == ["1024", "0"]


async def test_a_strict_umask_of_the_agent_does_not_lock_the_job_out(agent_home: Path) -> None:
    umask = os.umask(0o077)
    harness = AgentHarness(agent_config(agent_home))
    try:
        await harness.open()
        asked = shell("cat $ALIQUOT_RESOURCE_FILE && touch $CHECKPOINT_DIR/x $RESULT_DIR/x y")
        report = await harness.run(asked)
        await harness.close()
    finally:
        os.umask(umask)
    assert (report.exit_code, harness.output(asked.kernel_id)[:11]) == (0, '{"format":1')


async def test_the_group_of_a_kernel_is_gone_after_its_end(harness: AgentHarness) -> None:
    asked = order("sleep", "1000")
    await harness.core.launch([asked])
    await harness.wait_for_report(asked.kernel_id, KernelPhase.STARTED)
    group = json.loads((harness.folder(asked.kernel_id) / "order.json").read_text())["group"]
    kill = harness.inventory.agent.capabilities.kill
    assert kill == ("subreaper" if group is None else "cgroup_v2")
    if group is not None:
        assert members(group) == marked_processes(asked.kernel_id)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)
    assert group is None or os.path.basename(group) not in os.listdir(os.path.dirname(group))


async def test_device_readings_receive_the_use_of_the_kernels(harness: AgentHarness) -> None:
    asked = shell("while :; do :; done", spec={SHARES: {TOYS[1]: 250}})
    await harness.core.launch([asked])
    await wait_until(lambda: any(use.cpu_s > 0 for use in harness.plugin.uses))
    use = harness.plugin.uses[0]
    assert (use.device_id, use.share_milli) == (TOYS[1], 250)
    assert use.alive_s > 0
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)
    pid = json.loads((harness.folder(asked.kernel_id) / "pid.json").read_text())["pid"]
    assert not is_running(pid)
