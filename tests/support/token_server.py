"""An authorization server of this machine: JWT for the credentials of a client, as RFC 6749 has it."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.posted import answering

ISSUER, AUDIENCE, KEY_ID = "https://issuer.test", "kafka", "one"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """Of the key whose other half brokers read from a file."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def write_jwks(self, path: Path) -> Path:
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(n.to_bytes((n.bit_length() + 7) // 8, "big")) for n in (numbers.n, numbers.e))
        one = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "n": n, "e": e}
        path.write_text(json.dumps({"keys": [one]}))
        return path

    def token(self, user: str, life_secs: float, audience: str = AUDIENCE) -> str:
        """Its claims are in whole seconds, so that it ends up to a second sooner."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": audience, "sub": user, "iat": now, "exp": now + int(life_secs)}
        claims |= {"scope": "kafka", "jti": uuid.uuid4().hex}
        parts = [{"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}, claims]
        text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_encoded(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class TokenServer:
    """secrets: client -> its secret. life_secs: of the tokens. given: all tokens so far. asked: the forms that came.

    is_down: it answers 503. form_only: it does not look at a header. silent: what its answers leave out.
    """

    def __init__(self, secrets: dict[str, str], life_secs: float = 300) -> None:
        self.signer, self.secrets, self.life_secs = Signer(), secrets, life_secs
        self.given: list[str] = []
        self.asked: list[dict[str, str]] = []
        self.is_down = self.form_only = False
        self.silent: tuple[str, ...] = ()
        self.says: dict[str, Any] = {}
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, form: dict[str, str], header: str) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.asked.append(form)
            if self.is_down:
                return 503, {"error": "temporarily_unavailable"}
            client, secret = form.get("client_id", ""), form.get("client_secret", "")
            if header.startswith("Basic ") and not self.form_only:
                text = base64.b64decode(header[6:]).decode()
                client, secret = (unquote_plus(part) for part in text.split(":", 1))
            if self.secrets.get(client) != secret or not client:
                return 401, {"error": "invalid_client", "error_description": f"its secret is not {secret}"}
            token = self.signer.token(client, self.life_secs, form.get("audience", AUDIENCE))
            self.given.append(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.life_secs)} | self.says
        return 200, {name: value for name, value in answer.items() if name not in self.silent}


@contextmanager
def token_server(server: TokenServer, certificate: Path | None = None) -> Iterator[TokenServer]:
    """It listens inside the block. certificate: PEM file with its key; without one it speaks no TLS."""

    def answer(text: str, headers: Mapping[str, str]) -> tuple[int, str]:
        form = {name: values[0] for name, values in parse_qs(text).items()}
        status, found = server.answer(form, headers.get("Authorization", ""))
        return status, json.dumps(found)

    with answering(answer, certificate) as url:
        server.url = f"{url}oauth2/token"
        yield server
