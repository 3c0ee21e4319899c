"""Logins of MSK: a whole export with keys of AWS, against a broker that judges each signature."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.local.broker import create_topic
from tests.support.certificates import Authority
from tests.support.lakes import Export, mixed, wrong_places
from tests.support.msk import Judge, Msk, judging
from tests.support.services import produce
from tests.support.typed import Typed

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("logins")]

ID, SECRET = "AKIDOFOURS", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def test_a_whole_export_with_keys_of_aws(
    tmp_path: Path, spark: Any, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By all clients; other keys are refused at once, with a hint, and no secret is told."""
    ours = Authority(tmp_path, "ours")
    with judging(Judge({ID: SECRET})) as judge, Msk(judge, spark, ours, tmp_path) as broker:
        create_topic(broker.bootstrap, "events", 2)
        produce(broker.bootstrap, "events", {0: mixed(30), 1: mixed(5)})
        lines = f"""security_protocol = "SASL_SSL"
ssl_cafile = "{ours.ca}"
sasl_mechanism = "AWS_MSK_IAM"
sasl_aws_region = "eu-west-1"
"""
        (tmp_path / "export").mkdir()
        e = Export(broker.login, "events", tmp_path / "export", "export-us", kafka_client=lines)
        said = []
        for verb, *flags in (("run", "--until-caught-up"), ("audit",), ("check",)):
            code, text = typed(verb, e, *flags)
            assert code == 0, text
            said.append(text)
        assert wrong_places(replace(e, kafka=broker.bootstrap)) == {}
        assert len(judge.tokens) > 5 and len(set(judge.tokens)) == 1
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET + "x")
        lines = lines.replace("eu-west-1", "eu-west-2")  # another source: the first one's token is good for minutes
        began = time.monotonic()
        code, text = typed("offsets", replace(e, kafka_client=lines))
        assert time.monotonic() - began < 3 and code == 2, text
        assert "refuses the login of AWS's standard chain" in text.replace("\"", "") and "kafka-cluster:Connect" in text
    files = [path for path in (tmp_path / "export").rglob("*") if path.is_file()]
    said += [text, *(path.read_bytes().decode("latin-1") for path in files)]
    assert [one for one in said for secret in (SECRET, judge.tokens[0]) if secret in one] == []
