"""The power cut that a drill plays: it takes what may be lost, of everything some, and never what was promised."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from exporter.drill.power import cut


def lake(root: Path, versions: int) -> Path:
    """A table whose version n adds file n; its checksum, its hidden file, and a file that no version names."""
    log = root / "order" / "_delta_log"
    log.mkdir(parents=True)
    (root / "order" / "day=2026-01-31").mkdir()
    for version in range(versions):
        name = f"day=2026-01-31/a%25{version}.parquet"
        (log / f"{version:020d}.json").write_text(json.dumps({"add": {"path": name}}) + "\n")
        (log / f"{version:020d}.crc").write_text("checksum")
        (root / "order" / name.replace("%25", "%")).write_bytes(b"rows")
    (log / ".x.tmp").write_text("hidden")
    (log / ".0.tmp").hardlink_to(log / f"{0:020d}.json")  # as a task that was killed behind the link leaves it
    (root / "order" / "day=2026-01-31" / "staged.parquet").write_bytes(b"rows")
    return root


def test_a_power_cut_takes_some_of_all_that_is_not_promised_and_nothing_else(tmp_path: Path) -> None:
    """Versions that were told of and their files stay as they are; a checksum may outlive its version."""
    seen: set[str] = set()
    for seed in range(80):
        root = lake(tmp_path / str(seed), 4)
        log = root / "order" / "_delta_log"
        told = cut(root, {"order": 2}, random.Random(seed))
        entries = sorted(int(path.stem) for path in log.glob("0*.json"))
        assert entries in ([0, 1], [0, 1, 2], [0, 1, 2, 3])
        assert all("add" in json.loads((log / f"{version:020d}.json").read_text()) for version in entries)
        for version in entries:
            assert (root / "order" / "day=2026-01-31" / f"a%{version}.parquet").read_bytes() == b"rows"
        outlived = {int(path.stem) for path in log.glob("0*.crc") if path.read_text() == "checksum"} - {*entries}
        seen |= {line.rpartition(": ")[2] for line in told} | ({"a checksum outlived"} if outlived else set())
        seen |= {f"{len(entries)} versions"} | ({"nothing"} if not told else set())
        shutil.rmtree(root)
    assert seen >= {"gone", "empty", "half", "zeros", "a checksum outlived", "2 versions", "3 versions", "4 versions"}


def test_a_table_of_which_all_was_told_loses_no_version(tmp_path: Path) -> None:
    """Its checksums and staged files may be damaged all the same."""
    for seed in range(10):
        root = lake(tmp_path / str(seed), 3)
        cut(root, {}, random.Random(seed))
        assert len([*(root / "order" / "_delta_log").glob("0*.json")]) == 3
        assert all((root / "order" / "day=2026-01-31" / f"a%{version}.parquet").exists() for version in range(3))
