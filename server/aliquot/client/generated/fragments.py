"""Selections of all fields of each type.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from typing import Final

FRAGMENTS: Final = {
    "Agent": """
id version node_id hostname state schedulable pool labels { ...NameValue } draining
drained note capacity { ...SlotAmount } occupied { ...SlotAmount } devices { ...Device }
kernels { ...Kernel } gpu_alloc_map allocation_mode scaling_factors { ...SlotAmount }
attributes { ...NameValue } capabilities { ...Capabilities } software_version
registered_at state_changed_at""",
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
    "AllocatedGpu": """node_id gpu_id share memory_gb""",
    "AllocationRefused": """code message slot requested available""",
    "ApiKey": """id version user name scope created_at expires_at revoked_at is_valid""",
    "ArrayTasks": """
waiting { ...TaskSet } active { ...TaskSet } completed { ...TaskSet } failed { ...TaskSet
} canceled { ...TaskSet } max_parallel""",
    "AuditChange": """number at kind entity_id actor request_id pass_number fields { ...ChangedField }""",
    "AuditChangeEdge": """node { ...AuditChange } cursor""",
    "AuditChangeUncountedConnection": """edges { ...AuditChangeEdge } pageInfo { ...PageInfo }""",
    "Blocker": """session_id user name until""",
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
sandbox_note""",
    "ChangedField": """name before after""",
    "Charges": """accelerators { ...ModelCharge } cpu_milli mem_gib_milli""",
    "Cluster": """
total_gpus available_gpus allocated_gpus nodes { ...Node } gpus { ...Gpu } capacity {
...SlotCapacity } ray { ...RayCluster }""",
    "ClusterPool": """
name agents nodes schedulable gpu_count gpu_type total_gpus available_gpus allocated_gpus
capacity { ...SlotCapacity } total_queued running""",
    "CopyDatabaseResult": """
__typename ... on CopyDatabaseSuccess { path size_bytes } ... on InvalidRequest { code
message field } ... on LimitExceeded { code message field limit actual } ... on
Unauthenticated { code message } ... on Forbidden { code message } ... on Unavailable {
code message } ... on Error { code message }""",
    "CopyDatabaseSuccess": """path size_bytes""",
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
    "DeviceUpdate": """number revision is_snapshot agents_gone agents { ...AgentDevices }""",
    "Difference": """kind agent_id subject evidence since repair""",
    "Displaced": """session_id owner cause has_run""",
    "Enforcement": """memory processes cpu open_files file_size wall_time""",
    "Error": """code message""",
    "Examination": """differences { ...Difference } asked silent""",
    "Failure": """code message""",
    "Fallback": """slots { ...SlotAmount } cluster_size gpu_memory_gb after""",
    "Forbidden": """code message""",
    "FractionalResourceFragmented": """code message slot requested available""",
    "Gpu": """
id node_id name model available memory_total memory_used utilization temperature allocated
allocated_to { ...Holder }""",
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
    "IdempotencyMismatch": """code message key session_id""",
    "IdleBehindQuotas": """gpus_free sessions_held_back sessions_waiting message""",
    "ImpossibleRequest": """code message slot requested limit""",
    "InsufficientResource": """code message slot requested available""",
    "InvalidAmount": """code message field slot amount""",
    "InvalidRequest": """code message field""",
    "InvalidResourceCombination": """code message slot requested available""",
    "Kernel": """
id session_id attempt rank agent_id state resource_spec { ...SlotGrant } holds_devices
granted_at started_at ended_at exit_code signal timed_out message""",
    "LedgerPass": """number at event_number epoch code_version lost_before placed preempted failed""",
    "LedgerPassEdge": """node { ...LedgerPass } cursor""",
    "LedgerPassUncountedConnection": """edges { ...LedgerPassEdge } pageInfo { ...PageInfo }""",
    "LimitExceeded": """code message field limit actual""",
    "LogChunk": """session_id kernel_id rank offset next_offset text at_end""",
    "Me": """name role projects unix_name key_id""",
    "ModelCharge": """model milli""",
    "NameValue": """name value""",
    "Node": """node_id hostname gpu_count gpu_type agents gpus { ...Gpu }""",
    "NotFound": """code message kind id""",
    "NotMultipleOfQuantum": """code message field slot amount quantum""",
    "NotPlaced": """code message reason holders { ...Blocker } until""",
    "NoticePreferences": """email notify""",
    "NoticePreferencesChangeResult": """
__typename ... on NoticePreferencesChangeSuccess { preferences { ...NoticePreferences }
revision } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on Error { code message }""",
    "NoticePreferencesChangeSuccess": """preferences { ...NoticePreferences } revision""",
    "NoticeReceiver": """name kind tells_alerts tells_owners least_severity kinds is_quiet""",
    "NoticeRule": """rule version is_on threshold unit floor for_s severity muted_until changed_at""",
    "NoticeRuleChangeResult": """
__typename ... on NoticeRuleChangeSuccess { rule { ...NoticeRule } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "NoticeRuleChangeSuccess": """rule { ...NoticeRule } revision""",
    "Orchestrator": """
