"""How an agent applies its rules: refusal messages, device files of a grant, and passing of secrets."""

import json
import os
import stat
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, agent_config, order, shell
from aliquot.execution.agent.agent_folder import KernelFolder
from aliquot.execution.agent.isolation import isolation, sandbox
from aliquot.execution.agent.isolation.isolation import AgentConfinement, SecretFolders, device_nodes
from aliquot.execution.agent.isolation.settings import ConfinementRules, SandboxMode
from aliquot.execution.agent.job_user import JobUserPolicy, resolve_user
from aliquot.execution.devices.plugin import DeviceGate
from aliquot_schema.cluster.launching import KernelPhase, LaunchOrder
from aliquot_schema.errors import Unavailable
from aliquot_schema.identity.secrets import SecretGrant, SecretUse
from aliquot_schema.ids import DeviceId, SlotName, UserId
from aliquot_schema.resources.confinement import SandboxProfile

pytestmark = pytest.mark.anyio

CUDA = SlotName("cuda.device")
VALUE = "a value of somebody's own"


def with_secrets(asked: LaunchOrder, *grants: SecretGrant) -> LaunchOrder:
    return replace(asked, secrets=grants)


def grant(value: str | None = VALUE, **use: str) -> SecretGrant:
    return SecretGrant(owner=UserId("anna"), use=SecretUse(name="token", **use), value=value)


@pytest.mark.parametrize("mode", [SandboxMode.REQUIRED, SandboxMode.WHEN_ASKED, SandboxMode.WHEN_POSSIBLE])
async def test_an_agent_without_bubblewrap_reports_that_it_has_no_sandbox(
    agent_home: Path, monkeypatch: pytest.MonkeyPatch, mode: SandboxMode
) -> None:
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: None)
    harness = AgentHarness(agent_config(agent_home, confinement=ConfinementRules(sandbox=mode)))
    await harness.open()
    try:
        told = harness.inventory.agent.capabilities
        assert told.sandbox == "none"
        assert "not installed" in told.sandbox_note
        plain = await harness.run(shell("exit 3"))
        assert (plain.phase is KernelPhase.REFUSED) is (mode is SandboxMode.REQUIRED)
        demanding = await harness.run(replace(shell("true"), sandbox=SandboxProfile.STANDARD))
        assert demanding.phase is KernelPhase.REFUSED
        assert demanding.message is not None
        assert "not installed" in demanding.message
    finally:
        await harness.close()


def test_the_sandbox_test_of_an_account_is_repeated_after_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([None, "it took too long", None])
    monkeypatch.setattr(isolation, "sandbox_fault", lambda _: next(found))
    monkeypatch.setattr(isolation, "find_bubblewrap", lambda: "/usr/bin/true")
    confinement = AgentConfinement(ConfinementRules(), folder=tmp_path, limit_memory=False, gates=lambda _: ())
    usual = resolve_user(JobUserPolicy(), asked=None, uid=os.geteuid(), environment={})
    anna = replace(usual, name="anna")
    asked = replace(shell("true"), sandbox=SandboxProfile.STANDARD)
    check = partial(confinement.check, asked, user=anna, kernel=KernelFolder(tmp_path / "kernel"), session=tmp_path)
    confinement.inspect_host(None, user=usual)
    try:
        confinement.try_sandbox(anna)
        with pytest.raises(Unavailable, match="it took too long"):
            check()
        confinement.try_sandbox(anna)
        check()
        confinement.try_sandbox(anna)  # a success is not repeated
    finally:
        confinement.secrets.close()


async def test_a_secret_is_given_to_the_job_and_not_kept_on_disk(harness: AgentHarness) -> None:
    text = 'cat "$ALIQUOT_SECRETS_DIR/file"; stat -c %a "$ALIQUOT_SECRETS_DIR/file"; echo "$TOKEN"; echo x >>"$F"'
    asked = with_secrets(shell(text, environment={"F": "more"}), grant(as_env="TOKEN", as_file="file"))
    await harness.run(asked)
    assert harness.output(asked.kernel_id) == f"{VALUE}600\n{VALUE}\n"
    folder = harness.folder(asked.kernel_id)
    told = json.loads((folder / "order.json").read_text())["order"]["secrets"]
    assert [secret["value"] for secret in told] == [None]
    secrets = SecretFolders(harness.config.folder)
    secrets.open()
    assert not secrets.of(folder).exists()


