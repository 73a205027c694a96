"""Acceptance run of `scripts/up --once`: runs twelve sessions on a demo cluster and checks every step."""
