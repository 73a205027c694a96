"""GraphQL API of prices, statements and fair shares. Money is in units of the currency, durations are seconds."""

from datetime import datetime
from typing import Annotated, Any, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.billing import HOURS, MICROS, Price
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import AtBudget, DocumentFormat, TimeKind
from aliquot_schema.graphql.fields import optional, root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.ids import PoolId
from aliquot_schema.views.billing import FairShareView, StatementView

PRICE_MAX: Final = 1_000_000.0
RATES_MAX: Final = 200


@strawberry.type(name="Price", description="Price of a whole accelerator per hour. The first that applies counts.")
class PriceType:
    price: float = strawberry.field(description="Per device and hour, in the currency.")
    model: str | None = strawberry.field(description="Model, a pattern like `*H100*`; null = every model.")
    pool: str | None = strawberry.field(description="Pool of the agent; null = every pool.")
    from_hour: int = strawberry.field(description="First hour of the day, 0 to 23.")
    until_hour: int = strawberry.field(description="The hour after the last one, 1 to 24; it may be the next day's.")


@strawberry.type(name="Prices", description="Prices of accelerators. Without any, nothing is billed.")
class PricesType:
    rates: list[PriceType] = strawberry.field(description="The prices, in their order.")
    currency: str = strawberry.field(description="Name of the currency.")
    utc_offset_minutes: int = strawberry.field(
        description="Local time of the hours of the day, in minutes ahead of UTC."
    )
    at_budget: AtBudget = strawberry.field(description="What happens once a budget is used up.")


@strawberry.input(description="Price of a whole accelerator per hour.")
class PriceInput:
    price: float = strawberry.field(description="Per device and hour, in the currency, 0 or more.")
    model: str | None = optional("Model, a pattern like `*H100*`; null = every model.")
    pool: str | None = optional("Pool of the agent; null = every pool.")
    from_hour: int = strawberry.field(default=0, description="First hour of the day, 0 to 23.")
    until_hour: int = strawberry.field(
        default=HOURS, description="The hour after the last one, 1 to 24. Below `from_hour`: of the next day."
    )

    def to_price(self) -> Price:
        """The price in whole millionths.

        Raises:
            InvalidRequest: it is out of range.
        """
        if not 0 <= self.price <= PRICE_MAX:
            raise InvalidRequest(f"prices.rates: {self.price} is not between 0 and {PRICE_MAX:g}", field="prices.rates")
        if not 0 <= self.from_hour < HOURS or not 1 <= self.until_hour <= HOURS or self.from_hour == self.until_hour:
            raise InvalidRequest(
                f"prices.rates: hours {self.from_hour} to {self.until_hour}; from_hour is 0 to 23, until_hour 1 to 24, "
                "and they differ",
                field="prices.rates",
            )
        return Price(
            micros=round(self.price * MICROS),
            model=self.model or "",
            pool=PoolId(self.pool or ""),
            from_hour=self.from_hour,
            until_hour=self.until_hour,
        )


@strawberry.input(description="Changes of `Prices`. Null fields are unchanged.")
class PricesInput:
    rates: list[PriceInput] | None = optional("The prices; replaces the list. Empty = nothing is billed.")
    currency: str | None = optional("Name of the currency, 1 to 8 letters.")
    utc_offset_minutes: int | None = optional("Minutes ahead of UTC, -1440 to 1440.")
    at_budget: str | None = optional("hold or low.")

    def to_changes(self) -> dict[str, Any]:
        """Changed fields, named as in `PolicyDocument`.

        Raises:
            InvalidRequest: a price is out of range.
        """
        if self.rates is not None and len(self.rates) > RATES_MAX:
            raise InvalidRequest(f"prices.rates: at most {RATES_MAX} prices", field="prices.rates")
        found = {
            "rates": None if self.rates is None else tuple(rate.to_price() for rate in self.rates),
            "currency": self.currency,
            "utc_offset_minutes": self.utc_offset_minutes,
            "at_budget": self.at_budget,
        }
        return {name: value for name, value in found.items() if value is not None}


@strawberry.type(description="Price of a session.")
class Cost:
    currency: str = strawberry.field(description="Name of the currency.")
    amount: float | None = strawberry.field(
        description="Of its expected run time, or what it has cost so far; null if the run time is unknown."
    )
    amount_max: float | None = strawberry.field(
        description="If it runs until its time limit; null without one, and for what it has cost."
    )
    per_hour: float = strawberry.field(
        description="Of all that it requests, in its first hour; for what it has cost, the mean per GPU-hour."
    )
    text: str = strawberry.field(description="The same as text.")


