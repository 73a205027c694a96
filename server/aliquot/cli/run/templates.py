"""`aliquot template`: session templates with parameters, personal ones and those of a project.

Templates hold the fields of the dashboard's form. The table of this module says which key of a session file each field
is, so that both make the same sessions.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.output import print_json, printable, show_table, table
from aliquot.cli.connection.server import REFUSED, AsJson, AtServer, InCluster, TokenFile, connected, fail, usage
from aliquot.cli.session.submit import submit
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.views.templates import PERSONAL, filled

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.inputs import CreateSessionInput

template = typer.Typer(no_args_is_help=True, help="Session templates with parameters.")

Name = Annotated[str, Argument(help="Name of the template.")]
Project = Annotated[str, Option("--project", "-P", metavar="NAME", help="Of this project, instead of a personal one.")]
Values = Annotated[list[str] | None, Option("--set", "-s", metavar="NAME=VALUE", help="Value of a parameter.")]
Follow = Annotated[bool, Option("--follow", "-f", help="Print its output until it ends.")]
Preview = Annotated[bool, Option("--preview", help="Submit nothing; show what would happen.")]
TEXTS: Final[Mapping[str, str]] = {
    "activates": "activate",
    "array": "array",
    "checkpointEvery": "checkpoint-every",
    "checkpointSignal": "checkpoint-signal",
    "command": "command",
    "estimate": "estimate",
    "folder": "working-directory",
    "gpuMemory": "gpu-memory",
    "grace": "grace",
    "image": "image",
    "kernels": "cluster-size",
    "kernelsMin": "cluster-size-min",
    "limit": "time-limit",
    "maxParallel": "max-parallel",
    "name": "name",
    "openFiles": "max-open-files",
    "pool": "pool",
    "priority": "priority",
    "processes": "max-processes",
    "project": "project",
    "retries": "retries",
    "runId": "run-id",
    "topology": "topology",
    "workspace": "workspace",
}
YES: Final = ("true", "yes", "on")
NO: Final = ("false", "no", "off")
FLAGS: Final[Mapping[str, str]] = {
    "isHeld": "hold",
    "isPreemptible": "preemptible",
    "isSandboxed": "sandbox",
    "isShared": "shared",
    "retriesOwn": "retry-own-failures",
}
PAIRS: Final[Mapping[str, str]] = {
    "environment": "environment",
    "labels": "labels",
    "preferredLabels": "preferred-labels",
    "tags": "tags",
}
LISTS: Final[Mapping[str, str]] = {"models": "models", "preferredModels": "preferred-models"}
_AMOUNTS: Final = frozenset({"slot", "amount", "cpu", "mem", "otherSlots"})
_SLOT: Final = "cuda.device"
PRESET_LIMIT: Final = "8h"
"""Time limit of a preset, as in the dashboard."""


@template.command("list")
def list_templates(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List your templates and those of your projects, with their parameters."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.session_templates()
    if as_json:
        print_json(found)
        return
    made = table("name", "of", "author", "parameters")
    for one in found:
        words = (name.name if name.default is None else f"{name.name}={name.default}" for name in one.parameters)
        made.add_row(printable(one.name), printable(one.project or "you"), one.author, printable(" ".join(words)))
    show_table(made)


@template.command("save")
def save(
    name: Name,
    file: Annotated[Path, Argument(metavar="FILE", help="One session in YAML, as for `aliquot run`.")],
    project: Project = PERSONAL,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Save a session file as a template. Its texts may have parameters: {{lr}}, or {{lr=0.1}} with a default."""
    fields = _fields_of(file)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        saved = client.save_session_template(project=project, name=name, fields=json.dumps(fields)).template
    if as_json:
        print_json(saved)
        return
    names = ", ".join(one.name for one in saved.parameters)
    print(f"{printable(saved.name)} is saved; parameters: {names or 'none'}")


