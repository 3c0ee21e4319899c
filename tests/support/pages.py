"""An export whose settings are those of a page of the handbook, as they are written there."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.lakes import Export
from tests.support.services import fresh_name


class PageExport(Export):
    """Of the settings that `more` is, with the places of here."""

    def write(self) -> Path:
        ours = {
            "brokers": [self.kafka], "topics": [self.topic], "group": self.app, "app": self.app,
            "table_root": self.place.table_root,
        }  # fmt: skip
        lines = [line for line in self.more.splitlines() if line.split(" = ")[0] not in ours]
        path = self.root / f"{fresh_name('exporter')}.toml"
        more = {"spark_master": "local[2]", "poll_secs": 0.2, "roll_age_max_secs": 1.0, "heartbeat_secs": 1.0}
        head = [f"{name} = {json.dumps(value)}" for name, value in {**ours, **more}.items()]
        path.write_text("\n".join([*head, *lines]) + "\n")
        return path
