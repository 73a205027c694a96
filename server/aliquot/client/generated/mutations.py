"""Every mutation.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from typing import Final

from aliquot.client.asking import Asking
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

CREATE_USER: Final = """
mutation create_user($input: CreateUserInput!) { create_user(input: $input) {
...UserChangeResult } }"""
UPDATE_USER: Final = """
mutation update_user($input: UpdateUserInput!) { update_user(input: $input) {
...UserChangeResult } }"""
DISABLE_USER: Final = """
mutation disable_user($input: DisableUserInput!) { disable_user(input: $input) {
...UserChangeResult } }"""
CREATE_API_KEY: Final = """
mutation create_api_key($input: CreateApiKeyInput!) { create_api_key(input: $input) {
...CreateApiKeyResult } }"""
REVOKE_API_KEY: Final = """mutation revoke_api_key($id: ID!) { revoke_api_key(id: $id) { ...RevokeApiKeyResult } }"""
UPDATE_POLICY: Final = """
mutation update_policy($input: UpdatePolicyInput!) { update_policy(input: $input) {
...PolicyChangeResult } }"""
SET_QUOTA: Final = """
mutation set_quota($input: SetQuotaInput!) { set_quota(input: $input) {
...QuotaChangeResult } }"""
REMOVE_QUOTA: Final = """
mutation remove_quota($input: RemoveQuotaInput!) { remove_quota(input: $input) {
...QuotaChangeResult } }"""
DRAIN_AGENT: Final = """
mutation drain_agent($input: DrainAgentInput!) { drain_agent(input: $input) {
...AgentChangeResult } }"""
RESUME_AGENT: Final = """mutation resume_agent($id: ID!) { resume_agent(id: $id) { ...AgentChangeResult } }"""
SET_AGENT_SCHEDULABLE: Final = """
mutation set_agent_schedulable($input: SetAgentSchedulableInput!) {
set_agent_schedulable(input: $input) { ...AgentChangeResult } }"""
LABEL_AGENT: Final = """
mutation label_agent($input: LabelAgentInput!) { label_agent(input: $input) {
...AgentChangeResult } }"""
ASSIGN_AGENT_POOL: Final = """
mutation assign_agent_pool($id: ID!, $pool: String!) { assign_agent_pool(id: $id, pool:
$pool) { ...AgentChangeResult } }"""
RELEASE_LOST_AGENT: Final = """
mutation release_lost_agent($id: ID!) { release_lost_agent(id: $id) { ...AgentChangeResult
} }"""
COPY_DATABASE: Final = """mutation copy_database { copy_database { ...CopyDatabaseResult } }"""
RESCAN_GPU_ALLOC_MAPS: Final = """
mutation rescan_gpu_alloc_maps($agent_id: String!) { rescan_gpu_alloc_maps(agent_id:
$agent_id) { ...RescanResult } }"""
SET_NOTICE_RULE: Final = """
mutation set_notice_rule($input: SetNoticeRuleInput!) { set_notice_rule(input: $input) {
...NoticeRuleChangeResult } }"""
MUTE_NOTICE_RULE: Final = """
mutation mute_notice_rule($input: MuteNoticeRuleInput!) { mute_notice_rule(input: $input)
{ ...NoticeRuleChangeResult } }"""
SEND_TEST_NOTICE: Final = """
mutation send_test_notice($receiver: String!) { send_test_notice(receiver: $receiver) {
...SendTestNoticeResult } }"""
SET_NOTICE_PREFERENCES: Final = """
mutation set_notice_preferences($input: SetNoticePreferencesInput!) {
set_notice_preferences(input: $input) { ...NoticePreferencesChangeResult } }"""
ORCHESTRATOR_STOP: Final = """
mutation orchestrator_stop($note: String = null) { orchestrator_stop(note: $note) {
...OrchestratorChangeResult } }"""
ORCHESTRATOR_START: Final = """
mutation orchestrator_start($note: String = null) { orchestrator_start(note: $note) {
...OrchestratorChangeResult } }"""
ALLOCATE_GPUS: Final = """
mutation allocate_gpus($input: AllocateGpusInput!) { allocate_gpus(input: $input) {
...AllocateGpusResult } }"""
RELEASE_GPUS: Final = """
mutation release_gpus($job_id: String!) { release_gpus(job_id: $job_id) {
...ReleaseGpusResult } }"""
SET_SECRET: Final = """
mutation set_secret($name: String!, $value: String!) { set_secret(name: $name, value:
$value) { ...SetSecretResult } }"""
DELETE_SECRET: Final = """
mutation delete_secret($name: String!) { delete_secret(name: $name) {
...DeleteSecretResult } }"""
CREATE_SESSION: Final = """
mutation create_session($input: CreateSessionInput!) { create_session(input: $input) {
...CreateSessionResult } }"""
CREATE_SESSIONS: Final = """
mutation create_sessions($input: CreateSessionsInput!) { create_sessions(input: $input) {
...CreateSessionsResult } }"""
HOLD_SESSION: Final = """
mutation hold_session($input: ChangeSessionInput!) { hold_session(input: $input) {
...HoldSessionResult } }"""
RELEASE_SESSION: Final = """
mutation release_session($input: ChangeSessionInput!) { release_session(input: $input) {
...ReleaseSessionResult } }"""
RETRY_SESSION: Final = """
mutation retry_session($input: ChangeSessionInput!) { retry_session(input: $input) {
...RetrySessionResult } }"""
CANCEL_SESSION: Final = """
mutation cancel_session($input: CancelSessionInput!) { cancel_session(input: $input) {
...CancelSessionResult } }"""
UPDATE_SESSION_PRIORITY: Final = """
mutation update_session_priority($input: UpdateSessionPriorityInput!) {
update_session_priority(input: $input) { ...UpdateSessionPriorityResult } }"""


class Mutations(Asking):
    """Every mutation of the server."""

    async def create_user(self, input: CreateUserInput) -> UserChangeSuccess:
        """Let somebody in, who comes with a key."""
        found: UserChangeSuccess = await self._change(CREATE_USER, {"input": input}, UserChangeSuccess)
        return found

    async def update_user(self, input: UpdateUserInput) -> UserChangeSuccess:
        """Change a user."""
        found: UserChangeSuccess = await self._change(UPDATE_USER, {"input": input}, UserChangeSuccess)
        return found

    async def disable_user(self, input: DisableUserInput) -> UserChangeSuccess:
        """Let somebody in no more, by no key; what runs goes on."""
        found: UserChangeSuccess = await self._change(DISABLE_USER, {"input": input}, UserChangeSuccess)
        return found

    async def create_api_key(self, input: CreateApiKeyInput) -> CreateApiKeySuccess:
        """Make a key for a user."""
        found: CreateApiKeySuccess = await self._change(CREATE_API_KEY, {"input": input}, CreateApiKeySuccess)
        return found

    async def revoke_api_key(self, id: str) -> RevokeApiKeySuccess:
        """Let nobody in by a key any more, and close the sockets that it opened."""
        found: RevokeApiKeySuccess = await self._change(REVOKE_API_KEY, {"id": id}, RevokeApiKeySuccess)
        return found

    async def update_policy(self, input: UpdatePolicyInput) -> PolicyChangeSuccess:
        """Change the policy."""
        found: PolicyChangeSuccess = await self._change(UPDATE_POLICY, {"input": input}, PolicyChangeSuccess)
        return found

    async def set_quota(self, input: SetQuotaInput) -> QuotaChangeSuccess:
        """Give a user, a project or the cluster a quota."""
        found: QuotaChangeSuccess = await self._change(SET_QUOTA, {"input": input}, QuotaChangeSuccess)
        return found

    async def remove_quota(self, input: RemoveQuotaInput) -> QuotaChangeSuccess:
        """Take a quota away."""
        found: QuotaChangeSuccess = await self._change(REMOVE_QUOTA, {"input": input}, QuotaChangeSuccess)
        return found

    async def drain_agent(self, input: DrainAgentInput) -> AgentChangeSuccess:
        """Put nothing new on an agent."""
        found: AgentChangeSuccess = await self._change(DRAIN_AGENT, {"input": input}, AgentChangeSuccess)
        return found

    async def resume_agent(self, id: str) -> AgentChangeSuccess:
        """Take back a drain."""
        found: AgentChangeSuccess = await self._change(RESUME_AGENT, {"id": id}, AgentChangeSuccess)
        return found

    async def set_agent_schedulable(self, input: SetAgentSchedulableInput) -> AgentChangeSuccess:
        """Say whether an agent is given something new."""
        found: AgentChangeSuccess = await self._change(SET_AGENT_SCHEDULABLE, {"input": input}, AgentChangeSuccess)
        return found

    async def label_agent(self, input: LabelAgentInput) -> AgentChangeSuccess:
        """Give an agent labels, in place of those that it has."""
        found: AgentChangeSuccess = await self._change(LABEL_AGENT, {"input": input}, AgentChangeSuccess)
        return found

    async def assign_agent_pool(self, id: str, *, pool: str) -> AgentChangeSuccess:
        """Move an agent to a pool; what runs there stays."""
        found: AgentChangeSuccess = await self._change(ASSIGN_AGENT_POOL, {"id": id, "pool": pool}, AgentChangeSuccess)
        return found

    async def release_lost_agent(self, id: str) -> AgentChangeSuccess:
        """Say that the processes of a lost agent are gone: its devices become free."""
        found: AgentChangeSuccess = await self._change(RELEASE_LOST_AGENT, {"id": id}, AgentChangeSuccess)
        return found

    async def copy_database(self) -> CopyDatabaseSuccess:
        """Copy the server's SQLite database, as it is now, to a new file beside it. For operators."""
        found: CopyDatabaseSuccess = await self._change(COPY_DATABASE, {}, CopyDatabaseSuccess)
        return found

    async def rescan_gpu_alloc_maps(self, agent_id: str) -> RescanSuccess:
        """Have an agent read the files again that say what its kernels were given, and compare. For operators."""
        found: RescanSuccess = await self._change(RESCAN_GPU_ALLOC_MAPS, {"agent_id": agent_id}, RescanSuccess)
        return found

    async def set_notice_rule(self, input: SetNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Say when alerts open, from now on. For admins."""
        found: NoticeRuleChangeSuccess = await self._change(SET_NOTICE_RULE, {"input": input}, NoticeRuleChangeSuccess)
        return found

    async def mute_notice_rule(self, input: MuteNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Let nobody be told of a rule's alerts for a while. For operators."""
        found: NoticeRuleChangeSuccess = await self._change(MUTE_NOTICE_RULE, {"input": input}, NoticeRuleChangeSuccess)
        return found

    async def send_test_notice(self, receiver: str) -> SendTestNoticeSuccess:
        """Try a receiver. For admins."""
        found: SendTestNoticeSuccess = await self._change(
            SEND_TEST_NOTICE, {"receiver": receiver}, SendTestNoticeSuccess
        )
        return found

    async def set_notice_preferences(self, input: SetNoticePreferencesInput) -> NoticePreferencesChangeSuccess:
        """Say where you are told of your sessions, and what of."""
        found: NoticePreferencesChangeSuccess = await self._change(
            SET_NOTICE_PREFERENCES, {"input": input}, NoticePreferencesChangeSuccess
        )
        return found

    async def orchestrator_stop(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """
        Place and preempt nothing any more, on any server, until it is started again. Sessions that run, the reaper and
        submissions go on. For operators.
        """
        found: OrchestratorChangeSuccess = await self._change(
            ORCHESTRATOR_STOP, {"note": note}, OrchestratorChangeSuccess
        )
        return found

    async def orchestrator_start(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """Place what waits again. For operators."""
        found: OrchestratorChangeSuccess = await self._change(
            ORCHESTRATOR_START, {"note": note}, OrchestratorChangeSuccess
        )
        return found

    async def allocate_gpus(self, input: AllocateGpusInput) -> GpusAllocated:
        """
        GPUs for work that is run outside: at once, all or nothing, until they are released or not called for again in
        time.
        """
        found: GpusAllocated = await self._change(ALLOCATE_GPUS, {"input": input}, GpusAllocated)
        return found

    async def release_gpus(self, job_id: str) -> GpusAllocated:
        """Give back what a job of the caller's holds for work that is run outside."""
        found: GpusAllocated = await self._change(RELEASE_GPUS, {"job_id": job_id}, GpusAllocated)
        return found

    async def set_secret(self, name: str, *, value: str) -> SetSecretSuccess:
        """Store a secret of yours for sessions, in place of an older one of that name."""
        found: SetSecretSuccess = await self._change(SET_SECRET, {"name": name, "value": value}, SetSecretSuccess)
        return found

    async def delete_secret(self, name: str) -> DeleteSecretSuccess:
        """Delete a secret of yours."""
        found: DeleteSecretSuccess = await self._change(DELETE_SECRET, {"name": name}, DeleteSecretSuccess)
        return found

    async def create_session(self, input: CreateSessionInput) -> CreateSessionSuccess:
        """Submit a session."""
        found: CreateSessionSuccess = await self._change(CREATE_SESSION, {"input": input}, CreateSessionSuccess)
        return found

    async def create_sessions(self, input: CreateSessionsInput) -> CreateSessionsSuccess:
        """Submit sessions that may wait for each other: all of them or none."""
        found: CreateSessionsSuccess = await self._change(CREATE_SESSIONS, {"input": input}, CreateSessionsSuccess)
        return found

    async def hold_session(self, input: ChangeSessionInput) -> HoldSessionSuccess:
        """Hold back a session that waits."""
        found: HoldSessionSuccess = await self._change(HOLD_SESSION, {"input": input}, HoldSessionSuccess)
        return found

    async def release_session(self, input: ChangeSessionInput) -> ReleaseSessionSuccess:
        """Let go a session that is held back."""
        found: ReleaseSessionSuccess = await self._change(RELEASE_SESSION, {"input": input}, ReleaseSessionSuccess)
        return found

    async def retry_session(self, input: ChangeSessionInput) -> RetrySessionSuccess:
        """Run a session again that has ended. Of a job array the tasks that failed or were canceled, else all."""
        found: RetrySessionSuccess = await self._change(RETRY_SESSION, {"input": input}, RetrySessionSuccess)
        return found

    async def cancel_session(self, input: CancelSessionInput) -> CancelSessionSuccess:
        """Cancel a session that has not ended; of a job array, all of its tasks."""
        found: CancelSessionSuccess = await self._change(CANCEL_SESSION, {"input": input}, CancelSessionSuccess)
        return found

    async def update_session_priority(self, input: UpdateSessionPriorityInput) -> UpdateSessionPrioritySuccess:
        """Give a session another priority."""
        found: UpdateSessionPrioritySuccess = await self._change(
            UPDATE_SESSION_PRIORITY, {"input": input}, UpdateSessionPrioritySuccess
        )
        return found
