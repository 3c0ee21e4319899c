"""PEM files that cannot be used, told before a client would say "no broker": Kafka's is Java's, the registry's not."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

from exporter.settings.format_tables import SchemaRegistry
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.problem import Problem

CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_PKCS8_HINT = "convert the key with `openssl pkcs8 -topk8`"

_PBES1_HINT = (
    "encrypt it with `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`, or store it unencrypted and readable by this user"
)
_PBES2 = bytes.fromhex("2a864886f70d01050d")
"""The object identifier 1.2.840.113549.1.5.13. Seen with kafka-clients 3.9.0 on Java 17: "PBES2 SecretKeyFactory
not available"; it is what openssl 3 writes when nothing else is asked for."""


def pem_problems(client: KafkaClient) -> Iterator[Problem]:
    """What both clients would report as no more than "no broker answers"."""
    if (keytab := client.sasl_kerberos_keytab) is not None and not os.access(keytab, os.R_OK):
        yield Problem(f"[kafka_client] sasl_kerberos_keytab {keytab} cannot be read", "kadmin's ktadd makes it")
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
        path: Path | None = getattr(client, name)
        if path is None or (name == "ssl_keyfile" and client.key_apart is None):
            continue
        where = f"[kafka_client] {name} {path}"
        text = _text(path)
        if isinstance(text, OSError):
            yield _unreadable(where, text)
        elif name != "ssl_keyfile" and CERTIFICATE not in text:
            yield Problem(f"{where} holds no certificate", "it should be a PEM file, not JKS or PKCS#12")
        elif name == ("ssl_keyfile" if client.key_apart else "ssl_certfile"):
            yield from _key_problems(where, text, client.ssl_password is not None)


def registry_problems(registry: SchemaRegistry) -> Iterator[Problem]:
    """Files of [schema_registry] that are not there, or no PEM files."""
    for name in ("ca_file", "cert_file", "key_file"):
        path: Path | None = getattr(registry, name)
        if path is None:
            continue
        where = f"[schema_registry] {name} {path}"
        text = _text(path)
        wanted = "PRIVATE KEY-----" if name == "key_file" else CERTIFICATE
        if isinstance(text, OSError):
            yield _unreadable(where, text)
        elif wanted not in text:
            what = "key" if name == "key_file" else "certificate"
            yield Problem(f"{where} holds no {what}", "it should be a PEM file, not JKS or PKCS#12")


def _text(path: Path) -> str | OSError:
    """What is in a file, or why it cannot be read."""
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as error:
        return error


def _unreadable(where: str, error: OSError) -> Problem:
    return Problem(f"{where} cannot be read: {error.strerror}", "the path is relative to the TOML file")


def _key_problems(where: str, text: str, password: bool) -> Iterator[Problem]:
    """What Java's PEM reader refuses."""
    plain, encrypted = (f"-----BEGIN {kind}PRIVATE KEY-----" in text for kind in ("", "ENCRYPTED "))
    if not plain and not encrypted:
        yield Problem(f"{where} holds no PKCS#8 key", _PKCS8_HINT)
    elif encrypted != password:
        reason = "is encrypted but there is no ssl_password" if encrypted else "is not encrypted but has a ssl_password"
        yield Problem(f"{where}: the key {reason}", "set or remove ssl_password")
    elif encrypted and _PBES2 in _der_of_key(text):
        yield Problem(f"{where}: the key is encrypted with PBES2, which Kafka's Java client cannot read", _PBES1_HINT)


def _der_of_key(text: str) -> bytes:
    """The bytes of the first encrypted key in a PEM file; empty if they are damaged."""
    body = text.partition("-----BEGIN ENCRYPTED PRIVATE KEY-----")[2].partition("-----")[0]
    try:
        return base64.b64decode("".join(body.split()))
    except ValueError:
        return b""
