"""Whether a broker listens, TLS trust and the SASL login, with one connection of our own, before any client tries.

    TCP ── TLS handshake ── SaslHandshake ─┬─ SaslAuthenticate ...   SASL_SSL, without TLS SASL_PLAINTEXT
                                           └─ refused, as it should   SSL: only now a broker that wants one says that
                                                                      it has seen no certificate of ours

Both clients report a wrong password, an unknown authority and a wrong host name in the same way: after half a minute
no broker has answered. Nothing is sent before the TLS handshake is over. Messages never hold a secret.
Source: the Kafka protocol (SaslHandshake 1, SaslAuthenticate 0, request header 1); RFC 5802 for SCRAM.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from exporter.errors import BrokerSilent, ConfigError, DependencyUnreachable
from exporter.kafka.tokens.msk import NAME as MSK_NAME
from exporter.kafka.tokens.provider import Provider

CONNECT_SECS_MAX = 10.0
KNOCK_SECS, PAUSE_SECS = 2.0, 0.2
"""For so long brokers may refuse connections: one that starts again does for a moment."""
ANSWER_BYTES_MAX = 1 << 20

_SIZE = struct.Struct(">i")
UNSUPPORTED_MECHANISM, ILLEGAL_STATE = 33, 34

_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_OTHER_TIME = (9, 10)
"""OpenSSL's codes of a certificate that is not valid yet, and of one that has expired."""
_HINT_PASSWORD = (
    "check [kafka_client] sasl_plain_username and sasl_plain_password, and that the user has this mechanism"
)
_HINT_TOKEN = "the brokers should trust who issues these tokens: check their issuer, audience and scope, and all clocks"
_HINT_KEYS = "check whether they allow kafka-cluster:Connect, [kafka_client] sasl_aws_region, and this machine's clock"
_HINT_TICKET = "check [kafka_client] sasl_kerberos_principal and _keytab, or klist, and the names in `brokers`"
_HINT_PORT = "check the port in `brokers`, and [kafka_client] security_protocol"


@dataclass(frozen=True)
class Greeting:
    """A broker that took us in. tls: version, empty without. expires: its certificate, UTC. user: empty without."""

    broker: str
    tls: str = ""
    expires: datetime | None = None
    user: str = ""


def knock(brokers: Sequence[str]) -> None:
    """Raises BrokerSilent if all brokers refuse connections, or have no address: clients would try for half a minute.

    brokers: host:port. One that gives no answer at all is left to the clients.
    """
    deadline = time.monotonic() + KNOCK_SECS
    while reasons := _refusals(brokers):
        if time.monotonic() >= deadline:
            told = "; ".join(f"{broker}: {reason}" for broker, reason in zip(brokers, reasons, strict=True))
            raise BrokerSilent(f"no broker answers at {told}", "check `brokers`, and that they run")
        time.sleep(PAUSE_SECS)


def _address(broker: str) -> tuple[str, int]:
    """Host and port; an IPv6 address without its brackets."""
    host, _, port = broker.rpartition(":")
    return host.strip("[]"), int(port)


def _refusals(brokers: Sequence[str]) -> list[str]:
    """Why each refuses; empty if one does not."""
    reasons = []
    for broker in brokers:
        try:
            socket.create_connection(_address(broker), timeout=KNOCK_SECS).close()
        except ConnectionRefusedError:
            reasons.append("connection refused")
        except socket.gaierror:
            reasons.append("its name does not resolve")
        except OSError:
            return []
        else:
            return []
    return reasons


def probe_login(options: Mapping[str, Any]) -> Greeting | None:
    """The first broker that takes us in. options: keywords of kafka-python's clients.

    A token is got first, so that what keeps it away is told as that. None if none could be reached, or if no security
    is asked for: then the clients tell. Raises ConfigError for what a broker, or we, refuse, and DependencyUnreachable
    for one that hangs up.
    """
    if options.get("security_protocol", "PLAINTEXT") == "PLAINTEXT":
        return None
    if provider := options.get("sasl_oauth_token_provider"):
        provider.giving.current()
    refused: ConfigError | DependencyUnreachable | None = None
    for broker in options["bootstrap_servers"]:
        try:
            return _greet(broker, options)
        except (ConfigError, DependencyUnreachable) as error:
            refused = refused or error
        except (OSError, EOFError):
            continue
    if refused is not None:
        raise refused
    return None


