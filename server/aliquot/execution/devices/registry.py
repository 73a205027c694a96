"""Device plugins that are installed, found by entry point."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from aliquot.execution.devices.plugin import DeviceFileError, DevicePlugin

GROUP: Final = "aliquot.accelerators"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFailure:
    """A plugin that could not be used, and why, in one line."""

    name: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugins:
    """What became of the plugins that were asked for."""

    plugins: tuple[DevicePlugin, ...]
    """In the order in which they were asked for."""
    failures: tuple[PluginFailure, ...]


def installed_plugins() -> Mapping[str, EntryPoint]:
    """The entry points of every installed distribution, by name. Nothing is imported.

    A name that two distributions claim goes to Aliquot's own, else to the first in the alphabet, with a warning.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=_precedence):
        holder = found.setdefault(point.name, point)
        if holder.value != point.value:
            _log.warning("device plugin %s: %s is taken, %s is not", point.name, _origin(holder), _origin(point))
    return found


def load_plugins(tables: Mapping[str, Mapping[str, object]]) -> LoadedPlugins:
    """Import and make plugins. One that cannot be loaded is reported and skipped.

    Args:
        tables: the configuration of each plugin by name; only these are loaded.
    Raises:
        DeviceFileError: no such plugin is installed, or one refuses its configuration.
    """
    installed = installed_plugins()
    plugins: list[DevicePlugin] = []
    failures: list[PluginFailure] = []
    for name, table in tables.items():
        if name not in installed:
            raise DeviceFileError(f"no device plugin named {name!r} is installed; there are: {', '.join(installed)}")
        made = _make(installed[name], table)
        if isinstance(made, PluginFailure):
            _log.warning("device plugin %s is skipped: %s", name, made.words)
            failures.append(made)
        else:
            plugins.append(made)
    return LoadedPlugins(plugins=tuple(plugins), failures=tuple(failures))


def _make(point: EntryPoint, table: Mapping[str, object]) -> DevicePlugin | PluginFailure:
    """Code from outside may raise anything, while it is imported or made."""
    try:
        made = point.load()(table)
    except DeviceFileError:
        raise
    except Exception as error:
        return PluginFailure(name=point.name, words=f"{_origin(point)}: {type(error).__name__}: {error}")
    if isinstance(made, DevicePlugin):
        return made
    lacking = sorted(name for name in DevicePlugin.__annotations__.keys() | _methods() if not hasattr(made, name))
    return PluginFailure(name=point.name, words=f"{_origin(point)}: is no device plugin; it lacks {', '.join(lacking)}")


def _methods() -> set[str]:
    return {name for name, value in vars(DevicePlugin).items() if callable(value) and not name.startswith("_")}


def _precedence(point: EntryPoint) -> tuple[bool, str, str]:
    name = point.dist.name if point.dist else ""
    return name != "aliquot", name, point.value


def _origin(point: EntryPoint) -> str:
    return f"{point.value} of {point.dist.name} {point.dist.version}" if point.dist else point.value
