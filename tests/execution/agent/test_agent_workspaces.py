"""Workspaces on an agent: what a job finds in its working directory, and the environment that it runs in."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, order, shell
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.workspaces.activation import activated, packages_of
from aliquot.execution.agent.workspaces.cache import WorkspaceCache
from aliquot.execution.agent.workspaces.unpacking import unpack
from aliquot_schema.cluster.launching import NO_WORKSPACE, WORKSPACE_NO_SPACE, KernelPhase
from aliquot_schema.cluster.workspaces import RECORD, Workspace, WorkspaceFault, WorkspaceFile, WorkspaceUse
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import KernelId, UserId, kernel_parts
from workspace_parts import named, tree

pytestmark = pytest.mark.anyio


def brought(harness: AgentHarness, files: Workspace, *contents: bytes) -> WorkspaceUse:
    """A workspace in the agent's cache."""
    cache = harness.core._preparation.workspaces
    for data in contents:
        cache.keep(named(data), data)
    cache.finish(files)
    return WorkspaceUse(owner=UserId("ann"), id=files.id)


def output(harness: AgentHarness, kernel_id: KernelId) -> str:
    return (harness.config.folder / "kernels" / kernel_id / "output.log").read_text()


async def test_each_attempt_gets_the_same_files_and_may_change_them(harness: AgentHarness) -> None:
    files = tree(a__run='#!/bin/sh\necho ran; cat "$(dirname "$0")/../l"\n', b="text\n")
    program = replace(files.files[0], executable=True)
    files = Workspace(files=(program, files.files[1], WorkspaceFile(path="l", link="b")))
    use = brought(harness, files, b"text\n", b'#!/bin/sh\necho ran; cat "$(dirname "$0")/../l"\n')
    for _ in range(2):
        wanted = shell("a/run; stat -c '%a %U' a/run b a; echo x >> b; touch a/new", workspace=use)
        report = await harness.run(wanted)
        assert report.exit_code == 0
        lines = output(harness, wanted.kernel_id).split("\n")
        assert lines[:2] == ["ran", "text"]
        assert [line.split()[0] for line in lines[2:5]] == ["755", "644", "755"]


async def test_an_order_with_a_missing_workspace_is_refused(harness: AgentHarness) -> None:
    wanted = order("true", workspace=WorkspaceUse(owner=UserId("ann"), id="0" * 40))
    report = await harness.run(wanted)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, NO_WORKSPACE)
    assert "--sync" in str(report.message)
    for is_everywhere, code in ((True, NO_WORKSPACE), (False, WORKSPACE_NO_SPACE)):
        fault = WorkspaceFault(message="the disk is broken", is_everywhere=is_everywhere)
        report = await harness.run(replace(wanted, kernel_id=order("true").kernel_id, workspace_fault=fault))
        assert (report.phase, report.code) == (KernelPhase.REFUSED, code)
        assert report.message == "the working directory was not brought: the disk is broken"


async def test_an_order_whose_workspace_could_not_be_stored_is_refused_for_another_agent(harness: AgentHarness) -> None:
    use = WorkspaceUse(owner=UserId("ann"), id="0" * 40)
    harness.core._preparation.workspaces.failures[use.id] = "No space left on device"
    report = await harness.run(order("true", workspace=use))
    assert (report.phase, report.code) == (KernelPhase.REFUSED, WORKSPACE_NO_SPACE)
    assert report.message == "the working directory cannot be stored: No space left on device"


