"""A schema registry that fails in each way, under exporters whose records name its schemas.

    registered late    records of an id come while the registry is away; what they are is known once it is back
    never registered   ids that are none: dead letters, once the registry has said so for a while
    another text       under an id that was read before: the task ends, whatever else goes well

The registry is a small server in the drill's own process, of the few requests that an exporter makes.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from exporter.core.routing import DEAD_LETTERS
from exporter.drill.producer import NOON, DrillRecord, Load, record_of
from exporter.drill.run import LIFE_SECS_MAX, NotAsItMust, Run
from exporter.drill.tasks import Task

TYPES = {"order": "id BIGINT, note STRING", "click": "id BIGINT"}
SCALARS: dict[str, Any] = {"evolve": "add"}
TIMEOUT_SECS, UNKNOWN_AFTER_SECS = 1.0, 1.0
TROUBLES = ("down", "slow", "500", "401", "wiped")
GARBAGE = 900_000
"""An id that nobody registers; so are those behind it."""
GARBAGE_EVERY, BROKEN_EVERY = 97, 31
LATE = 40
"""Records of an id that is registered when they are dead letters already."""


class DrillRegistry:
    """Schemas by their ids, and what is the matter with the server: one of TROUBLES, or nothing."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.trouble = ""
        self.asked = 0
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._serve()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def breaks(self, trouble: str) -> None:
        """It has this trouble from now on."""
        self.trouble = trouble
        if trouble == "down":
            self.close()

    def mends(self) -> None:
        """It answers again, on the same port."""
        self.trouble = ""
        if self._server is None:
            self._serve()

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and content of an answer, as the trouble of the moment has it."""
        self.asked += 1
        if self.trouble == "slow":
            time.sleep(2 * TIMEOUT_SECS)
        if self.trouble in ("500", "401"):
            return int(self.trouble), {"error_code": int(self.trouble) * 100, "message": "no"}
        texts = {} if self.trouble == "wiped" else dict(self.texts)
        head, _, schema_id = path.partition("/schemas/ids/")
        if not head and schema_id.isdigit() and int(schema_id) in texts:
            return 200, {"schema": texts[int(schema_id)]}
        if not head and schema_id:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, [f"s{schema_id}" for schema_id in texts]

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _serve(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, content = registry.answer(self.path.partition("?")[0])
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="registry", daemon=True).start()


class _Server(ThreadingHTTPServer):
    """Who asked may be gone before the answer: it was slow on purpose, or killed."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return None


