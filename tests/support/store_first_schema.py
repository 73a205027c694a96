"""A database as the first version left it: its tables, and rows and events without what came later."""

import json
from typing import Any

from sqlalchemy import Connection, text

from aliquot.store.chain import CHAIN_START, event_hash

SESSION: dict[str, Any] = {
    "id": "ses_01",
    "version": 3,
    "owner": "ann",
    "project": "default",
    "pool": "default",
    "name": "train",
    "run_id": None,
    "tags": {},
    "spec": {
        "argv": ["python", "train.py"],
        "slots": {"cuda.shares": 500},
        "cluster_size": 1,
        "gpu_memory_bytes": None,
        "environment": {"A": "b"},
        "working_directory": None,
        "estimated_duration_ms": None,
        "time_limit_ms": 60000,
        "max_retries": 0,
        "preemptible": False,
        "depends_on": [],
    },
    "priority": 2,
    "state": "running",
    "attempt": 1,
    "retries": 0,
    "excluded_agents": [],
    "not_before_us": None,
    "queued_us": 10,
    "scheduled_us": 20,
    "started_us": 30,
    "ended_us": None,
    "exit_code": None,
    "signal": None,
    "failure": None,
    "idempotency_key": "key",
    "request_hash": "hash",
}
KERNEL: dict[str, Any] = {
    "id": "ses_01.1.0",
    "version": 1,
    "session_id": "ses_01",
    "attempt": 1,
    "rank": 0,
    "agent_id": "a",
    "state": "running",
    "epoch": 1,
    "granted_us": 20,
    "started_us": 30,
    "ended_us": None,
    "exit_code": None,
    "signal": None,
    "timed_out": False,
    "message": None,
}
LEASE: dict[str, Any] = {
    "id": "ses_01.1.0",
    "version": 1,
    "kind": "session",
    "owner": "ann",
    "session_id": "ses_01",
    "kernel_id": "ses_01.1.0",
    "agent_id": "a",
    "spec": {"cuda.shares": {"GPU-1": 500}},
    "epoch": 1,
    "granted_us": 20,
    "until_us": None,
    "released_us": None,
    "evidence": None,
}
DEVICE: dict[str, Any] = {
    "id": "GPU-1",
    "name": "cuda0",
    "kind": "cuda",
    "model": "H100",
    "budget": 1000,
    "costs": {"cuda.shares": 1, "cuda.device": 1000},
    "quanta": {"cuda.shares": 10},
    "memory_bytes": 80000000000,
    "numa_node": None,
    "parent": None,
    "isolation": "none",
    "health": "healthy",
    "linked_to": [],
}
AGENT: dict[str, Any] = {
    "id": "a",
    "version": 1,
    "node_id": "n",
    "hostname": "h",
    "state": "alive",
    "schedulable": True,
    "devices": [DEVICE],
    "slot_types": {"cuda.shares": "count", "cuda.device": "count"},
    "attributes": {},
    "capabilities": {"kill": "subreaper", "limits": "rlimits", "switches_user": False, "device_access": "env"},
    "allocation_mode": "shared",
    "scaling_factor": {},
    "boot_id": "b",
    "software_version": "0.0.1",
    "registered_us": 5,
    "state_changed_us": 5,
}
SLOT: dict[str, Any] = {"id": "cuda.shares", "version": 1, "type": "count", "first_seen_us": 5, "retired": False}

COLUMNS = (
    "number",
    "at_us",
    "kind",
    "format",
    "entity",
    "entity_id",
    "entity_version",
    "actor",
    "request_id",
    "epoch",
    "pass_number",
)
LOG = (
    ("agent", "joined", AGENT),
    ("slot", "first_seen", SLOT),
    *(("session", state, SESSION | {"version": version, "state": state}) for version, state in
      ((1, "queued"), (2, "scheduled"), (3, "running"))),
    ("kernel", "running", KERNEL),
    ("lease", "granted", LEASE),
)  # fmt: skip


def fill(connection: Connection) -> None:
    """Rows and events of the first version."""
    for table, record in (("agents", AGENT), ("slots", SLOT), ("sessions", SESSION), ("kernels", KERNEL)):
        _insert(connection, table, record)
    _insert(connection, "leases", LEASE)
    previous = CHAIN_START
    for number, (entity, what, record) in enumerate(LOG, start=1):
        columns = [number, number, f"{entity}.{what}", 1, entity, record["id"], record["version"], "ann", None, 1, None]
        payload = json.dumps(record)
        linked = event_hash(previous, columns=columns, payload=payload.encode())
        row = dict(zip(COLUMNS, columns, strict=True)) | {"prev_hash": previous, "hash": linked, "payload": payload}
        _insert(connection, "events", row)
        previous = linked
    end = "UPDATE counter SET number = :number, hash = :hash, epoch = 1, at_us = 7, pass_number = 3"
    connection.execute(text(end), {"number": len(LOG), "hash": previous})


def _insert(connection: Connection, table: str, record: dict[str, Any]) -> None:
    row = {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in record.items()}
    names = ", ".join(f'"{name}"' for name in row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})"), row)
