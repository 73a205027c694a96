"""Images pulled from a real registry on loopback, by a real agent and Podman of root and an account."""

import base64
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_harness import (
    AgentHarness,
    agent_config,
    is_running,
    marked_processes,
    processes_with_files_in,
    shell,
    shim_pids,
    wait_until,
)
from aliquot.execution.agent.isolation.settings import ConfinementRules
from aliquot_schema.cluster.launching import (
    IMAGE_NO_SPACE,
    IMAGE_NOT_FOUND,
    IMAGE_UNAUTHORIZED,
    REGISTRY_UNREACHABLE,
    KernelPhase,
    KernelReport,
    LaunchOrder,
)
from aliquot_schema.identity.secrets import SecretGrant, SecretUse
from aliquot_schema.ids import UserId
from long_tests import LONG
from own_containers import Containers, containers
from own_registry import LAYER_BYTES, PASSED_BYTES, PASSWORD, Registry, StallingProxy, registry, stalling_proxy

pytestmark = [pytest.mark.anyio, LONG]


@pytest.fixture(scope="module", params=[False, True], ids=["account", "root"])
def podman(request: pytest.FixtureRequest) -> Iterator[Containers]:
    with containers(as_root=request.param) as found:
        yield found


@pytest.fixture
async def harness(podman: Containers, home: Path, anyio_backend: str) -> AsyncIterator[AgentHarness]:
    """An agent that runs its jobs as the account, which has no image of the registry."""
    harness = AgentHarness(
        agent_config(home / "agent", job_user=podman.policy, confinement=ConfinementRules(containers="podman"))
    )
    await harness.open()
    yield harness
    await harness.close()
    left = podman.clear()
    for name in _held_by(podman):
        podman.podman("rmi", "--force", name)
    assert processes_with_files_in(home) == []
    assert left == []


def _held_by(podman: Containers) -> list[str]:
    names = podman.podman("images", "--format={{.Repository}}:{{.Tag}}").split()
    return [name for name in names if name.startswith("127.0.0.1:")]


def pulls(harness: AgentHarness, asked: LaunchOrder) -> list[KernelReport]:
    return [report for report in harness.reports(asked.kernel_id) if report.phase is KernelPhase.PULLING]


async def until_held_back(harness: AgentHarness, asked: LaunchOrder) -> None:
    """Wait until part of the layer is fetched."""
    await wait_until(
        lambda: any(report.pull is not None and report.pull.bytes_done for report in pulls(harness, asked))
    )


def left_of(asked: LaunchOrder, podman: Containers) -> list[str]:
    """Drafts and processes of a pull."""
    return _drafts(podman) + [str(pid) for pid in marked_processes(asked.kernel_id)]


def _drafts(podman: Containers) -> list[str]:
    """Files left by the account's Podman in its default temporary folder."""
    found = list(Path("/var/tmp").glob("storage*"))
    return [str(path) for path in found if path.stat().st_uid == podman.user.uid]


async def test_an_image_is_pulled_before_the_job_starts(
    harness: AgentHarness, images: Registry, podman: Containers
) -> None:
    name = images.name("large:1")
    asked = shell("echo job", image=name, time_limit_ms=60_000)
    report = await harness.run(asked)
    assert (report.exit_code, harness.output(asked.kernel_id)) == (0, "job\n")  # without the pull's output
    first, ended = pulls(harness, asked)[0].pull, report.pull
    assert first is not None
    assert ended is not None
    assert not first.is_done
    assert ended.is_done
    assert (ended.layers_done, ended.layers) == (1, 1)
    assert ended.ran_ms > 0
    assert ended.size_bytes is not None
    assert ended.size_bytes > LAYER_BYTES
    assert name in _held_by(podman)
    phases = [report.phase for report in harness.reports(asked.kernel_id)]
    assert phases.index(KernelPhase.PULLING) < phases.index(KernelPhase.STARTED)
    again = shell("echo again", image=name)
    assert (await harness.run(again)).pull is None
    assert pulls(harness, again) == []
    assert left_of(asked, podman) == []