async def test_an_order_whose_workspace_cannot_be_unpacked_is_refused_for_another_agent(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has space for the blocks, and none for the copy of this attempt."""
    wanted = order("true", workspace=brought(harness, tree(a="text"), b"text"))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("aliquot.execution.agent.preparation.unpack", full)
    report = await harness.run(wanted)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, WORKSPACE_NO_SPACE)
    assert report.message == "the working directory cannot be stored: No space left on device"
    assert not list((harness.config.folder / "drafts").iterdir())


def test_an_attempt_that_finds_a_full_disk_leaves_what_another_attempt_has_stored(tmp_path: Path) -> None:
    cache = WorkspaceCache(tmp_path / "workspaces", packages=tmp_path / "packages")
    full = OSError(errno.ENOSPC, "No space left on device")
    whole = tree(a="text")
    for id in ("f" * 40, whole.id):
        cache.keep(named(b"text"), b"text")
        cache.finish(whole)
        cache.fail(id, [named(b"text")], error=full)
        assert cache.block(named(b"text")).is_file()
    assert cache.failures == {"f" * 40: "No space left on device"}
    cache.fail("f" * 40, [], error=FileNotFoundError("a part of it is gone"))
    assert cache.failures == {"f" * 40: "No space left on device"}


@pytest.mark.parametrize("size", [3, 5])
def test_a_workspace_file_with_a_wrong_size_is_refused(tmp_path: Path, size: int) -> None:
    user = JobUser(name="x", uid=os.getuid(), gid=os.getgid(), groups=(), home="/none", shell="/bin/sh", switches=False)
    cache = WorkspaceCache(tmp_path / "workspaces", packages=tmp_path / "packages")
    cache.keep(named(b"text"), b"text")
    wrong = WorkspaceFile(path="a", size=size, blocks=(named(b"text"),))
    (tmp_path / "work").mkdir()
    with pytest.raises(Unavailable, match="'a' of the working directory is not as large as its listing says"):
        unpack(Workspace(files=(wrong,)), tmp_path / "work", cache=cache, user=user)
    assert (tmp_path / "work" / "a").read_bytes() == b""


async def test_a_missing_environment_fails_the_job_with_a_message(harness: AgentHarness, tmp_path: Path) -> None:
    wanted = shell("echo $VIRTUAL_ENV; command -v python", activates="/nonexistent")
    report = await harness.run(wanted)
    assert report.exit_code == 127
    assert "there is no environment at /nonexistent on this node" in output(harness, wanted.kernel_id)
    session_id, _, _ = kernel_parts(wanted.kernel_id)
    assert not (harness.config.folder / "sessions" / session_id / "result" / RECORD).exists()


async def test_cached_packages_are_per_owner_and_deleted_a_week_after_their_last_use(tmp_path: Path) -> None:
    """The cache of uv of an account without a home."""
    cache = WorkspaceCache(tmp_path / "workspaces", packages=tmp_path / "packages")
    user = JobUser(name="x", uid=os.getuid(), gid=os.getgid(), groups=(), home="/none", shell="/bin/sh", switches=False)
    asked = [
        order("true", activates="uv", workspace=WorkspaceUse(owner=UserId(owner), id="0" * 40))
        for owner in ("ann", "ann", "ben")
    ]
    of_ann, again, of_ben = (packages_of(one, user=user, folder=tmp_path) for one in asked)
    assert of_ann == again != of_ben
    assert packages_of(asked[0], user=replace(user, home=str(tmp_path)), folder=tmp_path) is None
    assert packages_of(order("true", activates="/env"), user=user, folder=tmp_path) is None
    assert of_ann is not None
    assert of_ben is not None
    for folder in (of_ann, of_ben):
        cache.open_packages(folder, user=user)
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "wheels").mkdir()
        (folder / "wheels" / "one").write_text("kept")
        (folder / "link").symlink_to(tmp_path / "other")
        os.utime(folder, (0, 0))
    (tmp_path / "other").mkdir()
    cache.open_packages(of_ben, user=user)
    cache.sweep()
    assert (list(of_ann.iterdir()), (tmp_path / "other").is_dir()) == ([], True)
    assert (of_ben / "wheels" / "one").read_text() == "kept"


@pytest.mark.parametrize("kind", ["venv", "conda"])
def test_the_command_runs_with_the_python_of_its_environment(tmp_path: Path, kind: str) -> None:
    prefix, result = tmp_path / "env", tmp_path / "result"
    (prefix / "bin").mkdir(parents=True)
    result.mkdir()
    (prefix / "bin" / "python").symlink_to(sys.executable)
    if kind == "conda":
        hooks = prefix / "etc" / "conda" / "activate.d"
        hooks.mkdir(parents=True)
        (hooks / "one.sh").write_text("export HOOK=$CONDA_PREFIX\n")
    words = activated(order("sh", "-c", "echo $HOOK; exit 7", activates=str(prefix)), work=tmp_path)
    variables = {"PATH": f"{prefix}/bin:/usr/bin:/bin", "RESULT_DIR": str(result), "ALIQUOT_RANK": "0"}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.strip() == (str(prefix) if kind == "conda" else "")
    record = json.loads((result / RECORD).read_text())
    assert record["environment"] == str(prefix)
    assert record["python"] == sys.version.split()[0]
    assert isinstance(record["packages"], dict)
