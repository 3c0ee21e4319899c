"""Fixtures that tests of several folders share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import settings

from exporter import secrets
from exporter.local.broker import create_topic
from exporter.local.server import CREDENTIALS
from exporter.stores.memory import DISKS, MemoryStore
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from tests.support import places, services, sessions, shared
from tests.support.azurite import ROOT, Azurite, NoAzurite
from tests.support.gcs import TOKEN, gcs_store
from tests.support.glue_registry import LocalGlue

if TYPE_CHECKING:
    from tests.support.lakes import Exports

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")  # how long an example takes says how busy the machine is


@pytest.fixture(autouse=True)
def secrets_of_one_test() -> Iterator[None]:
    """A password of one test, made up from words such as `error`, is not masked in what the next one reads."""
    before = secrets._known
    yield
    secrets._known = before


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[str]:
    """Bootstrap servers of a real broker, the same for all tests, whatever process they run in."""
    from tests.support import naive

    with shared.service("kafka", pytestconfig) as bootstrap:
        yield bootstrap
        naive.disconnect()


@pytest.fixture(scope="session")
def dynamodb(pytestconfig: pytest.Config) -> Iterator[str]:
    """URL of a real DynamoDB, the same for all tests, as the broker; boto3 finds credentials for it."""
    services.set_credentials()
    with shared.service("dynamodb", pytestconfig) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def registry(pytestconfig: pytest.Config) -> Iterator[str]:
    """URL of a real schema registry, the same for all tests, as the broker."""
    with shared.service("registry", pytestconfig) as url:
        yield url


@pytest.fixture(scope="session")
def glue() -> Iterator[LocalGlue]:
    """A schema registry of AWS Glue's, the same for all tests of a process."""
    with LocalGlue() as found:
        yield found


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """One in memory, of this test alone, where nothing is."""
    name = uuid4().hex
    yield MemoryStore.at(f"memory://{name}/lake")
    DISKS.pop(name, None)


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As any task of AWS's finds them."""
    for name, text in CREDENTIALS.items():
        monkeypatch.setenv(name, text)


@pytest.fixture(scope="session")
def s3() -> Iterator[Store]:
    """A bucket of a real S3, the same for all tests; boto3 and the JVM find credentials for it."""
    with services.s3_store() as store:
        yield store


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Store]:
    """A folder of a real HDFS, the same for all tests."""
    with services.hdfs_store() as store:
        yield store


@pytest.fixture(scope="session")
def azure() -> Iterator[Store]:
    """A container of Azurite, the same for all tests; obstore and the JVM find it by the environment."""
    try:
        azurite = Azurite()
    except NoAzurite as error:
        pytest.skip(str(error))
    with azurite, pytest.MonkeyPatch.context() as patch:
        for name, text in azurite.environment.items():
            patch.setenv(name, text)
        yield open_store(ROOT)


@pytest.fixture(scope="session")
def gcs() -> Iterator[Store]:
    """$EXPORTER_TEST_GCS, else what speaks as Google's storage does to obstore alone.

    gs://bucket/path is Google's own, by Application Default Credentials; http://host:port/bucket a fake-gcs-server.
    """
    given = os.environ.get("EXPORTER_TEST_GCS", "")
    if given.startswith("gs://"):
        yield open_store(given)
        return
    with pytest.MonkeyPatch.context() as patch:
        for name, text in TOKEN.items():
            patch.setenv(name, text)
        with gcs_store(given) as store:
            yield store


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[places.Place]:
    """Where a test's lake is: a folder, or of a test that is run `on("s3")` a prefix of a bucket, for itself alone."""
    if getattr(request, "param", "file") == "file":
        yield places.Folder(tmp_path / "lake")
        return
    store: Store = request.getfixturevalue("s3").below(services.fresh_name("lake"))
    if "spark" not in request.fixturenames:
        yield places.bucket_of(store)
        return
    with places.committing_to(request.getfixturevalue("spark"), store):
        yield places.bucket_of(store)


