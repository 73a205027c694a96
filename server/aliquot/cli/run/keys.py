"""Keys of a session in a session file: how each is read, what it is in the schema, and the field that it becomes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from aliquot.cli.session.slurm import SlurmError, array_parts
from aliquot.core.policy_tests.tables import Entry, Table
from aliquot_schema.resources.units import parse_duration
from aliquot_schema.sessions import PRIORITIES

_TEXT: Final = {"type": ["string", "number"]}
NAMES: Final = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_PAIRS: Final = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_DURATION: Final = {"type": ["string", "number"], "description": "Like 2h30m; a number is seconds."}
_AMOUNTS: Final = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}


class Key(Struct, frozen=True, kw_only=True):
    """A key of a session."""

    field: str
    """Of `CreateSessionInput`."""
    read: Callable[[Entry], Any]
    schema: Mapping[str, Any]
    about: str


def read_command(entry: Entry) -> dict[str, Any]:
    return {"shell": entry.text()} if entry.is_scalar else {"argv": [item.text() for item in entry.items()]}


def _amounts(entry: Entry) -> list[dict[str, str]]:
    return [{"slot": slot, "amount": amount.text()} for slot, amount in entry.pairs()]


def _pairs(entry: Entry) -> list[dict[str, str]]:
    return [{"name": name, "value": value.text()} for name, value in entry.pairs()]


def _seconds(entry: Entry) -> float:
    return entry.checked(lambda: parse_duration(entry.text()))


def _priority(entry: Entry) -> str:
    return PRIORITIES[entry.one_of(PRIORITIES)].name.lower()


def _secrets(kind: str) -> Callable[[Entry], list[dict[str, str]]]:
    def read(entry: Entry) -> list[dict[str, str]]:
        if entry.is_table:
            return [{"name": name, kind: value.text()} for name, value in entry.pairs()]
        return [{"name": name, kind: name} for name in entry.names()]

    return read


def _metrics(entry: Entry) -> list[dict[str, str]]:
    return [{"name": name, "pattern": value.text()} for name, value in entry.pairs()]


def _apps(entry: Entry) -> list[dict[str, Any]]:
    return [_app(item) for item in entry.items()] if not entry.is_scalar else [_app(entry)]


def _app(entry: Entry) -> dict[str, Any]:
    name, _, port = entry.text().partition("=")
    if not name or (port and not (port.isascii() and port.isdecimal() and len(port) <= 5)):
        entry.refuse(f"{entry.text()[:64]!r} is not like lab=8888, or lab for a port that is chosen")
    return {"name": name, "port": int(port or 0)}


def _preflight(entry: Entry) -> dict[str, Any]:
    """`default`, a command, or a table of `command` and `limit`."""
    if entry.is_table:
        table = entry.table()
        command, limit_s = table.maybe("command", _check), table.maybe("limit", _seconds)
        table.finish()
        return {"command": command} | ({} if limit_s is None else {"time_limit": limit_s})
    return {"command": _check(entry)}


def _check(entry: Entry) -> dict[str, Any] | None:
    return None if entry.is_scalar and entry.text() == "default" else read_command(entry)


def _limit(name: str) -> Callable[[Entry], dict[str, int]]:
    return lambda entry: {name: entry.whole()}


def _fallbacks(entry: Entry) -> list[dict[str, Any]]:
    return [dict(_fallback(item.table())) for item in entry.items()]


def _fallback(table: Table) -> Iterator[tuple[str, Any]]:
    yield "slots", table.need("resources", _amounts)
    yield "after_s", table.need("after", _seconds)
    yield "cluster_size", table.maybe("cluster_size", Entry.whole)
    yield "gpu_memory_gb", table.maybe("gpu_memory", Entry.text)
    table.finish()


def _array(entry: Entry) -> tuple[str, int | None]:
    """The indices without steps, and Slurm's limit on tasks at one time."""
    text = entry.text()
    if not {":", "%"} & set(text):
        return text, None
    try:
        return array_parts(text, option="")
    except SlurmError as error:
        entry.refuse(str(error))


def _topology(entry: Entry) -> str:
    return entry.one_of(("prefer", "require"))


def _sandbox(entry: Entry) -> str | None:
    return "standard" if entry.flag() else None


def _key(field: str, read: Callable[[Entry], Any], schema: Mapping[str, Any], about: str) -> Key:
    return Key(field=field, read=read, schema=schema, about=about)


def dashed(name: str) -> str:
    return name.replace("_", "-")


