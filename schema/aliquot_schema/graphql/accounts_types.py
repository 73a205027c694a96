"""Users and keys, as GraphQL types."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.enums import KeyScope, Role


@strawberry.type(description="Somebody who may come in, by keys.")
class User:
    name: str = strawberry.field(description="The name, which sessions are owned by.")
    version: int = strawberry.field(description="Counts its changes; for `expected_version`.")
    role: Role = strawberry.field(description="What the user may do.")
    unix_name: str | None = strawberry.field(description="The Unix account that the user's jobs run as.")
    projects: list[str] = strawberry.field(description="Whose sessions the user takes part in.")
    disabled: bool = strawberry.field(description="Whether nobody comes in by the user's keys.")
    created_at: datetime = strawberry.field(description="When the user was made.")
    changed_at: datetime = strawberry.field(description="When the user was changed last.")


@strawberry.type(description="Who asks, and what the key allows that was shown.")
class Me:
    name: str = strawberry.field(description="The user.")
    role: Role = strawberry.field(description="What may be done by this key.")
    projects: list[str] = strawberry.field(description="Whose sessions the user takes part in.")
    unix_name: str | None = strawberry.field(description="The Unix account that the user's jobs run as.")
    key_id: strawberry.ID | None = strawberry.field(
        description="The key, or what stands for a token of the identity provider; null for the server's own token."
    )


@strawberry.type(description="A key of a user. The secret is shown once, when it is made.")
class ApiKey:
    id: strawberry.ID = strawberry.field(description="`key_...`; what is shown to come in begins with it.")
    version: int = strawberry.field(description="Counts its changes.")
    user: str = strawberry.field(description="Whose it is.")
    name: str = strawberry.field(description="What it is for.")
    scope: KeyScope = strawberry.field(description="What it allows at most.")
    created_at: datetime = strawberry.field(description="When it was made.")
    expires_at: datetime | None = strawberry.field(description="When it ends by itself; null is never.")
    revoked_at: datetime | None = strawberry.field(description="When it was revoked.")
    is_valid: bool = strawberry.field(description="Whether somebody comes in by it now.")
