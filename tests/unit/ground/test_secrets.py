"""What is shown holds no secret, however it was quoted on the way."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest

from exporter.cli import main as cli
from exporter.cli.telling import in_a_thread
from exporter.errors import ConfigError
from exporter.kafka.options import kafka_python_options
from exporter.log import configure, get_logger
from exporter.log_events import Event
from exporter.secrets import MASK, jaas_text, keep_secret, masked
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.model import Settings

SECRET = 'pä\\ss "word", x'


def test_whoever_hands_a_secret_to_a_client_has_it_masked() -> None:
    """Plainly, in JAAS, in JSON, in Python's repr, and in JSON of JAAS."""
    client = KafkaClient(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_plain_username="me", sasl_plain_password=SECRET
    )
    settings = Settings.model_construct(brokers=("k:1",), kafka_client=client)
    given = kafka_python_options(settings)
    jaas = f'X required username="me" password="{jaas_text(SECRET)}";'
    for text in (SECRET, jaas, json.dumps(jaas), json.dumps(SECRET), repr(SECRET), repr(given), json.dumps([jaas])):
        shown = masked(f"before {text} after")
        assert "word" not in shown.replace("password", "") and MASK in shown, shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('X required username="u" password="a \\" b"; c', f'X required username="u" password="{MASK}"; c'),
        ('{"m": "u password=\\"a b\\"; c"}', f'{{"m": "u password=\\"{MASK}\\"; c"}}'),
        ("{ssl.key.password=abc, x=y}", f"{{ssl.key.password={MASK}, x=y}}"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIB\\n-----END", f"-----BEGIN PRIVATE KEY-----{MASK}-----END"),
        ("check sasl_plain_password, please", "check sasl_plain_password, please"),
    ],
)
def test_a_password_that_nobody_registered_is_masked_where_options_are_shown(text: str, shown: str) -> None:
    """Also one that is too short to be looked for everywhere."""
    keep_secret("a", None)
    assert masked(text) == shown


def test_logs_errors_and_tracebacks_are_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field, a library's line at whatever level, an error of ours, and what nobody foresaw, in whatever thread."""
    keep_secret(SECRET)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    configure(json=True)
    logging.captureWarnings(False)
    get_logger("exporter.test").warning(Event.ROUND_FAILED, error=f"options {SECRET}")
    logging.getLogger("kafka.net").error("configuration: %s", {"sasl_plain_password": SECRET})

    def refused() -> None:
        raise ConfigError(f"not {SECRET}", "no")

    assert cli._exit_code(refused) == 2

    def unforeseen() -> None:
        raise ValueError(SECRET)

    assert cli._exit_code(unforeseen) == 1
    monkeypatch.setattr(threading, "excepthook", in_a_thread)
    thread = threading.Thread(target=unforeseen)
    thread.start()
    thread.join(10)
    out, err = capsys.readouterr()
    assert out == "" and err.count(MASK) == 5 and "ValueError" in err, err
    assert "word" not in err.replace("sasl_plain_password", "").replace(str(Path(__file__).parents[3]), ""), err
