"""The prepared Spark home: what its name depends on, how it is filled, when it is taken."""

from __future__ import annotations

import os
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

from exporter.spark import class_data, jars
from exporter.spark.jars import Jar
from exporter.stores import kept


def jar(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pyspark of two jars and a script, a Java of a release, one jar of our own. b.jar is signed."""
    pyspark = tmp_path / "pyspark"
    for folder in ("jars", "bin"):
        (pyspark / folder).mkdir(parents=True)
    (pyspark / "bin" / "spark-submit").touch()
    (pyspark / "bin" / "spark-class").write_text('CMD=(printf "%s " "$@")\nexec "${CMD[@]}"\n')
    (pyspark / "bin" / "spark-class").chmod(0o755)
    jar(pyspark / "jars" / "a.jar", "A.class")
    jar(pyspark / "jars" / "b.jar", "META-INF/MANIFEST.MF", "META-INF/B.SF", "META-INF/B.RSA", "B.class")
    jar(pyspark / "jars" / "spark-mllib_2.13-4.0.5.jar", "Learns.class")
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    jar(tmp_path / "delta-1.jar", "Delta.class")
    monkeypatch.setenv("EXPORTER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(class_data, "_pyspark", lambda: pyspark)
    monkeypatch.setattr(jars, "find_java", lambda: java)
    monkeypatch.setattr(jars, "listed", lambda _: (Jar("spark", "io", "delta", "1", "0" * 64),))
    monkeypatch.setattr(jars, "jar_paths", lambda _: [tmp_path / "delta-1.jar"])
    return tmp_path


def test_another_java_or_another_jar_is_another_home(installed: Path) -> None:
    """An archive is never offered to a JVM or a class path that it was not made with."""
    homes = [class_data.home(), class_data.home()]
    (installed / "pyspark/jars/c.jar").touch()
    homes.append(class_data.home())
    (installed / "java/release").write_text('JAVA_VERSION="17.0.2"\n')
    homes.append(class_data.home())
    assert homes[0] == homes[1]
    assert len(set(homes)) == 3


def test_a_home_holds_the_jars_of_spark_and_ours(installed: Path) -> None:
    """Two processes that make it at once both find it whole, and nothing else is left."""
    home = class_data.home()
    home.parent.mkdir(parents=True)
    both = [threading.Thread(target=class_data.link, args=(home,)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    found = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    assert found == ["bin/spark-class", "bin/spark-submit", "jars/a.jar", "jars/b.jar", "jars/delta-1.jar"]
    assert list(home.parent.iterdir()) == [home]


def test_a_start_has_all_words_but_the_module_that_java_would_warn_of(installed: Path) -> None:
    """Which is of use to machine learning only; words with blanks stay whole, and the script can still be run."""
    home = class_data.home()
    home.parent.mkdir(parents=True)
    class_data.link(home)
    words = ["--add-modules=jdk.incubator.vector", "-Da=b c", "--add-modules=other", "Main"]
    done = subprocess.run(["bash", home / "bin" / "spark-class", *words], capture_output=True, text=True, check=True)
    assert done.stdout == "-Da=b c --add-modules=other Main "
    assert os.access(home / "bin" / "spark-class", os.X_OK)


def test_a_signed_jar_loses_its_signatures_and_nothing_else(installed: Path) -> None:
    """Java would archive none of its classes; what pip brought stays as it is."""
    home = class_data.home()
    home.parent.mkdir(parents=True)
    class_data.link(home)
    with zipfile.ZipFile(home / "jars" / "b.jar") as unsigned:
        assert {name: unsigned.read(name).decode() for name in unsigned.namelist()} == {
            name: name for name in ("META-INF/MANIFEST.MF", "B.class")
        }
    with zipfile.ZipFile(installed / "pyspark" / "jars" / "b.jar") as signed:
        assert len(signed.namelist()) == 4
    assert (home / "jars" / "a.jar").stat().st_ino == (installed / "pyspark" / "jars" / "a.jar").stat().st_ino


def test_only_a_home_with_its_archive_is_taken(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none at all where SPARK_HOME names another Spark."""
    home = class_data.home()
    home.parent.mkdir(parents=True)
    class_data.link(home)
    assert class_data.ready() is None
    (home / class_data.ARCHIVE).write_bytes(b"classes")
    assert class_data.ready() is None, "nor one that is still being made"
    class_data.note(home)
    assert class_data.ready() == home
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert class_data.ready() == home
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert class_data.ready() is None


@pytest.mark.parametrize("name", [class_data.ARCHIVE, "jars/b.jar", "bin/spark-class", "jars/a.jar"])
@pytest.mark.parametrize("damage", ["emptied", "gone", "zeros"])
def test_a_damaged_home_is_not_taken_and_is_made_again(
    installed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    """A power cut is nobody's trouble: a start does without the home, `prepare` makes it anew."""
    monkeypatch.setattr(kept, "BOOT_ID", installed / "boot_id")
    home = class_data.home()

    def made() -> None:
        home.parent.mkdir(parents=True, exist_ok=True)
        class_data.clear(home)
        class_data.link(home)
        (home / class_data.ARCHIVE).write_bytes(b"classes")
        class_data.note(home)

    made()
    (installed / "boot_id").write_text("another")
    assert class_data.ready() == home
    damaged = home / name
    body = damaged.read_bytes()
    damaged.unlink()
    if damage != "gone":
        damaged.write_bytes(b"" if damage == "emptied" or name == "jars/a.jar" else bytes(len(body)))
    (installed / "boot_id").write_text("a third")
    with caplog.at_level("WARNING"):
        assert class_data.ready() is None
    assert "prepared_damaged" in caplog.text
    made()
    assert class_data.ready() == home and damaged.read_bytes() == body
    assert [*home.parent.iterdir()] == [home]
