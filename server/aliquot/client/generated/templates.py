"""Templates.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


class TemplateParameter(Struct, frozen=True, kw_only=True):
    """A parameter of a template: `{{name}}` or `{{name=default}}` in one of its texts."""

    name: str
    """Its name."""
    default: str | None
    """Its default; null = a value must be given."""


class SessionTemplate(Struct, frozen=True, kw_only=True):
    """A filled-in submit form that a project shares, or that is personal."""

    project: str
    """The project; its members see the template. Empty = a personal one, which only its owner sees."""
    name: str
    """Its name, unique in the project."""
    fields: str
    """JSON object: the fields of the dashboard's submit form that differ from an empty form."""
    author: str
    """Who saved it first. Besides operators, only its author may change it."""
    saved_by: str
    """Who saved it last."""
    saved_at: datetime
    """When it was saved last."""
    parameters: tuple[TemplateParameter, ...]
    """Its parameters."""
