"""Public names: everything that programs of users rely on, by surface, and the record of the last release.

    scripts/record-names      writes the record: at a release, after the version was raised

The record is `tests/data/public_names`, one file per surface with one name per line. `removed.toml` there lists the
names that a release removed. The rule is on the page `server/docs/design/deprecation.md`.
"""

import ast
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    build_schema,
    get_named_type,
)

ROOT: Final = Path(__file__).parents[2]
RECORD: Final = ROOT / "tests" / "data" / "public_names"
MINOR_RELEASES: Final = 2
"""How long a deprecated name works."""
WHAT_TO_DO: Final = (
    "Programs of users rely on it. Bring it back as a deprecated name beside its successor; two minor releases later "
    "it may be removed and listed in tests/data/public_names/removed.toml. See server/docs/design/deprecation.md."
)


def graphql_names(root: Path) -> Iterator[str]:
    """Types, fields, arguments, input fields and enum values of the SDL."""
    for name, of in _schema(root).type_map.items():
        if name.startswith("__"):
            continue
        yield name
        if isinstance(of, GraphQLEnumType):
            yield from (f"{name}.{value}" for value in of.values)
        if isinstance(of, GraphQLInputObjectType | GraphQLObjectType | GraphQLInterfaceType):
            for field_name, field in of.fields.items():
                yield f"{name}.{field_name}"
                yield from (f"{name}.{field_name}({argument})" for argument in getattr(field, "args", ()))