def _greet(broker: str, options: Mapping[str, Any]) -> Greeting:
    """Raises OSError if it cannot be reached at all, else as probe_login()."""
    (host, port), protocol = _address(broker), options["security_protocol"]
    context = _context(options) if protocol in ("SSL", "SASL_SSL") else None
    with closing(socket.create_connection((host, port), timeout=CONNECT_SECS_MAX)) as plain:
        if context is None:
            return Greeting(broker, user=_log_in(plain, broker, host, options))
        try:
            with context.wrap_socket(plain, server_hostname=host.rstrip(".")) as secure:
                user = ""
                if protocol == "SASL_SSL":
                    user = _log_in(secure, broker, host, options)
                elif _handshake(secure, "PLAIN")[0] != ILLEGAL_STATE:
                    hint = "[kafka_client] needs security_protocol = SASL_SSL, sasl_mechanism, user name and password"
                    raise ConfigError(f"{broker} asks for a login", hint)
                return Greeting(broker, secure.version() or "", _expires(secure), user)
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(broker, host, error) from None
        except ssl.SSLError as error:
            raise _no_tls(broker, error) from None
        except (EOFError, ConnectionError) as error:
            raise _hung_up(broker) from error


def _context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """A TLS context as kafka-python makes it: 1.2 or later, always with a certificate. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = options.get("ssl_check_hostname", True)
    authorities, own = options.get("ssl_cafile"), options.get("ssl_certfile")
    try:
        if authorities:
            context.load_verify_locations(authorities)
        else:
            context.load_default_certs()
    except OSError as error:
        raise ConfigError(f"ssl_cafile {authorities} cannot be used: {_reason(error)}", "give a PEM file") from None
    try:
        if own:
            context.load_cert_chain(own, options.get("ssl_keyfile"), options.get("ssl_password"))
    except OSError as error:
        hint = "it should hold a key and its certificate, and `ssl_password` be the key's"
        raise ConfigError(f"ssl_certfile {own} cannot be used: {_reason(error)}", hint) from None
    return context


def _untrusted(broker: str, host: str, error: ssl.SSLCertVerificationError) -> ConfigError:
    """The error where we refuse the broker."""
    if error.verify_code in _OTHER_NAME:
        return ConfigError(
            f"the certificate of {broker} is not one for {host}: {error.verify_message}",
            "name the broker in `brokers` as in its certificate (advertised.listeners too); "
            "`ssl_check_hostname = false` gives that protection up",
        )
    if error.verify_code in _OTHER_TIME:
        hint = "renew it, or correct this machine's clock"
        return ConfigError(f"the certificate of {broker} is not valid now: {error.verify_message}", hint)
    return ConfigError(
        f"the certificate of {broker} is not trusted: {error.verify_message}",
        "[kafka_client] ssl_cafile must hold the authority that signed the brokers' certificates",
    )


def _no_tls(broker: str, error: ssl.SSLError) -> ConfigError | DependencyUnreachable:
    """The error where the broker refuses us, or where what answers is no broker."""
    reason = error.reason or ""
    if "ALERT" in reason and "VERSION" not in reason:
        hint = "[kafka_client] ssl_certfile must hold a certificate (and its key) that the brokers trust"
        return ConfigError(f"{broker} refuses the TLS connection: {_reason(error)}", hint)
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or not reason:
        return _hung_up(broker)
    return ConfigError(f"{broker} does not speak TLS as we do: {_reason(error)}", _HINT_PORT)


def _hung_up(broker: str) -> DependencyUnreachable:
    return DependencyUnreachable(f"{broker} ended the TLS connection: it may speak no TLS", _HINT_PORT)


def _reason(error: OSError) -> str:
    text = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(text).lower().replace("_", " ")


def _expires(secure: ssl.SSLSocket) -> datetime | None:
    """When the broker's certificate ends."""
    ends = (secure.getpeercert() or {}).get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), timezone.utc) if isinstance(ends, str) else None


