"""Sessions with an image: the command lines of the runtimes, and a recorder as the runtime."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import AgentHarness, agent_config, order, shell
from aliquot.execution.agent.isolation import isolation
from aliquot.execution.agent.isolation.containers import Container, Runtime, command, environment_file, find_runtime
from aliquot.execution.agent.isolation.settings import Mount
from aliquot.execution.agent.job_user import JobUser
from aliquot_schema.cluster.launching import IMAGE_FAILED, KernelPhase
from aliquot_schema.identity.secrets import SecretGrant, SecretUse
from aliquot_schema.ids import UserId

pytestmark = pytest.mark.anyio

ANN = JobUser(name="ann", uid=1000, gid=1000, groups=(), home="/home/ann", shell="/bin/sh", switches=False)
ASKED = Container(
    image="docker.io/library/python:3.12",
    argv=("python", "train.py"),
    name="ses_1.1.0",
    user=ANN,
    environment={"A": "1", "PATH": "/node/bin", "HOME": "/home/ann", "LINES": "x\nB=2"},
    environment_file=Path("/run/e"),
    working_directory="/agent/work",
    folders=(Path("/agent/work"), Path("/agent/result")),
    files=(Path("/agent/resource.json"),),
    mounts=(Mount(path=Path("/data"), writable=False),),
    gpus=("GPU-1", "MIG-2"),
    pids=100,
)
RECORDER = """#!/bin/sh
printf '%s\\n' "$@" > {folder}/arguments
env > {folder}/own
for word in "$@"; do
    shift
    case $word in
    exists) test -e {folder}/has-$1; exit ;;
    pull) pulls=yes; echo "$@" > {folder}/pull ;;
    --env-file=*) cat "${{word#--env-file=}}" > {folder}/variables ;;
    --authfile=*) cat "${{word#--authfile=}}" > {folder}/credentials ;;
    tiny) test -z "$pulls" || touch {folder}/has-tiny; break ;;
    none) echo 'no such image' >&2; exit 125 ;;
    esac
