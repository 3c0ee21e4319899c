"""Tokens for Amazon's managed Kafka (MSK), with the keys of AWS's standard chain.

A token is a URL that asks for kafka-cluster:Connect, signed as Signature Version 4 has it in a query, in base64 without
padding; who asks is told in a parameter behind the signature. Source: Amazon's guide to IAM access control for MSK, and
its signers for clients that speak OAUTHBEARER.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from exporter import aws
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.kafka.tokens.tokens import Token
from exporter.text import first_line

LIFE_SECS = 900
"""The most that brokers take."""
SERVICE = "kafka-cluster"
NAME = "AWS's standard chain"
"""Whose keys they are: only AWS knows who that is."""
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?(?::\d+)?$")
_HINT = "AWS's standard chain should give keys: environment, profile, web identity, or the machine's role"


def region_of(brokers: Sequence[str]) -> str:
    """The region that the names of a cluster's brokers say; empty if they are other names."""
    found = {match[1] for broker in brokers if (match := _REGION.search(broker))}
    return found.pop() if len(found) == 1 else ""


@dataclass(frozen=True)
class Msk:
    """region: of the cluster; empty: the one of AWS's settings on this machine."""

    region: str

    @property
    def name(self) -> str:
        return NAME

    def new(self) -> Token:
        """Raises ConfigError where there are no keys or no region, DependencyUnreachable where none come now."""
        from botocore.exceptions import BotoCoreError  # 0.1 s

        try:
            session = aws.session()
            region = self.region or session.get_config_variable("region")
            if not region:
                raise ConfigError("the region of the Kafka cluster is not known", "set [kafka_client] sasl_aws_region")
            credentials = session.get_credentials()
            if credentials is None:
                raise ConfigError("there are no keys of AWS to log in to Kafka with", _HINT)
            keys = credentials.get_frozen_credentials()
        except BotoCoreError as error:
            what = f"AWS gives no keys to log in to Kafka with: {first_line(error)}"
            raise DependencyUnreachable(what, _HINT) from None
        ends = int(time.time()) + LIFE_SECS
        return Token(_encoded(signed_url(keys, region)), min(ends, getattr(credentials, "expires", ends)))


def signed_url(keys: Any, region: str) -> str:
    """Of keys as botocore has them."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    url = f"https://kafka.{region}.amazonaws.com/?Action={quote(f'{SERVICE}:Connect', safe='')}"
    request = AWSRequest("GET", url)
    SigV4QueryAuth(keys, SERVICE, region, expires=LIFE_SECS).add_auth(request)
    return str(request.url)


def _encoded(url: str) -> str:
    return base64.urlsafe_b64encode(f"{url}&User-Agent=kafka-delta-exporter".encode()).rstrip(b"=").decode()
