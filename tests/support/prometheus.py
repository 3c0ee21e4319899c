"""Prometheus itself: promtool judges rules over made-up scrapes, and a server answers what panels ask of others.

Both are in Debian's package `prometheus`. They are looked for in $EXPORTER_TEST_PROMETHEUS, a folder, else on the PATH.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exporter.local.server import free_ports
from tests.support.snapshots import NOW_MS, Series

Scrape = Mapping[str, Series]
"""Sample name -> labels -> number."""
START_SECS_MAX = 60.0


def tool(name: str) -> str:
    """Where promtool or prometheus is. Skips the test where neither is; fails if it is not where it was said to be."""
    if folder := os.environ.get("EXPORTER_TEST_PROMETHEUS"):
        found = Path(folder, name)
        assert found.exists(), f"EXPORTER_TEST_PROMETHEUS is {folder}, but there is no {name}"
        return str(found)
    return shutil.which(name) or pytest.skip("no promtool here: it is in Debian's package prometheus")


def judge(
    rules: Path, folder: Path, scrapes: Mapping[str, Sequence[Scrape | None]], expected: Mapping[str, bool]
) -> None:
    """Assert what the rules do. scrapes: instance -> one a minute, None where there is no such target; the first one is
    of NOW_MS, which is 1970 to promtool.

    expected: expression -> whether it holds after the last minute; of alerts `ALERTS` tells.
    """
    at = f"{max(map(len, scrapes.values())) - 1}m"
    asked = set(re.findall(r"\b(?:up|exporter_\w+)\b", rules.read_text()))
    test = {
        "interval": "1m",
        "input_series": [one for instance, day in scrapes.items() for one in _series(instance, day, asked)],
        "promql_expr_test": [
            {"expr": f"{expr} > bool 0", "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}] * holds}
            for expr, holds in expected.items()
        ],
    }
    file = folder / "rules-test.json"
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    ran = subprocess.run([tool("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def fired(alert: str, labels: Mapping[str, str] | None = None, without: str = "") -> str:
    """How many series of an alert fired at any time, with these labels, or without one."""
    more = "".join(f", {name}={json.dumps(value)}" for name, value in (labels or {}).items())
    more += f', {without}=""' if without else ""
    return f'count(max_over_time(ALERTS{{alertname=~"{alert}", alertstate="firing"{more}}}[1d]))'


def _series(instance: str, day: Sequence[Scrape | None], asked: set[str]) -> Iterator[dict[str, str]]:
    values: dict[str, list[str]] = {}
    for minute, scrape in enumerate(day):
        for name in asked & (scrape or {}).keys():
            for labels, number in (scrape or {})[name].items():
                said = dict(labels) | {"job": "exporter", "instance": instance}
                said |= {} if name == "up" else {"app": "app"}
                key = name + "{" + ",".join(f"{one}={json.dumps(text)}" for one, text in sorted(said.items())) + "}"
                row = values.setdefault(key, [])
                row += ["_"] * (minute - len(row))
                row.append(repr(number - NOW_MS / 1000 if name.endswith("_timestamp_seconds") else float(number)))
    for key, row in values.items():
        yield {"series": key, "values": " ".join(row)}


@contextmanager
def server(folder: Path, lines: str) -> Iterator[str]:
    """URL of a Prometheus that has these samples (OpenMetrics text, with times) and scrapes nobody."""
    (folder / "samples.txt").write_text(lines)
    (folder / "prometheus.yml").write_text("{}")
    data, (port,) = folder / "data", free_ports(1)
    made = [tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(folder / "samples.txt"), str(data)]
    subprocess.run(made, check=True, capture_output=True)
    command = [
        tool("prometheus"), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={data}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y",
    ]  # fmt: skip
    with (folder / "log.txt").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            deadline, url = time.monotonic() + START_SECS_MAX, f"http://127.0.0.1:{port}"
            while not _ready(url):
                assert process.poll() is None and time.monotonic() < deadline, (folder / "log.txt").read_text()
                time.sleep(0.05)  # pace of the polling, bounded by the deadline
            yield url
        finally:
            process.terminate()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def queried(url: str, expr: str, at_secs: float) -> list[dict[str, Any]]:
    """The series that an expression gives at a time, as Prometheus' API has them."""
    query = urllib.parse.urlencode({"query": expr, "time": at_secs})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found
