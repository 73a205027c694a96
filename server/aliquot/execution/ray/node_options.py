"""What the agents of a Ray node are made of: a file that whoever starts the node writes, and its actor reads."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.default_folder import default_data_folder
from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot.execution.remote.agent_setup import AgentOptions

VARIABLE: Final = "ALIQUOT_RAY_NODE"
"""Names the file, in the environment of a node's raylet and so of its actor."""
FILE: Final = "ray-node.json"

_OPTIONS: Final = TypeAdapter(AgentOptions)


def write_options(options: AgentOptions) -> Path:
    """Write the file into the agents' data folder."""
    path = options.data_folder.absolute() / FILE
    replace_file(path, {"format": FORMAT, "options": _OPTIONS.dump_python(options, mode="json", by_alias=True)})
    return path


def read_options() -> AgentOptions:
    """What the environment's file says; of a node that was started by other means, this machine as it is.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return AgentOptions(data_folder=default_data_folder())
    try:
        fields = read_file(Path(named))
        if fields is None:
            raise ConfigurationError(f"{VARIABLE}: there is no file {named}")
        return _OPTIONS.validate_python(fields["options"])
    except (OSError, KeyError, ValueError, ValidationError) as error:
        raise ConfigurationError(f"{VARIABLE}: {named} cannot be used: {error}") from error


def each_agent(options: AgentOptions) -> list[AgentOptions]:
    """The options of every agent that the node is divided among, or of its only one."""
    return [replace(options, id=table.id) for table in options.division.agents] or [options]