role address leader_address epoch leads_since state stopped_by stopped_at changed_by
changed_at note""",
    "OrchestratorChangeResult": """
__typename ... on OrchestratorChangeSuccess { orchestrator { ...Orchestrator } revision }
... on InvalidRequest { code message field } ... on LimitExceeded { code message field
limit actual } ... on Unauthenticated { code message } ... on Forbidden { code message }
... on Unavailable { code message } ... on Error { code message }""",
    "OrchestratorChangeSuccess": """orchestrator { ...Orchestrator } revision""",
    "OrderEstimate": """seconds explanation""",
    "PageInfo": """hasNextPage hasPreviousPage startCursor endCursor""",
    "PlannedKernel": """rank agent_id node_id resource_spec { ...SlotGrant }""",
    "Policy": """
version order backfill backfill_depth placement allocation allow_fragmentation numa
weights { ...Weights } half_life charges { ...Charges } pools { ...Pool } preemption {
...PreemptionRules } retries { ...Retries } user_priority_max changed_at""",
    "PolicyChangeResult": """
__typename ... on PolicyChangeSuccess { policy { ...Policy } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on StateConflict { code message id state } ... on
VersionConflict { code message id expected VersionConflict_actual: actual } ... on Error {
code message }""",
    "PolicyChangeSuccess": """policy { ...Policy } revision""",
    "Pool": """name default_limit cpu_per_gpu mem_per_gpu""",
    "Preemption": """cause by_session by_user at until lost_gpu_seconds""",
    "PreemptionRules": """preempt victims run_min preemptions_max grace""",
    "PreviewSessionResult": """
__typename ... on SessionPreview { revision slots { ...SlotAmount } starts_now kernels {
...PlannedKernel } tasks_starting queue_position waits { ...Verdict } expected_start
failure { ...Failure } displaces { ...Displaced } order_estimate { ...OrderEstimate }
estimated_start } ... on InvalidRequest { code message field } ... on LimitExceeded { code
message field limit actual } ... on Unauthenticated { code message } ... on Forbidden {
code message } ... on Unavailable { code message } ... on InvalidAmount { code message
field slot amount } ... on NotMultipleOfQuantum { code message field slot amount quantum }
... on UnsupportedField { code message field } ... on UnknownSlot { code message slot
known } ... on ImpossibleRequest { code message slot requested ImpossibleRequest_limit:
limit } ... on QuotaExceeded { code message quota resource requested QuotaExceeded_limit:
limit } ... on QueueFull { code message limit queued retry_after } ... on RateLimited {
code message retry_after } ... on UnknownDependency { code message session_id } ... on
IdempotencyMismatch { code message key session_id } ... on AllocationRefused { code
message slot requested available } ... on InsufficientResource { code message slot
requested available } ... on FractionalResourceFragmented { code message slot requested
available } ... on InvalidResourceCombination { code message slot requested available }
... on UnsupportedResource { code message slot requested available } ... on Error { code
message }""",
    "Project": """
name users total_queued running allocated_gpus gpu_hours gpu_hours_month share usage {
...Usage } quota { ...Quota }""",
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
gpu_hours_per_month weight changed_at""",
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
    "RateLimited": """code message retry_after""",
    "RayCluster": """head_node connected version workers nodes reason""",
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
    "RequestError": """code message field""",
    "RescanResult": """
__typename ... on RescanSuccess { agent_id agents silent scanned unreadable differences {
...Difference } gpu_alloc_map } ... on InvalidRequest { code message field } ... on
LimitExceeded { code message field limit actual } ... on Unauthenticated { code message }
... on Forbidden { code message } ... on Unavailable { code message } ... on NotFound {
code message kind id } ... on Error { code message }""",
    "RescanSuccess": """agent_id agents silent scanned unreadable differences { ...Difference } gpu_alloc_map""",
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
...SlotAmount } cluster_size gpu_memory_gb environment { ...NameValue } working_directory
estimated_duration time_limit max_retries retry_count preemptible depends_on {
...Dependency } priority state attempt queue_position waits { ...Verdict } kernels {
...Kernel } holds_devices queued_at scheduled_at started_at ended_at exit_code signal
failure { ...Failure } retries_own_failures checkpoint_signal grace labels { ...NameValue
} preferred_labels { ...NameValue } models preferred_models fallbacks { ...Fallback }
fallback_level preemptions preemption { ...Preemption } held_by array_id array_index tasks
{ ...ArrayTasks } order_estimate { ...OrderEstimate } reserve_until expected_start hidden
requested_gpus requested_memory_gb allocated_gpus { ...AllocatedGpu } allocation_time
estimated_start_time estimated_wait_time scheduling_policy""",
    "SessionConnection": """edges { ...SessionEdge } pageInfo { ...PageInfo } total_count revision""",
    "SessionEdge": """node { ...Session } cursor""",
    "SessionLog": """session_id kernel_id rank attempt offset next_offset length left_out has_more text at_end""",
    "SessionPreview": """
