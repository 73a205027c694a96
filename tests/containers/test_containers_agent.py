"""Kernels with an image in real containers of Podman, of root and of an ordinary account.

Skipped, with the reason, where Podman is not installed or does not work.
"""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_harness import (
    AgentHarness,
    agent_config,
    is_running,
    marked_processes,
    order,
    processes_with_files_in,
    shell,
    shim_pids,
    wait_until,
)
from aliquot.execution.agent.isolation.containers import Runtime, find_runtime
from aliquot.execution.agent.isolation.settings import ConfinementRules
from aliquot.execution.agent.job_user import JobUser
from aliquot_schema.cluster.launching import (
    IMAGE_NOT_FOUND,
    CheckpointOrder,
    DevicesChanged,
    KernelPhase,
    LaunchOrder,
)
from aliquot_schema.identity.secrets import SecretGrant, SecretUse
from aliquot_schema.ids import DeviceId, SlotName, UserId, kernel_parts
from aliquot_schema.resources.confinement import SessionLimits
from long_tests import LONG
from own_containers import IMAGE, MISSING, Containers, containers

pytestmark = [pytest.mark.anyio, LONG]
LONG_MS = 60_000
"""Grace period that a test would notice."""


@pytest.fixture(scope="module", params=[False, True], ids=["account", "root"])
def podman(request: pytest.FixtureRequest) -> Iterator[Containers]:
    with containers(as_root=request.param) as found:
        yield found


@pytest.fixture
async def harness(podman: Containers, home: Path, anyio_backend: str) -> AsyncIterator[AgentHarness]:
    """An agent that runs its jobs as the account."""
    rules = ConfinementRules(containers="podman")
    harness = AgentHarness(agent_config(home / "agent", job_user=podman.policy, confinement=rules, limit_memory=True))
    await harness.open()
    assert harness.inventory.agent.capabilities.containers == "podman", harness.inventory.agent.capabilities
    yield harness
    await harness.close()
    left = podman.clear()
    assert processes_with_files_in(home) == []
    assert left == []


def inside(text: str, **fields: object) -> LaunchOrder:
    """A shell string in the image."""
    return shell(text, image=IMAGE, **fields)


async def started(harness: AgentHarness, asked: LaunchOrder) -> None:
    """Launch, and wait until the job has written the line `ready`."""
    await harness.core.launch([asked])
    await wait_until(lambda: "ready\n" in harness.output(asked.kernel_id))


