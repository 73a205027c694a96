"""What Ray's processes are given of the environment: nothing of the server's, and not less than Ray needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

MODE: Final = "RAY_AUTH_MODE"
TOKEN_FILE: Final = "RAY_AUTH_TOKEN_PATH"

_PASSED: Final = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH"})
_PREFIXES: Final = ("RAY_", "LC_", "NVIDIA_", "CUDA_")
_NODE: Final = {
    # Kernels are not Ray's to end, whatever becomes of the actor that had them started.
    "RAY_kill_child_processes_on_worker_exit": "0",
    "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper": "0",
    "RAY_process_group_cleanup_enabled": "0",
    # The actor is the only process that Ray could end for want of memory, and jobs are what takes it.
    "RAY_memory_monitor_refresh_ms": "0",
    # An actor that is meant to stay for ever leaves nothing to wait for.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def driver_environment(environment: Mapping[str, str], *, token_file: Path | None) -> dict[str, str]:
    """For the gateway: what every program has, and Ray's own variables, with its authentication on unless told."""
    passed = {name: text for name, text in environment.items() if name in _PASSED or name.startswith(_PREFIXES)}
    passed.pop("RAY_ADDRESS", None)
    token = {} if token_file is None else {TOKEN_FILE: str(token_file.absolute())}
    return {MODE: "token", **passed, **token}


def node_environment(environment: Mapping[str, str], *, token_file: Path | None) -> dict[str, str]:
    """For a raylet and what it starts; what is set for Ray by hand stays so."""
    return _NODE | driver_environment(environment, token_file=token_file)