COMMAND: Final = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "number"]}}]}
PREFLIGHT: Final = {
    "oneOf": [
        *COMMAND["oneOf"],
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"command": COMMAND, "limit": _DURATION},
        },
    ]
}
AFTER: Final = {
    "after": "have to complete before it",
    "after_any": "have to end before it",
    "after_failed": "have to fail before it",
}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_FLAG: Final = {"type": "boolean"}
_FALLBACKS: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["resources", "after"],
        "properties": {
            "resources": _AMOUNTS,
            "after": _DURATION,
            "cluster-size": _WHOLE,
            "gpu-memory": _TEXT,
        },
    },
}
_SECRETS: Final = {"oneOf": [*NAMES["oneOf"], {"type": "object", "additionalProperties": {"type": "string"}}]}
KEYS: Final[Mapping[str, Key]] = {
    "resources": _key("slots", _amounts, _AMOUNTS, "Per kernel, like gpu: 0.5 and mem: 16g. cpu: 1 by default."),
    "name": _key("name", Entry.text, _TEXT, "Name for display; by default its key, or the file's name."),
    "cluster_size": _key("cluster_size", Entry.whole, _WHOLE, "Number of kernels; all start together or none."),
    "cluster_size_min": _key("cluster_size_min", Entry.whole, _WHOLE, "Start with fewer kernels, at least this many."),
    "gpu_memory": _key("gpu_memory_gb", Entry.text, _TEXT, "Minimum memory per GPU, in 10^9 bytes."),
    "models": _key("models", Entry.names, NAMES, "Only GPUs of these models, like '*H100*'."),
    "preferred_models": _key("preferred_models", Entry.names, NAMES, "GPUs of these models, if it fits on them now."),
    "environment": _key("environment", _pairs, _PAIRS, "Environment variables."),
    "image": _key("image", Entry.text, _TEXT, "Container image to run it in."),
    "preflight": _key("preflight", _preflight, PREFLIGHT, "Check before it on every rank: a command, or default."),
    "shared": _key("shares_access", Entry.flag, _FLAG, "Let members of its project open terminals and services."),
    "workspace": _key("workspace", Entry.text, _TEXT, "Id of files that were uploaded before."),
    "sync": _key("sync", Entry.text, _TEXT, "Folder to upload as the working directory; relative to the file."),
    "activate": _key("activates", Entry.text, _TEXT, "Environment for the command: uv, or a path on the nodes."),
    "working_directory": _key("working_directory", Entry.text, _TEXT, "A path on the node; relative to the file."),
    "secrets": _key("secrets", _secrets("as_env"), _SECRETS, "Your secrets as variables, by name or NAME: VARIABLE."),
    "secret_files": _key("secrets", _secrets("as_file"), _SECRETS, "Your secrets as files, by name or NAME: FILE."),
    "sandbox": _key("sandbox", _sandbox, _FLAG, "Run it in a sandbox, on nodes that can."),
    "max_processes": _key("limits", _limit("processes"), _WHOLE, "Maximum number of processes."),
    "max_open_files": _key("limits", _limit("open_files"), _WHOLE, "Maximum open files per process."),
    "tags": _key("tags", _pairs, _PAIRS, "Tags of your own."),
    "run_id": _key("run_id", Entry.text, _TEXT, "An id of your own."),
    "project": _key("project", Entry.text, _TEXT, "The project to charge."),
    "pool": _key("pool", Entry.text, _TEXT, "The pool to run in."),
    "labels": _key("labels", _pairs, _PAIRS, "Only on agents with these labels."),
    "preferred_labels": _key("preferred_labels", _pairs, _PAIRS, "On agents with these labels, if it fits now."),
    "topology": _key("topology", _topology, {"enum": ["prefer", "require"]}, "Kernels on few switches, or on one."),
    "priority": _key("priority", _priority, {"enum": sorted(PRIORITIES)}, "low, normal, high or critical."),
    "time_limit": _key("time_limit", _seconds, _DURATION, "Stop it after this, like 2h30m."),
    "estimate": _key("estimated_duration", _seconds, _DURATION, "Your estimate of its run time."),
    "array": _key("array", _array, _TEXT, "One task per index, like 0-99,105, or as in Slurm: 0-99:2%4."),
    "max_parallel": _key("max_parallel", Entry.whole, _WHOLE, "Tasks that run at one time."),
    "retries": _key("max_retries", Entry.whole, _WHOLE, "Further attempts after a failure of the cluster."),
    "retry_own_failures": _key("retries_own_failures", Entry.flag, _FLAG, "Retry failures of the command itself too."),
    "preemptible": _key("preemptible", Entry.flag, _FLAG, "Allow preemption by other sessions."),
    "checkpoint_signal": _key("checkpoint_signal", Entry.text, _TEXT, "Sent to save its work, like SIGUSR1."),
    "checkpoint_every": _key("checkpoint_every", _seconds, _DURATION, "How often it saves its work."),
    "grace": _key("grace", _seconds, _DURATION, "From that signal to SIGKILL."),
    "fallbacks": _key("fallbacks", _fallbacks, _FALLBACKS, "Smaller requests that replace it after a wait."),
    "metrics": _key("metrics", _metrics, _PAIRS, "Numbers in its output, like loss: 'loss {value}'."),
    "apps": _key("apps", _apps, NAMES, "Web services of it to open in the browser, like lab=8888."),
    "booking": _key("booking", Entry.text, _TEXT, "Run in this booking."),
    "hold": _key("held", Entry.flag, _FLAG, "Do not start it before it is released."),
}
"""Keys of a session, with `_` for `-`."""
