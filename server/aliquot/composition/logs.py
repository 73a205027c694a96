"""Logs: one format for everything that a process says, with the fields of what it belongs to.

A line for people ends with the fields that its words do not hold; a JSON line has each as a member of its own.
"""

import json
import logging
import re
from typing import Any, Final, Literal

from aliquot.service.measuring.log_fields import log_fields

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_PLAIN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "event"}
"""What every record has, and the name of an event, which its words say."""


def set_up_logs(*, level: str, form: Literal["console", "json"], quiet: tuple[str, ...] = ()) -> None:
    """Send the log of this process to stderr.

    Args:
        quiet: loggers of libraries that are heard from warnings on.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_json_lines() if form == "json" else ConsoleLines(FORMAT))
    handler.addFilter(_add_fields)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)


class ConsoleLines(logging.Formatter):
    """Lines for people."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The words, and the fields that are not in them."""
        line = super().formatMessage(record)
        fields = [(name, value) for name, value in record.__dict__.items() if name not in _PLAIN]
        added = [f"{name}={_told(value)}" for name, value in fields if not _says(record.message, str(value))]
        if added:
            line = f"{line}  {' '.join(added)}"
        # A line is one line, whatever a client has put into an address or a name.
        return _escaped(line)

    def formatException(self, ei: Any) -> str:  # typed as in `logging`
        """Set in, so that no line of it, which may quote a client, passes for one of the log."""
        return "\n".join(f"  {_escaped(line)}" for line in super().formatException(ei).split("\n"))


def _says(message: str, text: str) -> bool:
    """Whether it is there as a word: `al` is not said by `allocated`."""
    return text in message and re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", message) is not None


def _told(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    # A name with a blank in it could go on as a field of its own.
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text else text


def _escaped(line: str) -> str:
    """What ends lines, moves cursors or turns directions is spelt out."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in line)


def _add_fields(record: logging.LogRecord) -> bool:
    """Each line gets the fields of what it was said in; what the line brings itself counts more."""
    for name, value in log_fields().items():
        record.__dict__.setdefault(name, value)
    return True


def _json_lines() -> logging.Formatter:
    # Imported here: a start that logs for people does without it.
    from pythonjsonlogger.json import JsonFormatter

    names = {"levelname": "level", "name": "logger"}
    return JsonFormatter(["levelname", "name", "message"], rename_fields=names, timestamp="time")
