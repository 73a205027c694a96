"""Containers: the command line that runs a job in an image by Podman, Docker or Apptainer.

The program runs in the place of the job, under its shim, in its cgroups and as its account; the container is made by
that account. It shares the network of the node, sees the granted devices alone, and has the kernel's folders under the
same paths. The job's environment comes from a file, so that it is on no command line.
"""

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.execution.agent.isolation.settings import Mount
from aliquot.execution.agent.job_user import JobUser
from aliquot_schema.resources.confinement import IMAGE_CHARS_MAX, IMAGES_MAX

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Fixed, not from the agent's environment: the program found runs for every job."""
_PATIENCE_S: Final = 20.0
_REMOVALS: Final = 3
"""Podman's first attempt fails after 5 s if its monitor of the container was killed, too; the next one succeeds."""
ENVIRONMENT: Final = ".container-environment"
"""File among the kernel's secret files, which are in memory and removed at its end."""
REGISTRY: Final = "registry.json"
"""Secret file with credentials of registries, in the form of `podman login` and of Docker's `config.json`."""
NAME: Final = "aliquot-"
"""Before the kernel's id, in the names of containers."""
_NOT_PASSED: Final = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "USER"})
"""Variables that the image sets."""
_NVIDIA: Final = "nvidia.com/gpu="
_LIMITS: Final = {
    resource.RLIMIT_CORE: "core",
    resource.RLIMIT_DATA: "data",
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_NPROC: "nproc",
}
_PID_MAX: Final = Path("/proc/sys/kernel/pid_max")
_SYSTEM: Final = ("bin", "lib", "lib32", "lib64", "sbin", "usr")
"""Folders of the node that the trial container is made of."""


class Runtime(StrEnum):
    """A program that runs containers."""

    PODMAN = "podman"
    DOCKER = "docker"
    APPTAINER = "apptainer"


class Container(Struct, frozen=True, kw_only=True):
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
    limits: Sequence[tuple[int, int, int]] = ()
    """(RLIMIT_*, soft, hard) of the processes in the container."""
    registry: Path | None = None
    """File with credentials of registries for Apptainer, which fetches the image itself; None = those that the account
    has stored."""


class PullCommands(Struct, frozen=True, kw_only=True):
    """Command lines of a pull."""

    has: Sequence[str]
    """Succeeds if the account has the image."""
    fetch: Sequence[str]
    size: Sequence[str]
    """Writes the size of the image in bytes."""


class ContainerStart(Struct, frozen=True, kw_only=True):
    """What the shim starts in the job's place."""

    argv: Sequence[str]
    pull: PullCommands | None
    """None = the runtime fetches the image itself."""
    files: Sequence[tuple[str, bytes]]
    """Secret files: (name, content) of the environment file, and of the credentials for the pull."""
    limits: Sequence[tuple[int, int, int]]
    """(RLIMIT_*, soft, hard) of the runtime itself. Podman and Docker set the job's in the container: the runtime may
    need more memory and more files than the job was granted."""
    is_daemons: bool
    """Whether the container's processes belong to a daemon."""


def command(runtime: Runtime, program: str, asked: Container, *, has_cdi: bool = True) -> list[str]:
    """The command line.

    Args:
        program: path of the runtime.
        has_cdi: whether the node describes its GPUs by the Container Device Interface; else Docker's and Apptainer's
            own options for NVIDIA are used.
    """
    match runtime:
        case Runtime.PODMAN:
            words = [*_podman(asked), *_oci(asked, has_cdi=has_cdi)]
            return [program, "--log-level=error", "run", *words, asked.image, *asked.argv]
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
    words = ["--cgroups=disabled", "--log-driver=none", "--userns=host" if asked.user.uid == 0 else "--userns=keep-id"]
    if asked.user.uid != 0 and set(asked.user.groups) - {asked.user.gid}:
        words.append("--group-add=keep-groups")
    given = {limit for limit, _, _ in asked.limits}
    return words + _ulimits([one for one in _inherited() if one[0] not in given])


def _inherited() -> Iterator[tuple[int, int, int]]:
    """Limits that Podman would raise to the most that the system allows, which even root may not be permitted."""
    yield resource.RLIMIT_NOFILE, *resource.getrlimit(resource.RLIMIT_NOFILE)
    most = int(_PID_MAX.read_text(encoding="ascii"))  # Podman lowers its own limit to this
    soft, hard = (
        most if n == resource.RLIM_INFINITY else min(n, most) for n in resource.getrlimit(resource.RLIMIT_NPROC)
    )
    yield resource.RLIMIT_NPROC, soft, hard