done
exec "$@"
"""


@pytest.mark.parametrize("runtime", [Runtime.PODMAN, Runtime.DOCKER])
def test_a_container_gets_the_granted_devices_and_folders_alone(runtime: Runtime) -> None:
    words = command(runtime, "/bin/x", ASKED)
    assert words[0] == "/bin/x"
    assert "run" in words[1:3]
    assert words[-3:] == ["docker.io/library/python:3.12", "python", "train.py"]
    assert [word for word in words if word.startswith("--device")] == [
        "--device=nvidia.com/gpu=GPU-1",
        "--device=nvidia.com/gpu=MIG-2",
    ]
    assert [word for word in words if word.startswith("--volume")] == [
        "--volume=/agent/work:/agent/work",
        "--volume=/agent/result:/agent/result",
        "--volume=/agent/resource.json:/agent/resource.json:ro",
        "--volume=/data:/data:ro",
    ]
    assert {"--cap-drop=ALL", "--security-opt=no-new-privileges", "--env-file=/run/e"} <= set(words)
    assert {"--init", "--user=1000:1000"} <= set(words)
    assert "--privileged" not in words
    assert ("--cgroups=disabled" in words) is (runtime is Runtime.PODMAN)
    assert '--gpus="device=GPU-1,MIG-2"' in command(runtime, "/bin/x", ASKED, has_cdi=False)
    assert not [word for word in command(runtime, "/bin/x", replace(ASKED, gpus=()), has_cdi=False) if "gpus" in word]


def test_apptainer_takes_names_files_and_urls() -> None:
    words = command(Runtime.APPTAINER, "/bin/a", ASKED)
    assert words[:2] == ["/bin/a", "exec"]
    assert words[-3:] == ["docker://docker.io/library/python:3.12", "python", "train.py"]
    assert {"--containall", "--cleanenv", "--nv", "--bind=/data:/data:ro"} <= set(words)
    for image in ("/images/x.sif", "oras://host/x"):
        assert command(Runtime.APPTAINER, "/bin/a", replace(ASKED, image=image, gpus=()))[-3] == image


def test_only_apptainer_gets_credentials_with_the_job() -> None:
    asked = replace(ASKED, registry=Path("/run/registry.json"))
    for runtime in Runtime:
        has_file = "--authfile=/run/registry.json" in command(runtime, "/bin/x", asked)
        assert has_file is (runtime is Runtime.APPTAINER)
        assert not [word for word in command(runtime, "/bin/x", ASKED) if "authfile" in word]


def test_node_variables_and_values_with_line_breaks_are_not_passed_to_containers() -> None:
    assert environment_file(ASKED) == b"A=1\n"


def test_disabled_containers_are_reported_with_the_setting() -> None:
    assert find_runtime("off", ANN) == (None, "", "the setting containers is off")


@pytest.fixture
async def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[AgentHarness, Path]]:
    """An agent whose runtime records its command line, and runs the command on the node."""
    folder = tmp_path / "record"
    folder.mkdir()
    folder.chmod(0o777)
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | stat.S_IXOTH)
    program = tmp_path / "podman"
    program.write_text(RECORDER.format(folder=folder))
    program.chmod(0o755)
    monkeypatch.setattr(isolation, "find_runtime", lambda *_: (Runtime.PODMAN, str(program), ""))
    harness = AgentHarness(agent_config(tmp_path / "agent"))
    await harness.open()
    yield harness, folder
    await harness.close()


async def test_the_container_runtime_does_not_get_the_variables_of_the_job(
    recorded: tuple[AgentHarness, Path],
) -> None:
    harness, folder = recorded
    assert harness.inventory.agent.capabilities.containers == "podman"
    report = await harness.run(shell("exit 7", image="tiny", environment={"SECRET_NAME": "value", "LD_PRELOAD": "/x"}))
    assert report.exit_code == 7
    words = (folder / "arguments").read_text().splitlines()
    assert words[-4:] == ["tiny", "/bin/sh", "-c", "exit 7"]
    assert not [word for word in words if "value" in word]
    own = (folder / "own").read_text()
    assert "SECRET_NAME" not in own
    assert "LD_PRELOAD" not in own
    assert "SECRET_NAME=value\n" in (folder / "variables").read_text()
    asked = order("true", image="none")
    failed = await harness.run(asked)
    assert (failed.phase, failed.code) == (KernelPhase.REFUSED, IMAGE_FAILED)
    assert failed.message == "the image none could not be fetched: no such image"
    held = harness.core._kernels.get(asked.kernel_id)
    assert held is not None
    harness.core._watch.reconcile(held)
    assert held.report == failed


async def test_registry_credentials_of_the_session_are_used_for_the_pull_only(
    recorded: tuple[AgentHarness, Path],
) -> None:
    harness, folder = recorded
    use = SecretUse(name="ghcr", as_file="registry.json")
    grant = SecretGrant(owner=UserId("ann"), use=use, value='{"auths": {}}')
    report = await harness.run(order("env", image="tiny", secrets=(grant,)))
    assert report.exit_code == 0
    assert report.pull is not None
    assert report.pull.is_done
    assert (folder / "credentials").read_text() == '{"auths": {}}'
    pulled = (folder / "pull").read_text()
    assert "auths" not in pulled + (folder / "arguments").read_text()
    assert not is_there(pulled.partition("--authfile=")[2].split()[0])
    assert "ALIQUOT_SECRETS_DIR" not in (folder / "variables").read_text()
    harness.core._preparation.confinement._runtime = Runtime.DOCKER
    refused = await harness.run(order("true", image="tiny", secrets=(grant,)))
    assert (refused.phase, refused.code) == (KernelPhase.REFUSED, "unsupported_resource")
    assert "Docker reads no credentials" in str(refused.message)


def is_there(path: str) -> bool:
    return os.path.exists(path)


async def test_an_agent_without_a_runtime_refuses_images(harness: AgentHarness) -> None:
    report = await harness.run(order("true", image="tiny"))
    assert (report.phase, report.code) == (KernelPhase.REFUSED, "unsupported_resource")
    assert json.dumps(report.message).count("containers") == 2
