"""Messages by POST to one address, each over a connection of its own; acknowledged by a status of 200 to 299."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from exporter.stores.many import each

CONNECT_SECS, ANSWER_SECS = 5.0, 10.0
_SENT = {"Content-Type": "application/json", "Connection": "close"}


class Webhook:
    """For one thread; messages of several tables are sent at once."""

    def __init__(self, url: str) -> None:
        """url: where messages are posted. Nothing is asked yet."""
        self._url = url

    def send(self, messages: Mapping[str, bytes]) -> dict[str, str]:
        """Table -> message; of those that were not answered well: table -> why not."""
        tables = [*messages]
        answers = zip(tables, each(lambda table: self._posted(messages[table]), tables), strict=True)
        return {table: why for table, why in answers if why}

    def close(self) -> None:
        """Does nothing: no connection is kept open."""

    def _posted(self, body: bytes) -> str:
        """What was wrong, or empty."""
        import urllib3  # it takes 0.1 s: only who has a webhook waits for it

        limits = urllib3.Timeout(connect=CONNECT_SECS, read=ANSWER_SECS)
        try:
            with urllib3.PoolManager(1) as pool:
                response = pool.request(
                    "POST", self._url, body=body, headers=_SENT, timeout=limits, retries=False, redirect=False,
                    preload_content=False,
                )  # fmt: skip
                response.close()  # unread: what it says, and for how long, is nobody's concern
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return f"{shown(self._url)}: {_why(error)}"
        return "" if 200 <= response.status < 300 else f"{shown(self._url)}: HTTP {response.status}"


def shown(url: str) -> str:
    """The server alone: a path or a query may hold what lets one in."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _why(error: Exception) -> str:
    """In words; urllib3 tells where its objects lie in memory, and the whole address."""
    if type(error).__name__ in ("ConnectTimeoutError", "ReadTimeoutError"):
        return "no answer in time"
    return type(error).__name__