def schema(number: int) -> str:
    """Avro's text of the writers of an id: each has a field of its own."""
    fields = [
        {"name": "type", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": f"own{number}", "type": {"type": "int", "logicalType": "date"}},
    ]
    return json.dumps({"type": "record", "name": "Event", "fields": fields})


def written(schema_id: int, kind: str, number: int, table: str = "") -> DrillRecord:
    """A record in Confluent's frame. table: that it must come to, its type's if that is not said."""
    note = b"\2" + _text(f"n{number}") if number % 2 else b"\0"
    at = int(NOON.timestamp() * 1_000_000) - number % 5 * 86_400_000_000
    value = _text(kind) + _long(at) + _long(number) + note + _long(20_000 + number % 100)
    return record_of(table or kind, b"\0" + schema_id.to_bytes(4, "big") + value)


def broken(number: int) -> DrillRecord:
    """A record that is a dead letter by whatever schema."""
    whole = written(1, "order", number).value or b""
    values = (whole[:-1], None, b"\0\0\0", b'{"type": "order"}', written(1, "", number).value, whole + b"\0")
    return record_of(DEAD_LETTERS, values[number % len(values)])


def _long(number: int) -> bytes:
    """A number as Avro's varint in zigzag."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _text(text: str) -> bytes:
    raw = text.encode()
    return _long(len(raw)) + raw


def registry(run: Run) -> None:
    """A schema registry is down, slow, wiped or refuses; ids come late, never, or with another text; tasks are killed.
    """
    server = DrillRegistry()
    try:
        _Story(run, server).tell()
    finally:
        server.close()


class _Story:
    """One run. newest: the id that every third record of partition 0 has."""

    def __init__(self, run: Run, server: DrillRegistry) -> None:
        self.run = run
        self.server = server
        self.newest = 1
        self._ids = count(2)
        server.texts[1] = schema(1)
        run.types = dict(TYPES)
        run.scalars |= SCALARS
        run.sections = {
            "value_format": {"kind": "avro", "frame": "confluent"},
            "schema_registry": {
                "urls": [server.url], "timeout_secs": TIMEOUT_SECS, "unknown_after_secs": UNKNOWN_AFTER_SECS,
            },
        }  # fmt: skip

    load: Load

    def tell(self) -> None:
        """All of it; as many troubles as the run may have kills."""
        run = self.run
        self.load = run.load(self._record)
        task = run.start()
        run.wait_commit(task, 3)
        troubles = [*TROUBLES]
        run.rng.shuffle(troubles)
        for trouble in troubles[: run.size.kills]:
            task = self._strikes(trouble, task)
            run.check()
        self._comes_too_late(task)
        task = self._is_contradicted(task)
        run.stop(task)
        run.finish()

    def _record(self, number: int) -> DrillRecord:
        """The n-th record: mostly of id 1, some of the newest one; some are broken, and some ids are none."""
        if number % GARBAGE_EVERY == GARBAGE_EVERY - 1:
            return written(GARBAGE + number % 3, "order", number, DEAD_LETTERS)
        if number % BROKEN_EVERY == BROKEN_EVERY - 1:
            return broken(number // BROKEN_EVERY)
        schema_id = self.newest if number % 6 == 0 else 1
        return written(schema_id, ("order", "click", "order")[number % 3], number)

    def _strikes(self, trouble: str, task: Task) -> Task:
        """The registry fails while an id comes; the task is killed while it waits, and another one waits."""
        run, server = self.run, self.server
        missing, outages = task.count("schema_missing"), task.count("outage_seen")
        server.breaks(trouble)
        run.note(task, f"the registry: {trouble}")
        self.newest = next(self._ids)

        def waits() -> bool:
            """It has come to the new id, or was waiting for another one already."""
            told = task.count("outage_seen") > outages
            return told or (trouble == "slow" and task.count("schema_missing") > missing)

        run.wait(waits, LIFE_SECS_MAX, "a task waits for the registry", task)
        run.nap(run.rng.uniform(0, 3))
        run.kill(task)
        run.check()
        task = run.start()
        run.nap(run.rng.uniform(0, 8))
        server.texts[self.newest] = schema(self.newest)
        server.mends()
        run.note(task, "the registry answers again, and has the id")
        run.wait_commit(task, 4)
        return task

    def _comes_too_late(self, task: Task) -> None:
        """Records of an id become dead letters, then it is registered: what comes from then on is read by it."""
        run, late, load = self.run, next(self._ids), self.load
        for number in range(LATE):
            load.write(written(late, "click", number, DEAD_LETTERS), number % run.size.partitions)
        load.flush()
        run.wait(lambda: self._pins(late), LIFE_SECS_MAX, "the id is decided to be unknown", task)
        reached = max(offset for _, offset in run.plain_topic.read())
        run.wait(lambda: run.all_through(reached), LIFE_SECS_MAX, "the dead letters of it are committed", task)
        self.server.texts[late] = schema(late)
        self.newest = late
        run.note(task, "an id is registered late")
        run.wait(lambda: self._pins(late) > 1, LIFE_SECS_MAX, "its text is recorded", task)
        run.wait_commit(task, 4)

    def _is_contradicted(self, task: Task) -> Task:
        """All ids have another text: the task ends, and so does the next one; then the old texts are back."""
        run, server = self.run, self.server
        kept = dict(server.texts)
        server.texts = {one: text.replace('"id"', '"key"') for one, text in kept.items()}
        run.note(task, "all ids have another text")
        self.newest = next(self._ids)
        server.texts[self.newest] = schema(self.newest)
        if "another schema" not in run.ends(task, 70):
            raise NotAsItMust(f"{task.name} does not say what is wrong\n{task.tail()}")
        run.check()
        run.ends(run.start(), 70)
        server.texts = {**kept, self.newest: schema(self.newest)}
        task = run.start()
        run.wait_commit(task, 4)
        return task

    def _pins(self, schema_id: int) -> int:
        """How many decisions are recorded of an id."""
        names = self.run.lake.names(f"_schemas.pins/default/{schema_id}")
        return sum(name.endswith(".json") for name in names)
