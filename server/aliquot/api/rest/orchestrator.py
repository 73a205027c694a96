"""REST operations on the orchestrator: its status, pausing and resuming it, and the scheduling policy.

The policy has the fields of the GraphQL input; unknown names are rejected.
"""

from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from msgspec import convert, defstruct, to_builtins

from aliquot.api.rest.framework import Operation, RestRequest
from aliquot.api.rest.requests import Level, Note
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.cluster.policy_inputs import UpdatePolicyInput
from aliquot_schema.policies import DURATION_NAMES, with_seconds
from aliquot_schema.requests import WhatIf
from aliquot_schema.sessions import PRIORITIES
from aliquot_schema.views.admin import PolicyView
from aliquot_schema.views.explanations import WhatIfView
from aliquot_schema.views.server import OrchestratorView


def _strict(
    kind: Any,
    *,
    extra: tuple[tuple[str, Any, Any], ...] = (),
    without: frozenset[str] = frozenset(),
    name: str | None = None,
) -> Any:
    """A struct with the fields of a dataclass and its nested ones that rejects unknown names."""
    if get_origin(kind) in (Union, UnionType):
        return Union.__getitem__(tuple(_once(part) for part in get_args(kind)))
    if get_origin(kind) is list:
        return list[_once(get_args(kind)[0])]  # type: ignore[misc]  # a type that is made here
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return kind
    hints = get_type_hints(kind)
    own = [
        (
            field.name,
            _field_type(field.name, hints[field.name]),
            *(() if field.default is MISSING else (field.default,)),
        )
        for field in fields(kind)
        if field.name not in without
    ]
    name = name or kind.__name__.removesuffix("Input")
    return defstruct(
        name, [*own, *extra], kw_only=True, forbid_unknown_fields=True, module=__name__, namespace={"__doc__": name}
    )


@cache
def _once(kind: Any) -> Any:
    """The type of a field; of one type there is one struct, so that it has one name in the OpenAPI document."""
    return _strict(kind)


def _field_type(name: str, kind: Any) -> Any:
    """Type of a field; durations may also be text."""
    if name == "user_priority_max":
        return Level | None
    return _once(kind) | str if name in DURATION_NAMES else _once(kind)


PolicyConfig: Final = _strict(
    UpdatePolicyInput,
    extra=(("version", int | None, None), ("changed_at", datetime | None, None)),
    without=frozenset({"expected_version"}),
)
"""The policy as `GET` returns it; fields that are missing or null stay. `version` is the expected version, if given."""


PutPolicy: Final = _strict(
    UpdatePolicyInput,
    extra=(
        ("version", int | None, None),
        ("changed_at", datetime | None, None),
        ("policy_config", PolicyConfig | None, None),
    ),
    without=frozenset({"expected_version"}),
    name="PutPolicy",
)
"""Changes of the policy, applied together or not at all: as `GET` returns it, or the same under `policy_config`."""


def changes_of(body: Any) -> tuple[dict[str, Any], int | None]:
    """The changed fields by name, and the expected version.

    Raises:
        InvalidRequest: no field is given, or some beside `policy_config`.
    """
    config = body.policy_config
    beside = [name for name in body.__struct_fields__ if name != "policy_config" and getattr(body, name) is not None]
    if config is not None and beside:
        raise InvalidRequest(f"{beside[0]}: give it within policy_config, or all fields without policy_config")
    if config is None and not beside:
        raise InvalidRequest(
            'policy_config: it is missing; give changes, like "policy_config": {"order": "fair_share"}'
        )
    config = body if config is None else config
    return _changes_in(config), config.version


def _changes_in(config: Any) -> dict[str, Any]:
    """The changed fields of a policy, by name; a priority that is given by name becomes its number."""
    written: Any = with_seconds(to_builtins(config))
    if (highest := written["user_priority_max"]) is not None:
        written["user_priority_max"] = PRIORITIES[str(highest)].value
    return convert(written, UpdatePolicyInput).to_changes()


async def status(ask: RestRequest) -> OrchestratorView:
    """State of the orchestrator, as this server sees it."""
    return ask.context.services.orchestrator()


async def start(ask: RestRequest) -> OrchestratorView:
    """See `Administrator.start_orchestrator`."""
    await ask.context.services.administration.pause.start_orchestrator(ask.context.caller, _note(ask))
    return ask.context.services.orchestrator()


async def stop(ask: RestRequest) -> OrchestratorView:
    """See `Administrator.stop_orchestrator`."""
    await ask.context.services.administration.pause.stop_orchestrator(ask.context.caller, _note(ask))
    return ask.context.services.orchestrator()


async def policies(ask: RestRequest) -> PolicyView:
    """The scheduling policy."""
    return ask.context.services.administration.policy.policy(ask.context.caller)


async def update_policies(ask: RestRequest) -> PolicyView:
    """See `Administrator.update_policy`."""
    changes, version = changes_of(ask.body)
    return (await ask.context.services.administration.policy.update_policy(ask.context.caller, changes, version)).policy


def _note(ask: RestRequest) -> str | None:
    body: Note | None = ask.body
    return None if body is None else body.note


WhatIfAsked: Final = defstruct(
    "WhatIfAsked",
    [
        ("drain", str | None, None),
        ("evict", bool, False),
        ("like", str | None, None),
        ("count", int, 1),
        ("policy_config", PolicyConfig | None, None),
    ],
    kw_only=True,
    forbid_unknown_fields=True,
)
"""Changes of the present state to ask about: an agent to drain, more agents like one, another policy."""


async def what_if(ask: RestRequest) -> WhatIfView:
    """See `Reader.what_if`."""
    body: Any = ask.body
    policy = None if body.policy_config is None else _changes_in(body.policy_config)
    asked = WhatIf(drain=body.drain, evict=body.evict, policy=policy, like=body.like, count=body.count)
    return await ask.context.services.queries.what_if(ask.context.caller, asked)


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/orchestrator/what-if",
        name="orchestrator_what_if",
        summary="What a drained agent, more agents or another policy would mean for waiting sessions; changes nothing.",
        handler=what_if,
        body=WhatIfAsked,
        problems=(404,),
    ),
    Operation(
        method="GET",
        path="/orchestrator/status",
        name="orchestrator_status",
        summary="The leading server, whether scheduling is paused, since when and by which user.",
        handler=status,
    ),
    Operation(
        method="POST",
        path="/orchestrator/start",
        name="orchestrator_start",
        summary="Resume scheduling.",
        handler=start,
        body=Note,
        is_body_needed=False,
    ),
    Operation(
        method="POST",
        path="/orchestrator/stop",
        name="orchestrator_stop",
        summary="Pause scheduling on all servers: nothing is placed or preempted until it is started again.",
        handler=stop,
        body=Note,
        is_body_needed=False,
    ),
    Operation(
        method="GET",
        path="/orchestrator/policies",
        name="orchestrator_policies",
        summary="The scheduling policy.",
        handler=policies,
    ),
    Operation(
        method="PUT",
        path="/orchestrator/policies",
        name="orchestrator_update_policies",
        summary="Change the scheduling policy; fields that are left out stay.",
        handler=update_policies,
        body=PutPolicy,
        problems=(409,),
    ),
)
