"""One [kafka_client] table, two spellings: keywords of kafka-python, options of Spark's Kafka source.

Both hold secrets, which are masked in all that is shown from then on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exporter.kafka.kerberos import Kerberos, check_installed
from exporter.kafka.tokens.desk import DeskClient
from exporter.kafka.tokens.provider import provider_of
from exporter.secrets import jaas_text, keep_secret
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.model import Settings
from exporter.settings.pem import pem_text
from exporter.settings.table import revealed

_KEY_LINE = 16
"""Characters of a line of a key that is masked where it stands alone, too."""


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


def spark_kafka_options(settings: Settings) -> dict[str, str]:
    """The same as `kafka.`-prefixed options of Spark's Kafka source. Holds secrets."""
    client = settings.kafka_client
    keep_secret(revealed(client.sasl_plain_password), revealed(client.ssl_password))
    options = {"bootstrap.servers": ",".join(settings.brokers), "security.protocol": client.security_protocol}
    if client.tls:
        if client.ssl_cafile is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(client.ssl_cafile)}
        if client.ssl_certfile is not None:
            options |= {"ssl.keystore.type": "PEM", **_key_store(client.ssl_certfile, client.key_apart)}
        if client.ssl_password is not None:
            options["ssl.key.password"] = client.ssl_password.get_secret_value()
        if not client.ssl_check_hostname:
            options["ssl.endpoint.identification.algorithm"] = ""
    if client.by_token:
        options |= _by_token(provider_of(settings).asked())
    elif client.sasl_mechanism == "GSSAPI":
        options |= {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": client.sasl_kerberos_service_name}
        options["sasl.jaas.config"] = _kerberos_jaas(client)
    elif client.sasl:
        options |= {"sasl.mechanism": str(client.sasl_mechanism), "sasl.jaas.config": _jaas(client)}
    return {f"kafka.{name}": value for name, value in options.items()}


def _key_store(certificates: Path, key: Path | None) -> dict[str, str]:
    """Of a client in Java: it reads one file that holds all, or the texts of two. Raises ConfigError."""
    if key is None:
        return {"ssl.keystore.location": str(certificates)}
    text = pem_text(key)
    keep_secret(text, *(line for line in text.splitlines() if len(line) >= _KEY_LINE and "-----" not in line))
    return {"ssl.keystore.certificate.chain": pem_text(certificates), "ssl.keystore.key": text}


def _by_token(desk: DeskClient) -> dict[str, str]:
    """Of a client in the JVM, which asks this process for its tokens: the same, whatever they are made from."""
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{module} required desk={_quoted(desk.url)} password={_quoted(desk.key)};",
        "sasl.login.callback.handler.class": "exporter.KafkaTokens",
    }


def _kerberos(client: KafkaClient) -> Kerberos:
    """Raises ConfigError if its package is missing."""
    check_installed()
    return Kerberos(client.sasl_kerberos_service_name, client.sasl_kerberos_principal or "", _keytab(client))


def _keytab(client: KafkaClient) -> str:
    """As it can be found from any folder; empty without one."""
    return str(client.sasl_kerberos_keytab.absolute()) if client.sasl_kerberos_keytab else ""


def _kerberos_jaas(client: KafkaClient) -> str:
    keytab = _keytab(client)
    of = f"useKeyTab=true storeKey=true keyTab={_quoted(keytab)}" if keytab else "useTicketCache=true"
    who = f" principal={_quoted(client.sasl_kerberos_principal)}" if client.sasl_kerberos_principal else ""
    return f"com.sun.security.auth.module.Krb5LoginModule required doNotPrompt=true {of}{who};"


def _jaas(client: KafkaClient) -> str:
    """One entry of a JAAS file."""
    package = "plain.Plain" if client.sasl_mechanism == "PLAIN" else "scram.Scram"
    username, password = _quoted(client.sasl_plain_username), _quoted(revealed(client.sasl_plain_password))
    module = f"org.apache.kafka.common.security.{package}LoginModule"
    return f"{module} required username={username} password={password};"


def _quoted(text: str | None) -> str:
    """Quotes and backslashes are escaped as Java's StreamTokenizer reads them."""
    return f'"{jaas_text(text or "")}"'
