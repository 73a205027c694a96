"""Plugin registry: finds installed device plugins by entry point and loads the configured ones."""

import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from msgspec import Struct

from aliquot.execution.devices.plugin import DeviceFileError, DevicePlugin

GROUP: Final = "aliquot.accelerators"

_log = logging.getLogger(__name__)


class PluginFailure(Struct, frozen=True, kw_only=True):
    """A plugin that could not be loaded, with a one-line reason."""

    name: str
    words: str


class LoadedPlugins(Struct, frozen=True, kw_only=True):
    """Result of loading plugins."""

    plugins: tuple[DevicePlugin, ...]
    """In the order of the configuration."""
    failures: tuple[PluginFailure, ...]


def installed_plugins() -> Mapping[str, EntryPoint]:
    """Entry points of all installed distributions, by name. Nothing is imported.

    If two distributions use one name, Aliquot's own wins, else the first distribution name; a warning is logged.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=_precedence):
        chosen = found.setdefault(point.name, point)
        if chosen.value != point.value:
            _log.warning("device plugin %s: using %s, ignoring %s", point.name, _origin(chosen), _origin(point))
    return found


def load_plugins(tables: Mapping[str, Mapping[str, object]]) -> LoadedPlugins:
    """Import and create plugins. A plugin that cannot be loaded is logged and skipped.

    Args:
        tables: configuration per plugin name; only these are loaded.
    Raises:
        DeviceFileError: a plugin is not installed or rejects its configuration.
    """
    installed = installed_plugins()
    plugins: list[DevicePlugin] = []
    failures: list[PluginFailure] = []
    for name, table in tables.items():
        if name not in installed:
            raise DeviceFileError(f"no device plugin named {name!r} is installed; installed: {', '.join(installed)}")
        made = _make(installed[name], table)
        if isinstance(made, PluginFailure):
            _log.warning("device plugin %s is skipped: %s", name, made.words)
            failures.append(made)
        else:
            plugins.append(made)
    return LoadedPlugins(plugins=tuple(plugins), failures=tuple(failures))


def _make(point: EntryPoint, table: Mapping[str, object]) -> DevicePlugin | PluginFailure:
    """Third-party code may raise any exception while it is imported or constructed."""
    try:
        made = point.load()(table)
    except DeviceFileError:
        raise
    except Exception as error:
        return PluginFailure(name=point.name, words=f"{_origin(point)}: {type(error).__name__}: {error}")
    if isinstance(made, DevicePlugin):
        return made
    missing = sorted(name for name in DevicePlugin.__annotations__.keys() | _methods() if not hasattr(made, name))
    reason = f"{_origin(point)}: not a device plugin; missing: {', '.join(missing)}"
    return PluginFailure(name=point.name, words=reason)


def _methods() -> set[str]:
    return {name for name, value in vars(DevicePlugin).items() if callable(value) and not name.startswith("_")}


def _precedence(point: EntryPoint) -> tuple[bool, str, str]:
    name = point.dist.name if point.dist else ""
    return name != "aliquot", name, point.value


def _origin(point: EntryPoint) -> str:
    return f"{point.value} of {point.dist.name} {point.dist.version}" if point.dist else point.value
