"""What resolvers ask about users and keys."""

from typing import Protocol

from aliquot_schema.account_views import (
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeyView,
    MeView,
    NewApiKey,
    NewUser,
    UserChanged,
    UserChanges,
    UserView,
)
from aliquot_schema.graphql.secrets_port import SecretKeeper
from aliquot_schema.requests import Caller


class Accountant(SecretKeeper, Protocol):
    """Acts of admins, but for looking at oneself and revoking a key of one's own."""

    def me(self, caller: Caller) -> MeView: ...

    def users(self, caller: Caller) -> tuple[UserView, ...]: ...

    def api_keys(self, caller: Caller, *, user: str | None) -> tuple[ApiKeyView, ...]: ...

    async def create_user(self, caller: Caller, asked: NewUser) -> UserChanged: ...

    async def update_user(
        self, caller: Caller, name: str, changes: UserChanges, expected_version: int | None
    ) -> UserChanged: ...

    async def disable_user(self, caller: Caller, name: str, expected_version: int | None) -> UserChanged: ...

    async def create_api_key(self, caller: Caller, asked: NewApiKey) -> ApiKeyCreated: ...

    async def revoke_api_key(self, caller: Caller, key_id: str) -> ApiKeyRevoked: ...
