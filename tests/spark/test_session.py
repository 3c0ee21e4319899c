"""What the session is started with, and what its files are read with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.deployment import PAGES
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.writers import PartitionPlan
from exporter.errors import RoundFailed
from exporter.lake.lake import Lake
from exporter.rounds.read import RoundReader
from exporter.spark import class_data
from exporter.spark.jvm_lines import JvmLines, entries
from exporter.spark.session import LOG4J_FILE
from exporter.workbench import open_workbench
from offsets.names import table_folder
from offsets.ranges import TopicPartition
from tests.support.lakes import Export, wait_until
from tests.support.orders import order_of
from tests.support.services import fresh_name
from tests.support.sessions import Kept

pytestmark = pytest.mark.spark


def test_a_prepared_archive_is_mapped_by_the_jvm(spark: Any) -> None:
    """And a session without one has none."""
    jvm = spark.sparkContext._gateway.proc.pid
    maps = [Path(f"/proc/{pid}/maps") for pid in (jvm, *_children(jvm))]
    mapped = any(str(class_data.home() / class_data.ARCHIVE) in path.read_text() for path in maps)
    assert mapped == (class_data.ready() is not None)


def test_a_prepared_start_has_no_module_that_java_warns_of(spark: Any) -> None:
    """Else each verb would begin with a warning."""
    words = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert any("incubator" in word for word in words) == (class_data.ready() is None)


def test_temporary_files_of_the_jvm_stand_where_those_of_this_process_do(spark: Any) -> None:
    """Of all that runs below it: who sets TMPDIR for a task has the remains of a killed one there."""
    assert spark._jvm.java.lang.System.getProperty("java.io.tmpdir") == tempfile.gettempdir()


def test_java_writes_names_of_files_in_utf_8_under_any_locale() -> None:
    """LC_ALL=C makes Python go over to UTF-8 by itself and Java to ASCII: a root with other letters was an outage."""
    told = "import os, subprocess, sys; from exporter.spark import session as spark; "
    told += "spark._prepared(spark.Deployment('local[1]'), short_lived=True); "
    told += "java = os.path.join(os.environ['JAVA_HOME'], 'bin', 'java'); "
    told += "sys.exit(subprocess.run([java, '-XshowSettings:properties', '-version']).returncode)"
    ran = subprocess.run(
        [sys.executable, "-c", told], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "sun.jnu.encoding = UTF-8" in ran.stderr


def test_spark_starts_where_the_name_of_the_machine_has_no_address() -> None:
    """As in small containers; all of it is on the loopback interface anyway."""
    code = (
        "from exporter.core.deployment import Deployment\n"
        "from exporter.spark import session\n"
        "made = session.start(Deployment('local[1]'), 'nameless', short_lived=True)\n"
        "print('rows', made.range(3).count())"
    )
    nameless = ["unshare", "--uts", "sh", "-c", 'hostname nowhere.invalid && exec "$@"', "sh"]
    if subprocess.run([*nameless, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root may give this process another host name")
    command = [*nameless, sys.executable, "-c", code]
    own = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP" and name[:4] != "AWS_"}
    ran = subprocess.run(command, capture_output=True, text=True, env=own, check=False)
    assert "rows 3" in ran.stdout, ran.stderr
    own |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    ran = subprocess.run(command, capture_output=True, text=True, env=own, check=False)
    assert "add the line `127.0.0.1 nowhere.invalid` to /etc/hosts" in ran.stderr, "Spark asks for it all the same"


def test_spark_fills_in_the_environment_where_an_option_names_it(spark: Any) -> None:
    """So that one settings file serves every pod (deploy/kubernetes/s3)."""
    conf = spark.sparkContext._jsc.sc().conf().clone()
    conf.set("spark.kubernetes.driver.pod.name", "${env:JAVA_HOME}")
    options = getattr(getattr(spark._jvm.org.apache.spark.deploy.k8s, "Config$"), "MODULE$")
    assert options.KUBERNETES_DRIVER_POD_NAME().readFrom(conf.reader()).get() == os.environ["JAVA_HOME"]


def test_workers_keep_their_pages(spark: Any) -> None:
    """They have the settings of the allocator that Arrow uses, which reads them as the process starts."""

    def told(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            words = [pa.default_memory_pool().backend_name, *map(os.environ.get, PAGES)]
            yield pa.RecordBatch.from_arrays([pa.array(words)], ["word"])

    words = [row.word for row in spark.range(0, 1, 1, 1).mapInArrow(told, "word STRING").collect()]
    assert words == ["mimalloc", *PAGES.values()]


def test_workers_do_not_import_pandas(spark: Any) -> None:
    """Arrays are made of Python objects, and none of them is pandas'."""

    def told(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            made = pa.array([1, 2])
            yield pa.RecordBatch.from_arrays([pa.array([f"{len(made)} {'pandas' in sys.modules}"])], ["word"])

    assert [row.word for row in spark.range(0, 1, 1, 1).mapInArrow(told, "word STRING").collect()] == ["2 False"]


def test_who_wants_pandas_in_a_worker_has_it() -> None:
    """Arrow looks for it in vain only once; in a process of its own, for the workers are shared."""
    words = """
import sys
from exporter.executor.daemon import arrow_without_pandas
arrow_without_pandas()
import pyarrow as pa
table = pa.table({"n": [1, 2]})
print("pandas" in sys.modules, len(table.to_pandas()))
"""
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "2"]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_kafka_is_read_by_the_interface_without_rows_of_users(spark: Any) -> None:
    """Else each record becomes one and is taken apart again. No broker is asked for the plan."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "orders")
    assert reader.load()._jdf.queryExecution().analyzed().toString().startswith("RelationV2")


def test_a_round_has_begun_once_spark_runs_its_tasks(spark: Any, tmp_path: Path) -> None:
    """Not while nothing runs, nor while its job is not known yet: else the next one could get the cores first."""
    reader, gate = RoundReader(spark, {"bootstrap_servers": ["127.0.0.1:1"]}), tmp_path / "gate"
    assert not reader.begun()
    reader._groups.add("begun")
    assert not reader.begun()

    def held(batches: Iterator[Any]) -> Iterator[Any]:
        deadline = time.monotonic() + 60
        while not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.02)  # pace of the polling, bounded by the deadline
        yield from batches

    def run() -> None:
        spark.sparkContext.setJobGroup("begun", "held until the test goes on")
        spark.range(2).mapInArrow(held, "id BIGINT").collect()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run)
        wait_until(reader.begun, 60, "a running task")
        assert not done.done()
        gate.touch()
        done.result(60)


def test_a_round_that_a_stop_cancels_asks_for_nothing_more(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which record it was at is for one that fails, or takes too long, by itself; to look would hold the stop up."""
    reader, raws = RoundReader(spark, {"bootstrap_servers": ["127.0.0.1:1"]}), []
    plan = PartitionPlan(TopicPartition("orders", 0), 1, 0, 0, 1, {})
    order = order_of("/lake", Routing(TypeFrom("json", "type"), EventTime("record"), ()), {plan.tp: plan})
    monkeypatch.setattr(reader, "_raw", raws.append)
    for dropped in (True, False):

        def cancelled(_: object, dropped: bool = dropped) -> Any:
            reader.cancel(dropped)
            raise RuntimeError("cancelled")

        monkeypatch.setattr(reader, "_manifest", cancelled)
        with pytest.raises(RoundFailed, match="cancelled"):
            reader.read(order)
        assert bool(raws) == (not dropped)