def _ulimits(limits: Sequence[tuple[int, int, int]]) -> list[str]:
    return [f"--ulimit={_LIMITS[limit]}={soft}:{hard}" for limit, soft, hard in limits]


def _docker(asked: Container) -> list[str]:
    """Docker's daemon owns the processes: it gets the limits, and the client passes signals on."""
    limits = [] if asked.pids is None else [f"--pids-limit={asked.pids}"]
    return ["--sig-proxy=true", *limits]


def _oci(asked: Container, *, has_cdi: bool) -> list[str]:
    arguments = ["--rm", f"--name={NAME}{asked.name}", "--network=host", "--ipc=private", "--pull=never"]
    # The job is not the first process there, which would ignore SIGTERM unless it handles it.
    arguments += ["--init", f"--user={asked.user.uid}:{asked.user.gid}", *_ulimits(asked.limits)]
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
    credentials = [] if asked.registry is None else [f"--authfile={asked.registry}"]
    arguments = ["--containall", "--no-home", "--cleanenv", "--writable-tmpfs", f"--env-file={asked.environment_file}"]
    arguments += [f"--pwd={asked.working_directory}", *credentials]
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
    try:
        with _trial(runtime, program, user) as words:
            done = _run(words, user)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{runtime} cannot be tried: {error}"
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"{runtime} does not work for {user.name} here: {lines[-1][:200]}"


@contextmanager
def _trial(runtime: Runtime, program: str, user: JobUser) -> Iterator[list[str]]:
    """The command line that tries a runtime. Podman runs a program of the node in a container without an image."""
    if runtime is not Runtime.PODMAN:
        yield [program, "version", *(["--format={{.Server.Version}}"] if runtime is Runtime.DOCKER else [])]
        return
    folder = Path(tempfile.mkdtemp(prefix="aliquot-trial-"))
    try:
        asked = Container(
            image=str(folder),
            argv=("/usr/bin/env", "true"),
            name=folder.name,
            user=user,
            environment={},
            environment_file=Path(os.devnull),
            working_directory="/",
            folders=(),
            files=[
                Path("/", name) for name in _SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()
            ],
        )
        for name in _SYSTEM:
            if Path("/", name).is_symlink():
                (folder / name).symlink_to(os.readlink(Path("/", name)))
        if user.switches:
            os.chown(folder, user.uid, user.gid)
        words = command(runtime, program, asked)
        yield [*words[: -len(asked.argv) - 1], "--rootfs", *words[-len(asked.argv) - 1 :]]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(words: Sequence[str], user: JobUser) -> subprocess.CompletedProcess[bytes]:
    switch = {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)} if user.switches else {}
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        env=own_environment(user),
        timeout=_PATIENCE_S,
        check=False,
        **switch,  # type: ignore[call-overload] # three arguments of its own, by their names
    )
    return done


def own_environment(user: JobUser) -> dict[str, str]:
    """The environment of the runtime itself: nothing of the job's, which could make it run other code."""
    return {"PATH": "/usr/local/sbin:/usr/sbin:/sbin:" + _PATH, "HOME": user.home, "LANG": "C.UTF-8"}


def has_cdi(folders: Sequence[Path] = (Path("/etc/cdi"), Path("/var/run/cdi"))) -> bool:
    """Whether the node describes its NVIDIA GPUs by the Container Device Interface."""
    return any("nvidia" in name for folder in folders if folder.is_dir() for name in os.listdir(folder))


def held_images(runtime: Runtime, program: str, user: JobUser) -> tuple[str, ...] | None:
    """Names of the images that an account has, at most `IMAGES_MAX`, sorted; None if that cannot be told. Blocks."""
    if runtime is Runtime.APPTAINER:
        return ()  # its cache has no names
    try:
        done = _run([program, "images", "--format={{.Repository}}:{{.Tag}}"], user)
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = [name for name in done.stdout.decode(errors="replace").split() if "<none>" not in name]
    fit = [name for name in dict.fromkeys(names) if len(name) <= IMAGE_CHARS_MAX and name.isprintable()]
    return tuple(sorted(fit[:IMAGES_MAX])) if done.returncode == 0 else None


def remove(runtime: Runtime, program: str, name: str, user: JobUser) -> None:
    """Remove a container that outlived its command: one that Docker's daemon runs, or the files of one whose processes
    were killed. Blocks; failures are ignored."""
    if runtime is Runtime.APPTAINER:
        return
    ignore = ["--ignore"] if runtime is Runtime.PODMAN else []
    with suppress(OSError, subprocess.TimeoutExpired):
        for _ in range(_REMOVALS):
            if _run([program, "rm", "--force", *ignore, f"{NAME}{name}"], user).returncode == 0:
                return
