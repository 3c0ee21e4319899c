"""Tokens of an authorization server, for the credentials of a client.

Source: RFC 6749, 4.4 (client credentials), 2.3.1 (how a client proves itself) and 5 (answers). `audience` is no part of
it; servers that issue tokens for several services ask for it.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.kafka.tokens.tokens import Token, secs_of
from exporter.secrets import masked
from exporter.trusting import trusting

CONNECT_SECS, ANSWER_SECS = 3.0, 5.0
LIFE_SECS = 300.0
"""Of a token that says nowhere how long it holds."""
_REFUSED = (400, 401, 403)
_SHOWN_MAX = 200


@dataclass(frozen=True)
class ClientCredentials:
    """url: of the token endpoint. cafile: PEM file of who signs its certificate; empty: the system's."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    audience: str = ""
    cafile: str = ""

    @property
    def name(self) -> str:
        return self.client_id

    def new(self) -> Token:
        """A new token of the server's. Raises ConfigError, DependencyUnreachable."""
        asked = time.time()
        wanted = {"grant_type": "client_credentials", "scope": self.scope, "audience": self.audience}
        form = {name: text for name, text in wanted.items() if text}
        status, answer = self._post(form, self._header())
        if status in _REFUSED and answer.get("error") in ("invalid_client", "invalid_request", "access_denied"):
            # some servers take the credentials in the form only
            status, answer = self._post({**form, "client_id": self.client_id, "client_secret": self.secret}, {})
        if status != 200:
            raise self._not_given(status, answer)
        value = answer.get("access_token")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self.url} gives no access_token", "sasl_oauth_token_url should be a token endpoint")
        return Token(value, _expires(value, answer.get("expires_in"), asked))

    def _header(self) -> dict[str, str]:
        credentials = f"{quote_plus(self.client_id)}:{quote_plus(self.secret)}"
        return {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}

    def _post(self, form: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Status and answer; an answer that is no JSON object as the text that it is."""
        import urllib3  # it takes 0.1 s: only who asks waits for it

        limits = urllib3.Timeout(connect=CONNECT_SECS, read=ANSWER_SECS)
        try:
            context = trusting(self.cafile) if self.url.lower().startswith("https:") else None
            with urllib3.PoolManager(1, ssl_context=context) as pool:
                response = pool.request(
                    "POST", self.url, fields=form, encode_multipart=False, timeout=limits, retries=False,
                    redirect=False, headers={"Accept": "application/json", **headers},
                )  # fmt: skip
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._unreachable(error) from None
        text = response.data.decode("utf-8", "replace")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        return response.status, found if isinstance(found, dict) else {"error": text.strip()[:_SHOWN_MAX]}

    def _not_given(self, status: int, answer: dict[str, Any]) -> ConfigError | DependencyUnreachable:
        parts = [str(answer[name])[:_SHOWN_MAX] for name in ("error", "error_description") if answer.get(name)]
        says = masked(": ".join([f"HTTP {status}", *parts]))
        if status not in _REFUSED:
            what = f"the token endpoint {self.url} gives no token: {says}"
            return DependencyUnreachable(what, "check [kafka_client] sasl_oauth_token_url, and that the server is well")
        hint = "check [kafka_client] sasl_oauth_client_id, sasl_oauth_client_secret, sasl_oauth_scope and _audience"
        return ConfigError(f"the token endpoint {self.url} refuses the client {self.client_id!r}: {says}", hint)

    def _unreachable(self, error: Exception) -> ConfigError | DependencyUnreachable:
        reason = str(getattr(error, "reason", None) or error).rpartition(">: ")[2]
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            what = f"the certificate of the token endpoint {self.url} is not trusted: {reason}"
            return ConfigError(what, "[kafka_client] sasl_oauth_cafile must hold the authority that signed it")
        what = f"the token endpoint {self.url} does not answer: {reason}"
        return DependencyUnreachable(what, "check [kafka_client] sasl_oauth_token_url, and that the server runs")


def _expires(value: str, expires_in: object, asked: float) -> float:
    """Seconds since 1970: as the answer says, or else the token itself."""
    if (secs := secs_of(expires_in)) is not None:
        return asked + secs
    said = secs_of(claims(value).get("exp"))
    return asked + LIFE_SECS if said is None else said


def claims(value: str) -> dict[str, Any]:
    """What a JWT says, unproven; empty for a token of another kind."""
    parts = value.split(".")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))) if len(parts) == 3 else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
