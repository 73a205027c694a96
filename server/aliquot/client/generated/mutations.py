"""All mutations.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime
from typing import Final

from aliquot.client.generated.accounts import CreateApiKeyInput, CreateUserInput, DisableUserInput, UpdateUserInput
from aliquot.client.generated.alerts import MuteNoticeRuleInput, SetNoticePreferencesInput, SetNoticeRuleInput
from aliquot.client.generated.backtests import Backtest, BacktestInput, TuningInput
from aliquot.client.generated.bookings import ImportReservationsInput, ReserveInput
from aliquot.client.generated.bulk_changes import ChangeSessionsInput
from aliquot.client.generated.external_allocations import AllocateGpusInput, GpusAllocated
from aliquot.client.generated.inputs import (
    CancelSessionInput,
    ChangeSessionInput,
    CreateSessionInput,
    CreateSessionsInput,
    UpdateSessionInput,
    UpdateSessionPrioritiesInput,
    UpdateSessionPriorityInput,
)
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
    BookingSuccess,
    CancelSessionSuccess,
    ChangeSessionsSuccess,
    CopyDatabaseSuccess,
    CreateApiKeySuccess,
    CreateSessionsSuccess,
    CreateSessionSuccess,
    DeleteSecretSuccess,
    DeleteSessionTemplateSuccess,
    ExtendSessionSuccess,
    HoldSessionSuccess,
    ImportReservationsSuccess,
    KeepSessionSuccess,
    NoticePreferencesChangeSuccess,
    NoticeRuleChangeSuccess,
    OrchestratorChangeSuccess,
    PolicyChangeSuccess,
    ProjectDeleteSuccess,
    QuotaChangeSuccess,
    ReleaseSessionSuccess,
    RenewCalendarFeedSuccess,
    RescanSuccess,
    RetrySessionSuccess,
    RevokeApiKeySuccess,
    SaveSessionTemplateSuccess,
    SendTestNoticeSuccess,
    SetSecretSuccess,
    UpdateSessionPrioritiesSuccess,
    UpdateSessionPrioritySuccess,
    UpdateSessionSuccess,
    UserChangeSuccess,
)
from aliquot.client.requests import Requests

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
RENEW_CALENDAR_FEED: Final = """mutation renew_calendar_feed { renew_calendar_feed { ...RenewCalendarFeedResult } }"""
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
DELETE_PROJECT: Final = """
mutation delete_project($name: String!) { delete_project(name: $name) {
...ProjectDeleteResult } }"""
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
START_BACKTEST: Final = """
mutation start_backtest($input: BacktestInput!) { start_backtest(input: $input) {
...StartBacktestResult } }"""
CANCEL_BACKTEST: Final = """
mutation cancel_backtest($id: ID!) { cancel_backtest(id: $id) { ...CancelBacktestResult }
}"""
START_TUNING: Final = """
mutation start_tuning($input: TuningInput!) { start_tuning(input: $input) {
...StartTuningResult } }"""
APPLY_TUNING: Final = """mutation apply_tuning($id: ID!) { apply_tuning(id: $id) { ...ApplyTuningResult } }"""
RESERVE: Final = """mutation reserve($input: ReserveInput!) { reserve(input: $input) { ...ReserveResult } }"""
IMPORT_RESERVATIONS: Final = """
mutation import_reservations($input: ImportReservationsInput!) {
import_reservations(input: $input) { ...ImportReservationsResult } }"""
EXTEND_RESERVATION: Final = """
mutation extend_reservation($name: String!, $ends_at: DateTime!) {
extend_reservation(name: $name, ends_at: $ends_at) { ...ExtendReservationResult } }"""
GIVE_BACK_RESERVATION: Final = """
mutation give_back_reservation($name: String!, $series: Boolean! = false) {
give_back_reservation(name: $name, series: $series) { ...GiveBackReservationResult } }"""
CHANGE_SESSIONS: Final = """
mutation change_sessions($input: ChangeSessionsInput!) { change_sessions(input: $input) {
...ChangeSessionsResult } }"""
COPY_DATABASE: Final = """mutation copy_database { copy_database { ...CopyDatabaseResult } }"""
RESCAN_GPU_ALLOC_MAPS: Final = """
mutation rescan_gpu_alloc_maps($agent_id: String = null) { rescan_gpu_alloc_maps(agent_id:
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
SAVE_SESSION_TEMPLATE: Final = """
mutation save_session_template($project: String!, $name: String!, $fields: String!) {
save_session_template(project: $project, name: $name, fields: $fields) {
...SaveSessionTemplateResult } }"""
DELETE_SESSION_TEMPLATE: Final = """
mutation delete_session_template($project: String!, $name: String!) {
delete_session_template(project: $project, name: $name) { ...DeleteSessionTemplateResult }
}"""
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
mutation retry_session($input: ChangeSessionInput!, $from_checkpoint: Boolean! = false) {
retry_session(input: $input, from_checkpoint: $from_checkpoint) { ...RetrySessionResult }
}"""
EXTEND_SESSION: Final = """
mutation extend_session($input: ChangeSessionInput!, $seconds: Float!) {
extend_session(input: $input, seconds: $seconds) { ...ExtendSessionResult } }"""
KEEP_SESSION: Final = """
mutation keep_session($input: ChangeSessionInput!) { keep_session(input: $input) {
...KeepSessionResult } }"""
CANCEL_SESSION: Final = """
mutation cancel_session($input: CancelSessionInput!) { cancel_session(input: $input) {
...CancelSessionResult } }"""
UPDATE_SESSION_PRIORITY: Final = """
mutation update_session_priority($input: UpdateSessionPriorityInput!) {
update_session_priority(input: $input) { ...UpdateSessionPriorityResult } }"""
UPDATE_SESSION_PRIORITIES: Final = """
mutation update_session_priorities($input: UpdateSessionPrioritiesInput!) {
update_session_priorities(input: $input) { ...UpdateSessionPrioritiesResult } }"""
UPDATE_SESSION: Final = """
mutation update_session($input: UpdateSessionInput!) { update_session(input: $input) {
...UpdateSessionResult } }"""


class Mutations(Requests):
    """All mutations of the server."""

    async def create_user(self, input: CreateUserInput) -> UserChangeSuccess:
        """Create a user. For admins."""
        found: UserChangeSuccess = await self._change(CREATE_USER, {"input": input}, UserChangeSuccess)
        return found

    async def update_user(self, input: UpdateUserInput) -> UserChangeSuccess:
        """Change a user. For admins."""
        found: UserChangeSuccess = await self._change(UPDATE_USER, {"input": input}, UserChangeSuccess)
        return found

    async def disable_user(self, input: DisableUserInput) -> UserChangeSuccess:
        """Reject all keys of a user. Their sessions keep running. For admins."""
        found: UserChangeSuccess = await self._change(DISABLE_USER, {"input": input}, UserChangeSuccess)
        return found

    async def create_api_key(self, input: CreateApiKeyInput) -> CreateApiKeySuccess:
        """Create an API key for a user. For admins."""
        found: CreateApiKeySuccess = await self._change(CREATE_API_KEY, {"input": input}, CreateApiKeySuccess)
        return found

    async def renew_calendar_feed(self) -> RenewCalendarFeedSuccess:
        """Make the secret addresses of your calendar feed, for a calendar program; earlier ones stop working."""
        found: RenewCalendarFeedSuccess = await self._change(RENEW_CALENDAR_FEED, {}, RenewCalendarFeedSuccess)
        return found

    async def revoke_api_key(self, id: str) -> RevokeApiKeySuccess:
        """Revoke an API key and close its open connections. For admins, and for the key's owner."""
        found: RevokeApiKeySuccess = await self._change(REVOKE_API_KEY, {"id": id}, RevokeApiKeySuccess)
        return found

    async def update_policy(self, input: UpdatePolicyInput) -> PolicyChangeSuccess:
        """Change the scheduling policy. For operators."""
        found: PolicyChangeSuccess = await self._change(UPDATE_POLICY, {"input": input}, PolicyChangeSuccess)
        return found

    async def set_quota(self, input: SetQuotaInput) -> QuotaChangeSuccess:
        """Set the quota of a user, a project or the cluster. For operators."""
        found: QuotaChangeSuccess = await self._change(SET_QUOTA, {"input": input}, QuotaChangeSuccess)
        return found

    async def remove_quota(self, input: RemoveQuotaInput) -> QuotaChangeSuccess:
        """Remove a quota. For operators."""
        found: QuotaChangeSuccess = await self._change(REMOVE_QUOTA, {"input": input}, QuotaChangeSuccess)
        return found

    async def delete_project(self, name: str) -> ProjectDeleteSuccess:
        """
        Delete a project without members, quota, and sessions that wait or run. It can be created again. For admins.
        """
        found: ProjectDeleteSuccess = await self._change(DELETE_PROJECT, {"name": name}, ProjectDeleteSuccess)
        return found

    async def drain_agent(self, input: DrainAgentInput) -> AgentChangeSuccess:
        """Drain an agent: nothing new is placed on it. For operators."""
        found: AgentChangeSuccess = await self._change(DRAIN_AGENT, {"input": input}, AgentChangeSuccess)
        return found

    async def resume_agent(self, id: str) -> AgentChangeSuccess:
        """End the drain of an agent. For operators."""
        found: AgentChangeSuccess = await self._change(RESUME_AGENT, {"id": id}, AgentChangeSuccess)
        return found

    async def set_agent_schedulable(self, input: SetAgentSchedulableInput) -> AgentChangeSuccess:
        """Set whether an agent accepts new work. For operators."""
        found: AgentChangeSuccess = await self._change(SET_AGENT_SCHEDULABLE, {"input": input}, AgentChangeSuccess)
        return found

    async def label_agent(self, input: LabelAgentInput) -> AgentChangeSuccess:
        """Replace the labels of an agent. For operators."""
        found: AgentChangeSuccess = await self._change(LABEL_AGENT, {"input": input}, AgentChangeSuccess)
        return found

    async def assign_agent_pool(self, id: str, *, pool: str) -> AgentChangeSuccess:
        """Move an agent to another pool. Its running sessions continue. For operators."""
        found: AgentChangeSuccess = await self._change(ASSIGN_AGENT_POOL, {"id": id, "pool": pool}, AgentChangeSuccess)
        return found

    async def release_lost_agent(self, id: str) -> AgentChangeSuccess:
        """Confirm that the processes of a lost agent are gone, which frees its devices. For operators."""
        found: AgentChangeSuccess = await self._change(RELEASE_LOST_AGENT, {"id": id}, AgentChangeSuccess)
        return found

    async def start_backtest(self, input: BacktestInput) -> Backtest:
        """
        Run the recorded history again under other policies or on another cluster, in the background. One backtest runs
        at a time, at most 4 wait. For operators.
        """
        found: Backtest = await self._change(START_BACKTEST, {"input": input}, Backtest)
        return found

    async def cancel_backtest(self, id: str) -> Backtest:
        """Stop a backtest. For operators."""
        found: Backtest = await self._change(CANCEL_BACKTEST, {"id": id}, Backtest)
        return found

    async def start_tuning(self, input: TuningInput) -> Backtest:
        """
        Search better weights for the policy on the recorded history, in the background, as one of the backtests. For
        operators.
        """
        found: Backtest = await self._change(START_TUNING, {"input": input}, Backtest)
        return found

    async def apply_tuning(self, id: str) -> Backtest:
        """
        Change the policy as a tuning proposes, unless the policy has changed since the tuning began. For operators.
        """
        found: Backtest = await self._change(APPLY_TUNING, {"id": id}, Backtest)
        return found

    async def reserve(self, input: ReserveInput) -> BookingSuccess:
        """Book GPUs for a window, within the quota; operators also book nodes for maintenance."""
        found: BookingSuccess = await self._change(RESERVE, {"input": input}, BookingSuccess)
        return found

    async def import_reservations(self, input: ImportReservationsInput) -> ImportReservationsSuccess:
        """
        Book the rows of a spreadsheet (CSV, XLSX) or a calendar (ICS). Rows that cannot be booked are listed with the
        reason; the others are booked. Operators may name other users.
        """
        found: ImportReservationsSuccess = await self._change(
            IMPORT_RESERVATIONS, {"input": input}, ImportReservationsSuccess
        )
        return found

    async def extend_reservation(self, name: str, *, ends_at: datetime) -> BookingSuccess:
        """Move the end of a booking; a later end is granted if its GPUs are free until then."""
        found: BookingSuccess = await self._change(
            EXTEND_RESERVATION, {"name": name, "ends_at": ends_at}, BookingSuccess
        )
        return found

    async def give_back_reservation(self, name: str, *, series: bool = False) -> BookingSuccess:
        """Cancel a booking, or give back the rest of one that has begun."""
        found: BookingSuccess = await self._change(
            GIVE_BACK_RESERVATION, {"name": name, "series": series}, BookingSuccess
        )
        return found

    async def change_sessions(self, input: ChangeSessionsInput) -> ChangeSessionsSuccess:
        """
        Cancel, hold, release, keep or retry several sessions, or change their priority. Each is changed or refused by
        itself: a session that has ended does not stop the others.
        """
        found: ChangeSessionsSuccess = await self._change(CHANGE_SESSIONS, {"input": input}, ChangeSessionsSuccess)
        return found

    async def copy_database(self) -> CopyDatabaseSuccess:
        """Copy the server's SQLite database in its current state to a new file in the same directory. For operators."""
        found: CopyDatabaseSuccess = await self._change(COPY_DATABASE, {}, CopyDatabaseSuccess)
        return found

    async def rescan_gpu_alloc_maps(self, *, agent_id: str | None = None) -> RescanSuccess:
        """
        Re-read the files in which agents record their kernels' allocations, and compare them with the grants. For
        operators.
        """
        found: RescanSuccess = await self._change(RESCAN_GPU_ALLOC_MAPS, {"agent_id": agent_id}, RescanSuccess)
        return found

    async def set_notice_rule(self, input: SetNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Change an alert rule. For admins."""
        found: NoticeRuleChangeSuccess = await self._change(SET_NOTICE_RULE, {"input": input}, NoticeRuleChangeSuccess)
        return found

    async def mute_notice_rule(self, input: MuteNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Mute the notices of a rule's alerts for a period. For operators."""
        found: NoticeRuleChangeSuccess = await self._change(MUTE_NOTICE_RULE, {"input": input}, NoticeRuleChangeSuccess)
        return found

    async def send_test_notice(self, receiver: str) -> SendTestNoticeSuccess:
        """Send a test notice to a receiver. For admins."""
        found: SendTestNoticeSuccess = await self._change(
            SEND_TEST_NOTICE, {"receiver": receiver}, SendTestNoticeSuccess
        )
        return found

    async def set_notice_preferences(self, input: SetNoticePreferencesInput) -> NoticePreferencesChangeSuccess:
        """Change the caller's notice preferences."""
        found: NoticePreferencesChangeSuccess = await self._change(
            SET_NOTICE_PREFERENCES, {"input": input}, NoticePreferencesChangeSuccess
        )
        return found

    async def orchestrator_stop(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """
        Stop placement and preemption on all servers until the orchestrator is started again. Running sessions, the
        reaper and submissions continue. For operators.
        """
        found: OrchestratorChangeSuccess = await self._change(
            ORCHESTRATOR_STOP, {"note": note}, OrchestratorChangeSuccess
        )
        return found

    async def orchestrator_start(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """Resume placement. For operators."""
        found: OrchestratorChangeSuccess = await self._change(
            ORCHESTRATOR_START, {"note": note}, OrchestratorChangeSuccess
        )
        return found

    async def allocate_gpus(self, input: AllocateGpusInput) -> GpusAllocated:
        """
        Allocate GPUs for processes that Aliquot does not start: immediately, all or nothing, until they are released or
        the lease expires.
        """
        found: GpusAllocated = await self._change(ALLOCATE_GPUS, {"input": input}, GpusAllocated)
        return found

    async def release_gpus(self, job_id: str) -> GpusAllocated:
        """Release an external allocation of the caller."""
        found: GpusAllocated = await self._change(RELEASE_GPUS, {"job_id": job_id}, GpusAllocated)
        return found

    async def set_secret(self, name: str, *, value: str) -> SetSecretSuccess:
        """Store a secret of the caller for use in sessions; replaces one of the same name."""
        found: SetSecretSuccess = await self._change(SET_SECRET, {"name": name, "value": value}, SetSecretSuccess)
        return found

    async def delete_secret(self, name: str) -> DeleteSecretSuccess:
        """Delete a secret of the caller."""
        found: DeleteSecretSuccess = await self._change(DELETE_SECRET, {"name": name}, DeleteSecretSuccess)
        return found

    async def save_session_template(self, project: str, *, name: str, fields: str) -> SaveSessionTemplateSuccess:
        """
        Save a personal session template, or one of a project. One of the same name is replaced, by its author or an
        operator.
        """
        found: SaveSessionTemplateSuccess = await self._change(
            SAVE_SESSION_TEMPLATE, {"project": project, "name": name, "fields": fields}, SaveSessionTemplateSuccess
        )
        return found

    async def delete_session_template(self, project: str, *, name: str) -> DeleteSessionTemplateSuccess:
        """Delete a session template; only its author and operators may do that."""
        found: DeleteSessionTemplateSuccess = await self._change(
            DELETE_SESSION_TEMPLATE, {"project": project, "name": name}, DeleteSessionTemplateSuccess
        )
        return found

    async def create_session(self, input: CreateSessionInput) -> CreateSessionSuccess:
        """Submit a session."""
        found: CreateSessionSuccess = await self._change(CREATE_SESSION, {"input": input}, CreateSessionSuccess)
        return found

    async def create_sessions(self, input: CreateSessionsInput) -> CreateSessionsSuccess:
        """Submit several sessions that may depend on each other, all or none."""
        found: CreateSessionsSuccess = await self._change(CREATE_SESSIONS, {"input": input}, CreateSessionsSuccess)
        return found

    async def hold_session(self, input: ChangeSessionInput) -> HoldSessionSuccess:
        """Hold a waiting session: it is not started until it is released."""
        found: HoldSessionSuccess = await self._change(HOLD_SESSION, {"input": input}, HoldSessionSuccess)
        return found

    async def release_session(self, input: ChangeSessionInput) -> ReleaseSessionSuccess:
        """Release a held session."""
        found: ReleaseSessionSuccess = await self._change(RELEASE_SESSION, {"input": input}, ReleaseSessionSuccess)
        return found

    async def retry_session(self, input: ChangeSessionInput, *, from_checkpoint: bool = False) -> RetrySessionSuccess:
        """
        Run an ended session again. For a job array: the tasks that failed or were canceled, or all if there are none.
        """
        found: RetrySessionSuccess = await self._change(
            RETRY_SESSION, {"input": input, "from_checkpoint": from_checkpoint}, RetrySessionSuccess
        )
        return found

    async def extend_session(self, input: ChangeSessionInput, *, seconds: float) -> ExtendSessionSuccess:
        """
        Add time to the limit of a running session. Granted if no other user's session and no booking would start later
        for it; else StateConflict says which would.
        """
        found: ExtendSessionSuccess = await self._change(
            EXTEND_SESSION, {"input": input, "seconds": seconds}, ExtendSessionSuccess
        )
        return found

    async def keep_session(self, input: ChangeSessionInput) -> KeepSessionSuccess:
        """
        State that a session is still needed although it does not use its GPUs. The steps of the policy stop for
        `preemption.idle.keep`.
        """
        found: KeepSessionSuccess = await self._change(KEEP_SESSION, {"input": input}, KeepSessionSuccess)
        return found

    async def cancel_session(self, input: CancelSessionInput) -> CancelSessionSuccess:
        """Cancel a session that has not ended; for a job array, all of its tasks."""
        found: CancelSessionSuccess = await self._change(CANCEL_SESSION, {"input": input}, CancelSessionSuccess)
        return found

    async def update_session_priority(self, input: UpdateSessionPriorityInput) -> UpdateSessionPrioritySuccess:
        """Change the priority of a session."""
        found: UpdateSessionPrioritySuccess = await self._change(
            UPDATE_SESSION_PRIORITY, {"input": input}, UpdateSessionPrioritySuccess
        )
        return found

    async def update_session_priorities(self, input: UpdateSessionPrioritiesInput) -> UpdateSessionPrioritiesSuccess:
        """
        Change the priority of several sessions, of all of them or none: a refusal names the first session that it is
        about.
        """
        found: UpdateSessionPrioritiesSuccess = await self._change(
            UPDATE_SESSION_PRIORITIES, {"input": input}, UpdateSessionPrioritiesSuccess
        )
        return found

    async def update_session(self, input: UpdateSessionInput) -> UpdateSessionSuccess:
        """
        Change the request of a waiting session; it keeps its place in the queue. For a job array: of the tasks that
        have not started. Its fallbacks are dropped when slots, kernels or pool change.
        """
        found: UpdateSessionSuccess = await self._change(UPDATE_SESSION, {"input": input}, UpdateSessionSuccess)
        return found
