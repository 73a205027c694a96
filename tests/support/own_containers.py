"""A real Podman for tests: an account that runs containers, a small image made here, and cgroups that crun accepts.

crun refuses hosts with hybrid cgroups whose version 2 has controllers. There, root mounts version 2 alone over
`/sys/fs/cgroup`, in a mount namespace that only the test and its processes are in.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from aliquot.execution.agent.isolation.containers import Runtime, find_runtime, own_environment
from aliquot.execution.agent.job_user import JobUser, JobUserPolicy, resolve_user

IMAGE: Final = "localhost/aliquot-test/tiny:1"
MISSING: Final = "localhost/aliquot-test/missing:1"
ACCOUNT: Final = "aliquot-podman"
"""Created where the tests run as root; removed afterwards."""
_CGROUPS: Final = Path("/sys/fs/cgroup")
_CLONE_NEWNS: Final = 0x20000
_CLONE_FS: Final = 0x200


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Podman, for one account."""

    user: JobUser

    @property
    def policy(self) -> JobUserPolicy:
        """Agent settings that run its jobs as the account."""
        return JobUserPolicy(name=self.user.name, allow_root=self.user.uid == 0)

    def podman(self, *words: str) -> str:
        """Run Podman as the account, and return its output."""
        return _podman(self.user, *words)

    def names(self) -> list[str]:
        """The containers of the account, including ended ones."""
        return self.podman("ps", "--all", "--format={{.Names}}").split()

    def clear(self) -> list[str]:
        """Remove the containers, and return their names."""
        names = self.names()
        for name in names:
            self.podman("rm", "--force", "--time=0", name)
        return names


@asynccontextmanager
async def served(podman: Containers) -> AsyncIterator[tuple[OwnServer, Client]]:
    """A server whose agent runs jobs as the account; fails a test that leaves containers."""
    async with OwnServer("--job-user", podman.user.name) as server, server.client() as client:
        await until_joined(client, agents=1)
        try:
            yield server, client
        finally:
            left = podman.clear()
            for name in podman.podman("images", "--format={{.Repository}}:{{.Tag}}").split():
                if name.startswith("127.0.0.1:"):  # pulled from a registry of the test
                    podman.podman("rmi", "--force", name)
        assert left == []


def end_job(folder: Path, session_id: str) -> None:
    """Create the file `go` in a job's working directory, below its agent's data folder."""
    (work,) = folder.rglob(f"kernels/{session_id}.1.0/work")
    (work / "go").touch()


@contextmanager
def containers(*, as_root: bool) -> Iterator[Containers]:
    """Podman for root or for an ordinary account; skips the test, with the reason, where it does not work."""
    if shutil.which("podman") is None:
        pytest.skip("Podman is not installed; scripts/test --long installs it")
    if as_root and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    busybox = Path("/bin/busybox")
    if not busybox.exists():
        pytest.skip("busybox-static, of which the image is made, is not installed; scripts/test --long installs it")
    with _one_version_of_cgroups(), _account(as_root=as_root) as user:
        fault = find_runtime(Runtime.PODMAN, user)[2]
        if fault:
            pytest.skip(fault)
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            _podman(user, "import", "--quiet", str(_root(Path(folder), busybox)), IMAGE)
        try:
            yield Containers(user=user)
        finally:
            Containers(user=user).clear()
            _podman(user, "rmi", "--force", IMAGE)


def _podman(user: JobUser, *words: str) -> str:
    switch = {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)} if user.switches else {}
    done = subprocess.run(  # type: ignore[call-overload] # takes three keyword arguments
        ["podman", "--log-level=error", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        env=own_environment(user),
        timeout=60,
        check=False,
        **switch,
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def _root(folder: Path, busybox: Path) -> Path:
    """The archive of a root with busybox and its commands."""
    archive = folder / "root.tar"
    commands = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(archive, "w") as file:
        for name, mode in (("bin", 0o755), ("tmp", 0o1777), ("etc", 0o755), ("root", 0o700)):
            folder_there = tarfile.TarInfo(name)
            folder_there.type, folder_there.mode = tarfile.DIRTYPE, mode
            file.addfile(folder_there)
        file.add(busybox, "bin/busybox")
        for command in set(commands) - {"busybox"}:
            link = tarfile.TarInfo(f"bin/{command}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            file.addfile(link)
    archive.chmod(0o644)
    return archive


@contextmanager
def _account(*, as_root: bool) -> Iterator[JobUser]:
    if as_root or os.geteuid() != 0:
        yield resolve_user(
            JobUserPolicy(name=pwd.getpwuid(os.geteuid()).pw_name, allow_root=True),
            asked=None,
            uid=os.geteuid(),
            environment=os.environ,
        )
        return
    with suppress(KeyError):
        _remove_account(pwd.getpwnam(ACCOUNT))
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", ACCOUNT], check=True, capture_output=True)
    subprocess.run(["usermod", "--append", "--groups", "audio", ACCOUNT], check=True, capture_output=True)
    try:
        yield resolve_user(JobUserPolicy(name=ACCOUNT), asked=None, uid=0, environment=os.environ)
    finally:
        _remove_account(pwd.getpwnam(ACCOUNT))


def _remove_account(entry: pwd.struct_passwd) -> None:
    """Podman leaves a process that keeps the account's namespaces, files of its subordinate accounts, and, when killed,
    the fetched parts of an image."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if f"\nUid:\t{entry.pw_uid}\t" in Path(f"/proc/{name}/status").read_text():
                os.kill(int(name), signal.SIGKILL)
    subprocess.run(["userdel", "--force", "--remove", entry.pw_name], check=True, capture_output=True)
    shutil.rmtree(f"/tmp/podman-run-{entry.pw_uid}", ignore_errors=True)
    for drafts in Path("/var/tmp").glob("storage*"):
        if drafts.stat().st_uid == entry.pw_uid:
            shutil.rmtree(drafts)


@contextmanager
def _one_version_of_cgroups() -> Iterator[None]:
    controllers = _CGROUPS / "unified" / "cgroup.controllers"
    if os.geteuid() != 0 or not controllers.exists() or not controllers.read_text().strip():
        yield
        return
    library = ctypes.CDLL(None, use_errno=True)
    before, folder = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY), os.getcwd()
    aside = tempfile.mkdtemp(prefix="aliquot-cgroups-")
    try:
        if library.unshare(_CLONE_NEWNS) != 0:
            pytest.skip(f"crun refuses hybrid cgroups, and unshare(2) fails: {os.strerror(ctypes.get_errno())}")
        for words in (
            ["mount", "--make-rprivate", "/"],
            ["mount", "--rbind", str(_CGROUPS), aside],
            ["umount", "--recursive", "--lazy", str(_CGROUPS)],
            ["mount", "-t", "cgroup2", "none", str(_CGROUPS)],
        ):
            subprocess.run(words, check=True, capture_output=True)
        try:
            yield
        finally:
            assert library.unshare(_CLONE_FS) == 0  # threads of the test share it
            assert library.setns(before, _CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
            os.chdir(folder)
    finally:
        os.close(before)
        os.rmdir(aside)
