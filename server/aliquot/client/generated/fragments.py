"""Selections of all fields of each type.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from typing import Final

FRAGMENTS: Final = {
    "Agent": """
id version node_id hostname state schedulable pool labels { ...NameValue } eviction
draining drained note capacity { ...SlotAmount } occupied { ...SlotAmount } devices {
...Device } kernels { ...Kernel } gpu_alloc_map allocation_mode scaling_factors {
...SlotAmount } attributes { ...NameValue } capabilities { ...Capabilities }
software_version registered_at state_changed_at""",
    "AgentChangeResult": """
__typename ... on AgentChangeSuccess { agent { ...Agent } revision } ... on InvalidRequest
{ code message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on NotFound { code message kind id } ... on StateConflict { code
message id state } ... on Error { code message }""",
    "AgentChangeSuccess": """agent { ...Agent } revision""",
    "AgentConnection": """edges { ...AgentEdge } pageInfo { ...PageInfo } total_count revision""",
    "AgentDevices": """agent_id node_id gpu_alloc_map devices { ...Device } devices_gone""",
    "AgentEdge": """node { ...Agent } cursor""",
    "Alert": """id version rule state severity subject message opened_at closed_at""",
    "AlertEdge": """node { ...Alert } cursor""",
    "AlertUncountedConnection": """edges { ...AlertEdge } pageInfo { ...PageInfo }""",
    "AllocateGpusResult": """
__typename ... on GpusAllocated { job_id session_id gpu_ids gpus { ...AllocatedGpu }
expires_at renewed revision } ... on InvalidRequest { code message field } ... on
LimitExceeded { code message field limit actual } ... on Unauthenticated { code message }
... on Forbidden { code message } ... on Unavailable { code message } ... on InvalidAmount
{ code message field slot amount } ... on NotMultipleOfQuantum { code message field slot
amount quantum } ... on UnsupportedField { code message field } ... on UnknownSlot { code
message slot known } ... on ImpossibleRequest { code message slot requested
ImpossibleRequest_limit: limit } ... on QuotaExceeded { code message quota resource
requested QuotaExceeded_limit: limit } ... on QueueFull { code message limit queued
retry_after } ... on RateLimited { code message retry_after } ... on UnknownDependency {
code message session_id } ... on IdempotencyMismatch { code message key session_id } ...
on AllocationRefused { code message slot requested available } ... on InsufficientResource
{ code message slot requested available } ... on FractionalResourceFragmented { code
message slot requested available } ... on InvalidResourceCombination { code message slot
requested available } ... on UnsupportedResource { code message slot requested available }
... on NotPlaced { code message reason holders { ...Blocker } until } ... on Error { code
message }""",
    "AllocatedGpu": """node_id gpu_id share memory_gb utilization_pct""",
    "AllocationRefused": """code message slot requested available""",
    "ApiKey": """
id version user name scope created_at expires_at revoked_at is_valid gpu_hours_max
sessions_max gpu_hours submitted dry_run_first""",
    "ApplyTuningResult": """
__typename ... on Backtest { id state progress created_at created_by since until labels
failure report { ...BacktestReport } tuning { ...Tuning } applies_itself applied_version
superseded } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on NotFound { code message kind id
} ... on StateConflict { code message id StateConflict_state: state } ... on
VersionConflict { code message id expected VersionConflict_actual: actual } ... on Error {
code message }""",
    "ArrayMetrics": """tasks { ...TaskMetrics } end""",
    "ArrayTasks": """
waiting { ...TaskSet } active { ...TaskSet } completed { ...TaskSet } failed { ...TaskSet
} canceled { ...TaskSet } max_parallel""",
    "AuditChange": """number at kind entity_id actor api_key request_id pass_number fields { ...ChangedField }""",
    "AuditChangeEdge": """node { ...AuditChange } cursor""",
    "AuditChangeUncountedConnection": """edges { ...AuditChangeEdge } pageInfo { ...PageInfo }""",
    "Backtest": """
id state progress created_at created_by since until labels failure report {
...BacktestReport } tuning { ...Tuning } applies_itself applied_version superseded""",
    "BacktestDifference": """session_id owner recorded simulated reason""",
    "BacktestGroup": """kind name sessions gpu_hours wait wait_before completion slowdown""",
    "BacktestMove": """session_id owner project wait_before wait_after""",
    "BacktestReport": """
sessions reproduced different_count different { ...BacktestDifference } notes rows {
...BacktestRow }""",
    "BacktestRow": """
label sessions wait { ...BacktestSpread } completion { ...BacktestSpread } slowdown
utilization utilization_queued preemptions lost_gpu_hours fairness_users fairness_projects
groups { ...BacktestGroup } winners { ...BacktestMove } winners_count losers {
...BacktestMove } losers_count utilization_over_time waiting_over_time wait_quantiles
assumed exact""",
    "BacktestSpread": """mean p95 max""",
    "Blocker": """session_id user name until""",
    "BookedGpu": """node_id hostname device_id name model""",
    "Booking": """
id name kind owner project pool state starts_at ends_at gpus models devices { ...BookedGpu
} nodes is_active no_show_after used_at series refusal held_back_gpu_hours created_at
ended_at sessions""",
    "BookingEffect": """refusal delayed delayed_count delay_max""",
    "BookingRefused": """code message id""",
    "BookingSuccess": """booking { ...Booking } others { ...Booking } revision""",
    "CancelBacktestResult": """
__typename ... on Backtest { id state progress created_at created_by since until labels
failure report { ...BacktestReport } tuning { ...Tuning } applies_itself applied_version
superseded } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on NotFound { code message kind id
} ... on Error { code message }""",
    "CancelSessionResult": """
__typename ... on CancelSessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "CancelSessionSuccess": """session { ...Session } revision""",
    "Capabilities": """
kill limits switches_user device_access enforced { ...Enforcement } sandbox sandbox_mode
sandbox_note containers containers_note images""",
    "ChangeSessionsResult": """
__typename ... on ChangeSessionsSuccess { results { ...SessionOutcome } refused revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on Error { code message }""",
    "ChangeSessionsSuccess": """results { ...SessionOutcome } refused revision""",
    "ChangedField": """name before after""",
    "Charges": """accelerators { ...ModelCharge } cpu_milli mem_gib_milli""",
    "Cluster": """
total_gpus available_gpus allocated_gpus nodes { ...Node } gpus { ...Gpu } capacity {
...SlotCapacity } ray { ...RayCluster }""",
    "ClusterPool": """
name agents nodes schedulable gpu_count gpu_type total_gpus available_gpus allocated_gpus
capacity { ...SlotCapacity } total_queued running order_bound""",
    "CopyDatabaseResult": """
__typename ... on CopyDatabaseSuccess { path size_bytes } ... on InvalidRequest { code
message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on Error { code message }""",
    "CopyDatabaseSuccess": """path size_bytes""",
    "Cost": """currency amount amount_max per_hour text""",
    "CreateApiKeyResult": """
__typename ... on CreateApiKeySuccess { api_key { ...ApiKey } secret revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on Error { code message }""",
    "CreateApiKeySuccess": """api_key { ...ApiKey } secret revision""",
    "CreateSessionResult": """
__typename ... on CreateSessionSuccess { session { ...Session } revision created } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on InvalidAmount { code message field slot amount } ...
on NotMultipleOfQuantum { code message field slot amount quantum } ... on UnsupportedField
{ code message field } ... on UnknownSlot { code message slot known } ... on
ImpossibleRequest { code message slot requested ImpossibleRequest_limit: limit } ... on
QuotaExceeded { code message quota resource requested QuotaExceeded_limit: limit } ... on
QueueFull { code message limit queued retry_after } ... on RateLimited { code message
retry_after } ... on UnknownDependency { code message session_id } ... on
IdempotencyMismatch { code message key session_id } ... on AllocationRefused { code
message slot requested available } ... on InsufficientResource { code message slot
requested available } ... on FractionalResourceFragmented { code message slot requested
available } ... on InvalidResourceCombination { code message slot requested available }
... on UnsupportedResource { code message slot requested available } ... on Error { code
message }""",
    "CreateSessionSuccess": """session { ...Session } revision created""",
    "CreateSessionsResult": """
__typename ... on CreateSessionsSuccess { results { ...CreateSessionSuccess } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on InvalidAmount { code message field slot amount
} ... on NotMultipleOfQuantum { code message field slot amount quantum } ... on
UnsupportedField { code message field } ... on UnknownSlot { code message slot known } ...
on ImpossibleRequest { code message slot requested ImpossibleRequest_limit: limit } ... on
QuotaExceeded { code message quota resource requested QuotaExceeded_limit: limit } ... on
QueueFull { code message limit queued retry_after } ... on RateLimited { code message
retry_after } ... on UnknownDependency { code message session_id } ... on
IdempotencyMismatch { code message key session_id } ... on AllocationRefused { code
message slot requested available } ... on InsufficientResource { code message slot
requested available } ... on FractionalResourceFragmented { code message slot requested
available } ... on InvalidResourceCombination { code message slot requested available }
... on UnsupportedResource { code message slot requested available } ... on Error { code
message }""",
    "CreateSessionsSuccess": """results { ...CreateSessionSuccess } revision""",
    "DeleteSecretResult": """
__typename ... on DeleteSecretSuccess { name } ... on InvalidRequest { code message field
} ... on LimitExceeded { code message field limit actual } ... on Unauthenticated { code
message } ... on Forbidden { code message } ... on Unavailable { code message } ... on
NotFound { code message kind id } ... on Error { code message }""",
    "DeleteSecretSuccess": """name""",
    "DeleteSessionTemplateResult": """
__typename ... on DeleteSessionTemplateSuccess { project name revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on Error { code
message }""",
    "DeleteSessionTemplateSuccess": """project name revision""",
    "Delivery": """
id version notice_id receiver kind severity is_over subject message user state tries error
made_at next_try_at ended_at""",
    "DeliveryEdge": """node { ...Delivery } cursor""",
    "DeliveryUncountedConnection": """edges { ...DeliveryEdge } pageInfo { ...PageInfo }""",
    "Dependency": """session_id condition state""",
    "Device": """
id name kind model health isolation numa_node parent_id linked_to link_group memory_bytes
capacity used free holders { ...Holder } utilization_pct memory_used_bytes temperature_c
power_w foreign_usage foreign_users external""",
    "DeviceAmount": """device_id amount""",
    "DeviceHolding": """
device_id slot amount kind lease_id agent_id session_id user since until evidence
pass_number preempted_at preempted_by""",
    "DeviceHoldingEdge": """node { ...DeviceHolding } cursor""",
    "DeviceHoldingUncountedConnection": """edges { ...DeviceHoldingEdge } pageInfo { ...PageInfo }""",
    "DeviceUpdate": """number revision is_snapshot agents_gone agents { ...AgentDevices }""",
    "Difference": """kind agent_id subject evidence since repair""",
    "Displaced": """session_id owner cause has_run""",
    "Enforcement": """memory processes cpu open_files file_size wall_time""",
    "Error": """code message""",
    "Examination": """differences { ...Difference } asked silent""",
    "ExtendReservationResult": """
__typename ... on BookingSuccess { booking { ...Booking } others { ...Booking } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on BookingRefused { code message id } ... on
StateConflict { code message id state } ... on NotFound { code message kind id } ... on
Error { code message }""",
    "ExtendSessionResult": """
__typename ... on ExtendSessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "ExtendSessionSuccess": """session { ...Session } revision""",
    "Failure": """code message""",
    "FairShare": """
project user share entitlement gpu_hours_decayed gpus_held curve step at_entitlement_at
advice""",
    "Fallback": """slots { ...SlotAmount } cluster_size gpu_memory_gb after""",
    "Forbidden": """code message""",
    "Forecast": """
now { ...StartForecast } at_submission { ...StartForecast } came_true alike alike_inside
missing""",
    "ForecastAccuracy": """
groups { ...ForecastGroup } waited unknown unknown_part started_now now_true at_once
censored runs since made_at missing""",
    "ForecastGroup": """
group count days inside inside_low inside_high below above within_1_min within_10_min
within_factor_2 error error_of_average""",
    "FractionalResourceFragmented": """code message slot requested available""",
    "GiveBackReservationResult": """
__typename ... on BookingSuccess { booking { ...Booking } others { ...Booking } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on StateConflict { code message id state } ... on
NotFound { code message kind id } ... on Error { code message }""",
    "Gpu": """
id node_id name model available memory_total memory_used utilization temperature allocated
allocated_to { ...Holder }""",
    "GpuPerson": """user processes memory_bytes""",
    "GpuStats": """agent_id device_id share utilization utilization_max memory_gb memory_peak_gb""",
    "GpusAllocated": """job_id session_id gpu_ids gpus { ...AllocatedGpu } expires_at renewed revision""",
    "History": """started_at step points series { ...HistorySeries } warning""",
    "HistorySeries": """metric unit agent_id device_id values maximum""",
    "HoldSessionResult": """
__typename ... on HoldSessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "HoldSessionSuccess": """session { ...Session } revision""",
    "Holder": """lease_id kind user session_id kernel_id agent_id share since until isolation""",
    "HostStats": """rank agent_id cpu cpu_mean cpu_max cpu_held cpu_seconds memory memory_peak memory_held""",
    "IdempotencyMismatch": """code message key session_id""",
    "IdleBehindQuotas": """gpus_free sessions_held_back sessions_waiting message""",
    "IdleNotice": """action step message acts_at""",
    "IdleRules": """action tell again act keep projects { ...ProjectIdle }""",
    "ImagePull": """agent_id rank began_at ended_at bytes_done bytes_total layers_done layers size""",
    "ImportReservationsResult": """
__typename ... on ImportReservationsSuccess { rows { ...ImportedRow } dry_run revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on StateConflict { code message id state } ... on
Error { code message }""",
    "ImportReservationsSuccess": """rows { ...ImportedRow } dry_run revision""",
    "ImportedRow": """row text state message name owner starts_at ends_at gpus windows""",
    "ImpossibleRequest": """code message slot requested limit""",
    "InsufficientResource": """code message slot requested available""",
    "InvalidAmount": """code message field slot amount""",
    "InvalidRequest": """code message field""",
    "InvalidResourceCombination": """code message slot requested available""",
    "KeepSessionResult": """
__typename ... on KeepSessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "KeepSessionSuccess": """session { ...Session } revision""",
    "Kernel": """
id session_id attempt rank agent_id state resource_spec { ...SlotGrant } holds_devices
granted_at started_at ended_at exit_code signal timed_out message""",
    "LedgerPass": """number at event_number epoch code_version lost_before placed preempted failed""",
    "LedgerPassEdge": """node { ...LedgerPass } cursor""",
    "LedgerPassUncountedConnection": """edges { ...LedgerPassEdge } pageInfo { ...PageInfo }""",
    "LimitExceeded": """code message field limit actual""",
    "LogChunk": """session_id kernel_id rank offset next_offset text at_end""",
    "Me": """name role projects unix_name key_id""",
    "MetricSeries": """name count last low low_step high high_step steps values""",
    "ModelCharge": """model milli""",
    "NameValue": """name value""",
    "Node": """node_id hostname gpu_count gpu_type agents gpus { ...Gpu }""",
    "NotFound": """code message kind id""",
    "NotMultipleOfQuantum": """code message field slot amount quantum""",
    "NotPlaced": """code message reason holders { ...Blocker } until""",
    "NoticePreferences": """email notify sends_mail""",
    "NoticePreferencesChangeResult": """
__typename ... on NoticePreferencesChangeSuccess { preferences { ...NoticePreferences }
revision } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on Error { code message }""",
    "NoticePreferencesChangeSuccess": """preferences { ...NoticePreferences } revision""",
    "NoticeReceiver": """name kind tells_alerts tells_owners least_severity kinds is_quiet""",
    "NoticeRule": """rule description version is_on threshold unit floor for_s severity muted_until changed_at""",
    "NoticeRuleChangeResult": """
__typename ... on NoticeRuleChangeSuccess { rule { ...NoticeRule } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "NoticeRuleChangeSuccess": """rule { ...NoticeRule } revision""",
    "ObservedGpu": """
node_id hostname gpu_id name model utilization_pct memory_used_bytes people { ...GpuPerson
} sessions""",
    "ObservedPerson": """user gpu_hours idle_hours fair_hours""",
    "ObservedWeek": """week gpu_hours used_hours idle_hours people { ...ObservedPerson } would_lose""",
    "Orchestrator": """
role address leader_address epoch leads_since state stopped_by stopped_at changed_by
changed_at note is_demo""",
    "OrchestratorChangeResult": """
__typename ... on OrchestratorChangeSuccess { orchestrator { ...Orchestrator } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on Error { code message }""",
    "OrchestratorChangeSuccess": """orchestrator { ...Orchestrator } revision""",
    "OrderEstimate": """seconds explanation""",
    "OtherSession": """session_id owner name state gpus until is_overdue preemptible""",
    "PageInfo": """hasNextPage hasPreviousPage startCursor endCursor""",
    "PlannedKernel": """rank agent_id node_id resource_spec { ...SlotGrant }""",
    "Policy": """
version order backfill backfill_depth placement allocation allow_fragmentation numa
weights { ...Weights } half_life charges { ...Charges } pools { ...Pool } preemption {
...PreemptionRules } retries { ...Retries } prices { ...Prices } user_priority_max
changed_at""",
    "PolicyChangeResult": """
__typename ... on PolicyChangeSuccess { policy { ...Policy } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on StateConflict { code message id state } ... on
VersionConflict { code message id expected VersionConflict_actual: actual } ... on Error {
code message }""",
    "PolicyChangeSuccess": """policy { ...Policy } revision""",
    "Pool": """name default_limit cpu_per_gpu mem_per_gpu idle""",
    "Preemption": """cause by_session by_user at until lost_gpu_seconds""",
    "PreemptionRules": """preempt victims run_min preemptions_max grace restart idle { ...IdleRules }""",
    "Preflight": """command time_limit failures agent_id message failed_at""",
    "PreviewForecast": """forecast { ...Forecast }""",
    "PreviewForecastResult": """
__typename ... on PreviewForecast { forecast { ...Forecast } } ... on InvalidRequest {
code message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on InvalidAmount { code message field slot amount } ... on
NotMultipleOfQuantum { code message field slot amount quantum } ... on UnsupportedField {
code message field } ... on UnknownSlot { code message slot known } ... on
ImpossibleRequest { code message slot requested ImpossibleRequest_limit: limit } ... on
QuotaExceeded { code message quota resource requested QuotaExceeded_limit: limit } ... on
QueueFull { code message limit queued retry_after } ... on RateLimited { code message
retry_after } ... on UnknownDependency { code message session_id } ... on
IdempotencyMismatch { code message key session_id } ... on AllocationRefused { code
message slot requested available } ... on InsufficientResource { code message slot
requested available } ... on FractionalResourceFragmented { code message slot requested
available } ... on InvalidResourceCombination { code message slot requested available }
... on UnsupportedResource { code message slot requested available } ... on Error { code
message }""",
    "PreviewSessionResult": """
__typename ... on SessionPreview { revision slots { ...SlotAmount } starts_now kernels {
...PlannedKernel } tasks_starting queue_position waits { ...Verdict } expected_start
failure { ...Failure } displaces { ...Displaced } order_estimate { ...OrderEstimate }
estimated_start right_size { ...RightSize } cost { ...Cost } } ... on InvalidRequest {
code message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on InvalidAmount { code message field slot amount } ... on
NotMultipleOfQuantum { code message field slot amount quantum } ... on UnsupportedField {
code message field } ... on UnknownSlot { code message slot known } ... on
ImpossibleRequest { code message slot requested ImpossibleRequest_limit: limit } ... on
QuotaExceeded { code message quota resource requested QuotaExceeded_limit: limit } ... on
QueueFull { code message limit queued retry_after } ... on RateLimited { code message
retry_after } ... on UnknownDependency { code message session_id } ... on
IdempotencyMismatch { code message key session_id } ... on AllocationRefused { code
message slot requested available } ... on InsufficientResource { code message slot
requested available } ... on FractionalResourceFragmented { code message slot requested
available } ... on InvalidResourceCombination { code message slot requested available }
... on UnsupportedResource { code message slot requested available } ... on Error { code
message }""",
    "Price": """price model pool from_hour until_hour""",
    "Prices": """rates { ...Price } currency utc_offset_minutes at_budget""",
    "Project": """
name users total_queued running allocated_gpus gpu_hours gpu_hours_month share usage {
...Usage } quota { ...Quota }""",
    "ProjectDeleteResult": """
__typename ... on ProjectDeleteSuccess { name revision } ... on InvalidRequest { code
message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on NotFound { code message kind id } ... on StateConflict { code
message id state } ... on Error { code message }""",
    "ProjectDeleteSuccess": """name revision""",
    "ProjectIdle": """project action""",
    "QueueEntry": """position session { ...Session }""",
    "QueueEntryConnection": """edges { ...QueueEntryEdge } pageInfo { ...PageInfo } total_count revision""",
    "QueueEntryEdge": """node { ...QueueEntry } cursor""",
    "QueueFull": """code message limit queued retry_after""",
    "QueueStatistics": """
revision total_queued oldest_wait window started finished average_wait_time
median_wait_time throughput wait_distribution { ...WaitBucket }""",
    "QueueUpdate": """event_number at kind session { ...Session } pending""",
    "Quota": """
scope name version max_slots { ...SlotAmount } own_slots { ...SlotAmount } max_queued
gpu_hours_per_month weight budget changed_at""",
    "QuotaChangeResult": """
__typename ... on QuotaChangeSuccess { quota { ...Quota } revision } ... on InvalidRequest
{ code message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on InvalidAmount { code message field slot amount } ... on UnknownSlot
{ code message slot known } ... on NotFound { code message kind id } ... on
VersionConflict { code message id expected VersionConflict_actual: actual } ... on Error {
code message }""",
    "QuotaChangeSuccess": """quota { ...Quota } revision""",
    "QuotaExceeded": """code message quota resource requested limit""",
    "QuotaUse": """scope name held { ...SlotAmount } waiting gpu_hours_month cost_month""",
    "RateLimited": """code message retry_after""",
    "RayCluster": """head_node connected version workers nodes reason""",
    "RecordCheck": """
started_at ended_at faults events passes unwritten holdings archives archived_rows
removed_rows""",
    "RefusedError": """code message slot requested available""",
    "ReleaseGpusResult": """
__typename ... on GpusAllocated { job_id session_id gpu_ids gpus { ...AllocatedGpu }
expires_at renewed revision } ... on NotFound { code message kind id } ... on Forbidden {
code message } ... on Unauthenticated { code message } ... on Unavailable { code message }
... on Error { code message }""",
    "ReleaseSessionResult": """
__typename ... on ReleaseSessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "ReleaseSessionSuccess": """session { ...Session } revision""",
    "Remedy": """
kind summary starts_now starts_at applies command change { ...SessionTerms } sessions {
...OtherSession } delays { ...SessionDelay } p50_earlier""",
    "RenewCalendarFeedResult": """
__typename ... on RenewCalendarFeedSuccess { mine all } ... on InvalidRequest { code
message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on Error { code message }""",
    "RenewCalendarFeedSuccess": """mine all""",
    "RequestError": """code message field""",
    "RescanResult": """
__typename ... on RescanSuccess { agent_id agents silent scanned unreadable differences {
...Difference } gpu_alloc_map } ... on InvalidRequest { code message field } ... on
LimitExceeded { code message field limit actual } ... on Unauthenticated { code message }
... on Forbidden { code message } ... on Unavailable { code message } ... on NotFound {
code message kind id } ... on Error { code message }""",
    "RescanSuccess": """agent_id agents silent scanned unreadable differences { ...Difference } gpu_alloc_map""",
    "ReserveResult": """
__typename ... on BookingSuccess { booking { ...Booking } others { ...Booking } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on BookingRefused { code message id } ... on
StateConflict { code message id state } ... on NotFound { code message kind id } ... on
Error { code message }""",
    "ResultFile": """path size changed_at sha256""",
    "Retries": """tries_min wait_first wait_max jitter_pct""",
    "RetrySessionResult": """
__typename ... on RetrySessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "RetrySessionSuccess": """session { ...Session } revision""",
    "RevokeApiKeyResult": """
__typename ... on RevokeApiKeySuccess { api_key { ...ApiKey } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on Error { code
message }""",
    "RevokeApiKeySuccess": """api_key { ...ApiKey } revision""",
    "RightSize": """command runs figures { ...RightSizeFigure } message""",
    "RightSizeFigure": """kind advised largest runs enough tested message""",
    "SaveSessionTemplateResult": """
__typename ... on SaveSessionTemplateSuccess { template { ...SessionTemplate } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on Error { code message }""",
    "SaveSessionTemplateSuccess": """template { ...SessionTemplate } revision""",
    "SavedWork": """kept saved_at agent_id resumed_from note lost_gpu_seconds credited_gpu_seconds""",
    "Secret": """name created_at changed_at""",
    "SendTestNoticeResult": """
__typename ... on SendTestNoticeSuccess { delivery { ...Delivery } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on Error { code
message }""",
    "SendTestNoticeSuccess": """delivery { ...Delivery } revision""",
    "Session": """
id version owner project pool name run_id tags { ...NameValue } command slots {
...SlotAmount } cluster_size cluster_size_min gpu_memory_gb environment { ...NameValue }
working_directory estimated_duration time_limit max_retries retry_count preemptible
depends_on { ...Dependency } priority state attempt queue_position waits { ...Verdict }
kernels { ...Kernel } holds_devices queued_at scheduled_at started_at ended_at exit_code
signal failure { ...Failure } retries_own_failures checkpoint_signal checkpoint_every
grace labels { ...NameValue } preferred_labels { ...NameValue } models preferred_models
topology fallbacks { ...Fallback } fallback_level preemptions preemption { ...Preemption }
idle { ...IdleNotice } room_made work { ...SavedWork } held_by array_id array_index tasks
{ ...ArrayTasks } order_estimate { ...OrderEstimate } order_explanation reserve_until
expected_start forecast { ...Forecast } services { ...SessionService } workspace activates
image shares_access booking preflight { ...Preflight } pull { ...ImagePull } hidden
requested_gpus requested_memory_gb allocated_gpus { ...AllocatedGpu } allocation_time
estimated_start_time estimated_wait_time scheduling_policy""",
    "SessionConnection": """edges { ...SessionEdge } pageInfo { ...PageInfo } total_count revision""",
    "SessionDelay": """session { ...OtherSession } before after""",
    "SessionEdge": """node { ...Session } cursor""",
    "SessionExplanation": """
session_id revision at waits { ...Verdict } position ahead { ...OtherSession } in_the_way
{ ...OtherSession } expected_start remedies { ...Remedy } is_forecasting""",
    "SessionFiles": """
session_id rank files { ...ResultFile } total_count bytes_total left_out bytes_max
files_max is_over_quota has_more""",
    "SessionLog": """session_id kernel_id rank attempt offset next_offset length left_out has_more text at_end""",
    "SessionMetrics": """series { ...MetricSeries } is_partial""",
    "SessionOutcome": """id session { ...Session } code message""",
    "SessionPreview": """
revision slots { ...SlotAmount } starts_now kernels { ...PlannedKernel } tasks_starting
queue_position waits { ...Verdict } expected_start failure { ...Failure } displaces {
...Displaced } order_estimate { ...OrderEstimate } estimated_start right_size {
...RightSize } cost { ...Cost }""",
    "SessionService": """name port asked_port url state""",
    "SessionStats": """
session_id state wait ran time_limit gpu_hours lost_gpu_hours credited_gpu_hours held
productive ettr gpus { ...GpuStats } hosts { ...HostStats } advice warning right_size {
...RightSize } cost { ...Cost }""",
    "SessionStep": """number at kind state attempt held_by preemption { ...Preemption } pull { ...ImagePull }""",
    "SessionStepEdge": """node { ...SessionStep } cursor""",
    "SessionStepUncountedConnection": """edges { ...SessionStepEdge } pageInfo { ...PageInfo }""",
    "SessionTemplate": """project name fields author saved_by saved_at parameters { ...TemplateParameter }""",
    "SessionTerms": """slots { ...SlotAmount } cluster_size time_limit preemptible priority project pool models""",
    "SessionUpdate": """event_number at kind is_snapshot session { ...Session } kernel { ...Kernel }""",
    "SetSecretResult": """
__typename ... on SetSecretSuccess { secret { ...Secret } } ... on InvalidRequest { code
message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on Error { code message }""",
    "SetSecretSuccess": """secret { ...Secret }""",
    "SlotAmount": """slot amount""",
    "SlotCapacity": """slot total available allocated""",
    "SlotGrant": """slot devices { ...DeviceAmount }""",
    "StartBacktestResult": """
__typename ... on Backtest { id state progress created_at created_by since until labels
failure report { ...BacktestReport } tuning { ...Tuning } applies_itself applied_version
superseded } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on StateConflict { code message id
StateConflict_state: state } ... on Error { code message }""",
    "StartForecast": """
made_at age starts_now start { ...TimeBand } end { ...TimeBand } within_hour runs_known
unknown basis""",
    "StartTuningResult": """
__typename ... on Backtest { id state progress created_at created_by since until labels
failure report { ...BacktestReport } tuning { ...Tuning } applies_itself applied_version
superseded } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on StateConflict { code message id
StateConflict_state: state } ... on Error { code message }""",
    "StateConflict": """code message id state""",
    "Statement": """
project month currency held gpu_hours lines { ...StatementLine } ettr cost credited budget
open_gpu_hours open_cost sessions mean_wait preemptions share entitlement behind""",
    "StatementLine": """kind amount gpu_hours part""",
    "TaskMetrics": """index session_id state series { ...MetricSeries }""",
    "TaskSet": """indices count""",
    "TemplateParameter": """name default""",
    "TimeBand": """p10 p50 p90""",
    "Tuning": """
split base_version tries changes { ...TuningChange } is_better verdict searched {
...BacktestRow } unseen { ...BacktestRow } losers { ...BacktestGroup } notes""",
    "TuningChange": """name before after""",
    "Unauthenticated": """code message""",
    "Unavailable": """code message""",
    "UnknownDependency": """code message session_id""",
    "UnknownSlot": """code message slot known""",
    "UnsupportedField": """code message field""",
    "UnsupportedResource": """code message slot requested available""",
    "UpdateSessionPrioritiesResult": """
__typename ... on UpdateSessionPrioritiesSuccess { changed revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "UpdateSessionPrioritiesSuccess": """changed revision""",
    "UpdateSessionPriorityResult": """
__typename ... on UpdateSessionPrioritySuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "UpdateSessionPrioritySuccess": """session { ...Session } revision""",
    "UpdateSessionResult": """
__typename ... on UpdateSessionSuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on InvalidAmount { code message field slot amount } ...
on NotMultipleOfQuantum { code message field slot amount quantum } ... on UnsupportedField
{ code message field } ... on UnknownSlot { code message slot known } ... on
ImpossibleRequest { code message slot requested ImpossibleRequest_limit: limit } ... on
QuotaExceeded { code message quota resource requested QuotaExceeded_limit: limit } ... on
QueueFull { code message limit queued retry_after } ... on RateLimited { code message
retry_after } ... on UnknownDependency { code message session_id } ... on
IdempotencyMismatch { code message key session_id } ... on AllocationRefused { code
message slot requested available } ... on InsufficientResource { code message slot
requested available } ... on FractionalResourceFragmented { code message slot requested
available } ... on InvalidResourceCombination { code message slot requested available }
... on UnsupportedResource { code message slot requested available } ... on NotFound {
code message kind id } ... on StateConflict { code message id state } ... on
VersionConflict { code message id expected VersionConflict_actual: actual } ... on Error {
code message }""",
    "UpdateSessionSuccess": """session { ...Session } revision""",
    "Usage": """project user gpu_hours gpu_hours_month gpu_hours_decayed share""",
    "UsageHistory": """started_at step points series { ...UsageSeries } warning""",
    "UsageSeries": """name gpu_hours utilization""",
    "User": """name version role unix_name projects disabled created_at changed_at""",
    "UserChangeResult": """
__typename ... on UserChangeSuccess { user { ...User } revision jobs_run_as warning } ...
on InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "UserChangeSuccess": """user { ...User } revision jobs_run_as warning""",
    "Verdict": """
reason message slot requested available quota limit held may_borrow fits_kernels
blocked_by agents devices until""",
    "VersionConflict": """code message id expected actual""",
    "WaitBucket": """at_least below count""",
    "Weights": """age age_unit fair short short_half priority level sjf_age_pct wait_bound""",
    "WhatIf": """
revision at starts { ...OtherSession } displaced { ...OtherSession } restarts {
...SessionDelay } later { ...SessionDelay } later_count sooner { ...SessionDelay }
sooner_count wait_before wait_after note session { ...SessionPreview } session_start""",
    "WhatIfResult": """
__typename ... on WhatIf { revision at starts { ...OtherSession } displaced {
...OtherSession } restarts { ...SessionDelay } later { ...SessionDelay } later_count
sooner { ...SessionDelay } sooner_count wait_before wait_after note session {
...SessionPreview } session_start } ... on InvalidRequest { code message field } ... on
LimitExceeded { code message field limit actual } ... on Unauthenticated { code message }
... on Forbidden { code message } ... on Unavailable { code message } ... on InvalidAmount
{ code message field slot amount } ... on NotMultipleOfQuantum { code message field slot
amount quantum } ... on UnsupportedField { code message field } ... on UnknownSlot { code
message slot known } ... on ImpossibleRequest { code message slot requested
ImpossibleRequest_limit: limit } ... on QuotaExceeded { code message quota resource
requested QuotaExceeded_limit: limit } ... on QueueFull { code message limit queued
retry_after } ... on RateLimited { code message retry_after } ... on UnknownDependency {
code message session_id } ... on IdempotencyMismatch { code message key session_id } ...
on AllocationRefused { code message slot requested available } ... on InsufficientResource
{ code message slot requested available } ... on FractionalResourceFragmented { code
message slot requested available } ... on InvalidResourceCombination { code message slot
requested available } ... on UnsupportedResource { code message slot requested available }
... on NotFound { code message kind id } ... on Error { code message }""",
}
"""Selection by type name."""
