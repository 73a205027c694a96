"""What has to be in place before a Ray node is started here."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from aliquot.errors import ConfigurationError
from aliquot.execution.ray.environment import node_environment
from aliquot.execution.ray.node.start_command import RayNodeOptions
from aliquot.execution.ray.node.token_file import checked_token, made_token
from aliquot.execution.ray.node_options import VARIABLE, each_agent, write_options
from aliquot.execution.remote.agent_setup import AgentOptions, agent_node


def prepared_environment(
    environment: Mapping[str, str], *, agents: AgentOptions, ray: RayNodeOptions, token_file: Path | None
) -> dict[str, str]:
    """Check everything, write what the actor reads, and say what the Ray node gets as its environment.

    Raises:
        ConfigurationError: Ray is not installed, or a flag or a file is wrong.
    """
    check_ray_installed()
    check_address(ray.head)
    token = token_file
    if token is not None:
        token = made_token(token) if ray.is_head else checked_token(token)
    result = node_environment(environment, token_file=token)
    if not ray.with_agent:
        return result
    for options in each_agent(agents):
        agent_node(options)
    try:
        agents.data_folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        return result | {VARIABLE: str(write_options(agents))}
    except OSError as error:
        words = f"data-folder: {agents.data_folder} cannot be used ({error.strerror}); give another with --data-folder"
        raise ConfigurationError(words) from None


def check_ray_installed() -> None:
    """Raises:
    ConfigurationError: it is not.
    """
    if find_spec("ray") is None:
        raise ConfigurationError("Ray is not installed here (pip install 'ray[default]')")


def check_address(head: str) -> None:
    """Raises:
    ConfigurationError: it is no `HOST:PORT`.
    """
    host, _, port = head.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigurationError(f"ray-head: {head!r} is no address like 10.0.0.1:6379")