def policy_names(root: Path) -> Iterator[str]:
    """Fields of a policy document, as in `aliquot policy show --json`, and the words of its enums."""
    schema = _schema(root)

    def fields(of: Any, path: str) -> Iterator[str]:
        for name, field in of.fields.items():
            kind = get_named_type(field.type)
            yield f"{path}{name}"
            if isinstance(kind, GraphQLEnumType):
                yield from (f"{path}{name}={word}" for word in kind.values)
            if isinstance(kind, GraphQLObjectType):
                yield from fields(kind, f"{path}{name}.")

    yield from fields(schema.type_map["Policy"], "")
    readers = (path for folder in ("policy_tests", "scenarios") for path in (_core(root) / folder).glob("*.py"))
    for path in readers:
        found = re.findall(r'\b(?:table|self)\.(?:get|maybe|need)\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
        yield from (f"scenario key {key.replace('_', '-')}" for key in found)


def rest_names(_root: Path) -> Iterator[str]:
    """Paths, parameters, and fields of bodies and answers."""
    document: Any = importlib.import_module("aliquot.api.rest.openapi").document
    operations = importlib.import_module("aliquot.api.rest.routes").OPERATIONS
    described = document(operations, version="0")
    components = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            yield name
            yield from (f"{name} {one['in']} {one['name']}" for one in operation.get("parameters", ()))
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            yield from (f"{name} takes {field}" for field in _properties(body, components, ()))
            for status, response in operation["responses"].items():
                for content in response.get("content", {}).values() if status < "300" else ():
                    yield from (f"{name} gives {field}" for field in _properties(content["schema"], components, ()))


def cli_names(_root: Path) -> Iterator[str]:
    """Commands and their options."""
    from typer.main import get_command

    def commands(command: Any, path: tuple[str, ...]) -> Iterator[str]:
        yield " ".join(path)
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield from (" ".join((*path, one)) for one in (*parameter.opts, *parameter.secondary_opts))
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from commands(command.get_command(None, name), (*path, name))

    yield from commands(get_command(importlib.import_module("aliquot.cli").main), ("aliquot",))


def setting_names(root: Path) -> Iterator[str]:
    """Settings of the file, their variables, and the other variables that the code names."""
    settings: Any = importlib.import_module("aliquot.settings").Settings
    for name, info in settings.model_fields.items():
        choices = getattr(info.validation_alias, "choices", None)
        yield from map(str, choices) if choices else (name.replace("_", "-"), f"ALIQUOT_{name.upper()}")
    for tree in _sources(root, "server/aliquot", "schema/aliquot_schema"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from re.findall(r"^(?:ALIQUOT|RESEARCH_AGENT)_[A-Z_]*[A-Z]$", node.value)


def event_names(root: Path) -> Iterator[str]:
    """Entities of the event log, and what happened to them; an event's kind is `entity.what`."""
    for entity in importlib.import_module("aliquot_schema.events").Entity:
        yield f"{entity.value}.*"
    for tree in _sources(root, "server/aliquot/service", "server/aliquot/store"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in {"put", "merge", "end", "record"}:
                yield from (f"*.{word}" for word in map(_text, node.args[1:]) if re.fullmatch(r"[a-z_]+", word))


def metric_names(root: Path) -> Iterator[str]:
    """Metric families, without the ending that their kind adds."""
    makers = {"gauge", "gauges", "counter", "histogram", "states", "GaugeMetricFamily", "InfoMetricFamily"}
    for tree in _sources(root, "server/aliquot/api/metrics", "server/aliquot/service/metrics"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in makers and node.args and _text(node.args[0]):
                yield f"aliquot_{_text(node.args[0]).removeprefix('aliquot_')}"
            # The table of what is measured of a device: name, help, reader.
            if isinstance(node, ast.Tuple) and len(node.elts) == 3 and " " in _text(node.elts[1]):
                yield f"aliquot_device_{_text(node.elts[0])}"


def client_names(_root: Path) -> Iterator[str]:
    """What `aliquot.client` exports, with the public members of its classes and the parameters of its calls."""
    client = importlib.import_module("aliquot.client")
    for name in client.__all__:
        exported = getattr(client, name)
        yield name
        if not inspect.isclass(exported):
            yield from (f"{name}({parameter})" for parameter in inspect.signature(exported).parameters)
            continue
        for member in dir(exported):
            if not member.startswith("_") and not hasattr(Exception, member):
                yield f"{name}.{member}"
                call = getattr(exported, member)
                parameters = inspect.signature(call).parameters if inspect.isfunction(call) else ()
                yield from (f"{name}.{member}({one})" for one in parameters if one != "self")


SURFACES: Final[Mapping[str, Callable[[Path], Iterator[str]]]] = {
    "graphql": graphql_names,
    "rest": rest_names,
    "command_line": cli_names,
    "settings": setting_names,
    "policies": policy_names,
    "events": event_names,
    "metrics": metric_names,
    "client": client_names,
}


def present(surface: str, root: Path = ROOT) -> set[str]:
    """The names of today's code.

    Args:
        root: the folder with `server` and `schema`. Modules are imported as Python finds them.
    """
    return set(SURFACES[surface](root))


def recorded(surface: str) -> set[str]:
    """The names of the last release."""
    return set((RECORD / f"{surface}.txt").read_text(encoding="utf-8").splitlines())


def removed() -> list[dict[str, str]]:
    """Names that releases removed: tables with `surface`, `name`, `deprecated-in` and `removed-in`."""
    found: list[dict[str, str]] = tomllib.loads((RECORD / "removed.toml").read_text(encoding="utf-8")).get(
        "removed", []
    )
    return found


def version() -> str:
    """The version of this code."""
    text: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return text


def broken_promises(
    surface: str, *, names: set[str], before: set[str], removals: list[dict[str, str]], release: str
) -> list[str]:
    """What is wrong about the names of a surface, with what to do.

    Args:
        names: those of today's code.
        before: those of the last release.
        removals: see `removed`.
        release: the version of today's code.
    """
    listed = {entry["name"]: entry for entry in removals if entry["surface"] == surface}
    found = [f"{name} is gone. {WHAT_TO_DO}" for name in sorted(before - names - listed.keys())]
    for name, entry in listed.items():
        since, until = entry["deprecated-in"], entry["removed-in"]
        if name in names:
            found.append(f"{name} is listed in removed.toml and still there. Take it off the list.")
        elif not _is_old_enough(since, until):
            found.append(f"{name} was deprecated in {since}, so it works until {_first_without(since)}, not {until}.")
        elif _minor(release) < _minor(until):
            found.append(f"{name} may be removed in {until}; this is {release}. Bring it back until then.")
    return found


def _is_old_enough(since: str, until: str) -> bool:
    return _minor(until) >= _minor(_first_without(since))


def _first_without(since: str) -> str:
    """The first release that may be without a name deprecated in `since`."""
    major, minor = _minor(since)
    return f"{major}.{minor + MINOR_RELEASES}"


def _minor(text: str) -> tuple[int, int]:
    """`0.3` or `0.3.1` as numbers."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def write(root: Path = ROOT) -> None:
    """Write the record of all surfaces."""
    RECORD.mkdir(exist_ok=True)
    for surface in SURFACES:
        text = "\n".join(sorted(present(surface, root)))
        (RECORD / f"{surface}.txt").write_text(f"{text}\n", encoding="utf-8")


def _schema(root: Path) -> GraphQLSchema:
    return build_schema((root / "schema" / "schema.graphql").read_text(encoding="utf-8"))


def _core(root: Path) -> Path:
    return root / "server" / "aliquot" / "core"


def _sources(root: Path, *folders: str) -> Iterator[ast.Module]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _properties(schema: Mapping[str, Any], components: Mapping[str, Any], seen: tuple[str, ...]) -> Iterator[str]:
    reference = schema.get("$ref")
    if reference:
        name = reference.rpartition("/")[2]
        if name not in seen:
            yield from _properties(components[name], components, (*seen, name))
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else ())):
        yield from _properties(part, components, seen)
    for field, inner in schema.get("properties", {}).items():
        yield field
        yield from (f"{field}.{name}" for name in _properties(inner, components, seen))


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    print(f"The record of public names is in {RECORD}; commit it together with the release.")