async def test_a_folder_that_a_job_made_in_its_secrets_folder_is_removed(harness: AgentHarness) -> None:
    asked = with_secrets(
        shell('mkdir "$ALIQUOT_SECRETS_DIR/sub"; echo x >"$ALIQUOT_SECRETS_DIR/sub/x"'), grant(as_file="f")
    )
    await harness.run(asked)
    secrets = SecretFolders(harness.config.folder)
    secrets.open()
    await harness.close()  # waits for orders in progress
    assert not secrets.of(harness.folder(asked.kernel_id)).exists()
    await harness.start_again()


async def test_an_order_with_a_deleted_secret_is_refused_with_the_reason(harness: AgentHarness) -> None:
    report = await harness.run(with_secrets(shell("true"), grant(None, as_env="TOKEN")))
    assert report.phase is KernelPhase.REFUSED
    how = "store it again: `aliquot secret set token`, or the dashboard"
    assert report.message == f"the secret token of anna was deleted; {how}"
    lost = replace(grant(None, as_env="TOKEN"), why_not="its key is lost")
    report = await harness.run(with_secrets(shell("true"), lost))
    assert report.message == "the secret token cannot be read: its key is lost"


async def test_an_order_that_is_sent_again_after_a_restart_gets_its_secrets(harness: AgentHarness) -> None:
    """The agent ended between order and start: secrets are not on disk, and the order is sent once more."""
    asked = with_secrets(shell('echo "$TOKEN"'), grant(as_env="TOKEN"))
    harness.core.pause_at = "forked"
    await harness.core.launch([asked])
    await harness.close()
    await harness.start_again()
    await harness.wait_for_report(asked.kernel_id, KernelPhase.UNCERTAIN)
    await harness.core.launch([asked])
    await harness.wait_for_end(asked.kernel_id)
    assert harness.output(asked.kernel_id) == f"{VALUE}\n"


async def test_an_order_is_refused_when_bubblewrap_was_removed_after_the_agent_started(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "sandbox_fault", lambda _: None)
    monkeypatch.setattr(isolation, "find_bubblewrap", lambda: "/usr/bin/true")
    await harness.restart()
    monkeypatch.undo()
    for module in (isolation, sandbox):
        monkeypatch.setattr(module, "find_bubblewrap", lambda: None)
    report = await harness.run(replace(shell("echo ran"), sandbox=SandboxProfile.STANDARD))
    assert report.phase is KernelPhase.REFUSED
    assert "not installed" in str(report.message)


async def test_an_order_is_refused_when_its_sandbox_or_secret_is_gone_after_a_restart(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent ended between order and start, and restarts without a sandbox or without the secret."""
    monkeypatch.setattr(isolation, "sandbox_fault", lambda _: None)
    monkeypatch.setattr(isolation, "find_bubblewrap", lambda: "/usr/bin/false")
    await harness.restart()
    demanding = replace(shell("echo ran"), sandbox=SandboxProfile.STANDARD)
    told = with_secrets(shell("echo ran"), grant(as_env="TOKEN"))
    harness.core.pause_at = "forked"
    await harness.core.launch([demanding, told])
    await harness.close()
    monkeypatch.setattr(isolation, "sandbox_fault", lambda _: "it was removed")
    await harness.start_again()
    await harness.core.launch([demanding, with_secrets(told, grant(None, as_env="TOKEN"))])
    for kernel, words in ((demanding.kernel_id, "it was removed"), (told.kernel_id, "was deleted")):
        report = await harness.wait_for_end(kernel)
        assert report.phase is KernelPhase.REFUSED
        assert words in str(report.message)
        assert harness.output(kernel) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_sandbox_gets_only_the_device_files_of_its_grant(tmp_path: Path) -> None:
    def make(name: str, minor: int) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mknod(tmp_path / name, stat.S_IFCHR | 0o666, os.makedev(195, minor))

    for name, minor in (("nvidia0", 0), ("nvidia1", 1), ("nvidiactl", 255), ("tty", 5), ("dri/card0", 77)):
        try:
            make(name, minor)
        except PermissionError:
            pytest.skip("no device files can be made here")
    (tmp_path / "nvidia9").touch()
    gates = (DeviceGate(major=195, first=0, last=254, allowed=(1, 77)),)
    spec = {CUDA: {DeviceId("gpu-1"): 1}}
    names = [Path(path).relative_to(tmp_path).as_posix() for path in device_nodes(spec, gates, root=tmp_path)]
    assert names == ["dri/card0", "nvidia1", "nvidiactl"]
    assert len(device_nodes(spec, (), root=tmp_path)) == 4
    assert device_nodes({SlotName("cpu"): {DeviceId("cpu0"): 1}}, gates, root=tmp_path) == []


def test_the_repr_of_an_order_contains_no_secret_value() -> None:
    assert VALUE not in repr(with_secrets(order("true"), grant(as_env="TOKEN")))
