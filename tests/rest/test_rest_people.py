"""Users on a whole server: provider tokens, and no start with accounts that users share."""

import subprocess
import sys
from pathlib import Path

import httpx

from oidc_server import provider
from rest_server import RestServer, rest_server

MAKE = "mutation ($input: CreateUserInput!) { create_user(input: $input) { __typename ... on Error { message } } }"
PEOPLE = {"vic": {"preferred_username": "vic", "groups": ["gpu"]}, "eve": {"preferred_username": "eve"}}


def status_of(server: RestServer, token: str) -> int:
    return httpx.get(f"{server.address}/queue", headers={"authorization": f"Bearer {token}"}, timeout=60).status_code


def test_provider_tokens_work_across_a_restart_and_shared_accounts_prevent_a_start(tmp_path: Path) -> None:
    with provider(PEOPLE) as there:
        settings = {
            "ALIQUOT_OIDC_ISSUER": there.issuer,
            "ALIQUOT_OIDC_USERS": "new",
            "ALIQUOT_OIDC_ROLES": '{"gpu": "viewer"}',
            "ALIQUOT_OIDC_DEFAULT_ROLE": "nobody",
        }
        vic, eve = there.token("vic"), there.token("eve")
        with rest_server(tmp_path, "--single-trust-domain", settings=settings) as server, server.client() as root:
            assert (status_of(server, vic), status_of(server, eve)) == (200, 401)
            for name in ("ann", "bob"):
                asked = {"name": name, "role": "user", "unix_name": "team"}
                made = root.post("/graphql", json={"query": MAKE, "variables": {"input": asked}})
                assert made.json()["data"]["create_user"]["__typename"] == "UserChangeSuccess", made.text
    flags = ["--port", "0", "--no-local-agents", "--data-folder", str(tmp_path)]
    command = [sys.executable, "-m", "aliquot", "serve", *flags]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 2
    assert "team is used by ann and bob" in refused.stderr
    assert "aliquot user set" in refused.stderr
