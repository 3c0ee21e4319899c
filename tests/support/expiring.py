"""Keys of AWS that live for seconds, and a gate before a server that refuses those that are past their time.

    Profile, credential_process ─┐
    Sts, web identity ───────────┴─> until<seconds since 1970>, the access key id
                                       client ── signed with it ──> Gate ── past it ──> 400 ExpiredToken
                                                                     └── else ──> server

The gate keeps no list: when a key ends stands in its id. It judges a request when it comes, as AWS does.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import parse_qs

from exporter.local.proxy import FaultyProxy, _body, _Handler
from tests.support.posted import answering

SIGNED_BY = re.compile(r"Credential=until(\d+)/")
WORDS = "The provided token has expired."
NOWHERE = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": ""}
"""So that a chain goes on beyond the environment."""


class Gate(FaultyProxy):
    """passed: requests whose keys were good. late: refused, and for how many seconds their keys were over.

    strangers: requests that no such key has signed; they are refused too. share: of the good ones that are refused as
    if their keys had ended on their way. on_the_way: how many were.
    """

    def __init__(self, target: str, share: float = 0.0) -> None:
        super().__init__(target)
        self.share = share
        self.passed = self.on_the_way = 0
        self.late: list[float] = []
        self.strangers: list[str] = []

    def _listen(self) -> None:
        super()._listen()
        if self._server is not None:
            self._server.RequestHandlerClass = _Gated

    def lets(self, what: str, signature: str) -> bool:
        with self._lock:
            found = SIGNED_BY.search(signature)
            if found is None:
                self.strangers.append(what)
            elif (over := time.time() - int(found[1])) > 0:
                self.late.append(over)
            elif self._random.random() < self.share:
                self.on_the_way += 1
            else:
                self.passed += 1
                return True
            return False


class _Gated(_Handler):
    def _pass(self) -> None:
        gate = self.server.proxy
        assert isinstance(gate, Gate)
        if gate.lets(f"{self.command} {self.path}", self.headers.get("Authorization", "")):
            super()._pass()
            return
        for _ in _body(self.rfile, self.headers):
            pass
        if "X-Amz-Target" in self.headers:
            self._refuse_as_dynamodb()
        else:
            self._refuse(400, "ExpiredToken", WORDS)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

    def _refuse_as_dynamodb(self) -> None:
        body = json.dumps({"__type": "com.amazon.coral.service#ExpiredTokenException", "message": WORDS}).encode()
        self.send_response_only(400)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


PROCESS = """import datetime, json, sys, time
until = int(time.time()) + int(sys.argv[1])
open(sys.argv[2], "a").write(f"{until}\\n")
told = datetime.datetime.fromtimestamp(until, datetime.timezone.utc).isoformat()
keys = {"AccessKeyId": f"until{until}", "SecretAccessKey": "secret", "SessionToken": "token"}
print(json.dumps({"Version": 1, **keys, "Expiration": told.replace("+00:00", "Z")}))
"""


class Profile:
    """A profile whose keys come from a process. life_secs: of each of them. environment: of who is to use it."""

    def __init__(self, folder: Path, life_secs: int) -> None:
        self._calls, self.script, config = folder / "calls.txt", folder / "keys.py", folder / "aws.config"
        self.script.write_text(PROCESS)
        process = f"{sys.executable} -ISs {self.script} {life_secs} {self._calls}"
        config.write_text(f"[profile short]\ncredential_process = {process}\nregion = us-east-1\n")
        files = {"AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none")}
        self.environment = {**NOWHERE, **files, "AWS_PROFILE": "short"}

    @property
    def made(self) -> int:
        """How often keys were asked for."""
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@dataclass
class Sts:
    """Gives keys to whoever shows a token, by AssumeRoleWithWebIdentity. token: where it stands.

    tokens: that were shown, in order. environment: of who is to use it.
    """

    token: Path
    life_secs: int
    tokens: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def answer(self, text: str, _headers: Mapping[str, str]) -> tuple[int, str]:
        """See answering."""
        self.tokens.append(parse_qs(text)["WebIdentityToken"][0])
        until = int(time.time()) + self.life_secs
        told = datetime.fromtimestamp(until, timezone.utc).isoformat().replace("+00:00", "Z")
        keys = {"AccessKeyId": f"until{until}", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": told}
        xml = "".join(f"<{name}>{text}</{name}>" for name, text in keys.items())
        result = f"<AssumeRoleWithWebIdentityResult><Credentials>{xml}</Credentials></AssumeRoleWithWebIdentityResult>"
        return 200, f"<AssumeRoleWithWebIdentityResponse>{result}</AssumeRoleWithWebIdentityResponse>"


@contextmanager
def token_service(folder: Path, life_secs: int) -> Iterator[Sts]:
    """One that listens inside the block."""
    sts = Sts(folder / "token", life_secs)
    with answering(sts.answer) as url:
        sts.environment = {
            **NOWHERE,
            "AWS_CONFIG_FILE": str(folder / "none"),
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "none"),
            "AWS_ENDPOINT_URL_STS": url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/exporter",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(sts.token),
        }
        yield sts