@strawberry.type(description="Device time of one kind.")
class StatementLine:
    kind: TimeKind = strawberry.field(description="What it was held for.")
    amount: BigInt = strawberry.field(description="Thousandths of a device x milliseconds, exact.")
    gpu_hours: float = strawberry.field(description="The same in GPU-hours.")
    part: float = strawberry.field(description="Of everything held, 0 to 1.")


@strawberry.type(description="What a project held in one calendar month, UTC, and its price.")
class Statement:
    project: str = strawberry.field(description="The project.")
    month: str = strawberry.field(description="Like `2026-11`.")
    currency: str = strawberry.field(description="Name of the currency.")
    held: BigInt = strawberry.field(description="Thousandths of a device x milliseconds; the sum of the lines.")
    gpu_hours: float = strawberry.field(description="The same in GPU-hours.")
    lines: list[StatementLine] = strawberry.field(description="Device time by kind.")
    ettr: float | None = strawberry.field(
        description="Effective training time ratio: 1 - lost / held, 0 to 1; null if nothing was held."
    )
    cost: float = strawberry.field(description="Price of what was held, without `credited`.")
    credited: float = strawberry.field(description="Price of work that preemption or a fault of the cluster took.")
    budget: float | None = strawberry.field(description="The project's present budget per month; null = none.")
    open_gpu_hours: float = strawberry.field(
        description="Held in the month by sessions that still hold it; it is entered at their release."
    )
    open_cost: float = strawberry.field(description="Its price so far.")
    sessions: int = strawberry.field(description="Sessions that ended after they had started.")
    mean_wait: float | None = strawberry.field(description="Their mean time from the submission to the start.")
    preemptions: int = strawberry.field(description="How often sessions were preempted.")
    share: float = strawberry.field(description="Of what all projects held in the month, 0 to 1.")
    entitlement: float = strawberry.field(
        description="By the present weights of the projects that held something in the month, 0 to 1."
    )
    behind: list[str] = strawberry.field(description="Why its sessions waited, in sentences.")


@strawberry.type(description="Fair share of a user in a project.")
class FairShare:
    project: str = strawberry.field(description="The project.")
    user: str = strawberry.field(description="The user.")
    share: float = strawberry.field(description="Share of all decayed usage, 0 to 1.")
    entitlement: float = strawberry.field(description="By the weights of those who compete now, 0 to 1.")
    gpu_hours_decayed: float = strawberry.field(description="Decayed usage, which counts in fair share.")
    gpus_held: float = strawberry.field(description="GPUs held now, weighted by the policy's `charges`.")
    curve: list[float] = strawberry.field(
        description="Decayed GPU-hours from now on, at equal steps, if nothing more is held."
    )
    step: float = strawberry.field(description="Seconds between two points of the curve.")
    at_entitlement_at: datetime | None = strawberry.field(
        description="When the share falls to the entitlement if nothing more is held and the others go on as now; null "
        "if it is not above it, or not within eight half-lives."
    )
    advice: str = strawberry.field(description="What would move the sessions up.")


Month = Annotated[str | None, strawberry.argument(description="Like `2026-11`; null = the present month, UTC.")]
Project = Annotated[str, strawberry.argument(description="The project.")]


@strawberry.type
class BillingQueries:
    """Part of `Query`."""

    @root_field(Statement, "The statement of a project for a month. Empty until the policy has prices.")
    async def statement(self, info: Info[Context, None], project: Project, month: Month = None) -> StatementView:
        return info.context.services.administration.billing.statement(info.context.caller, project=project, month=month)

    @root_field(list[Statement], "The statements of all projects for a month, the largest first.")
    async def statements(self, info: Info[Context, None], month: Month = None) -> tuple[StatementView, ...]:
        return info.context.services.administration.billing.statements(info.context.caller, month=month)

    @root_field(str, "A statement as a document.")
    async def statement_document(
        self,
        info: Info[Context, None],
        project: Project,
        format: Annotated[DocumentFormat, strawberry.argument(description="CSV or HTML.")],
        month: Month = None,
    ) -> str:
        return info.context.services.administration.billing.statement_document(
            info.context.caller, project=project, month=month, format=format
        )

    @root_field(list[FairShare], "Share, entitlement and decay of each user's usage, and what would move them up.")
    async def fair_shares(
        self,
        info: Info[Context, None],
        user: Annotated[str | None, strawberry.argument(description="Only this user.")] = None,
        project: Annotated[str | None, strawberry.argument(description="Only this project.")] = None,
    ) -> tuple[FairShareView, ...]:
        return info.context.services.administration.billing.fair_shares(info.context.caller, user=user, project=project)
