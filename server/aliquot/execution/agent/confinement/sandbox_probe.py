"""Whether bubblewrap works here for an account, found out by trying."""

import shutil
import subprocess
from typing import Final

from aliquot.execution.agent.confinement.rules import ConfinementRules
from aliquot.execution.agent.confinement.sandbox import OwnFolders, sandbox_arguments
from aliquot.execution.agent.job_user import JobUser

PROGRAM: Final = "bwrap"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Never that of the agent's environment: what is found there is run for every job."""
_PATIENCE_S: Final = 10.0


def find_bubblewrap() -> str | None:
    """Its path; None where it is not installed."""
    return shutil.which(PROGRAM, path=_PATH)


def why_no_sandbox(user: JobUser) -> str | None:
    """Why an account cannot be put into the sandbox on this host; None where it can. Blocks: it takes a process."""
    program = find_bubblewrap()
    if program is None:
        return "bubblewrap is not installed (Debian, Ubuntu: apt-get install bubblewrap)"
    if user.uid == 0:
        return "jobs run as root here, whom no sandbox holds"
    return _tried(program, user)


def _tried(program: str, user: JobUser) -> str | None:
    arguments = sandbox_arguments(
        ConfinementRules(),
        user=user,
        own=OwnFolders(writable=()),
        hidden=(),
        device_nodes=(),
        environment={},
        working_directory="/",
    )
    switch = {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups)} if user.switches else {}
    try:
        done = subprocess.run(
            [program, *arguments, "--", "/bin/sh", "-c", "exit 42"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={},
            timeout=_PATIENCE_S,
            check=False,
            **switch,  # type: ignore[call-overload] # three arguments of its own, by their names
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be tried: {error}"
    if done.returncode == 42:
        return None
    said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
    return f"bubblewrap does not work for {user.name} here: {said[:200]}{_hint()}"


def _hint() -> str:
    """What most often stands in the way."""
    for path, words in (
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "kernel.apparmor_restrict_unprivileged_userns is 1"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone is 0"),
        ("/proc/sys/user/max_user_namespaces", "user.max_user_namespaces is 0"),
    ):
        try:
            with open(path, encoding="ascii") as file:
                number = file.read().strip()
        except OSError:
            continue
        if words.endswith(f"is {number}"):
            return f" ({words})"
    return ""
