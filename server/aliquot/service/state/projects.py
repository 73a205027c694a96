"""Projects: which ones exist. A project is created by an operator, by its first member or by its first quota.

The record of a created project is its quota, which may be without limits. Projects with usage or sessions exist too, so
that those in use before projects were created keep working. The record of a deleted project is an action: its usage and
past sessions stay.
"""

from collections.abc import Iterable
from typing import Final

from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import ProjectId
from aliquot_schema.orchestration import Action
from aliquot_schema.quotas import QuotaScope

_DELETED: Final = {"state": "deleted"}


def known_projects(state: State) -> set[ProjectId]:
    """All projects that exist, besides the default project. O(users + accounts + quotas)."""
    created = {ProjectId(quota.name) for quota in state.quotas.values() if quota.scope is QuotaScope.PROJECT}
    joined = {project for user in state.people.users.values() for project in user.projects}
    used = {account.project for account in state.accounts.values()}
    kept = {project for project in created | used if not is_deleted(state, project)}
    return kept | joined | {project for project, _ in state.pending_counts.owners()}


def is_deleted(state: State, project: ProjectId) -> bool:
    """Whether a project was deleted and not created again since."""
    action = state.actions.get(_action_id(project))
    return action is not None and action.facts == _DELETED


def delete(draft: UnitOfWork, project: ProjectId) -> None:
    """Delete a project."""
    draft.put(Action(id=_action_id(project), facts=_DELETED), "project_deleted")


def create_again(draft: UnitOfWork, projects: Iterable[ProjectId]) -> None:
    """Undo the deletion of projects; the others are left as they are."""
    for project in projects:
        action = draft.action(_action_id(project))
        if action is not None and action.facts == _DELETED:
            draft.put(Action(id=action.id, facts={"state": "created"}), "project_created")


def _action_id(project: ProjectId) -> str:
    return f"project/{project}"
