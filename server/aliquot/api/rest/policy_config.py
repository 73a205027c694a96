"""The policy as scripts change it: the input of GraphQL, with every name in it checked."""

from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, convert, defstruct

from aliquot_schema.graphql.administration_inputs import UpdatePolicyInput


def _strict(kind: Any, *, extra: tuple[tuple[str, Any, Any], ...] = (), without: frozenset[str] = frozenset()) -> Any:
    """A struct with the fields of a dataclass and of those below it, that takes no other names."""
    if get_origin(kind) in (Union, UnionType):
        return Union.__getitem__(tuple(_strict(part) for part in get_args(kind)))
    if get_origin(kind) is list:
        return list[_strict(get_args(kind)[0])]  # type: ignore[misc]  # a type that is made here
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return kind
    hints = get_type_hints(kind)
    own = [
        (field.name, _strict(hints[field.name]), *(() if field.default is MISSING else (field.default,)))
        for field in fields(kind)
        if field.name not in without
    ]
    name = kind.__name__.removesuffix("Input")
    return defstruct(
        name, [*own, *extra], kw_only=True, forbid_unknown_fields=True, module=__name__, namespace={"__doc__": name}
    )


PolicyConfig: Final = _strict(
    UpdatePolicyInput,
    extra=(("version", int | None, None), ("changed_at", datetime | None, None)),
    without=frozenset({"expected_version"}),
)
"""As `GET` shows it; what is left out, or null, stays. `version` is what it was read at, if that shall count."""


class PutPolicy(Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes of the policy: all of them together are taken, or none."""

    policy_config: PolicyConfig  # type: ignore[valid-type]  # made from the input


def changes_of(body: PutPolicy) -> tuple[dict[str, Any], int | None]:
    """What changes, by the names of the document, and the version that it is to be at."""
    config: Any = body.policy_config
    return convert(config, UpdatePolicyInput, from_attributes=True).to_changes(), config.version
