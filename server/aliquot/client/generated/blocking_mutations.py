"""Every mutation, waited for.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.accounts_inputs import (
    CreateApiKeyInput,
    CreateUserInput,
    DisableUserInput,
    UpdateUserInput,
)
from aliquot.client.generated.administration_inputs import (
    DrainAgentInput,
    LabelAgentInput,
    RemoveQuotaInput,
    SetAgentSchedulableInput,
    SetQuotaInput,
    UpdatePolicyInput,
)
from aliquot.client.generated.inputs import (
    CancelSessionInput,
    ChangeSessionInput,
    CreateSessionInput,
    CreateSessionsInput,
    UpdateSessionPriorityInput,
)
from aliquot.client.generated.mutations import Mutations
from aliquot.client.generated.notices_inputs import MuteNoticeRuleInput, SetNoticePreferencesInput, SetNoticeRuleInput
from aliquot.client.generated.outside import AllocateGpusInput, GpusAllocated
from aliquot.client.generated.results import (
    AgentChangeSuccess,
    CancelSessionSuccess,
    CopyDatabaseSuccess,
    CreateApiKeySuccess,
    CreateSessionsSuccess,
    CreateSessionSuccess,
    DeleteSecretSuccess,
    HoldSessionSuccess,
    NoticePreferencesChangeSuccess,
    NoticeRuleChangeSuccess,
    OrchestratorChangeSuccess,
    PolicyChangeSuccess,
    QuotaChangeSuccess,
    ReleaseSessionSuccess,
    RescanSuccess,
    RetrySessionSuccess,
    RevokeApiKeySuccess,
    SendTestNoticeSuccess,
    SetSecretSuccess,
    UpdateSessionPrioritySuccess,
    UserChangeSuccess,
)


class BlockingMutations(BlockingCalls):
    """Every mutation of the server, waited for."""

    _client: Mutations

    def create_user(self, input: CreateUserInput) -> UserChangeSuccess:
        """Let somebody in, who comes with a key."""
        return self._run(self._client.create_user(input))

    def update_user(self, input: UpdateUserInput) -> UserChangeSuccess:
        """Change a user."""
        return self._run(self._client.update_user(input))

    def disable_user(self, input: DisableUserInput) -> UserChangeSuccess:
        """Let somebody in no more, by no key; what runs goes on."""
        return self._run(self._client.disable_user(input))

    def create_api_key(self, input: CreateApiKeyInput) -> CreateApiKeySuccess:
        """Make a key for a user."""
        return self._run(self._client.create_api_key(input))

    def revoke_api_key(self, id: str) -> RevokeApiKeySuccess:
        """Let nobody in by a key any more, and close the sockets that it opened."""
        return self._run(self._client.revoke_api_key(id))

    def update_policy(self, input: UpdatePolicyInput) -> PolicyChangeSuccess:
        """Change the policy."""
        return self._run(self._client.update_policy(input))

    def set_quota(self, input: SetQuotaInput) -> QuotaChangeSuccess:
        """Give a user, a project or the cluster a quota."""
        return self._run(self._client.set_quota(input))

    def remove_quota(self, input: RemoveQuotaInput) -> QuotaChangeSuccess:
        """Take a quota away."""
        return self._run(self._client.remove_quota(input))

    def drain_agent(self, input: DrainAgentInput) -> AgentChangeSuccess:
        """Put nothing new on an agent."""
        return self._run(self._client.drain_agent(input))

    def resume_agent(self, id: str) -> AgentChangeSuccess:
        """Take back a drain."""
        return self._run(self._client.resume_agent(id))

    def set_agent_schedulable(self, input: SetAgentSchedulableInput) -> AgentChangeSuccess:
        """Say whether an agent is given something new."""
        return self._run(self._client.set_agent_schedulable(input))

    def label_agent(self, input: LabelAgentInput) -> AgentChangeSuccess:
        """Give an agent labels, in place of those that it has."""
        return self._run(self._client.label_agent(input))

    def assign_agent_pool(self, id: str, *, pool: str) -> AgentChangeSuccess:
        """Move an agent to a pool; what runs there stays."""
        return self._run(self._client.assign_agent_pool(id, pool=pool))

    def release_lost_agent(self, id: str) -> AgentChangeSuccess:
        """Say that the processes of a lost agent are gone: its devices become free."""
        return self._run(self._client.release_lost_agent(id))

    def copy_database(self) -> CopyDatabaseSuccess:
        """Copy the server's SQLite database, as it is now, to a new file beside it. For operators."""
        return self._run(self._client.copy_database())

    def rescan_gpu_alloc_maps(self, agent_id: str) -> RescanSuccess:
        """Have an agent read the files again that say what its kernels were given, and compare. For operators."""
        return self._run(self._client.rescan_gpu_alloc_maps(agent_id))

    def set_notice_rule(self, input: SetNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Say when alerts open, from now on. For admins."""
        return self._run(self._client.set_notice_rule(input))

    def mute_notice_rule(self, input: MuteNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Let nobody be told of a rule's alerts for a while. For operators."""
        return self._run(self._client.mute_notice_rule(input))

    def send_test_notice(self, receiver: str) -> SendTestNoticeSuccess:
        """Try a receiver. For admins."""
        return self._run(self._client.send_test_notice(receiver))

    def set_notice_preferences(self, input: SetNoticePreferencesInput) -> NoticePreferencesChangeSuccess:
        """Say where you are told of your sessions, and what of."""
        return self._run(self._client.set_notice_preferences(input))

    def orchestrator_stop(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """
        Place and preempt nothing any more, on any server, until it is started again. Sessions that run, the reaper and
        submissions go on. For operators.
        """
        return self._run(self._client.orchestrator_stop(note=note))

    def orchestrator_start(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """Place what waits again. For operators."""
        return self._run(self._client.orchestrator_start(note=note))

    def allocate_gpus(self, input: AllocateGpusInput) -> GpusAllocated:
        """
        GPUs for work that is run outside: at once, all or nothing, until they are released or not called for again in
        time.
        """
        return self._run(self._client.allocate_gpus(input))

    def release_gpus(self, job_id: str) -> GpusAllocated:
        """Give back what a job of the caller's holds for work that is run outside."""
        return self._run(self._client.release_gpus(job_id))

    def set_secret(self, name: str, *, value: str) -> SetSecretSuccess:
        """Store a secret of yours for sessions, in place of an older one of that name."""
        return self._run(self._client.set_secret(name, value=value))

    def delete_secret(self, name: str) -> DeleteSecretSuccess:
        """Delete a secret of yours."""
        return self._run(self._client.delete_secret(name))

    def create_session(self, input: CreateSessionInput) -> CreateSessionSuccess:
        """Submit a session."""
        return self._run(self._client.create_session(input))

    def create_sessions(self, input: CreateSessionsInput) -> CreateSessionsSuccess:
        """Submit sessions that may wait for each other: all of them or none."""
        return self._run(self._client.create_sessions(input))

    def hold_session(self, input: ChangeSessionInput) -> HoldSessionSuccess:
        """Hold back a session that waits."""
        return self._run(self._client.hold_session(input))

    def release_session(self, input: ChangeSessionInput) -> ReleaseSessionSuccess:
        """Let go a session that is held back."""
        return self._run(self._client.release_session(input))

    def retry_session(self, input: ChangeSessionInput) -> RetrySessionSuccess:
        """Run a session again that has ended. Of a job array the tasks that failed or were canceled, else all."""
        return self._run(self._client.retry_session(input))

    def cancel_session(self, input: CancelSessionInput) -> CancelSessionSuccess:
        """Cancel a session that has not ended; of a job array, all of its tasks."""
        return self._run(self._client.cancel_session(input))

    def update_session_priority(self, input: UpdateSessionPriorityInput) -> UpdateSessionPrioritySuccess:
        """Give a session another priority."""
        return self._run(self._client.update_session_priority(input))
