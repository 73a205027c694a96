"""All mutations, blocking.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from aliquot.client.blocking_calls import BlockingCalls
from aliquot.client.generated.accounts import CreateApiKeyInput, CreateUserInput, DisableUserInput, UpdateUserInput
from aliquot.client.generated.alerts import MuteNoticeRuleInput, SetNoticePreferencesInput, SetNoticeRuleInput
from aliquot.client.generated.external_allocations import AllocateGpusInput, GpusAllocated
from aliquot.client.generated.inputs import (
    CancelSessionInput,
    ChangeSessionInput,
    CreateSessionInput,
    CreateSessionsInput,
    UpdateSessionPriorityInput,
)
from aliquot.client.generated.mutations import Mutations
from aliquot.client.generated.policy_inputs import (
    DrainAgentInput,
    LabelAgentInput,
    RemoveQuotaInput,
    SetAgentSchedulableInput,
    SetQuotaInput,
    UpdatePolicyInput,
)
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
    """All mutations of the server, blocking."""

    _client: Mutations

    def create_user(self, input: CreateUserInput) -> UserChangeSuccess:
        """Create a user. For admins."""
        return self._run(self._client.create_user(input))

    def update_user(self, input: UpdateUserInput) -> UserChangeSuccess:
        """Change a user. For admins."""
        return self._run(self._client.update_user(input))

    def disable_user(self, input: DisableUserInput) -> UserChangeSuccess:
        """Reject all keys of a user. Their sessions keep running. For admins."""
        return self._run(self._client.disable_user(input))

    def create_api_key(self, input: CreateApiKeyInput) -> CreateApiKeySuccess:
        """Create an API key for a user. For admins."""
        return self._run(self._client.create_api_key(input))

    def revoke_api_key(self, id: str) -> RevokeApiKeySuccess:
        """Revoke an API key and close its open connections. For admins, and for the key's owner."""
        return self._run(self._client.revoke_api_key(id))

    def update_policy(self, input: UpdatePolicyInput) -> PolicyChangeSuccess:
        """Change the scheduling policy. For operators."""
        return self._run(self._client.update_policy(input))

    def set_quota(self, input: SetQuotaInput) -> QuotaChangeSuccess:
        """Set the quota of a user, a project or the cluster. For operators."""
        return self._run(self._client.set_quota(input))

    def remove_quota(self, input: RemoveQuotaInput) -> QuotaChangeSuccess:
        """Remove a quota. For operators."""
        return self._run(self._client.remove_quota(input))

    def drain_agent(self, input: DrainAgentInput) -> AgentChangeSuccess:
        """Drain an agent: nothing new is placed on it. For operators."""
        return self._run(self._client.drain_agent(input))

    def resume_agent(self, id: str) -> AgentChangeSuccess:
        """End the drain of an agent. For operators."""
        return self._run(self._client.resume_agent(id))

    def set_agent_schedulable(self, input: SetAgentSchedulableInput) -> AgentChangeSuccess:
        """Set whether an agent accepts new work. For operators."""
        return self._run(self._client.set_agent_schedulable(input))

    def label_agent(self, input: LabelAgentInput) -> AgentChangeSuccess:
        """Replace the labels of an agent. For operators."""
        return self._run(self._client.label_agent(input))

    def assign_agent_pool(self, id: str, *, pool: str) -> AgentChangeSuccess:
        """Move an agent to another pool. Its running sessions continue. For operators."""
        return self._run(self._client.assign_agent_pool(id, pool=pool))

    def release_lost_agent(self, id: str) -> AgentChangeSuccess:
        """Confirm that the processes of a lost agent are gone, which frees its devices. For operators."""
        return self._run(self._client.release_lost_agent(id))

    def copy_database(self) -> CopyDatabaseSuccess:
        """Copy the server's SQLite database in its current state to a new file in the same directory. For operators."""
        return self._run(self._client.copy_database())

    def rescan_gpu_alloc_maps(self, *, agent_id: str | None = None) -> RescanSuccess:
        """
        Re-read the files in which agents record their kernels' allocations, and compare them with the grants. For
        operators.
        """
        return self._run(self._client.rescan_gpu_alloc_maps(agent_id=agent_id))

    def set_notice_rule(self, input: SetNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Change an alert rule. For admins."""
        return self._run(self._client.set_notice_rule(input))

    def mute_notice_rule(self, input: MuteNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Mute the notices of a rule's alerts for a period. For operators."""
        return self._run(self._client.mute_notice_rule(input))

    def send_test_notice(self, receiver: str) -> SendTestNoticeSuccess:
        """Send a test notice to a receiver. For admins."""
        return self._run(self._client.send_test_notice(receiver))

    def set_notice_preferences(self, input: SetNoticePreferencesInput) -> NoticePreferencesChangeSuccess:
        """Change the caller's notice preferences."""
        return self._run(self._client.set_notice_preferences(input))

    def orchestrator_stop(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """
        Stop placement and preemption on all servers until the orchestrator is started again. Running sessions, the
        reaper and submissions continue. For operators.
        """
        return self._run(self._client.orchestrator_stop(note=note))

    def orchestrator_start(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """Resume placement. For operators."""
        return self._run(self._client.orchestrator_start(note=note))

    def allocate_gpus(self, input: AllocateGpusInput) -> GpusAllocated:
        """
        Allocate GPUs for processes that Aliquot does not start: immediately, all or nothing, until they are released or
        the lease expires.
        """
        return self._run(self._client.allocate_gpus(input))

    def release_gpus(self, job_id: str) -> GpusAllocated:
        """Release an external allocation of the caller."""
        return self._run(self._client.release_gpus(job_id))

    def set_secret(self, name: str, *, value: str) -> SetSecretSuccess:
        """Store a secret of the caller for use in sessions; replaces one of the same name."""
        return self._run(self._client.set_secret(name, value=value))

    def delete_secret(self, name: str) -> DeleteSecretSuccess:
        """Delete a secret of the caller."""
        return self._run(self._client.delete_secret(name))

    def create_session(self, input: CreateSessionInput) -> CreateSessionSuccess:
        """Submit a session."""
        return self._run(self._client.create_session(input))

    def create_sessions(self, input: CreateSessionsInput) -> CreateSessionsSuccess:
        """Submit several sessions that may depend on each other, all or none."""
        return self._run(self._client.create_sessions(input))

    def hold_session(self, input: ChangeSessionInput) -> HoldSessionSuccess:
        """Hold a waiting session: it is not started until it is released."""
        return self._run(self._client.hold_session(input))

    def release_session(self, input: ChangeSessionInput) -> ReleaseSessionSuccess:
        """Release a held session."""
        return self._run(self._client.release_session(input))

    def retry_session(self, input: ChangeSessionInput) -> RetrySessionSuccess:
        """
        Run an ended session again. For a job array: the tasks that failed or were canceled, or all if there are none.
        """
        return self._run(self._client.retry_session(input))

    def cancel_session(self, input: CancelSessionInput) -> CancelSessionSuccess:
        """Cancel a session that has not ended; for a job array, all of its tasks."""
        return self._run(self._client.cancel_session(input))

    def update_session_priority(self, input: UpdateSessionPriorityInput) -> UpdateSessionPrioritySuccess:
        """Change the priority of a session."""
        return self._run(self._client.update_session_priority(input))
