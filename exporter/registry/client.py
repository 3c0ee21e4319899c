"""Confluent's REST API of a schema registry, and whether what came back is an answer. In the driver alone.

    200                                       the schema
    404 with error_code 40403                 the registry knows no such id, or no such GUID
    404 with error_code 404, of a GUID        the registry has no GUIDs at all, so not this one
    anything else, or nothing                 trouble, which decides nothing: refused, timed out, 401, 403, 5xx, a
                                              redirect, a page of a proxy, too long, not what the API says

Each request has a connection of its own: they are rare, and of one that was kept nobody knows whether it still stands.
Credentials go to the servers that are named, and into no text.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from exporter.core.schemas import called
from exporter.errors import ConfigError, RegistryUnreachable
from exporter.registry.deadline import Deadline, pools
from exporter.registry.glue import connect_glue
from exporter.registry.options import RegistryOptions
from exporter.registry.server import CONNECT_SECS_MAX, Client, Kind, Reference, RegisteredSchema
from exporter.secrets import keep_secret, masked
from exporter.trusting import trusting

ANSWER_BYTES_MAX = 32 << 20
ERROR_BYTES_SHOWN = 120
NO_SUCH_ID = 40403
NO_SUCH_SUBJECT = 40401
NO_SUCH_PATH = 404
_HINT = "check `[schema_registry]`: urls, the credentials and their rights, the certificates; what is exported waits"
_SENT = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
T = TypeVar("T")


class _Refused(NamedTuple):
    """What a registry says of a schema that it does not take."""

    says: str


class _Trouble(Exception):
    """Why an answer is none."""


@dataclass
class ConfluentServer:
    """One URL of a registry that speaks Confluent's protocol."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    context: ssl.SSLContext | None
    timeout_secs: float

    @property
    def shown(self) -> str:
        """See Server."""
        return shown(self.url)

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Implements `Server.schema`: the schema of an id; None if there is none."""
        name = called(schema_id)
        if isinstance(name, int):
            found = self._get(f"/schemas/ids/{name}", (NO_SUCH_ID,))
        else:
            found = self._get(f"/schemas/guids/{name}", (NO_SUCH_ID, NO_SUCH_PATH))
        return None if found is None else self._registered(found)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Implements `Server.version`: the schema of a subject's version."""
        return self._registered(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"))

    def versions(self, subject: str) -> list[int]:
        """Implements `Server.versions`: the numbers of a subject's versions."""
        return self._list(f"/subjects/{quote(subject, safe='')}/versions", int, (NO_SUCH_SUBJECT,))

    def subjects(self) -> list[str]:
        """Implements `Server.subjects`: the names of all subjects."""
        return self._list("/subjects", str)

    def register(self, subject: str, kind: Kind, text: str) -> int:
        """Implements `Server.register`: the id under which a schema is registered."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        asked = {"schema": text, **({} if kind == "AVRO" else {"schemaType": kind})}
        found = self._get(path, body=json.dumps(asked).encode(), refused=(409, 422))
        if isinstance(found, _Refused):
            hint = f"a change of columns has to be one that subject {subject} allows; or name another `subject`"
            raise ConfigError(masked(f"{self.shown} refuses the schema of {subject}: {found.says}"), hint)
        number = found.get("id") if isinstance(found, dict) else None
        if type(number) is not int:
            raise self._unreachable(f"{path} gave no id")
        return number

    def _list(self, path: str, of: type[T], no: tuple[int, ...] = ()) -> list[T]:
        found = self._get(path, no)
        if found is None:
            return []
        if not isinstance(found, list) or not all(type(one) is of for one in found):
            raise self._unreachable(f"{path} is no list as the API has it")
        return found

    def _registered(self, found: Any) -> RegisteredSchema:
        try:
            kind = found.get("schemaType") or "AVRO"
            references = tuple(
                Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in found.get("references") or ()
            )
            if kind not in ("AVRO", "PROTOBUF", "JSON") or not isinstance(found["schema"], str):
                raise ValueError(f"a schema of the kind {kind!r}")
            return RegisteredSchema(cast(Kind, kind), found["schema"], references, int(found.get("id", -1)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unreachable(f"it gave what is no schema: {type(error).__name__} {error}") from error

    def _get(self, path: str, no: tuple[int, ...] = (), body: bytes = b"", refused: tuple[int, ...] = ()) -> Any:
        """The answer as parsed JSON; None for 404 with an error code of `no`, _Refused for a status of `refused`.

        body: of a POST.
        """
        from urllib3.exceptions import HTTPError  # it takes 0.1 s: only who asks a registry waits for it

        try:
            status, answer = self._answer(path, body)
            content = _parsed(answer)
            if status == 200 and content is not None:
                return content
            code = content.get("error_code") if isinstance(content, dict) else None
            if status == 404 and code in no:
                return None
            says = answer[:ERROR_BYTES_SHOWN].decode("utf-8", "replace").strip()
            if status in refused and isinstance(content, dict):
                return _Refused(str(content.get("message", says)))
            raise _Trouble(f"HTTP {status} {says}".strip())
        except (_Trouble, HTTPError, OSError, ValueError) as error:
            raise self._unreachable(f"{path}: {_why(error)}") from error

    def _answer(self, path: str, asked: bytes) -> tuple[int, bytes]:
        """Status and body, of which the last byte is there in time. asked: what is sent, if it is a POST."""
        import urllib3

        limits = urllib3.Timeout(connect=min(self.timeout_secs, CONNECT_SECS_MAX), read=self.timeout_secs)
        body = bytearray()
        with Deadline(self.timeout_secs) as deadline, ExitStack() as stack:
            try:
                response = stack.enter_context(pools(self.context, deadline)).request(
                    "POST" if asked else "GET", self.url + path, headers={**self.headers, **(_SENT if asked else {})},
                    body=asked or None, timeout=limits, retries=False, redirect=False, preload_content=False,
                )  # fmt: skip
                stack.callback(response.close)
                while chunk := response.read1(1 << 16):
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        raise _Trouble(f"more than {ANSWER_BYTES_MAX >> 20} MB")
            finally:
                if deadline.passed:  # whatever a connection makes of it that is cut off
                    raise _Trouble(f"no answer in time: not done after {self.timeout_secs:g} s")
        return response.status, bytes(body)

    def _unreachable(self, what: str) -> RegistryUnreachable:
        return RegistryUnreachable(masked(f"{self.shown}: {what}"), _HINT)


def connect(options: RegistryOptions) -> Client:
    """A client of whichever registry it is; nothing is asked yet. Raises ConfigError for what cannot be used."""
    if options.kind == "glue":
        return connect_glue(options)
    keep_secret(options.password, options.token)
    context = _context(options) if any(url.startswith("https:") for url in options.urls) else None
    return Client([_server(url.rstrip("/"), options, context) for url in options.urls])


def _server(url: str, options: RegistryOptions, context: ssl.SSLContext | None) -> ConfluentServer:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{shown(url)} is no address of a schema registry", "write for example: http://registry:8081")
    user, password = options.username, options.password
    if parts.username is not None and not user:
        user, password = unquote(parts.username), unquote(parts.password or "")
        keep_secret(password)
    headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json", "Connection": "close"}
    if options.token:
        headers["Authorization"] = f"Bearer {options.token}"
    elif user:
        headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    keep_secret(headers.get("Authorization", "").partition(" ")[2])
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return ConfluentServer(bare, headers, context, options.timeout_secs)


def _context(options: RegistryOptions) -> ssl.SSLContext:
    try:
        context = trusting(str(options.ca_file or ""))
        if options.cert_file:
            context.load_cert_chain(str(options.cert_file), str(options.key_file) if options.key_file else None)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(one) for one in (options.ca_file, options.cert_file, options.key_file) if one)
        hint = "`ca_file`, `cert_file` and `key_file` of `[schema_registry]` are PEM files that this user can read"
        raise ConfigError(f"the schema registry's certificates cannot be used ({files}): {error}", hint) from error
    return context


def shown(url: str) -> str:
    """A URL as people may see it: without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _why(error: Exception) -> str:
    """In words; urllib3 tells where its objects lie in memory."""
    if isinstance(error, _Trouble):
        return str(error)
    if type(error).__name__ in ("ConnectTimeoutError", "ReadTimeoutError"):
        return "no answer in time"
    reason = getattr(error, "reason", None) or error
    return str(reason).rpartition(">: ")[2] or type(error).__name__