@pytest.fixture
def topic(kafka: str) -> Callable[..., str]:
    """Makes topics of their own: topic(), topic(partitions=3), topic(config={"cleanup.policy": "compact"})."""

    def make(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"{services.fresh_name()}.v1"  # with a dot (NAMES)
        create_topic(kafka, name, partitions, config)
        return name

    return make


@pytest.fixture
def exports(kafka: str, topic: Callable[..., str], tmp_path: Path, place: places.Place) -> Exports:
    """Makes exports of fresh topics to the test's place: exports(), exports(2, types=OLD, roll_age_max_secs=0.5)."""
    from tests.support.lakes import exports_of

    return exports_of(kafka, topic, tmp_path, place)


QUICK = {
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.buffer.pageSize": "1m",
    "spark.databricks.delta.delta.log.cacheSize": "100",
}
"""Also of sessions that jobs and maintenance make of it. Else VACUUM has 10,000 tasks, each stage of a query of a few
rows is a job of its own by which the plan is adapted and told anew, to compile a query takes longer than to run it
once, each broadcast of a few rows takes 16 MiB, and what Delta knows of a table, megabytes, stays for an hour after its
test. Processes that tests start have what users have."""
HEAP = "2g"
"""Of the session that a whole run's tests share; by itself it would have what the exporter's has by default."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session that the exporter itself starts, the same for all tests; its settings are under test too.

    It has the jars of S3 as well, and credentials for one of this machine, so that tests of `place` can have it commit
    there. Jars at the end of the class path leave its start as quick as it is without.
    """
    from exporter.core.deployment import Deployment
    from exporter.local.server import CREDENTIALS
    from exporter.spark.jars import jar_paths
    from exporter.spark.session import start, stop

    with pytest.MonkeyPatch.context() as patch:
        for name in CREDENTIALS.keys() - os.environ.keys():
            patch.setenv(name, CREDENTIALS[name])
        patch.setenv("SPARK_DIST_CLASSPATH", os.pathsep.join(map(str, jar_paths("s3"))))
        session = start(Deployment("local[2]", HEAP, options=QUICK), "tests", short_lived=True, kafka=True)
    sessions.settle()
    yield session
    stop(session)


@pytest.fixture(autouse=True)
def jvm_lives(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test in whose time the shared JVM ended says so; those after it that want it say no more than that."""
    ended = sessions.end_of_jvm()
    if ended and "spark" in request.fixturenames:
        pytest.skip(f"the JVM that tests share has ended before: {ended}")
    yield
    if not ended and (ended := sessions.end_of_jvm()):
        pytest.fail(f"in this test's time the JVM that tests share has ended: {ended}", pytrace=False)


@functools.cache
def keeper() -> shared.Keeper:
    """Of the process that starts those in which the tests run; it starts no service before a test asks for it."""
    return shared.Keeper()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A test process is to be started."""
    node.workerinput[shared.KEEPER] = keeper().address


def pytest_unconfigure() -> None:
    """All test processes have ended."""
    if keeper.cache_info().currsize:
        keeper().close()


def pytest_collection_finish() -> None:
    """Before the first test."""
    sessions.settle()


def pytest_runtest_logfinish() -> None:
    """After each test, when nothing of it is held any more."""
    sessions.let_go()


DRILLS = "drills"
ORDER = (
    "tests/unit", "tests/contract", "tests/test_tidy.py", "tests/model", "tests/spark", "tests/e2e", "tests/drills",
)  # fmt: skip
"""What needs no JVM comes first and tells within seconds; what kills processes comes last."""


@pytest.hookimpl(tryfirst=True)  # before the groups are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by folder, keeping the order within.

    Where several processes run tests, one begins with what kills processes, one such test after the other: it waits
    more than it works, so the others have the cores meanwhile, and no two of them take each other's time.
    """
    if hasattr(config, "workerinput"):
        for item in items:
            marked = {mark.name for mark in item.iter_markers()}
            if "drill" in marked and not marked & {"long", "xdist_group"}:
                item.add_marker(pytest.mark.xdist_group(DRILLS))

    def rank(item: pytest.Item) -> int:
        if any(mark.args == (DRILLS,) for mark in item.iter_markers("xdist_group")):
            return -1
        return next((index for index, folder in enumerate(ORDER) if item.nodeid.startswith(folder)), len(ORDER))

    items.sort(key=rank)
