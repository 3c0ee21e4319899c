"""What `exporter check` says of the machine before Spark is asked: the port, and where the tables are to be."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.finding import Finding
from exporter.kafka.login import Greeting
from exporter.monitor.health import Health, HealthServer
from exporter.monitor.watch import Watch
from exporter.operate.check.check import _port, _security, _storage
from exporter.settings.load import load
from exporter.settings.model import Settings
from tests.support.settings import written
from tests.support.snapshots import snapshot


def settings(root: Path, port: int = 0, table_root: Path | None = None) -> Settings:
    path = written(root, '[types.click]\ncolumns = "id BIGINT"\n')
    return load(path, {"app": "app", "table_root": str(table_root or root / "lake"), "http_port": str(port)}, {})


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens, who answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        yield listener.getsockname()[1]


def test_a_taken_port_is_found(tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By listening there, as the task would."""
    monkeypatch.setattr("exporter.operate.status.ANSWER_SECS", 0.2)
    (found,) = _port(settings(tmp_path, taken))
    assert (found.what, found.level) == ("http_port", "error")
    assert f"cannot listen on 127.0.0.1:{taken}: " in found.says and "`http_port`" in found.hint


def test_the_port_of_a_task_of_the_same_app_is_no_error(tmp_path: Path) -> None:
    """`check` may be asked while the task runs; of another app's it is one."""
    watch = Watch("app", "me")
    watch.snapshot = snapshot(app="app")
    server = HealthServer("127.0.0.1", 0, Health(watch, 1.0))
    try:
        (found,) = _port(settings(tmp_path, server.port))
        assert found.level == "warn" and "a task of this app serves" in found.says
        watch.snapshot = snapshot(app="other")
        (found,) = _port(settings(tmp_path, server.port))
        assert found.level == "error"
    finally:
        server.close()


def test_a_free_port_and_none_are_not_worth_a_line(tmp_path: Path) -> None:
    """Nothing is left listening."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for one in (0, port, port):
        assert [*_port(settings(tmp_path, one))] == []


def test_a_root_that_is_a_file_is_found(tmp_path: Path) -> None:
    """`os.access` takes it for writable."""
    (tmp_path / "lake").write_text("no folder")
    (found,) = _storage(settings(tmp_path))
    assert (found.what, found.level) == ("table_root", "error")
    assert "lake is a file" in found.says


def test_a_root_that_cannot_be_written_is_found_by_trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever this process runs as, and whatever the permissions say; nothing of the trial stays."""
    (tmp_path / "lake").mkdir()
    assert [*_storage(settings(tmp_path))] == [Finding("table_root", "ok", str(tmp_path / "lake"))]
    assert [*(tmp_path / "lake").iterdir()] == []

    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.link", refuse)
    (found,) = _storage(settings(tmp_path))
    assert found.level == "error" and found.says.endswith("lake: Permission denied")
    assert [*(tmp_path / "lake").iterdir()] == []


def test_files_where_tables_have_to_be_are_all_named(tmp_path: Path) -> None:
    """The folder of a table, and that of a log."""
    (tmp_path / "lake" / "click").mkdir(parents=True)
    for path in ("order", "click/_delta_log", "dead_letters"):
        (tmp_path / "lake" / path).write_text("no folder")
    found = [*_storage(settings(tmp_path))]
    assert [one.level for one in found] == ["ok", "error", "error", "error"]
    for name in ("table order", "table click", "table dead_letters"):
        assert any(name in one.says for one in found)


@pytest.mark.parametrize(("url", "warned"), [("http://auth:8080/token", True), ("https://auth/token", False)])
def test_a_secret_that_goes_out_in_the_clear_is_warned_of(tmp_path: Path, url: str, warned: bool) -> None:
    """To the token endpoint, whatever the brokers speak."""
    plain = settings(tmp_path)
    lines = ["[kafka_client]", 'security_protocol = "SASL_SSL"', 'sasl_mechanism = "OAUTHBEARER"',
             f'sasl_oauth_token_url = "{url}"', 'sasl_oauth_client_id = "us"',
             'sasl_oauth_client_secret = "s"']  # fmt: skip
    assert plain.file is not None
    plain.file.write_text("\n".join([plain.file.read_text(), *lines]))
    found = [*_security(load(plain.file, {}, {}), Greeting("b:1", "TLSv1.3"))]
    assert any(one.level == "warn" and "to the token endpoint" in one.says for one in found) == warned
