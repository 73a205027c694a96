"""Session templates: what is needed to fill in the submit form again, kept for oneself or the members of a project.

Texts of a template may have parameters: `{{lr}}`, or `{{lr=0.1}}` with a default.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from aliquot_schema.errors import InvalidRequest

NAME_CHARS_MAX: Final = 60
FIELDS_BYTES_MAX: Final = 16 * 1024
TEMPLATES_MAX: Final = 100
"""Templates of one project, and personal ones of one user."""
PERSONAL: Final = ""
"""Given as the project of a personal template; the name of a project is not empty."""
PARAMETERS_MAX: Final = 32
_PARAMETER: Final = re.compile(r"\{\{([A-Za-z][A-Za-z0-9_]{0,39})(?:=([^{}]*))?\}\}", re.ASCII)


class TemplateParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a template."""

    name: str
    default: str | None = None
    """None = a value must be given."""


def parameters_of(fields: Any) -> tuple[TemplateParameter, ...]:
    """The parameters in the texts of a template, in their order; the first default of each counts."""
    found: dict[str, str | None] = {}
    for text in _texts(fields):
        for match in _PARAMETER.finditer(text):
            name, default = match[1], match[2]
            found[name] = default if found.get(name) is None else found[name]
    return tuple(TemplateParameter(name=name, default=default) for name, default in found.items())


def filled(fields: Any, values: Mapping[str, str]) -> Any:
    """The fields of a template with the values of its parameters.

    Raises:
        InvalidRequest: a parameter has no value, or there is no such parameter.
    """
    known = {one.name: one.default for one in parameters_of(fields)}
    strange = sorted(set(values) - set(known))
    if strange:
        raise InvalidRequest(f"there is no parameter {strange[0][:40]}; there are {', '.join(known) or 'none'}")
    missing = sorted(name for name, default in known.items() if default is None and name not in values)
    if missing:
        raise InvalidRequest(f"give a value for {', '.join(missing)}")
    complete = {name: values.get(name, default or "") for name, default in known.items()}
    return _replaced(fields, complete)


def _replaced(fields: Any, values: Mapping[str, str]) -> Any:
    if isinstance(fields, str):
        return _PARAMETER.sub(lambda found: values[found[1]], fields)
    if isinstance(fields, list):
        return [_replaced(item, values) for item in fields]
    if isinstance(fields, dict):
        return {name: _replaced(item, values) for name, item in fields.items()}
    return fields


def _texts(fields: Any) -> list[str]:
    if isinstance(fields, str):
        return [fields]
    parts = fields.values() if isinstance(fields, dict) else fields if isinstance(fields, list) else ()
    return [text for part in parts for text in _texts(part)]


class SessionTemplateView(Struct, frozen=True, kw_only=True):
    """A template of a project, or a personal one."""

    project: str
    """Empty for a personal one, which only its owner sees."""
    name: str
    fields: str
    """JSON object: the fields of the dashboard's form that differ from an empty form."""
    author: str
    saved_by: str
    saved_at: datetime

    @property
    def parameters(self) -> tuple[TemplateParameter, ...]:
        """Its parameters."""
        return parameters_of(json.loads(self.fields))


class TemplateSaved(Struct, frozen=True, kw_only=True):
    """The result of saving a template."""

    template: SessionTemplateView
    revision: int
    """Event number of the change."""


class TemplateDeleted(Struct, frozen=True, kw_only=True):
    """The result of deleting a template."""

    project: str
    name: str
    revision: int
