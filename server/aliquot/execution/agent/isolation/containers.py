"""Containers: the command line that runs a job in an image by Podman, Docker or Apptainer.

The program runs in the place of the job, under its shim, in its cgroups and as its account; the container is made by
that account. It shares the network of the node, sees the granted devices alone, and has the kernel's folders under the
same paths. The job's environment comes from a file, so that it is on no command line.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from aliquot.execution.agent.isolation.settings import Mount
from aliquot.execution.agent.job_user import JobUser

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Fixed, not from the agent's environment: the program found runs for every job."""
_PATIENCE_S: Final = 20.0
ENVIRONMENT: Final = ".container-environment"
"""File among the kernel's secret files, which are in memory and removed at its end."""
REGISTRY: Final = "registry.json"
"""Secret file with credentials of registries, in the form of `podman login` and of Docker's `config.json`."""
NAME: Final = "aliquot-"
"""Before the kernel's id, in the names of containers."""
_NOT_PASSED: Final = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "USER"})
"""Variables that the image sets."""
_NVIDIA: Final = "nvidia.com/gpu="


class Runtime(StrEnum):
    """A program that runs containers."""

    PODMAN = "podman"
    DOCKER = "docker"
    APPTAINER = "apptainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What the command line is made from."""

    image: str
    argv: Sequence[str]
    name: str
    """Unique on the node."""
    user: JobUser
    environment: Mapping[str, str]
    environment_file: Path
    working_directory: str
    folders: Sequence[Path]
    """The kernel's folders, writable."""
    files: Sequence[Path] = ()
    """Readable."""
    mounts: Sequence[Mount] = ()
    """Of the setting sandbox-mounts."""
    gpus: Sequence[str] = ()
    """UUIDs of the granted NVIDIA GPUs and MIG slices."""
    device_nodes: Sequence[str] = ()
    """Device files, for devices that are not NVIDIA's."""
    pids: int | None = None
    registry: Path | None = None
    """File with credentials of registries, see `REGISTRY`; None = those that the account has stored."""


def command(runtime: Runtime, program: str, asked: Container, *, has_cdi: bool = True) -> list[str]:
    """The command line.

    Args:
        program: path of the runtime.
        has_cdi: whether the node describes its GPUs by the Container Device Interface; else Docker's and Apptainer's
            own options for NVIDIA are used.
    """
    match runtime:
        case Runtime.PODMAN:
            return [program, "run", *_podman(asked), *_oci(asked, has_cdi=has_cdi), asked.image, *asked.argv]
        case Runtime.DOCKER:
            return [program, "run", *_docker(asked), *_oci(asked, has_cdi=has_cdi), asked.image, *asked.argv]
        case Runtime.APPTAINER:
            return [program, "exec", *_apptainer(asked), _apptainer_image(asked.image), *asked.argv]


def variables(asked: Container) -> dict[str, str]:
    """The variables that the job has in the container."""
    return {name: text for name, text in asked.environment.items() if name not in _NOT_PASSED}


def environment_file(asked: Container) -> bytes:
    """Content of the file of variables. Values with line breaks, which such files cannot have, are left out."""
    lines = (f"{name}={text}\n" for name, text in variables(asked).items() if "\n" not in text)
    return "".join(lines).encode(errors="surrogateescape")


def _podman(asked: Container) -> list[str]:
    """The container's processes stay in the job's cgroups and under its shim; no daemon is involved."""
    users = "--userns=host" if asked.user.uid == 0 else "--userns=keep-id"
    return ["--cgroups=disabled", "--log-driver=none", "--ulimit=host", users, *_credentials(asked)]


def _credentials(asked: Container) -> list[str]:
    return [] if asked.registry is None else [f"--authfile={asked.registry}"]


def _docker(asked: Container) -> list[str]:
    """Docker's daemon owns the processes: it gets the limits, and the client passes signals on."""
    limits = [] if asked.pids is None else [f"--pids-limit={asked.pids}"]
    return ["--sig-proxy=true", "--init", f"--user={asked.user.uid}:{asked.user.gid}", *limits]


