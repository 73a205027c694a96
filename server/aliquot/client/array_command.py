"""The command of a job array whose tasks each have a command of their own."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from aliquot_schema.sessions import COMMAND_BYTES_MAX

_PLACE: Final = re.compile(r"\{(\w+)\}")


def array_command(command: Sequence[str], parameters: Sequence[Mapping[str, object]]) -> str:
    """A text for /bin/sh that becomes the command of the task it runs in.

    Args:
        command: program and arguments; `{name}` in them is a parameter. Other braces stay.
        parameters: one mapping per task, which is numbered from 0.
    Raises:
        ValueError: there is no task, a task lacks a parameter, or the text is longer than a command may be.
    """
    if not parameters:
        raise ValueError("there are no parameters, so there is no task")
    lines = [f"{index}) exec {_filled(command, task, index)};;" for index, task in enumerate(parameters)]
    text = "\n".join(['case "$ALIQUOT_ARRAY_INDEX" in', *lines, "esac"])
    if (size := len(text.encode())) > COMMAND_BYTES_MAX:
        raise ValueError(
            f"the commands of {len(parameters)} tasks are {size} bytes, more than {COMMAND_BYTES_MAX}; "
            "submit fewer at a time, or have the program read its parameters from a file"
        )
    return text


def _filled(command: Sequence[str], task: Mapping[str, object], index: int) -> str:
    missing = {name for word in command for name in _PLACE.findall(word)} - task.keys()
    if missing:
        raise ValueError(f"task {index} has no parameter {', '.join(sorted(missing))}")
    return shlex.join(_PLACE.sub(lambda found: str(task[found[1]]), word) for word in command)
