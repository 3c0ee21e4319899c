"""Tokens of MSK, against a signature that is computed by hand."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.kafka.tokens.msk import LIFE_SECS, Msk, region_of
from tests.support.sigv4 import query_of, signature_of, url_of

ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
CHAIN = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "DEFAULT_REGION", "REGION")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None of this machine's."""
    for name in CHAIN:
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.mark.parametrize("session", ["", "a session/token+with=all&of it"])
def test_a_token_is_a_signed_url(monkeypatch: pytest.MonkeyPatch, session: str) -> None:
    """Of the service, action, host, life and parameters that Amazon's own signers give it; the secret is not in it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    if session:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session)
    token = Msk("eu-west-1").new()
    url = url_of(token.value)
    query = query_of(url)
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?") and "=" not in token.value
    signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    assert abs(signed.timestamp() + LIFE_SECS - token.expires) <= 2 and abs(signed.timestamp() - time.time()) < 30
    wanted = {
        "Action": "kafka-cluster:Connect", "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Expires": "900",
        "X-Amz-Credential": f"{ID}/{signed:%Y%m%d}/eu-west-1/kafka-cluster/aws4_request",
        "X-Amz-Date": query["X-Amz-Date"], "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": signature_of(url, SECRET), "User-Agent": "kafka-delta-exporter",
    }  # fmt: skip
    assert query == wanted | ({"X-Amz-Security-Token": session} if session else {})
    assert signature_of(url, SECRET + "x") != query["X-Amz-Signature"] and SECRET not in url


def test_the_region_is_that_of_the_brokers_names() -> None:
    """Else the one of AWS's settings, or of ours; a cluster behind other names may be anywhere."""
    assert region_of(["b-1.us.abc12.c2.kafka.eu-west-1.amazonaws.com:9098"]) == "eu-west-1"
    assert region_of(["boot-x1.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098"]) == "us-gov-west-1"
    assert region_of(["b-1.us.abc12.c2.kafka.cn-north-1.amazonaws.com.cn:9098"]) == "cn-north-1"
    assert region_of(["10.0.0.1:9098", "kafka.example.com:9098"]) == ""


def test_without_a_region_or_keys_it_is_told_what_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose setting it is, and where keys come from."""
    with pytest.raises(ConfigError, match="region") as told:
        Msk("").new()
    assert "sasl_aws_region" in told.value.hint
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with pytest.raises(ConfigError, match="no keys of AWS"):
        Msk("").new()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert "eu-west-1" in url_of(Msk("").new().value)
    monkeypatch.setenv("AWS_PROFILE", "nobody's")
    with pytest.raises(DependencyUnreachable, match="gives no keys"):
        Msk("").new()


def test_a_token_ends_with_the_keys_that_signed_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Brokers refuse it after that, whatever it says."""
    ends = datetime.fromtimestamp(int(time.time()) + 300, timezone.utc)
    answer = {"Version": 1, "AccessKeyId": ID, "SecretAccessKey": SECRET, "SessionToken": "t"}
    (tmp_path / "keys.json").write_text(json.dumps(answer | {"Expiration": ends.isoformat()}))
    Path(tmp_path / "AWS_CONFIG_FILE").write_text(f"[default]\ncredential_process = cat {tmp_path}/keys.json\n")
    assert Msk("eu-west-1").new().expires == ends.timestamp()
