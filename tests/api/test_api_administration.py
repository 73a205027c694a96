"""Administration over HTTP: policy and quotas, and refusals as members of a union."""

from typing import Any

import pytest

from aliquot_schema.deprecation import DeprecatedName
from api_server import ApiServer

pytestmark = pytest.mark.anyio

UPDATE = """mutation ($input: UpdatePolicyInput!) { update_policy(input: $input) { __typename
  ... on PolicyChangeSuccess { revision policy { version order half_life weights { age level } charges { cpu_milli }
    pools { name default_limit } preemption { preempt grace } retries { wait_first } user_priority_max } }
  ... on Error { code message } ... on RequestError { field } ... on VersionConflict { actual } } }"""
QUOTA = """mutation ($input: SetQuotaInput!) { set_quota(input: $input) { __typename
  ... on QuotaChangeSuccess { quota { scope name version max_slots { slot amount } max_queued weight } }
  ... on Error { code message } } }"""
REMOVE = """mutation ($input: RemoveQuotaInput!) { remove_quota(input: $input) { __typename
  ... on Error { code message } } }"""


async def update(server: ApiServer, **changes: Any) -> dict[str, Any]:
    answer: dict[str, Any] = (await server.data(UPDATE, input=changes))["update_policy"]
    return answer


async def test_the_policy_changes_field_by_field(server: ApiServer) -> None:
    answer = await update(
        server,
        order="priority",
        half_life=86400,
        weights={"age": 5},
        pools=[{"name": "default", "default_limit": 3600}, {"name": "big"}],
        preemption={"preempt": "any", "grace": 1.5},
        user_priority_max="high",
        expected_version=0,
    )
    assert answer["__typename"] == "PolicyChangeSuccess", answer
    policy = answer["policy"]
    assert (policy["version"], policy["order"], policy["half_life"]) == (1, "priority", 86400)
    assert policy["weights"] == {"age": 5, "level": 86400}
    assert policy["pools"] == [{"name": "big", "default_limit": None}, {"name": "default", "default_limit": 3600}]
    assert policy["preemption"] == {"preempt": "any", "grace": 1.5}
    assert policy["charges"] == {"cpu_milli": 5}
    assert policy["user_priority_max"] == "high"
    read = await server.data("{ policy { version order backfill changed_at } }")
    assert read["policy"]["order"] == "priority"


@pytest.mark.parametrize("given", [{"victims": "willing"}, {"preempt": "willing"}])
async def test_deprecated_preemption_fields_still_work(server: ApiServer, given: dict[str, str]) -> None:
    with pytest.warns(DeprecatedName, match="use preemption.preempt=preemptible"):
        answer = await update(server, preemption=given)
    assert answer["policy"]["preemption"]["preempt"] == "preemptible"
    read = await server.data("{ policy { preemption { preempt victims } } }")
    assert read["policy"]["preemption"] == {"preempt": "preemptible", "victims": "willing"}


