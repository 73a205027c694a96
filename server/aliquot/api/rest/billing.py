"""REST operations on statements: what each project held in a month, and what it cost."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from aliquot.api.rest.framework import Operation, RestRequest
from aliquot_schema.views.billing import DocumentFormat, StatementView

Month = Annotated[
    str, Meta(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="Like `2026-11`; left out = the present month, UTC.")
]


class StatementsAsked(Struct, kw_only=True, forbid_unknown_fields=True):
    """The month of a statement."""

    month: Month | None = None


class Statements(Struct, kw_only=True):
    """The statements of all projects for a month, the one with the most device time first."""

    statements: tuple[StatementView, ...]


async def statements(ask: RestRequest) -> Statements:
    """See `Statements.statements` of the service."""
    billing = ask.context.services.administration.billing
    return Statements(statements=billing.statements(ask.context.caller, month=ask.query.month))


async def statement(ask: RestRequest) -> StatementView:
    """See `Statements.statement` of the service."""
    billing = ask.context.services.administration.billing
    return billing.statement(ask.context.caller, project=ask.path["project"], month=ask.query.month)


async def statement_csv(ask: RestRequest) -> str:
    """See `Statements.statement_document` of the service."""
    billing = ask.context.services.administration.billing
    return billing.statement_document(
        ask.context.caller, project=ask.path["project"], month=ask.query.month, format=DocumentFormat.CSV
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/statements",
        name="statements",
        cost=200,
        summary="The statements of all projects for a month. Empty until the policy has prices.",
        handler=statements,
        query=StatementsAsked,
    ),
    Operation(
        method="GET",
        path="/statements/{project}",
        name="statement",
        summary="The statement of a project for a month.",
        handler=statement,
        query=StatementsAsked,
        problems=(404,),
    ),
    Operation(
        method="GET",
        path="/statements/{project}/csv",
        name="statement_csv",
        summary="The statement of a project for a month as CSV, one row per item.",
        handler=statement_csv,
        media_type="text/csv",
        query=StatementsAsked,
        problems=(404,),
    ),
)