def _log_in(connection: socket.socket, broker: str, host: str, options: Mapping[str, Any]) -> str:
    """Prove who we are; the user's name. Raises ConfigError."""
    from kafka.errors import KafkaError
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.sasl import SaslAuthenticateRequest

    mechanism, (user, hint) = str(options["sasl_mechanism"]), _who(options)
    code, offered = _handshake(connection, mechanism)
    if code == UNSUPPORTED_MECHANISM:
        told = f"{broker} offers no {mechanism}, only {', '.join(offered)}"
        raise ConfigError(told, "correct [kafka_client] sasl_mechanism")
    if code:
        what = "no login is asked for there" if code == ILLEGAL_STATE else f"error code {code}"
        raise ConfigError(f"{broker} refuses to begin a login: {what}", _HINT_PORT)
    refused = f"{broker} refuses the login of {user!r} with {mechanism}"
    try:
        login = get_sasl_mechanism(mechanism)(host=host, **options)
    except KafkaError as error:  # of Kerberos
        raise _no_ticket(broker, user, str(error.args[0])) from None
    while not login.is_done():
        answer = _ask(connection, SaslAuthenticateRequest[0](auth_bytes=login.auth_bytes()))
        if code := answer.error_code:
            raise ConfigError(f"{refused}: {answer.error_message or f'error code {code}'}", hint)
        try:
            login.receive(answer.auth_bytes or b"")
        except (ValueError, KeyError) as error:  # SCRAM: the broker, too, proves that it knows the password
            raise ConfigError(f"{refused}: its answer is not that of a broker that knows the user", hint) from error
    if not login.is_authenticated():
        raise ConfigError(refused, hint)
    return user


def _who(options: Mapping[str, Any]) -> tuple[str, str]:
    """Who logs in, and what to do if that is refused."""
    provider: Provider | None = options.get("sasl_oauth_token_provider")
    if provider is not None:
        return provider.giving.name, _HINT_KEYS if provider.giving.name == MSK_NAME else _HINT_TOKEN
    if options["sasl_mechanism"] == "GSSAPI":
        return options["sasl_kerberos_service_name"].principal or "the owner of the ticket", _HINT_TICKET
    return str(options["sasl_plain_username"]), _HINT_PASSWORD


def _no_ticket(broker: str, user: str, why: str) -> ConfigError | DependencyUnreachable:
    """The error where Kerberos gives none."""
    what = f"Kerberos gives {user} no ticket for {broker}: {why}"
    if "Cannot contact any KDC" in why:
        return DependencyUnreachable(what, "check the realm's KDC in krb5.conf (KRB5_CONFIG), and that it runs")
    return ConfigError(what, _HINT_TICKET)


def _handshake(connection: socket.socket, mechanism: str) -> tuple[int, list[str]]:
    """The error code, and the mechanisms that the broker offers."""
    from kafka.protocol.sasl import SaslHandshakeRequest

    answer = _ask(connection, SaslHandshakeRequest[1](mechanism=mechanism))
    return answer.error_code, answer.mechanisms


def _ask(connection: socket.socket, request: Any) -> Any:
    """The answer, as kafka-python has both. Raises EOFError or OSError."""
    request.with_header(correlation_id=1, client_id=None)
    connection.sendall(request.encode(framed=True, header=True))
    (size,) = _SIZE.unpack(_exactly(connection, _SIZE.size))
    if not 4 <= size <= ANSWER_BYTES_MAX:
        raise EOFError(f"an answer of {size} bytes is none of Kafka's")
    return request.header.get_response_class().decode(_exactly(connection, size), header=True)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise EOFError("the connection ended")
        found += part
    return found
