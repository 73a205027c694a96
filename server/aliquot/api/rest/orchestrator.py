"""The orchestrator: how it is, stopping and starting it, and the policy that it goes by."""

from typing import Final

from aliquot.api.rest.operations import Ask, Operation
from aliquot.api.rest.policy_config import PutPolicy, changes_of
from aliquot.api.rest.requests import Note
from aliquot_schema.admin_views import PolicyView
from aliquot_schema.server_views import OrchestratorView


async def status(ask: Ask) -> OrchestratorView:
    """As the server that answers sees it."""
    return ask.context.orchestrator()


async def start(ask: Ask) -> OrchestratorView:
    """See `Administrator.start_orchestrator`."""
    await ask.context.admin.start_orchestrator(ask.context.caller, _note(ask))
    return ask.context.orchestrator()


async def stop(ask: Ask) -> OrchestratorView:
    """See `Administrator.stop_orchestrator`."""
    await ask.context.admin.stop_orchestrator(ask.context.caller, _note(ask))
    return ask.context.orchestrator()


async def policies(ask: Ask) -> PolicyView:
    """What it goes by."""
    return ask.context.admin.policy(ask.context.caller)


async def update_policies(ask: Ask) -> PolicyView:
    """See `Administrator.update_policy`."""
    changes, version = changes_of(ask.body)
    return (await ask.context.admin.update_policy(ask.context.caller, changes, version)).policy


def _note(ask: Ask) -> str | None:
    body: Note | None = ask.body
    return None if body is None else body.note


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/orchestrator/status",
        name="orchestrator_status",
        summary="Which server leads, whether anything is placed, and who stopped it when.",
        handler=status,
        answer=OrchestratorView,
    ),
    Operation(
        method="POST",
        path="/orchestrator/start",
        name="orchestrator_start",
        summary="Place what waits again.",
        handler=start,
        answer=OrchestratorView,
        body=Note,
        is_body_needed=False,
    ),
    Operation(
        method="POST",
        path="/orchestrator/stop",
        name="orchestrator_stop",
        summary="Place and preempt nothing any more, on any server, until it is started again.",
        handler=stop,
        answer=OrchestratorView,
        body=Note,
        is_body_needed=False,
    ),
    Operation(
        method="GET",
        path="/orchestrator/policies",
        name="orchestrator_policies",
        summary="What the allocator decides by.",
        handler=policies,
        answer=PolicyView,
    ),
    Operation(
        method="PUT",
        path="/orchestrator/policies",
        name="orchestrator_update_policies",
        summary="Change what the allocator decides by; what is left out stays.",
        handler=update_policies,
        answer=PolicyView,
        body=PutPolicy,
        problems=(409,),
    ),
)
