"""Activation: runs a command within an environment, and writes down what that environment is.

It is done by a shell in the job, as the job's account and within its sandbox. The variables are set by the agent, so
that terminals of the session have them too.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aliquot.execution.agent.job_user import JobUser
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.cluster.workspaces import RECORD
from aliquot_schema.sessions import UV

SHELL: Final = "/bin/sh"
NAME: Final = "aliquot-environment"
"""Name of the script in messages of the shell."""
VENV: Final = ".venv"
PACKAGES: Final = "packages"
"""Folder of the agent with a cache of uv for each owner and account."""
NOT_FOUND: Final = 127
"""Exit code when the environment is not on the node, as of a shell that does not find a command."""

_PROBE: Final = """
import importlib.metadata, json, os, sys
target = sys.argv[1]
found = {}
for one in importlib.metadata.distributions():
    name = one.metadata["Name"]
    if name:
        found.setdefault(name, one.version)
record = {"environment": sys.argv[2] or None, "python": sys.version.split()[0], "executable": sys.executable,
          "packages": dict(sorted(found.items()))}
os.makedirs(os.path.dirname(target), exist_ok=True)
with open(target + ".new", "w") as file:
    json.dump(record, file)
os.replace(target + ".new", target)
"""

_SCRIPT: Final = f"""
asked=$1 prefix=$2 probe=$3; shift 3
stop() {{ echo "aliquot: $1" >&2; exit {NOT_FOUND}; }}
case $asked in
"") ;;
{UV}) command -v uv >/dev/null || stop "uv is not installed on this node"
    [ -f uv.lock ] || stop "there is no uv.lock in the working directory"
    uv sync --frozen || exit ;;
*) [ -x "$prefix/bin/python" ] || stop "there is no environment at $asked on this node"
    if [ -d "$prefix/etc/conda/activate.d" ]; then
        CONDA_PREFIX=$prefix; export CONDA_PREFIX
        for part in "$prefix"/etc/conda/activate.d/*.sh; do [ -r "$part" ] && . "$part"; done
    fi ;;
esac
if [ "$ALIQUOT_RANK" = 0 ]; then
    python=$(command -v python || command -v python3) &&
        "$python" -c "$probe" "$RESULT_DIR/{RECORD}" "$asked" </dev/null >/dev/null 2>&1
fi
exec "$@"
"""


def activated(order: LaunchOrder, *, work: Path) -> tuple[str, ...]:
    """The command of an order that has a workspace or an environment, run within them."""
    asked = order.activates or ""
    return (SHELL, "-c", _SCRIPT, NAME, asked, prefix_of(order, work=work) or "", _PROBE, *order.argv)


def prefix_of(order: LaunchOrder, *, work: Path) -> str | None:
    """The folder of an order's environment; None without one."""
    if order.activates == UV:
        return str((Path(order.working_directory) if order.working_directory else work) / VENV)
    return order.activates


def packages_of(order: LaunchOrder, *, user: JobUser, folder: Path) -> Path | None:
    """The folder where uv keeps what it downloaded and built, for later sessions of the same owner and account. None if
    the job does not use uv, or if the account has a home on this node, where uv keeps it by itself.

    Args:
        folder: the agent's.
    """
    if order.activates != UV or order.workspace is None:
        return None
    if order.image is None and Path(user.home).is_dir():
        return None
    name = hashlib.sha256(f"{user.uid} {order.workspace.owner}".encode()).hexdigest()
    return folder / PACKAGES / name[:32]


def variables(
    order: LaunchOrder, environment: Mapping[str, str], *, work: Path, packages: Path | None = None
) -> dict[str, str]:
    """Variables of the environment.

    Args:
        environment: the job's other variables, for PATH.
        packages: see `packages_of`.
    """
    prefix = prefix_of(order, work=work)
    if prefix is None:
        return {}
    found = {"PATH": f"{prefix}/bin:{environment.get('PATH', '')}", "VIRTUAL_ENV": prefix}
    if packages is not None:
        found["UV_CACHE_DIR"] = environment.get("UV_CACHE_DIR", str(packages))
    return found