async def test_a_container_job_has_its_account_variables_and_folders_and_no_capabilities(
    harness: AgentHarness, podman: Containers
) -> None:
    use = SecretUse(name="token", as_file="token.txt", as_env="TOKEN")
    asked = inside(
        'echo "$GREETING" "$TOKEN" "$(cat "$ALIQUOT_SECRETS_DIR/token.txt")"; id -u; pwd\n'
        'echo kept > "$RESULT_DIR/result"; echo saved > "$CHECKPOINT_DIR/saved"; echo here > here\n'
        "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; ls /\n"
        "echo problem >&2; exit 7",
        environment={"GREETING": "good day"},
        secrets=(SecretGrant(owner=UserId("ann"), use=use, value="open sesame"),),
    )
    report = await harness.run(asked)
    lines = harness.output(asked.kernel_id).splitlines()
    work = harness.folder(asked.kernel_id) / "work"
    assert lines[:3] == ["good day open sesame open sesame", str(podman.user.uid), str(work)], lines
    assert report.exit_code == 7
    assert {"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "problem"} <= set(lines)
    assert "home" not in lines  # the node's folder
    session = harness.config.folder / "sessions" / kernel_parts(asked.kernel_id)[0]
    for path in (session / "result" / "result", session / "checkpoint" / "saved", work / "here"):
        assert os.stat(path).st_uid == podman.user.uid


async def test_a_container_has_no_devices_but_those_granted(harness: AgentHarness) -> None:
    asked = inside("ls /dev; ls /dev/pts /dev/shm; head -c 1 /dev/zero | wc -c")
    assert (await harness.run(asked)).exit_code == 0
    found = set(harness.output(asked.kernel_id).split())
    usual = {"core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm"}
    usual |= {"stderr", "stdin", "stdout", "tty", "urandom", "zero", "/dev/pts:", "/dev/shm:", "1"}
    assert found == usual


async def test_granted_gpus_come_by_the_container_device_interface(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices, which are /dev/full under other names."""
    with described_gpus():
        monkeypatch.setattr(harness.plugin, "environment", lambda _: {"CUDA_VISIBLE_DEVICES": "GPU-2"})
        harness.core._preparation.confinement._has_cdi = True
        asked = inside("ls /dev | grep aliquot; echo x > /dev/aliquot-test-2")
        await harness.run(asked)
    output = harness.output(asked.kernel_id)
    assert output.splitlines()[0] == "aliquot-test-2"
    assert "aliquot-test-1" not in output
    assert "No space left on device" in output  # the device exists, and the job may use it


@contextmanager
def described_gpus() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("only root can make devices and describe them in /etc/cdi")
    folder = Path("/etc/cdi")
    file, existed, nodes = folder / "aliquot-test.yaml", folder.exists(), [f"/dev/aliquot-test-{n}" for n in (1, 2)]
    folder.mkdir(exist_ok=True)
    edits = "{deviceNodes: [{path: /dev/aliquot-test-%d}]}"
    devices = "".join(f"- name: GPU-{n}\n  containerEdits: {edits % n}\n" for n in (1, 2))
    file.write_text(f"cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n{devices}")
    for node in nodes:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        os.chmod(node, 0o666)
    try:
        yield
    finally:
        for path in (*nodes, file):
            os.unlink(path)
        if not existed:
            folder.rmdir()


async def test_sigterm_comes_once_and_ends_a_job_that_does_not_handle_it(
    harness: AgentHarness, podman: Containers
) -> None:
    handles = inside("trap 'echo asked' TERM; echo ready; while ! test -e go; do sleep 0.05; done; exit 3")
    await started(harness, handles)
    await harness.core.stop(handles.kernel_id, epoch=1, grace_ms=LONG_MS)
    await wait_until(lambda: "asked\n" in harness.output(handles.kernel_id))
    await asyncio.sleep(0.3)  # time for more signals
    (harness.folder(handles.kernel_id) / "work" / "go").touch()
    assert (await harness.wait_for_end(handles.kernel_id)).exit_code == 3
    assert harness.output(handles.kernel_id).count("asked\n") == 1
    plain = inside("echo ready; sleep 1000; echo never")
    await started(harness, plain)
    await harness.core.stop(plain.kernel_id, epoch=1, grace_ms=LONG_MS)
    assert (await harness.wait_for_end(plain.kernel_id)).exit_code == 128 + signal.SIGTERM
    assert marked_processes(plain.kernel_id) == []
    assert podman.names() == []


async def test_a_killed_container_leaves_no_processes_and_no_container(
    harness: AgentHarness, podman: Containers
) -> None:
    asked = inside("trap '' TERM; echo ready; (trap '' TERM; sleep 1000) & while true; do sleep 1; done")
    await started(harness, asked)
    assert podman.names() == [f"aliquot-{asked.kernel_id}"]
    pids = marked_processes(asked.kernel_id)
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(asked.kernel_id)).signal == signal.SIGKILL
    assert not [pid for pid in pids if is_running(pid)]
    assert podman.names() == []


async def test_the_time_limit_ends_a_container_also_while_it_is_made(harness: AgentHarness, podman: Containers) -> None:
    asked = inside("trap '' TERM; while true; do sleep 1; done", time_limit_ms=4_000, grace_ms=200)
    early = inside("sleep 1000; true", time_limit_ms=100, grace_ms=LONG_MS)
    for one in (asked, early):
        report = await harness.run(one)
        assert (report.timed_out, report.exit_code, report.signal) == (True, None, signal.SIGKILL)
        assert podman.names() == []


async def test_the_checkpoint_signal_reaches_the_job_alone(harness: AgentHarness) -> None:
    """A job that does not handle it goes on."""
    checkpoint = CheckpointOrder(signal=int(signal.SIGUSR1), every_ms=200)
    handles = inside(
        "trap 'echo saved; exit 0' USR1; echo ready; while true; do sleep 0.05; done", checkpoint=checkpoint
    )
    assert (await harness.run(handles)).exit_code == 0
    assert harness.output(handles.kernel_id).count("saved\n") == 1
    ignorant = inside("echo ready; sleep 1; echo through", checkpoint=checkpoint)
    assert (await harness.run(ignorant)).exit_code == 0
    assert "through\n" in harness.output(ignorant.kernel_id)


async def test_a_restarted_agent_adopts_a_running_container(harness: AgentHarness, podman: Containers) -> None:
    asked = inside("echo ready; while ! test -e go; do sleep 0.05; done; exit 9")
    stopped = inside("trap '' TERM; echo ready; while true; do sleep 1; done")
    for one in (asked, stopped):
        await started(harness, one)
    await harness.restart()
    assert sorted(podman.names()) == sorted(f"aliquot-{one.kernel_id}" for one in (asked, stopped))
    (harness.folder(asked.kernel_id) / "work" / "go").touch()
    assert (await harness.wait_for_end(asked.kernel_id)).exit_code == 9
    await harness.core.stop(stopped.kernel_id, epoch=1, grace_ms=0)
    assert (await harness.wait_for_end(stopped.kernel_id)).signal == signal.SIGKILL
    assert podman.names() == []


async def test_nothing_is_left_of_a_container_whose_shim_was_killed(harness: AgentHarness, podman: Containers) -> None:
    asked = inside("trap '' TERM; echo ready; while true; do sleep 1; done")
    await started(harness, asked)
    pids = marked_processes(asked.kernel_id)
    for shim in shim_pids(harness.config.folder):
        os.kill(shim, signal.SIGKILL)
    report = await harness.wait_for_end(asked.kernel_id)
    assert report.phase is KernelPhase.EXITED
    assert report.exit_code is None
    assert not [pid for pid in pids if is_running(pid)]
    assert podman.names() == []


async def test_memory_files_and_processes_are_limited_in_the_container(harness: AgentHarness) -> None:
    """The limits are the job's: Podman itself needs more memory and more files than are granted here."""
    granted = {SlotName("mem"): {DeviceId("mem0"): 4 << 20}}
    asked = inside(
        "grep -E '^Max (data size|open files|core file size|processes)' /proc/self/limits\n"
        "dd if=/dev/zero of=/dev/null bs=64M count=1 || exit 5",
        spec=granted,
        limits=SessionLimits(open_files=100, processes=64),
    )
    report = await harness.run(asked)
    output = harness.output(asked.kernel_id)
    limits = {line[:26].strip(): line[26:].split()[:2] for line in output.splitlines() if line.startswith("Max ")}
    assert limits["Max data size"] == [str(4 << 20)] * 2, output
    assert limits["Max open files"] == ["100", "100"]
    assert limits["Max core file size"] == ["0", "0"]
    assert report.exit_code == 5, output


async def test_the_end_of_one_container_does_not_affect_another_of_the_same_account(harness: AgentHarness) -> None:
    """The first one started the process that keeps the account's namespaces, and ends with it."""
    first, second = (inside("echo ready; while ! test -e go; do sleep 0.05; done") for _ in range(2))
    for one in (first, second):
        await started(harness, one)
    (harness.folder(first.kernel_id) / "work" / "go").touch()
    assert (await harness.wait_for_end(first.kernel_id)).exit_code == 0
    third = inside("echo third")
    assert (await harness.run(third)).exit_code == 0
    (harness.folder(second.kernel_id) / "work" / "go").touch()
    assert (await harness.wait_for_end(second.kernel_id)).exit_code == 0


async def test_a_missing_image_and_a_missing_program_are_reported(harness: AgentHarness) -> None:
    missing = order("true", image=MISSING)
    report = await harness.run(missing)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, IMAGE_NOT_FOUND)
    assert f"the image {MISSING} is not on the node" in str(report.message)
    program = order("no-such-program", image=IMAGE)
    assert (await harness.run(program)).exit_code == 1  # of Podman's first process in the container
    assert "No such file or directory" in harness.output(program.kernel_id)


async def test_an_agent_reports_the_images_it_holds(harness: AgentHarness, podman: Containers) -> None:
    assert IMAGE in harness.inventory.agent.capabilities.images
    other = IMAGE.replace("tiny", "other")
    podman.podman("tag", IMAGE, other)
    try:
        await harness.run(inside("true"))
        await wait_until(
            lambda: any(
                other in message.inventory.agent.capabilities.images
                for message in harness.messages
                if isinstance(message, DevicesChanged)
            )
        )
    finally:
        podman.podman("untag", other)


def test_an_account_without_subordinate_ids_cannot_use_podman_and_the_reason_is_given(podman: Containers) -> None:
    """Podman's own `info` would succeed."""
    if os.geteuid() != 0 or podman.user.uid == 0:
        pytest.skip("root tries it for an ordinary account")
    nobody = JobUser(
        name="nobody", uid=65534, gid=65534, groups=(), home="/nonexistent", shell="/bin/sh", switches=True
    )
    runtime, _, why = find_runtime("podman", nobody)
    assert runtime is None
    assert why.startswith("podman does not work for nobody here: ")
    assert find_runtime("podman", podman.user)[0] is Runtime.PODMAN
