"""All mutations, blocking.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from aliquot.client.blocking_calls import BlockingCalls
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


class BlockingMutations(BlockingCalls):
    """All mutations of the server, blocking."""

    _plain: Mutations

    def create_user(self, input: CreateUserInput) -> UserChangeSuccess:
        """Create a user. For admins."""
        return self._ask(self._plain.create_user(input))

    def update_user(self, input: UpdateUserInput) -> UserChangeSuccess:
        """Change a user. For admins."""
        return self._ask(self._plain.update_user(input))

    def disable_user(self, input: DisableUserInput) -> UserChangeSuccess:
        """Reject all keys of a user. Their sessions keep running. For admins."""
        return self._ask(self._plain.disable_user(input))

    def create_api_key(self, input: CreateApiKeyInput) -> CreateApiKeySuccess:
        """Create an API key for a user. For admins."""
        return self._ask(self._plain.create_api_key(input))

    def renew_calendar_feed(self) -> RenewCalendarFeedSuccess:
        """Make the secret addresses of your calendar feed, for a calendar program; earlier ones stop working."""
        return self._ask(self._plain.renew_calendar_feed())

    def revoke_api_key(self, id: str) -> RevokeApiKeySuccess:
        """Revoke an API key and close its open connections. For admins, and for the key's owner."""
        return self._ask(self._plain.revoke_api_key(id))

    def update_policy(self, input: UpdatePolicyInput) -> PolicyChangeSuccess:
        """Change the scheduling policy. For operators."""
        return self._ask(self._plain.update_policy(input))

    def set_quota(self, input: SetQuotaInput) -> QuotaChangeSuccess:
        """Set the quota of a user, a project or the cluster. For operators."""
        return self._ask(self._plain.set_quota(input))

    def remove_quota(self, input: RemoveQuotaInput) -> QuotaChangeSuccess:
        """Remove a quota. For operators."""
        return self._ask(self._plain.remove_quota(input))

    def delete_project(self, name: str) -> ProjectDeleteSuccess:
        """
        Delete a project without members, quota, and sessions that wait or run. It can be created again. For admins.
        """
        return self._ask(self._plain.delete_project(name))

    def drain_agent(self, input: DrainAgentInput) -> AgentChangeSuccess:
        """Drain an agent: nothing new is placed on it. For operators."""
        return self._ask(self._plain.drain_agent(input))

    def resume_agent(self, id: str) -> AgentChangeSuccess:
        """End the drain of an agent. For operators."""
        return self._ask(self._plain.resume_agent(id))

    def set_agent_schedulable(self, input: SetAgentSchedulableInput) -> AgentChangeSuccess:
        """Set whether an agent accepts new work. For operators."""
        return self._ask(self._plain.set_agent_schedulable(input))

    def label_agent(self, input: LabelAgentInput) -> AgentChangeSuccess:
        """Replace the labels of an agent. For operators."""
        return self._ask(self._plain.label_agent(input))

    def assign_agent_pool(self, id: str, *, pool: str) -> AgentChangeSuccess:
        """Move an agent to another pool. Its running sessions continue. For operators."""
        return self._ask(self._plain.assign_agent_pool(id, pool=pool))

    def release_lost_agent(self, id: str) -> AgentChangeSuccess:
        """Confirm that the processes of a lost agent are gone, which frees its devices. For operators."""
        return self._ask(self._plain.release_lost_agent(id))

    def start_backtest(self, input: BacktestInput) -> Backtest:
        """
        Run the recorded history again under other policies or on another cluster, in the background. One backtest runs
        at a time, at most 4 wait. For operators.
        """
        return self._ask(self._plain.start_backtest(input))

    def cancel_backtest(self, id: str) -> Backtest:
        """Stop a backtest. For operators."""
        return self._ask(self._plain.cancel_backtest(id))

    def start_tuning(self, input: TuningInput) -> Backtest:
        """
        Search better weights for the policy on the recorded history, in the background, as one of the backtests. For
        operators.
        """
        return self._ask(self._plain.start_tuning(input))

    def apply_tuning(self, id: str) -> Backtest:
        """
        Change the policy as a tuning proposes, unless the policy has changed since the tuning began. For operators.
        """
        return self._ask(self._plain.apply_tuning(id))

    def reserve(self, input: ReserveInput) -> BookingSuccess:
        """Book GPUs for a window, within the quota; operators also book nodes for maintenance."""
        return self._ask(self._plain.reserve(input))

    def import_reservations(self, input: ImportReservationsInput) -> ImportReservationsSuccess:
        """
        Book the rows of a spreadsheet (CSV, XLSX) or a calendar (ICS). Rows that cannot be booked are listed with the
        reason; the others are booked. Operators may name other users.
        """
        return self._ask(self._plain.import_reservations(input))

    def extend_reservation(self, name: str, *, ends_at: datetime) -> BookingSuccess:
        """Move the end of a booking; a later end is granted if its GPUs are free until then."""
        return self._ask(self._plain.extend_reservation(name, ends_at=ends_at))

    def give_back_reservation(self, name: str, *, series: bool = False) -> BookingSuccess:
        """Cancel a booking, or give back the rest of one that has begun."""
        return self._ask(self._plain.give_back_reservation(name, series=series))

    def change_sessions(self, input: ChangeSessionsInput) -> ChangeSessionsSuccess:
        """
        Cancel, hold, release, keep or retry several sessions, or change their priority. Each is changed or refused by
        itself: a session that has ended does not stop the others.
        """
        return self._ask(self._plain.change_sessions(input))

    def copy_database(self) -> CopyDatabaseSuccess:
        """Copy the server's SQLite database in its current state to a new file in the same directory. For operators."""
        return self._ask(self._plain.copy_database())

    def rescan_gpu_alloc_maps(self, *, agent_id: str | None = None) -> RescanSuccess:
        """
        Re-read the files in which agents record their kernels' allocations, and compare them with the grants. For
        operators.
        """
        return self._ask(self._plain.rescan_gpu_alloc_maps(agent_id=agent_id))

    def set_notice_rule(self, input: SetNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Change an alert rule. For admins."""
        return self._ask(self._plain.set_notice_rule(input))

    def mute_notice_rule(self, input: MuteNoticeRuleInput) -> NoticeRuleChangeSuccess:
        """Mute the notices of a rule's alerts for a period. For operators."""
        return self._ask(self._plain.mute_notice_rule(input))

    def send_test_notice(self, receiver: str) -> SendTestNoticeSuccess:
        """Send a test notice to a receiver. For admins."""
        return self._ask(self._plain.send_test_notice(receiver))

    def set_notice_preferences(self, input: SetNoticePreferencesInput) -> NoticePreferencesChangeSuccess:
        """Change the caller's notice preferences."""
        return self._ask(self._plain.set_notice_preferences(input))

    def orchestrator_stop(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """
        Stop placement and preemption on all servers until the orchestrator is started again. Running sessions, the
        reaper and submissions continue. For operators.
        """
        return self._ask(self._plain.orchestrator_stop(note=note))

    def orchestrator_start(self, *, note: str | None = None) -> OrchestratorChangeSuccess:
        """Resume placement. For operators."""
        return self._ask(self._plain.orchestrator_start(note=note))

    def allocate_gpus(self, input: AllocateGpusInput) -> GpusAllocated:
        """
        Allocate GPUs for processes that Aliquot does not start: immediately, all or nothing, until they are released or
        the lease expires.
        """
        return self._ask(self._plain.allocate_gpus(input))

    def release_gpus(self, job_id: str) -> GpusAllocated:
        """Release an external allocation of the caller."""
        return self._ask(self._plain.release_gpus(job_id))

    def set_secret(self, name: str, *, value: str) -> SetSecretSuccess:
        """Store a secret of the caller for use in sessions; replaces one of the same name."""
        return self._ask(self._plain.set_secret(name, value=value))

    def delete_secret(self, name: str) -> DeleteSecretSuccess:
        """Delete a secret of the caller."""
        return self._ask(self._plain.delete_secret(name))

    def save_session_template(self, project: str, *, name: str, fields: str) -> SaveSessionTemplateSuccess:
        """
        Save a personal session template, or one of a project. One of the same name is replaced, by its author or an
        operator.
        """
        return self._ask(self._plain.save_session_template(project, name=name, fields=fields))

    def delete_session_template(self, project: str, *, name: str) -> DeleteSessionTemplateSuccess:
        """Delete a session template; only its author and operators may do that."""
        return self._ask(self._plain.delete_session_template(project, name=name))

    def create_session(self, input: CreateSessionInput) -> CreateSessionSuccess:
        """Submit a session."""
        return self._ask(self._plain.create_session(input))

    def create_sessions(self, input: CreateSessionsInput) -> CreateSessionsSuccess:
        """Submit several sessions that may depend on each other, all or none."""
        return self._ask(self._plain.create_sessions(input))

    def hold_session(self, input: ChangeSessionInput) -> HoldSessionSuccess:
        """Hold a waiting session: it is not started until it is released."""
        return self._ask(self._plain.hold_session(input))

    def release_session(self, input: ChangeSessionInput) -> ReleaseSessionSuccess:
        """Release a held session."""
        return self._ask(self._plain.release_session(input))

    def retry_session(self, input: ChangeSessionInput, *, from_checkpoint: bool = False) -> RetrySessionSuccess:
        """
        Run an ended session again. For a job array: the tasks that failed or were canceled, or all if there are none.
        """
        return self._ask(self._plain.retry_session(input, from_checkpoint=from_checkpoint))

    def extend_session(self, input: ChangeSessionInput, *, seconds: float) -> ExtendSessionSuccess:
        """
        Add time to the limit of a running session. Granted if no other user's session and no booking would start later
        for it; else StateConflict says which would.
        """
        return self._ask(self._plain.extend_session(input, seconds=seconds))

    def keep_session(self, input: ChangeSessionInput) -> KeepSessionSuccess:
        """
        State that a session is still needed although it does not use its GPUs. The steps of the policy stop for
        `preemption.idle.keep`.
        """
        return self._ask(self._plain.keep_session(input))

    def cancel_session(self, input: CancelSessionInput) -> CancelSessionSuccess:
        """Cancel a session that has not ended; for a job array, all of its tasks."""
        return self._ask(self._plain.cancel_session(input))

    def update_session_priority(self, input: UpdateSessionPriorityInput) -> UpdateSessionPrioritySuccess:
        """Change the priority of a session."""
        return self._ask(self._plain.update_session_priority(input))

    def update_session_priorities(self, input: UpdateSessionPrioritiesInput) -> UpdateSessionPrioritiesSuccess:
        """
        Change the priority of several sessions, of all of them or none: a refusal names the first session that it is
        about.
        """
        return self._ask(self._plain.update_session_priorities(input))

    def update_session(self, input: UpdateSessionInput) -> UpdateSessionSuccess:
        """
        Change the request of a waiting session; it keeps its place in the queue. For a job array: of the tasks that
        have not started. Its fallbacks are dropped when slots, kernels or pool change.
        """
        return self._ask(self._plain.update_session(input))
