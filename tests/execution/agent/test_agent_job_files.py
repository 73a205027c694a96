"""Files that a job puts in the place of its output or leaves for deletion: links are never followed."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, agent_config, shell, wait_until
from aliquot.execution.agent.job_user import KEPT_S, JobUserPolicy, JobUsers, open_job_file
from aliquot.execution.settings import DiskRules
from aliquot_schema.errors import NotFound
from aliquot_schema.ids import kernel_parts

pytestmark = pytest.mark.anyio

SECRET = "of the server alone"


def link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def pipe(path: Path, _secret: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _secret: Path) -> None:
    path.mkdir()


def hard_link(path: Path, secret: Path) -> None:
    os.link(secret, path)


@pytest.mark.parametrize("put", [link, pipe, folder, hard_link])
async def test_a_file_that_replaces_the_output_of_a_job_is_not_read(
    harness: AgentHarness, agent_home: Path, put: Callable[[Path, Path], None]
) -> None:
    """A job of another account cannot do this itself, as it does not own the folder."""
    if put is hard_link and os.geteuid() != 0:
        pytest.skip("here the job is the account that may read it")
    secret = agent_home.parent / "secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    asked = shell("echo said")
    await harness.run(asked)
    output = harness.folder(asked.kernel_id) / "output.log"
    output.unlink()
    put(output, secret)
    with pytest.raises(NotFound):
        _ = [chunk async for chunk in harness.core.follow_log(asked.kernel_id, offset=0)]


async def test_a_job_cannot_replace_its_output(harness: AgentHarness) -> None:
    asked = shell("cd ..; rm -f output.log; ln -s /etc/passwd output.log; mv work other; echo tried")
    await harness.run(asked)
    if os.geteuid() == 0:
        assert not (harness.folder(asked.kernel_id) / "output.log").is_symlink()
        assert "tried" in harness.output(asked.kernel_id)


def test_an_output_file_is_opened_when_the_agent_owns_the_work_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    path = tmp_path / "output.log"
    path.write_text("text")
    file = open_job_file(path, os.O_RDONLY, beside=tmp_path / "work")
    assert os.read(file, 10) == b"text"
    os.close(file)
    with pytest.raises(FileNotFoundError):
        open_job_file(tmp_path / "missing", os.O_RDONLY, beside=tmp_path / "work")


async def test_links_in_results_are_deleted_and_not_followed_while_nothing_runs(agent_home: Path) -> None:
    """The agent sweeps by itself, not only on a request to forget."""
    kept = agent_home.parent / "kept"
    kept.mkdir(mode=0o777)
    kept.chmod(0o777)
    (kept / "file").touch()
    harness = AgentHarness(agent_config(agent_home, disk=DiskRules(outputs_kept_s=0.5, results_kept_s=None)))
    await harness.open()
    try:
        asked = shell(f'ln -s {kept} "$RESULT_DIR/out"; ln -s {kept} out')
        await harness.run(asked)
        await harness.core.forget([asked.kernel_id])
        await wait_until(lambda: not harness.folder(asked.kernel_id).exists())
        assert (agent_home / "sessions" / kernel_parts(asked.kernel_id)[0] / "result" / "out").is_symlink()
        assert (kept / "file").exists()
    finally:
        await harness.close()
    harness = AgentHarness(replace(harness.config, disk=DiskRules(results_kept_s=0)))
    await harness.open()
    try:
        assert not list((agent_home / "sessions").iterdir())
        assert (kept / "file").exists()
    finally:
        await harness.close()


def test_an_account_is_looked_up_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of an account take effect, and a slow directory service is not queried for each job."""
    now_s, asked = 0.0, list[str]()

    def entry(name: str) -> pwd.struct_passwd:
        asked.append(name)
        return pwd.struct_passwd((name, "x", 1000 + len(asked), 100, "", "/home", "/bin/sh"))

    monkeypatch.setattr("pwd.getpwnam", entry)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    users = JobUsers(JobUserPolicy())
    assert [users.of("ann").uid, users.of("bob").uid, users.of("ann").uid] == [1001, 1002, 1001]
    now_s = KEPT_S
    assert (users.of("ann").uid, asked) == (1003, ["ann", "bob", "ann"])
