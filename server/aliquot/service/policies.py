"""Policies: the one document that passes go by, read and changed."""

from dataclasses import replace

from aliquot.core.policy_changes import amended
from aliquot.service.draft import Draft
from aliquot.service.office import Office, check_version
from aliquot.service.policy_projection import policy_view
from aliquot_schema.admin_views import PolicyChanged, PolicyChanges, PolicyView
from aliquot_schema.errors import StateConflict
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.requests import Caller
from aliquot_schema.states import AgentState


class Policies(Office):
    """A change takes effect in the next pass."""

    def policy(self, caller: Caller) -> PolicyView:
        """The policy as it is now."""
        return policy_view(self._state.policy)

    async def update_policy(
        self, caller: Caller, changes: PolicyChanges, expected_version: int | None
    ) -> PolicyChanged:
        """Change some fields of the policy, all together or none; a change to what is there already is none.

        Raises:
            Forbidden, VersionConflict, InvalidRequest, StateConflict: a pool would be gone that is in use.
        """

        def change(draft: Draft) -> PolicyDocument:
            known = draft.policy()
            check_version("the policy", expected=expected_version, actual=known.version)
            news = amended(known, changes)
            if news == known:
                return known
            self._refuse_to_drop_pools(known, news)
            return draft.put(replace(news, changed_us=self._clock.now_us()), "changed")

        changed = await self._act(caller, change)
        return PolicyChanged(policy=policy_view(changed), revision=self._state.revision)

    def _refuse_to_drop_pools(self, known: PolicyDocument, news: PolicyDocument) -> None:
        for pool in known.pools:
            if pool in news.pools:
                continue
            agents = [agent.id for agent in self._state.agents.values() if agent.pool == pool]
            sessions = [
                known.id for known in self._state.sessions.values() if known.pool == pool and not known.is_ended
            ]
            users = [
                *(name for name in agents if self._state.agents[name].state is not AgentState.LEFT),
                *sessions,
            ]
            if users:
                raise StateConflict(
                    f"pools: {pool} cannot be removed; {', '.join(users[:5])} are in it", id=pool, state="in use"
                )
