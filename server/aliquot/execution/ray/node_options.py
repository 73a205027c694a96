"""Ray node options: the file that passes agent options to a node's actor, and the environments of Ray's processes."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot.execution.remote.agent_setup import AgentOptions
from aliquot.execution.settings import default_data_folder

VARIABLE: Final = "ALIQUOT_RAY_NODE"
"""Environment variable of raylet and actor with the path of the options file."""
FILE: Final = "ray-node.json"

_OPTIONS: Final = TypeAdapter(AgentOptions)


def write_options(options: AgentOptions) -> Path:
    """Write the options file into the agents' data folder."""
    path = options.data_folder.absolute() / FILE
    replace_file(path, {"format": FORMAT, "options": _OPTIONS.dump_python(options, mode="json", by_alias=True)})
    return path


def read_options() -> AgentOptions:
    """Read the options file; without `VARIABLE` (a node not started by Aliquot), the defaults for this machine.

    Raises:
        ConfigurationError: the file is missing or invalid.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return AgentOptions(data_folder=default_data_folder())
    try:
        fields = read_file(Path(named))
        if fields is None:
            raise ConfigurationError(f"{VARIABLE}: the file {named} does not exist")
        return _OPTIONS.validate_python(fields["options"])
    except (OSError, KeyError, ValueError, ValidationError) as error:
        raise ConfigurationError(f"{VARIABLE}: {named} cannot be used: {error}") from error


def each_agent(options: AgentOptions) -> list[AgentOptions]:
    """The options of each agent of the node."""
    return [replace(options, id=table.id) for table in options.division.agents] or [options]


MODE: Final = "RAY_AUTH_MODE"
TOKEN_FILE: Final = "RAY_AUTH_TOKEN_PATH"

_PASSED: Final = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH"})
_PREFIXES: Final = ("RAY_", "LC_", "NVIDIA_", "CUDA_")
_NODE: Final = {
    # Ray must not kill kernels when their actor ends.
    "RAY_kill_child_processes_on_worker_exit": "0",
    "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper": "0",
    "RAY_process_group_cleanup_enabled": "0",
    # On low memory Ray could only kill the actor, but the memory is used by jobs.
    "RAY_memory_monitor_refresh_ms": "0",
    # The actor never ends, so waiting for it to drain is useless.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def driver_environment(environment: Mapping[str, str], *, token_file: Path | None) -> dict[str, str]:
    """Environment of the gateway: basic and Ray variables, with Ray's authentication on by default."""
    passed = {name: text for name, text in environment.items() if name in _PASSED or name.startswith(_PREFIXES)}
    passed.pop("RAY_ADDRESS", None)
    token = {} if token_file is None else {TOKEN_FILE: str(token_file.absolute())}
    return {MODE: "token", **passed, **token}


def node_environment(environment: Mapping[str, str], *, token_file: Path | None) -> dict[str, str]:
    """Environment of a raylet and its children; Ray variables set by the operator win."""
    return _NODE | driver_environment(environment, token_file=token_file)
