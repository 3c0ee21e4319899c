"""Tokens as kafka-python's clients ask for them: on each connection, and before the broker would end its session."""

from __future__ import annotations

import functools
import socket
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from exporter.errors import ExporterError
from exporter.kafka.tokens.desk import LOOPBACK, DeskClient, desk
from exporter.kafka.tokens.endpoint import ClientCredentials
from exporter.kafka.tokens.function import OfFunction
from exporter.kafka.tokens.msk import Msk, region_of
from exporter.kafka.tokens.tokens import Tokens, TokenSource
from exporter.secrets import keep_secret
from exporter.settings.model import Settings
from exporter.settings.table import revealed


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    """giving: tokens of this process, or of the desk of another one."""

    def __init__(self, giving: Tokens | DeskClient, host: str = LOOPBACK) -> None:
        super().__init__()
        self.giving, self._host = giving, host

    def token(self) -> str:
        """As kafka-python takes it, in the thread of its connections: an outage is one of the broker to it."""
        try:
            return self.giving.current().value
        except ExporterError as error:
            raise KafkaConnectionError(error.message) from None

    def asked(self) -> DeskClient:
        """The same for other processes."""
        return self.giving if isinstance(self.giving, DeskClient) else desk(self.giving, self._host)

    def __reduce__(self) -> tuple[Any, ...]:
        return Provider, (self.asked(),)

    def __eq__(self, other: object) -> bool:
        """Whether their tokens are the same ones: a connection that has logged in by one of them serves the other."""
        return isinstance(other, Provider) and self.giving == other.giving

    def __hash__(self) -> int:
        return hash(type(self))


def provider_of(settings: Settings) -> Provider:
    """The one of [kafka_client]; all of these settings share their tokens."""
    return Provider(_tokens(_source(settings)), _host(settings))


@functools.cache
def _tokens(source: TokenSource) -> Tokens:
    return Tokens(source)


def _source(settings: Settings) -> TokenSource:
    client = settings.kafka_client
    if client.sasl_mechanism == "AWS_MSK_IAM":
        return Msk(client.sasl_aws_region or region_of(settings.brokers))
    if client.sasl_oauth_function:
        return OfFunction(client.sasl_oauth_function)
    secret = revealed(client.sasl_oauth_client_secret) or ""
    keep_secret(secret)
    cafile = str(client.sasl_oauth_cafile or "")
    return ClientCredentials(
        client.sasl_oauth_token_url or "", client.sasl_oauth_client_id or "", secret, client.sasl_oauth_scope or "",
        client.sasl_oauth_audience or "", cafile,
    )  # fmt: skip


def _host(settings: Settings) -> str:
    """Where executors reach this process."""
    if settings.deployment.is_local:
        return LOOPBACK
    return settings.driver_host or socket.gethostbyname(socket.gethostname())
