"""[kafka_client] as keywords of kafka-python. They hold secrets, which are masked in all that is shown from then on."""

from __future__ import annotations

from typing import Any

from exporter.kafka.kerberos import Kerberos, check_installed
from exporter.kafka.tokens.provider import provider_of
from exporter.secrets import keep_secret
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.model import Settings
from exporter.settings.table import revealed


def kafka_python_options(settings: Settings) -> dict[str, Any]:
    """Keywords for kafka-python's clients: bootstrap servers and security. Holds secrets."""
    client = settings.kafka_client
    keep_secret(revealed(client.sasl_plain_password), revealed(client.ssl_password))
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.brokers),
        "security_protocol": client.security_protocol,
    }
    if client.tls:
        options["ssl_check_hostname"] = client.ssl_check_hostname
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            if getattr(client, name) is not None:
                options[name] = str(getattr(client, name))
        if client.ssl_password is not None:
            options["ssl_password"] = revealed(client.ssl_password)
    if client.by_token:
        options |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider_of(settings)}
    elif client.sasl_mechanism == "GSSAPI":
        options |= {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": _kerberos(client)}
    elif client.sasl:
        options["sasl_mechanism"] = client.sasl_mechanism
        options["sasl_plain_username"] = client.sasl_plain_username
        options["sasl_plain_password"] = revealed(client.sasl_plain_password)
    return options


def reading_options(settings: Settings) -> dict[str, Any]:
    """The same for who reads records (fetch/), with the rack that it reads in. Holds secrets."""
    rack = settings.kafka_client.client_rack
    return kafka_python_options(settings) | ({"client_rack": rack} if rack else {})


def _kerberos(client: KafkaClient) -> Kerberos:
    """Raises ConfigError if its package is missing."""
    check_installed()
    return Kerberos(client.sasl_kerberos_service_name, client.sasl_kerberos_principal or "", _keytab(client))


def _keytab(client: KafkaClient) -> str:
    """As it can be found from any folder; empty without one."""
    return str(client.sasl_kerberos_keytab.absolute()) if client.sasl_kerberos_keytab else ""
