"""Session files: YAML with one session, or several under `sessions` that depend on each other; and their JSON schema.

Readers and schema are made from one table of keys. Messages name file, line and key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from aliquot.cli.run.keys import AFTER, COMMAND, KEYS, NAMES, dashed, read_command
from aliquot.core.policy_tests.tables import Entry, Table, documents
from aliquot_schema.errors import InvalidRequest

if TYPE_CHECKING:
    from aliquot.client.generated.inputs import CreateSessionInput

BYTES_MAX: Final = 4 * 1024 * 1024
SESSIONS_MAX: Final = 1000
CONDITIONS: Final = {"after": "after_ok", "after_any": "after_any", "after_failed": "after_fail"}
"""Keys of dependencies, and the condition of each."""


class SessionInFile(Struct, frozen=True, kw_only=True):
    """A session of a file."""

    name: str
    """Its key in the file; the file's name if it is the only one."""
    fields: Mapping[str, Any]
    """Of `CreateSessionInput`, without dependencies and workspace."""
    after: tuple[tuple[str, str, str], ...]
    """(name, condition, place in the file for messages)."""
    label: str
    """Its `file:line` and key, for messages."""
    labels: Mapping[str, str]
    """The same of its keys, by the field of `CreateSessionInput` that they give."""
    sync: Path | None = None
    """Folder to upload."""

    def request(self) -> "CreateSessionInput":
        """The request without its dependencies."""
        import msgspec

        from aliquot.client.generated.inputs import CreateSessionInput

        return msgspec.convert(self.fields, CreateSessionInput)

    def refusal(self, message: str, *, field: str | None) -> str:
        """A refusal by the server, with its place in the file in front, and the key in place of the field."""
        named = field or message.partition(":")[0]
        return f"{self.labels.get(named, self.label)}: {message.removeprefix(f'{named}: ')}"


def read_file(path: Path) -> list[SessionInFile]:
    """The sessions of a file, dependencies first.

    Raises:
        InvalidRequest: the file is invalid; the message names file, line and key.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    if len(data) > BYTES_MAX:
        raise InvalidRequest(f"{path}: it has {len(data)} bytes; {BYTES_MAX} are allowed")
    try:
        return read_text(data.decode(), file=path.name, folder=path.parent.absolute())
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path}: it is not UTF-8 text: {error}") from None


def read_text(text: str, *, file: str, folder: Path) -> list[SessionInFile]:
    """See `read_file`.

    Args:
        folder: relative working directories begin here.
    """
    found = documents(text, file=file)
    if len(found) != 1:
        raise InvalidRequest(f"{file}:1: give one document; it has {len(found)}")
    top = found[0].table()
    sessions = top.maybe("sessions", lambda entry: list(entry.pairs()))
    if sessions is None:
        only = Path(file).stem
        return [_session(only, found[0].table(), {}, folder=folder)]
    defaults = top.maybe("defaults", lambda entry: dict(entry.pairs())) or {}
    top.finish()
    if not 1 <= len(sessions) <= SESSIONS_MAX:
        raise InvalidRequest(f"{file}: sessions: it has {len(sessions)}; 1 to {SESSIONS_MAX} are allowed")
    return _ordered([_session(name, _table(entry), defaults, folder=folder) for name, entry in sessions])


def schema() -> dict[str, Any]:
    """JSON schema of a session file, for editors."""
    keys = {"command": {**COMMAND, "description": "Text for /bin/sh, or a list of program and arguments."}}
    keys |= {dashed(name): {**key.schema, "description": key.about} for name, key in KEYS.items()}
    keys |= {dashed(name): {**NAMES, "description": f"Sessions that {what}."} for name, what in AFTER.items()}
    one = {"type": "object", "additionalProperties": False, "properties": keys}
    graph = {
        "type": "object",
        "additionalProperties": False,
        "required": ["sessions"],
        "properties": {
            "defaults": {**one, "description": "Keys of every session that does not give them."},
            "sessions": {
                "type": "object",
                "description": "Sessions by name; `after` names those that one waits for.",
                "minProperties": 1,
                "maxProperties": SESSIONS_MAX,
                "additionalProperties": one,
            },
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sessions of Aliquot",
        "oneOf": [{**one, "required": ["command"]}, graph],
    }


def _table(entry: Entry) -> Table:
    if not entry.is_table:
        entry.refuse("expected `key: value`, like `command: python train.py`")
    return entry.table()


def _session(name: str, table: Table, defaults: Mapping[str, Entry], *, folder: Path) -> SessionInFile:
    base = {key.replace("-", "_"): entry for key, entry in defaults.items()}
    fields: dict[str, Any] = {}
    labels: dict[str, str] = {}
    command = table.maybe("command", read_command) or ("command" in base and read_command(base["command"]))
    if not command:
        table.at.refuse("`command` is missing")
    for key, rule in KEYS.items():
        entry = table.maybe(key, lambda own: own) or base.get(key)
        value = None if entry is None else rule.read(entry)
        if entry is not None and value is not None:
            fields[rule.field] = _joined(fields.get(rule.field), value)
            labels[rule.field] = entry.label
    _set_array(fields, table)
    own = {key: table.maybe(key, _places) for key in CONDITIONS}
    after = [(key, _places(base[key]) if own[key] is None and key in base else own[key] or []) for key in CONDITIONS]
    for key in base:
        if key not in {"command", *KEYS, *CONDITIONS}:
            defaults[next(name for name in defaults if name.replace("-", "_") == key)].refuse("unknown key")
    table.finish()
    if "working_directory" in fields:
        fields["working_directory"] = str(folder / fields["working_directory"])
    sync = fields.pop("sync", None)
    fields.setdefault("slots", [{"slot": "cpu", "amount": "1"}])
    fields.setdefault("name", name)
    return SessionInFile(
        name=name,
        fields={"command": command, **fields},
        after=tuple((other, CONDITIONS[key], place) for key, names in after for other, place in names),
        label=table.at.label,
        labels=labels,
        sync=None if sync is None else folder / sync,
    )


def _set_array(fields: dict[str, Any], table: Table) -> None:
    """Replace an array by its indices; its limit is used unless the session has another one beside a default array."""
    if "array" not in fields:
        return
    fields["array"], limit = fields["array"]
    own = table.maybe("max_parallel", Entry.whole)
    if limit is None or own == limit:
        return
    if own is None:
        fields["max_parallel"] = limit
    elif table.maybe("array", Entry.text) is not None:
        table.at.refuse(f"the array has the limit {limit} and max-parallel is {own}: give one limit")


def _ordered(sessions: list[SessionInFile]) -> list[SessionInFile]:
    """Each session after those of the file that it depends on."""
    by_name = {one.name: one for one in sessions}
    done: dict[str, SessionInFile] = {}
    left = dict(by_name)
    while left:
        free = [one for one in left.values() if all(name not in left for name, _, _ in one.after)]
        if not free:
            one = next(iter(left.values()))
            name, _, place = next(link for link in one.after if link[0] in left)
            raise InvalidRequest(f"{place}: {one.name} waits for {name}, which waits for it: a cycle", field="after")
        for one in free:
            done[one.name] = left.pop(one.name)
    return list(done.values())


def _joined(old: Any, new: Any) -> Any:
    """The value of a field that several keys give."""
    if isinstance(old, list):
        return [*old, *new]
    return {**old, **new} if isinstance(old, dict) else new


def _places(entry: Entry) -> list[tuple[str, str]]:
    return [(name, entry.place) for name in entry.names()]