def test_every_reading_sees_what_others_have_committed(spark: Any, tmp_path: Path) -> None:
    """Also the first one of a lake, though Delta knows the table by then, and two within a millisecond or so."""
    spark.range(1).write.format("delta").save(str(tmp_path / table_folder("order")))
    log = tmp_path / table_folder("order") / "_delta_log"
    lakes = [Lake(spark, tmp_path, "app") for _ in range(3)]
    for version, lake in enumerate((*lakes, *lakes), start=1):
        (log / f"{version:020d}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
        for read in (lambda table: table.view(), lambda table: table.state()[0]):
            view = read(lake.table("order"))
            assert view is not None and view.version == version


def test_sigterm_does_not_end_the_jvm(spark: Any) -> None:
    """Nor does SIGINT: they are for the driver, which stops it when all is committed."""
    status = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/status").read_text()
    ignored = int(re.findall(r"SigIgn:\s+(\w+)", status)[0], 16)
    assert all(ignored >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGINT))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of the tests is at work, whatever other one a test before has ended in this process."""
    monkeypatch.setattr(JvmLines, "hushed", False)


@pytest.mark.broker
@pytest.mark.usefixtures("heard")
def test_a_task_ends_spark_without_a_word(
    spark: Any, kafka: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A signal may come while Spark is at work, and what is at work then complains: nobody is to be woken by that."""
    bench = open_workbench(Export(kafka, topic(), tmp_path, fresh_name("app")).settings(), Kept(spark))
    assert not JvmLines.hushed
    bench.close()
    assert JvmLines.hushed