async def test_pull_progress_is_reported_and_does_not_count_towards_the_time_limit(
    harness: AgentHarness, gate: StallingProxy, images: Registry
) -> None:
    asked = shell("echo job; sleep 1000; true", image=images.name("large:1", port=gate.port), time_limit_ms=3_000)
    await harness.core.launch([asked])
    await until_held_back(harness, asked)
    known = pulls(harness, asked)[-1].pull
    assert known is not None
    assert 0 < known.bytes_done <= PASSED_BYTES < known.bytes_total
    assert LAYER_BYTES < known.bytes_total < LAYER_BYTES * 3 // 2  # with the commands
    await wait_until(lambda: (pulls(harness, asked)[-1].pull or known).ran_ms > 3_000)
    gate.resume()
    report = await harness.wait_for_end(asked.kernel_id)
    assert report.timed_out
    assert report.ran_ms is not None
    assert report.pull is not None
    assert min(report.ran_ms, report.pull.ran_ms) >= 3_000


async def test_a_stop_ends_a_pull_and_leaves_nothing(
    harness: AgentHarness, gate: StallingProxy, images: Registry, podman: Containers
) -> None:
    asked = shell("echo never", image=images.name("large:1", port=gate.port))
    await harness.core.launch([asked])
    await until_held_back(harness, asked)
    pids = marked_processes(asked.kernel_id)
    assert pids
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=60_000)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.phase, report.signal, harness.output(asked.kernel_id)) == (KernelPhase.EXITED, signal.SIGTERM, "")
    assert not [pid for pid in pids if is_running(pid)]
    assert left_of(asked, podman) == []


async def test_a_pull_goes_on_while_the_agent_restarts(
    harness: AgentHarness, gate: StallingProxy, images: Registry
) -> None:
    asked = shell("echo job", image=images.name("large:1", port=gate.port))
    await harness.core.launch([asked])
    await until_held_back(harness, asked)
    await harness.restart()
    (known,) = (report for report in harness.inventory.kernels if report.kernel_id == asked.kernel_id)
    assert known.phase is KernelPhase.PULLING
    gate.resume()
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.exit_code, harness.output(asked.kernel_id)) == (0, "job\n")
    assert report.pull is not None
    assert report.pull.is_done


async def test_a_pull_whose_shim_was_killed_ends_and_the_next_one_succeeds(
    harness: AgentHarness, gate: StallingProxy, images: Registry, podman: Containers
) -> None:
    asked = shell("echo never", image=images.name("large:1", port=gate.port))
    await harness.core.launch([asked])
    await until_held_back(harness, asked)
    pids = marked_processes(asked.kernel_id)
    for shim in shim_pids(harness.config.folder):
        os.kill(shim, signal.SIGKILL)
    report = await harness.wait_for_end(asked.kernel_id)
    assert (report.phase, report.exit_code) == (KernelPhase.EXITED, None)
    assert not [pid for pid in pids if is_running(pid)]
    assert left_of(asked, podman) == []
    again = shell("echo job", image=asked.image)
    gate.resume()
    assert (await harness.run(again)).exit_code == 0


async def test_two_sessions_that_pull_the_same_image_both_start(
    harness: AgentHarness, gate: StallingProxy, images: Registry
) -> None:
    both = [shell("echo job", image=images.name("large:1", port=gate.port)) for _ in range(2)]
    await harness.core.launch(both)
    await wait_until(lambda: all(pulls(harness, one) for one in both))
    gate.resume()
    for one in both:
        assert (await harness.wait_for_end(one.kernel_id)).exit_code == 0


async def test_a_missing_image_and_an_unreachable_registry_are_reported(
    harness: AgentHarness, images: Registry
) -> None:
    with stalling_proxy(images.port, bytes_max=0) as closed:
        port = closed.port
    for name, code, words in (
        (images.name("none:1"), IMAGE_NOT_FOUND, "was not found in 127.0.0.1"),
        (images.name("large:2"), IMAGE_NOT_FOUND, "check its name and its tag"),
        (images.name("large:1", port=port), REGISTRY_UNREACHABLE, "could not be reached"),
    ):
        report = await harness.run(shell("echo never", image=name))
        assert (report.phase, report.code) == (KernelPhase.REFUSED, code), report
        assert words in str(report.message)
        assert name in str(report.message)