revision slots { ...SlotAmount } starts_now kernels { ...PlannedKernel } tasks_starting
queue_position waits { ...Verdict } expected_start failure { ...Failure } displaces {
...Displaced } order_estimate { ...OrderEstimate } estimated_start""",
    "SessionStep": """number at kind state attempt held_by preemption { ...Preemption }""",
    "SessionStepEdge": """node { ...SessionStep } cursor""",
    "SessionStepUncountedConnection": """edges { ...SessionStepEdge } pageInfo { ...PageInfo }""",
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
    "StateConflict": """code message id state""",
    "TaskSet": """indices count""",
    "Unauthenticated": """code message""",
    "Unavailable": """code message""",
    "UnknownDependency": """code message session_id""",
    "UnknownSlot": """code message slot known""",
    "UnsupportedField": """code message field""",
    "UnsupportedResource": """code message slot requested available""",
    "UpdateSessionPriorityResult": """
__typename ... on UpdateSessionPrioritySuccess { session { ...Session } revision } ... on
InvalidRequest { code message field } ... on LimitExceeded { code message field limit
actual } ... on Unauthenticated { code message } ... on Forbidden { code message } ... on
Unavailable { code message } ... on NotFound { code message kind id } ... on StateConflict
{ code message id state } ... on VersionConflict { code message id expected
VersionConflict_actual: actual } ... on Error { code message }""",
    "UpdateSessionPrioritySuccess": """session { ...Session } revision""",
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
    "Weights": """age age_unit fair short short_half priority level sjf_age_pct""",
}
"""Selection by type name."""
