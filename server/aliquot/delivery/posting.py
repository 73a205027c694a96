"""Posting: one request to a receiver that takes HTTP. No redirect is followed, no proxy asked."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx

from aliquot.delivery.receiver_tables import WebTable, check_url
from aliquot.delivery.secret_files import read_secret
from aliquot.service.notices.ports import NotDelivered


async def post(table: WebTable, body: bytes, *, headers: Mapping[str, str]) -> None:
    """Return when the receiver answered 2xx.

    Raises:
        NotDelivered: it did not. The message has its host in it at most, and nothing that it said: an address can be a
            secret, and so can what is repeated in an answer.
    """
    url = table.url or read_secret(table.url_file or Path())
    try:
        timeout = httpx.Timeout(table.timeout_s)
        async with (
            httpx.AsyncClient(
                verify=tls_context(table.ca_file), timeout=timeout, trust_env=False, follow_redirects=False
            ) as client,
            client.stream("POST", check_url(url), content=body, headers=dict(headers)) as answer,
        ):
            status = answer.status_code
    except httpx.TimeoutException:
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


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Whom to believe.

    Raises:
        NotDelivered: the file cannot be read.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise NotDelivered(f"ca-file {ca_file} cannot be read: {type(error).__name__}") from None
