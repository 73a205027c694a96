"""Projects: which ones exist. A project is created by an operator, by its first member or by its first quota.

The record of a created project is its quota, which may be without limits. Projects with usage or sessions exist too, so
that those in use before projects were created keep working.
"""

from aliquot.service.state.state import State
from aliquot_schema.ids import ProjectId
from aliquot_schema.quotas import QuotaScope


def known_projects(state: State) -> set[ProjectId]:
    """All projects that exist, besides the default project. O(users + accounts + quotas)."""
    created = {ProjectId(quota.name) for quota in state.quotas.values() if quota.scope is QuotaScope.PROJECT}
    joined = {project for user in state.people.users.values() for project in user.projects}
    used = {account.project for account in state.accounts.values()}
    return created | joined | used | {project for project, _ in state.population.owners()}