@pytest.mark.usefixtures("heard")
def test_what_the_jvm_says_comes_through_the_log(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Both its standard output and its errors are pipes to this process, and lines that come at once are one event."""
    for stream in (spark._jvm.java.lang.System.out, spark._jvm.java.lang.System.err):
        stream.println("said by the JVM")
    said = "\n".join(["said by the JVM"] * 2)
    wait_until(lambda: "\n".join(record.getMessage() for record in caplog.records) == said, 10, "both lines")


@pytest.mark.usefixtures("heard")
def test_an_exception_of_java_is_one_event(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """With the first lines of its trace, and not a second time in lines of its own."""
    jvm = spark._jvm
    manager = jvm.org.apache.logging.log4j.LogManager
    manager.getLogger("some.Thing").error("it failed", jvm.java.lang.IllegalStateException("because"))
    jvm.java.lang.System.err.println("the next line")
    wait_until(lambda: "the next line" in caplog.text, 10, "both")
    said = [record for record in caplog.records if record.name.startswith("java")]
    assert [(record.name, record.levelname) for record in said] == [("java.Thing", "ERROR"), ("java", "WARNING")]
    assert "IllegalStateException: because" in said[0].getMessage()


def test_what_ends_a_task_of_spark_is_told_by_its_round_alone(spark: Any) -> None:
    """A cancelled one leaves rows that were on their way to Python: an alarm about each stop, once in many."""
    named = spark._jvm.org.apache.logging.log4j.LogManager.getLogger
    spark_own, arrow = "org.apache.spark.", "org.apache.arrow.memory."
    quiet = [f"{spark_own}TaskContextImpl", f"{spark_own}executor.Executor", f"{arrow}BaseAllocator"]
    assert not any(named(name).isErrorEnabled() for name in quiet)
    assert all(named(name).isErrorEnabled() for name in ("some.Thing", f"{spark_own}SparkContext", f"{arrow}Other"))


def test_what_the_jvm_says_holds_no_password(spark: Any) -> None:
    """Spark's Kafka source prints its consumers' options, the login among them, in an exception."""
    jvm = spark._jvm
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.StringReader(LOG4J_FILE.read_text()))
    core = jvm.org.apache.logging.log4j.core
    pattern = properties.getProperty("appender.stderr.layout.pattern")
    layout = core.layout.PatternLayout.newBuilder().withPattern(pattern).build()
    text = 'old: {a=b, sasl.jaas.config=X required username="me" password="a \\\\ b \\" c";, ssl.key.password=abc, '
    text += "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIB\nAB==\n-----END PRIVATE KEY-----, x=y}"
    message = jvm.org.apache.logging.log4j.message.SimpleMessage(text)
    level = jvm.org.apache.logging.log4j.Level.ERROR
    event = core.impl.Log4jLogEvent.newBuilder().setLoggerName("a.B").setLevel(level).setMessage(message).build()
    ((name, told_level, said),) = entries(layout.toSerializable(event))
    assert (name, told_level) == ("java.B", "ERROR")
    masked = 'sasl.jaas.config=X required username="me" password="********";, ssl.key.password=********, '
    masked += "ssl.keystore.key=-----BEGIN PRIVATE KEY-----********-----END PRIVATE KEY-----, x=y}"
    assert said == "old: {a=b, " + masked