@contextmanager
def little_space(podman: Containers, *, size_mib: int) -> Iterator[None]:
    """A small disk for the account's images, which are hidden meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = podman.podman("info", "--format={{.Store.GraphRoot}}").strip()
    options = f"size={size_mib}m,mode=700,uid={podman.user.uid},gid={podman.user.gid}"
    podman.podman("system", "migrate")  # ends the process that holds the account's mount namespace
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "aliquot-test", folder], check=True)
    try:
        yield
    finally:
        podman.podman("system", "migrate")
        subprocess.run(["umount", "--lazy", folder], check=True)


async def test_a_full_disk_during_a_pull_is_reported(
    harness: AgentHarness, images: Registry, podman: Containers
) -> None:
    with little_space(podman, size_mib=LAYER_BYTES // (2 << 20)):
        asked = shell("echo never", image=images.name("large:1"))
        report = await harness.run(asked)
    assert (report.phase, report.code) == (KernelPhase.REFUSED, IMAGE_NO_SPACE), report
    assert "no space left for the image" in str(report.message)
    assert left_of(asked, podman) == []
    assert (await harness.run(shell("echo job", image=asked.image))).exit_code == 0


@pytest.fixture(scope="module")
def private(podman: Containers) -> Iterator[Registry]:
    with registry(has_users=True) as found:
        found.push_large(podman, "large:1", layer_bytes=LAYER_BYTES)
        yield found


def with_credentials(text: str, secret: str | None, *, image: str) -> LaunchOrder:
    """A shell string in an image whose registry needs credentials."""
    if secret is None:
        return shell(text, image=image)
    use = SecretUse(name="lab", as_file="registry.json")
    return shell(text, image=image, secrets=(SecretGrant(owner=UserId("ann"), use=use, value=secret),))


async def test_a_private_registry_refuses_missing_and_wrong_credentials(
    harness: AgentHarness, private: Registry
) -> None:
    for secret in (None, "ann:wrong"):
        report = await harness.run(with_credentials("echo never", secret, image=private.name("large:1")))
        assert (report.phase, report.code) == (KernelPhase.REFUSED, IMAGE_UNAUTHORIZED), report
        assert "--secret-file NAME=registry.json" in str(report.message)
        assert "wrong" not in str(report.message)


@pytest.mark.parametrize("form", ["user", "file"])
async def test_credentials_are_visible_only_to_the_pull_and_deleted_before_the_job_starts(
    harness: AgentHarness, private: Registry, podman: Containers, form: str
) -> None:
    with stalling_proxy(private.port, bytes_max=PASSED_BYTES) as gate:
        name, encoded = private.name("large:1", port=gate.port), base64.b64encode(private.credentials().encode())
        file = f'{{"auths": {{"127.0.0.1:{gate.port}": {{"auth": "{encoded.decode()}"}}}}}}'
        secret = private.credentials() if form == "user" else file
        text = 'echo "secrets: $ALIQUOT_SECRETS_DIR"; env; sleep 1000; true'
        asked = with_credentials(text, secret, image=name)
        await harness.core.launch([asked])
        await until_held_back(harness, asked)
        path = credentials_of(asked)
        assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o600, podman.user.uid)
        assert (path.parent.stat().st_mode & 0o777, path.parent.stat().st_uid) == (0o700, podman.user.uid)
        assert encoded in path.read_bytes()
        assert not any(is_told(shown) for pid in marked_processes(asked.kernel_id) for shown in shown_of(pid))
        gate.resume()
        await wait_until(lambda: "secrets: \n" in harness.output(asked.kernel_id))
    assert not path.exists()
    assert not is_told(harness.output(asked.kernel_id).encode())
    written = [
        path.read_bytes() for path in harness.config.folder.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    assert not any(map(is_told, written))
    await harness.core.stop(asked.kernel_id, epoch=1, grace_ms=0)
    await harness.wait_for_end(asked.kernel_id)
    assert not path.parent.exists()


def credentials_of(asked: LaunchOrder) -> Path:
    """The credentials file of a pull's command."""
    for pid in marked_processes(asked.kernel_id):
        for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            if word.startswith(b"--authfile="):
                return Path(os.fsdecode(word.partition(b"=")[2]))
    raise AssertionError("no process of the pull names a file of credentials")


def shown_of(pid: int) -> list[bytes]:
    """What others can read of a process."""
    return [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]


def is_told(text: bytes) -> bool:
    """Whether a text has the password, plain or encoded."""
    return PASSWORD.encode() in text or base64.b64encode(f"ann:{PASSWORD}".encode()) in text
