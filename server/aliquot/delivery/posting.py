"""Posting: one request to a receiver that takes HTTP. No redirect is followed, no proxy asked."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx

from aliquot.delivery.receiver_tables import WebTable, check_url
from aliquot.delivery.secret_files import read_secret
from aliquot.delivery.trust import tls_context
from aliquot.service.notices.ports import NotDelivered

_HEADERS: Final = {"Content-Type": "application/json", "User-Agent": "aliquot"}


async def post(table: WebTable, body: bytes, *, key: str, headers: Mapping[str, str] | None = None) -> None:
    """Send JSON; returns when the receiver answered 2xx.

    Args:
        key: the name of the letter, by which repeats are known.
        headers: besides those that every letter has.
    Raises:
        NotDelivered: it did not. The message has its host in it at most, and nothing that it said: an address can be a
            secret, and so can what is repeated in an answer.
    """
    sent = {**_HEADERS, "Idempotency-Key": key, **(headers or {})}
    url = table.url or read_secret(table.url_file or Path())
    try:
        tls = tls_context(table.ca_file, protocol="http")
        async with (
            # Of all of it: those of the client begin anew with every byte that comes.
            asyncio.timeout(table.timeout_s),
            httpx.AsyncClient(verify=tls, timeout=None, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", check_url(url), content=body, headers=sent) as answer,
        ):
            status = answer.status_code
    except TimeoutError:
        raise NotDelivered(f"no answer within {table.timeout_s:g} s") from None
    except httpx.HTTPError as error:
        raise NotDelivered(f"it cannot be reached: {type(error).__name__}") from None
    except (httpx.InvalidURL, ValueError):
        raise NotDelivered("its address is none") from None
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDelivered(f"it answered {status}; redirects are not followed")
    raise NotDelivered(f"it answered {status}", is_final=status == 410)