async def test_deprecated_names_of_a_request_are_logged_once(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("{ policy { preemption { victims } } }", "query Again { policy { version preemption { victims } } }"):
        await server.data(text)
    with pytest.warns(DeprecatedName):
        await server.data('mutation { update_policy(input: {preemption: {victims: "any"}}) { __typename } }')
    await server.data(
        "{ policy { ...Policy } } fragment Policy on Policy { preemption { ...PreemptionRules } } "
        "fragment PreemptionRules on PreemptionRules { victims }"
    )
    assert [record.getMessage() for record in caplog.records if record.name == "aliquot.deprecation"] == [
        "a GraphQL request uses a deprecated name: The field PreemptionRules.victims is deprecated. "
        "Use `preempt`. Release 0.3 may remove this name.",
        "a GraphQL request uses a deprecated name: The input field PreemptionRulesInput.victims is deprecated. "
        "Use `preempt`. Release 0.3 may remove this name.",
    ]


async def test_the_fields_that_the_python_client_reads_are_not_logged(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    await server.data(
        "{ policy { ...Policy } } fragment Policy on Policy { preemption { ...PreemptionRules } } "
        "fragment PreemptionRules on PreemptionRules { preempt victims }"
    )
    assert [record for record in caplog.records if record.name == "aliquot.deprecation"] == []


async def test_old_and_new_preemption_fields_must_agree(server: ApiServer) -> None:
    same = await update(server, preemption={"preempt": "none", "victims": "nobody"})
    assert same["policy"]["preemption"]["preempt"] == "none"
    answer = await update(server, preemption={"preempt": "none", "victims": "any"})
    assert (answer["__typename"], answer["field"]) == ("InvalidRequest", "preemption.preempt")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"order": "chess"}, "order", "fair_share, fcfs, gang, las, priority, relative_age, sjf, srtf"),
        ({"placement": "anywhere"}, "placement", "least_waste"),
        ({"backfill": "much"}, "backfill", "easy"),
        ({"numa": "near"}, "numa", "interleave, prefer"),
        ({"weights": {"age": 0}}, "weights.age", "0 is not between 1 and 1000"),
        ({"half_life": -1}, "half_life", "not within"),
        ({"preemption": {"preempt": "all"}}, "preemption.preempt", "any, none, preemptible"),
        ({"pools": [{"name": "big"}]}, "pools", "default is missing"),
        ({"pools": [{"name": "default"}, {"name": "default"}]}, "pools", "given twice"),
    ],
)
async def test_an_invalid_policy_change_is_refused_as_a_whole(
    server: ApiServer, changes: dict[str, Any], field: str, words: str
) -> None:
    answer = await update(server, **changes, allow_fragmentation=True)
    assert (answer["code"], answer["field"]) == ("invalid_request", field)
    assert words in answer["message"]
    assert (await server.data("{ policy { version allow_fragmentation } }"))["policy"]["version"] == 0


async def test_a_policy_of_another_version_is_not_changed(server: ApiServer) -> None:
    answer = await update(server, order="fcfs", expected_version=4)
    assert (answer["code"], answer["actual"]) == ("version_conflict", 0)


async def test_quotas_are_set_listed_and_removed(server: ApiServer) -> None:
    asked = {"scope": "user", "name": "ann", "max_slots": [{"slot": "cuda.device", "amount": "2"}], "max_queued": 7}
    quota = (await server.data(QUOTA, input=asked))["set_quota"]["quota"]
    assert quota["max_slots"] == [{"slot": "cuda.device", "amount": "2"}]
    assert (quota["version"], quota["max_queued"]) == (1, 7)
    await server.data(QUOTA, input={"scope": "cluster", "max_queued": 9})
    listed = (await server.data("{ quotas { scope name } }"))["quotas"]
    assert listed == [{"scope": "cluster", "name": ""}, {"scope": "user", "name": "ann"}]
    which = {"scope": "user", "name": "ann"}
    assert (await server.data(REMOVE, input=which))["remove_quota"]["__typename"] == "QuotaChangeSuccess"
    assert (await server.data(REMOVE, input=which))["remove_quota"]["code"] == "not_found"
    assert len((await server.data("{ quotas { name } }"))["quotas"]) == 1


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"scope": "user", "name": "ann"}, "invalid_request"),
        ({"scope": "user", "max_queued": 1}, "invalid_request"),
        ({"scope": "cluster", "name": "all", "max_queued": 1}, "invalid_request"),
        ({"scope": "user", "name": "ann", "weight": 0}, "invalid_request"),
        ({"scope": "user", "name": "a", "max_slots": [{"slot": "cuda.device", "amount": "-1"}]}, "invalid_amount"),
    ],
)
async def test_quotas_that_make_no_sense_are_refused(server: ApiServer, asked: dict[str, Any], code: str) -> None:
    assert (await server.data(QUOTA, input=asked))["set_quota"]["code"] == code


async def test_changing_an_unknown_agent_returns_not_found(server: ApiServer) -> None:
    names = ("resume_agent", "release_lost_agent")
    for name in names:
        found = await server.data(f'mutation {{ {name}(id: "x") {{ ... on NotFound {{ kind id }} }} }}')
        assert found[name] == {"kind": "agent", "id": "x"}


async def test_usage_is_empty_before_any_session(server: ApiServer) -> None:
    assert (await server.data('{ usage(user: "ann") { gpu_hours share } }'))["usage"] == []
