"""Log format: one format for all loggers of a process, with context fields such as `agent_id` on each record.

A console line ends with the fields that its message does not mention; a JSON line has each field as a member.
"""

import json
import logging
import re
from typing import Any, Final, Literal

from aliquot.service.metrics.log_context import log_fields
from aliquot_schema.deprecation import report_deprecated

deprecation_log: Final = logging.getLogger("aliquot.deprecation")
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_PLAIN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "event"}
"""Attributes that every record has, and the event name, which the message repeats."""


def set_up_logs(*, level: str, form: Literal["console", "json"], quiet: tuple[str, ...] = ()) -> None:
    """Send the log of this process to stderr.

    Args:
        quiet: loggers of libraries of which only warnings and errors are logged.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_json_lines() if form == "json" else ConsoleLines(FORMAT))
    handler.addFilter(_add_fields)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    report_deprecated(deprecation_log.warning)
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)


class ConsoleLines(logging.Formatter):
    """Console lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The message, and the fields that it does not mention."""
        line = super().formatMessage(record)
        fields = [(name, value) for name, value in record.__dict__.items() if name not in _PLAIN]
        added = [f"{name}={_quoted(value)}" for name, value in fields if not _mentions(record.message, str(value))]
        if added:
            line = f"{line}  {' '.join(added)}"
        # One record stays one line, even if a client puts line breaks into an address or a name.
        return _escaped(line)

    def formatException(self, ei: Any) -> str:  # typed as in `logging`
        """Indented, so that text of a client quoted in a traceback cannot pass for a log line."""
        return "\n".join(f"  {_escaped(line)}" for line in super().formatException(ei).split("\n"))


def _mentions(message: str, text: str) -> bool:
    """Whether the message contains the text as a whole word: `allocated` does not mention `al`."""
    return text in message and re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", message) is not None


def _quoted(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    # Unquoted, a name with a blank could imitate another field.
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text else text


def _escaped(line: str) -> str:
    """The line with control and direction characters as escape sequences."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)


def _add_fields(record: logging.LogRecord) -> bool:
    """Add the context fields; fields of the record itself take precedence."""
    for name, value in log_fields().items():
        record.__dict__.setdefault(name, value)
    return True


def _json_lines() -> logging.Formatter:
    # Imported here: console logs do not need it.
    from pythonjsonlogger.json import JsonFormatter

    names = {"levelname": "level", "name": "logger"}
    return JsonFormatter(["levelname", "name", "message"], rename_fields=names, timestamp="time")
