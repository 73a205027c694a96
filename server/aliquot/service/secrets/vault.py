"""The vault: what people do to their secrets, and what orders are given of them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.journal import Journal
from aliquot.service.permissions import check_may_submit
from aliquot.service.ports import Clock, StoreUnavailable
from aliquot.service.projection_terms import moment
from aliquot.service.secrets.ports import SecretStore, StoredSecret
from aliquot_schema.errors import AliquotError, InvalidRequest, LimitExceeded, NotFound, Unavailable
from aliquot_schema.ids import RequestId, UserId
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.requests import Caller
from aliquot_schema.secrets import (
    SECRET_NAME,
    SECRETS_MAX,
    VALUE_BYTES_MAX,
    SecretChanged,
    SecretDeleted,
    SecretGrant,
    SecretNames,
    SecretUse,
    SecretView,
)

log: Final = logging.getLogger("aliquot.secrets")

ACTOR: Final = "system:secrets"


class Vault:
    """Everybody has secrets of his own, and sees nobody else's, whatever his role. No value comes out but in orders."""

    store: SecretStore | None = None
    """None: this server keeps none."""

    def __init__(self, *, clock: Clock, journal: Journal) -> None:
        self._clock = clock
        self._journal = journal

    async def secrets(self, caller: Caller) -> tuple[SecretView, ...]:
        """The caller's own, by name; see `SecretKeeper`."""
        return tuple(_view(found) for found in await self._kept().names(caller.user))

    async def set_secret(self, caller: Caller, name: str, value: str) -> SecretChanged:
        """Store one of the caller's, in place of an older one.

        Raises:
            InvalidRequest, LimitExceeded, Forbidden, Unavailable.
        """
        check_may_submit(caller)
        store = self._kept()
        if SECRET_NAME.fullmatch(name) is None:
            text = "name: 1 to 64 of letters, digits and _ . -, beginning with a letter or _"
            raise InvalidRequest(text, field="name")
        _check_value(value)
        known = await store.names(caller.user)
        if len(known) >= SECRETS_MAX and name not in {secret.name for secret in known}:
            text = f"name: you have {SECRETS_MAX} secrets; delete one first"
            raise LimitExceeded(text, field="name", limit=SECRETS_MAX, actual=len(known) + 1)
        now_us = self._clock.now_us()
        await self._note(caller.user, "set", {name: now_us}, known=known, by=caller)
        stored = await store.put(caller.user, name, value, now_us=now_us)
        return SecretChanged(secret=_view(stored))

    async def delete_secret(self, caller: Caller, name: str) -> SecretDeleted:
        """Delete one of the caller's.

        Raises:
            NotFound, Forbidden, Unavailable.
        """
        check_may_submit(caller)
        store = self._kept()
        known = await store.names(caller.user)
        if name not in {secret.name for secret in known}:
            raise NotFound(f"you have no secret {name[:64]}", kind="secret", id=name[:64])
        await self._note(caller.user, "deleted", {name: None}, known=known, by=caller)
        await store.delete(caller.user, name)
        return SecretDeleted(name=name)

    async def clear(self, owner: UserId) -> int:
        """Delete all that somebody has; returns how many these were.

        Raises:
            Unavailable: the database fails now.
        """
        store = self._kept()
        known = await store.names(owner)
        if known:
            await self._note(owner, "deleted", dict.fromkeys(secret.name for secret in known), known=known, by=None)
        for secret in known:
            await store.delete(owner, secret.name)
        return len(known)

    async def check(self, owner: UserId, uses: Sequence[SecretUse]) -> None:
        """See that a new session's secrets are there.

        Raises:
            InvalidRequest: one is not. Unavailable.
        """
        known = {secret.name for secret in await self._kept().names(owner)} if uses else set()
        for use in uses:
            if use.name not in known:
                text = f"secrets: {owner} has no secret {use.name}; `aliquot secret set {use.name}` stores one"
                raise InvalidRequest(text, field="secrets")

    async def filled(self, orders: Sequence[LaunchOrder]) -> Sequence[LaunchOrder]:
        """The orders with the values of their secrets; an agent refuses one of which a value is missing.

        Raises:
            StoreUnavailable: the database fails now.
        """
        asked = dict.fromkeys((grant.owner, grant.use.name) for order in orders for grant in order.secrets)
        found = {(owner, name): await self._value(owner, name) for owner, name in asked}

        def filled(grant: SecretGrant) -> SecretGrant:
            value, why_not = found[grant.owner, grant.use.name]
            return replace(grant, value=value, why_not=why_not)

        return [replace(order, secrets=tuple(map(filled, order.secrets))) for order in orders]

    async def _note(
        self,
        owner: UserId,
        what: str,
        changed: Mapping[str, int | None],
        *,
        known: Sequence[StoredSecret],
        by: Caller | None,
    ) -> None:
        """Tell the log before anything is changed: what breaks off in between is in the audit, and may not be done."""
        stored = {secret.name: secret.changed_us for secret in known}

        def change(draft: Draft) -> None:
            told = draft.secret_names(owner)
            before = stored if told is None else told.set_us
            if len(before) > SECRETS_MAX:  # of many that broke off
                before = {name: set_us for name, set_us in before.items() if name in stored}
            after = {name: set_us for name, set_us in {**before, **changed}.items() if set_us is not None}
            draft.put(SecretNames(id=owner, set_us=after), what)

        request_id = None if by is None else RequestId(by.request_id)
        await self._journal.transact(change, actor=ACTOR if by is None else by.user, request_id=request_id)

    async def _value(self, owner: UserId, name: str) -> tuple[str | None, str | None]:
        """(value, why there is none): one that cannot be decrypted keeps nobody from the others."""
        try:
            return (await self._kept().values(owner, [name])).get(name), None
        except StoreUnavailable:
            raise
        except AliquotError as error:  # tried again it would fail again: the session fails, and says so
            log.error("the secret %s of %s cannot be read: %s", name, owner, error.message)
            return None, error.message

    def _kept(self) -> SecretStore:
        if self.store is None:
            raise Unavailable("this server keeps no secrets")
        return self.store


def _check_value(value: str) -> None:
    """What a variable can hold; a value is in no message."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("value: it holds half a surrogate pair, which is no text", field="value") from None
    if "\0" in value or not value:
        raise InvalidRequest("value: it is empty, or holds a NUL character", field="value")
    if size > VALUE_BYTES_MAX:
        text = f"value: {size} bytes are more than {VALUE_BYTES_MAX}"
        raise LimitExceeded(text, field="value", limit=VALUE_BYTES_MAX, actual=size)


def _view(stored: StoredSecret) -> SecretView:
    return SecretView(name=stored.name, created_at=moment(stored.created_us), changed_at=moment(stored.changed_us))
