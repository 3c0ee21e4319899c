"""`exporter prepare`: for which store, and what it fetches and makes for that."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.operate import prepare
from exporter.spark import class_data, jars, java_classes


@pytest.mark.parametrize(
    "flags, sets, compiled", [([], [], []), (["--for", "s3"], ["s3"], ["s3"]), (["--for", "gcs"], ["gcs"], [])]
)
def test_a_store_s_jars_are_fetched_and_its_classes_compiled_only_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: list[str], sets: list[str], compiled: list[str]
) -> None:
    """One archive serves all: it is made once, and what is there already is not made again."""
    fetched: list[str] = []
    made: list[str] = []

    def child(code: str, argument: str) -> None:
        if code == prepare._TRAIN:
            Path(argument).write_bytes(b"classes")
        else:
            made.append(argument)

    home = tmp_path / "home"
    monkeypatch.setattr(jars, "fetch", lambda *names: fetched.extend(names))
    monkeypatch.setattr(class_data, "home", lambda: home)
    monkeypatch.setattr(class_data, "link", lambda folder: folder.mkdir())
    monkeypatch.setattr(class_data, "note", lambda folder: None)
    monkeypatch.setattr(class_data, "is_whole", lambda folder: (folder / class_data.ARCHIVE).exists())
    monkeypatch.setattr(java_classes, "cached", lambda java: bool(made))
    monkeypatch.setattr(prepare, "_child", child)
    for words in ("made", "nothing to do"):
        ran = CliRunner().invoke(cli, ["prepare", *flags])
        assert ran.exit_code == 0 and ran.output.strip() == f"{words}: {home}"
    assert fetched == ["spark", *sets] * 2 and made == compiled


def test_a_store_that_there_is_no_set_for_is_no_choice() -> None:
    """Such as HDFS, which Spark brings along."""
    assert CliRunner().invoke(cli, ["prepare", "--for", "hdfs"]).exit_code == 2


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("java.net.UnknownHostException: vm: Name or service not known\n\tat java.base/x\nexporter.errors.JvmEnded: "
         "the JVM has ended\n  hint: start again", "java.net.UnknownHostException: vm: Name or service not known"),
        ("Traceback\nRuntimeError: there is no room\n  hint: make some\n", "RuntimeError: there is no room"),
        ("  hint: try again\n", "no word of why"), ("", "no word of why"),
    ],
)  # fmt: skip
def test_what_ended_a_child_is_told_and_no_hint(said: str, cause: str) -> None:
    """Its last line is one, for something else."""
    assert prepare._cause(said) == cause