@template.command("delete")
def delete(
    name: Name,
    project: Project = PERSONAL,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a template."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        gone = client.delete_session_template(project=project, name=name)
    print_json(gone) if as_json else print(f"{printable(name)} is deleted")


@template.command("run")
def run(
    name: Name,
    values: Values = None,
    project: Annotated[str | None, Option("--project", "-P", metavar="NAME", help="Of this project.")] = None,
    follow: Follow = False,
    preview: Preview = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Submit a session from a template: a personal one of this name, else one of your projects, else a preset.

    Presets: jupyter, code-server, tensorboard, mlflow, torchrun, sweep.
    """
    given = dict(_pair(text) for text in values or ())
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        wanted = _request(name, _find(client, name, project), given)
        submit(client, wanted, wait=False, follow=follow, raw=False, preview=preview, as_json=as_json)


def preset_fields(name: str) -> dict[str, Any] | None:
    """The fields of a preset, as the dashboard fills its form with them; None if there is none of this name."""
    known = json.loads(files("aliquot_schema").joinpath("presets.json").read_text(encoding="utf-8")).get(name)
    if known is None:
        return None
    rest = {field: value for field, value in known.items() if field not in ("title", "app")}
    own = {"name": name, "apps": known["app"], "limit": PRESET_LIMIT, "cpu": "" if known["slot"] else "1"}
    return own | rest


def _find(client: "BlockingClient", name: str, project: str | None) -> dict[str, Any]:
    """The fields of a template, or of a preset."""
    found = [one for one in client.session_templates() if one.name == name and project in (None, one.project)]
    own = [one for one in found if one.project == PERSONAL] or found
    if not own:
        if (preset := preset_fields(name)) is not None and project is None:
            return preset
        fail(f"there is no template {printable(name)}; `aliquot template list` lists them", code=REFUSED)
    if len(own) > 1:
        usage(f"{printable(name)} is a template of several projects; name one with --project")
    fields: dict[str, Any] = json.loads(own[0].fields)
    return fields


def _request(name: str, fields: Mapping[str, Any], values: Mapping[str, str]) -> "CreateSessionInput":
    import yaml

    from aliquot.cli.run.fields import read_text

    try:
        session = session_of(filled(dict(fields), values))
        (one,) = read_text(yaml.safe_dump(session, sort_keys=False), file=name, folder=Path.cwd())
    except InvalidRequest as error:
        usage(f"template {printable(name)}: {error.message}")
    return one.request()


def session_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A session file from the fields of a form. Raises InvalidRequest for a field that such files do not have."""
    session: dict[str, Any] = {"resources": _resources(fields)}
    for name, value in fields.items():
        if name in _AMOUNTS or value in ("", False, []):
            continue
        if name in TEXTS:
            session[TEXTS[name]] = value
        elif name in FLAGS:
            session[FLAGS[name]] = value
        elif name in PAIRS:
            session[PAIRS[name]] = dict(_pair(line) for line in str(value).splitlines() if line.strip())
        elif name in LISTS:
            session[LISTS[name]] = [part.strip() for part in str(value).split(",") if part.strip()]
        elif name in ("apps", "secrets"):
            session[name] = str(value).split()
        else:
            raise InvalidRequest(f"its field {name[:40]} can be used in the dashboard only")
    return session


def _resources(fields: Mapping[str, Any]) -> dict[str, str]:
    found = {str(fields.get("slot", _SLOT)): str(fields.get("amount", "1"))} if fields.get("slot", _SLOT) else {}
    found |= {slot: str(fields[slot]) for slot in ("cpu", "mem") if fields.get(slot)}
    return found | dict(_pair(line) for line in str(fields.get("otherSlots", "")).splitlines() if line.strip())


def _fields_of(file: Path) -> dict[str, Any]:
    """The fields of a form from a session file with parameters."""
    keys = _keys_of(file)
    fields = _amounts_of(_pairs_in(keys.pop("resources", ""), f"{file}: resources") or {"cpu": "1"})
    for form, key, value in _given(keys, TEXTS):
        words = _texts_in(value, f"{file}: {key}")
        fields[form] = shlex.join(words) if isinstance(value, list) else words[0]
    for form, key, value in _given(keys, FLAGS):
        if str(value).lower() not in (*YES, *NO):
            usage(f"{file}: {key}: expected true or false")
        fields[form] = str(value).lower() in YES
    for form, key, value in _given(keys, PAIRS):
        pairs = _pairs_in(value, f"{file}: {key}")
        fields[form] = "\n".join(f"{name}={text}" for name, text in pairs.items())
    for form, key, value in _given(keys, {**LISTS, "apps": "apps", "secrets": "secrets"}):
        fields[form] = (", " if form in LISTS else " ").join(_texts_in(value, f"{file}: {key}"))
    if keys:
        usage(f"{file}: a template cannot have the key {printable(str(next(iter(keys))))}")
    if not fields.get("command"):
        usage(f"{file}: `command` is missing")
    return fields


def _given(keys: dict[str, Any], forms: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """(field of the form, key, value) of those that a file has; they are removed from its keys."""
    for form, key in forms.items():
        if key in keys:
            yield form, key, keys.pop(key)


def _keys_of(file: Path) -> dict[str, Any]:
    """The keys of the session in a file, with their values as they are written: text, lists and tables."""
    import yaml

    try:
        session = yaml.load(file.read_text(), Loader=yaml.BaseLoader)
    except OSError as error:
        usage(f"{file}: {error.strerror or error}")
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        usage(f"{file}: {error}")
    except RecursionError:
        usage(f"{file}: nested too deeply")
    if not isinstance(session, dict):
        usage(f"{file}: give one session, with `command` and other keys")
    return {str(key).replace("_", "-"): value for key, value in session.items()}


def _pairs_in(value: Any, place: str) -> dict[str, str]:
    """A table of texts; empty where the key has no value."""
    if not value:
        return {}
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        usage(f"{place}: expected `NAME: VALUE`")
    return value


def _texts_in(value: Any, place: str) -> list[str]:
    """One text, or a list of them."""
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in texts):
        usage(f"{place}: expected text, or a list of texts")
    return texts


def _amounts_of(resources: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"slot": ""}
    for slot, amount in resources.items():
        if slot in ("cpu", "mem"):
            fields[slot] = str(amount)
        elif not fields["slot"]:
            fields |= {"slot": slot, "amount": str(amount)}
        else:
            fields["otherSlots"] = f"{fields.get('otherSlots', '')}{slot}={amount}\n"
    return fields


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        usage(f"{printable(text)} is not NAME=VALUE")
    return name.strip(), value