def _oci(asked: Container, *, has_cdi: bool) -> list[str]:
    arguments = ["--rm", f"--name={NAME}{asked.name}", "--network=host", "--ipc=private", "--pull=missing"]
    arguments += ["--security-opt=no-new-privileges", "--cap-drop=ALL", f"--workdir={asked.working_directory}"]
    arguments += [f"--env-file={asked.environment_file}"]
    arguments += [f"--volume={path}:{path}" for path in asked.folders]
    arguments += [f"--volume={path}:{path}:ro" for path in asked.files]
    arguments += [f"--volume={one.path}:{one.path}:{'rw' if one.writable else 'ro'}" for one in asked.mounts]
    arguments += [f"--device={node}" for node in asked.device_nodes]
    if has_cdi:
        return arguments + [f"--device={_NVIDIA}{gpu}" for gpu in asked.gpus]
    return arguments + ([f'--gpus="device={",".join(asked.gpus)}"'] if asked.gpus else [])


def _apptainer(asked: Container) -> list[str]:
    """Apptainer has no option for single GPUs: the driver's files are bound, and device gates or
    `CUDA_VISIBLE_DEVICES` keep a job to its own."""
    arguments = ["--containall", "--no-home", "--cleanenv", "--writable-tmpfs", f"--env-file={asked.environment_file}"]
    arguments += [f"--pwd={asked.working_directory}", *_credentials(asked)]
    arguments += [f"--bind={path}:{path}" for path in asked.folders]
    arguments += [f"--bind={path}:{path}:ro" for path in asked.files]
    arguments += [f"--bind={one.path}:{one.path}:{'rw' if one.writable else 'ro'}" for one in asked.mounts]
    arguments += [f"--bind={node}:{node}" for node in asked.device_nodes]
    return [*arguments, "--nv"] if asked.gpus else arguments


def _apptainer_image(image: str) -> str:
    """A file or a URL as it is; a name is one of a registry."""
    return image if image.startswith("/") or "://" in image else f"docker://{image}"


def find_runtime(wanted: str, user: JobUser) -> tuple[Runtime | None, str, str]:
    """The runtime of this host, its path, and why there is none. Blocks: runs a process for each.

    Args:
        wanted: the setting `containers`: a runtime, `auto` or `off`.
    """
    if wanted == "off":
        return None, "", "the setting containers is off"
    faults = []
    for runtime in Runtime if wanted == "auto" else (Runtime(wanted),):
        program = shutil.which(runtime, path=_PATH)
        if program is None:
            faults.append(f"{runtime} is not installed")
            continue
        fault = _fault(runtime, program, user)
        if fault is None:
            return runtime, program, ""
        faults.append(fault)
    return None, "", "; ".join(faults)[:400]


def _fault(runtime: Runtime, program: str, user: JobUser) -> str | None:
    """Why a runtime does not work for an account; None = it does."""
    words = ["version"] if runtime is Runtime.APPTAINER else ["info", "--format={{.Host.OCIRuntime.Name}}"]
    words = ["version", "--format={{.Server.Version}}"] if runtime is Runtime.DOCKER else words
    switch = {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)} if user.switches else {}
    try:
        done = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env=own_environment(user),
            timeout=_PATIENCE_S,
            check=False,
            **switch,  # type: ignore[call-overload] # three arguments of its own, by their names
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{runtime} cannot be tried: {error}"
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"{runtime} does not work for {user.name} here: {lines[-1][:200]}"


def own_environment(user: JobUser) -> dict[str, str]:
    """The environment of the runtime itself: nothing of the job's, which could make it run other code."""
    return {"PATH": "/usr/local/sbin:/usr/sbin:/sbin:" + _PATH, "HOME": user.home, "LANG": "C.UTF-8"}


def has_cdi(folders: Sequence[Path] = (Path("/etc/cdi"), Path("/var/run/cdi"))) -> bool:
    """Whether the node describes its NVIDIA GPUs by the Container Device Interface."""
    return any("nvidia" in name for folder in folders if folder.is_dir() for name in os.listdir(folder))


def remove(runtime: Runtime, program: str, name: str) -> None:
    """Remove a container that outlived its command: that of Docker, whose daemon owns it. Blocks; failures are
    ignored."""
    if runtime is not Runtime.DOCKER:
        return
    with suppress(OSError, subprocess.TimeoutExpired):
        words = [program, "rm", "--force", f"{NAME}{name}"]
        subprocess.run(words, capture_output=True, env={"PATH": _PATH}, timeout=_PATIENCE_S, check=False)
