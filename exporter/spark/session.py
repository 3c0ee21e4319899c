"""The Spark session: started without Ivy, quiet, in UTC.

Its JVM ignores SIGTERM and SIGINT, so the driver can stop in order.
"""

from __future__ import annotations

import codecs
import locale
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from exporter.aside import aside
from exporter.core.deployment import PAGES, SECRET, Deployment
from exporter.errors import ConfigError, ExporterError, JvmEnded, TableUnreadable, TableUnwritable
from exporter.secrets import keep_secret
from exporter.spark import batches, class_data, java_classes
from exporter.spark.jars import find_java, jar_paths
from exporter.spark.jvm_lines import JvmLines
from exporter.stores.file import JAVA
from exporter.stores.store import JavaSide

CODE_CACHE = "240m"
"""With one compiler Java reserves so little that Spark fills it within minutes; what comes then is interpreted."""
COMPILE_LATER = [
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
]
"""Twenty times Java's own: the second compiler is for what each record passes, not for start-up, plans and commits, on
which it would spend much of a start's CPU."""
CLASSES_AT_ONCE = "-XX:MetaspaceSize=256m"
"""The memory of loaded classes at which Java first collects; by itself it does so within a start."""
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Linux says here who gets pages of 2 MiB; at [madvise] whoever asks. Java does, as records soon pass through all of
its heap, and small pages would cost faults. Where nobody gets any it would complain."""
LAST_JARS = "SPARK_DIST_CLASSPATH"
"""Spark's variable for jars that come last on its class path: an archive fits one that goes on after what it was made
with."""
ENDING_SECS = 2.0
LOOPBACK = "127.0.0.1"
LOG4J_FILE = Path(__file__).with_name("log4j2.properties")


def start(
    deployment: Deployment,
    app_name: str,
    short_lived: bool = False,
    archive: Path | None = None,
    java: JavaSide = JAVA,
    kafka: bool = False,
) -> Any:
    """A SparkSession with Delta. The JVM ends with this process, however that ends.

    short_lived: for verbs that end within a minute or two; the JVM's second compiler would not pay off.
    archive: where the JVM is to write its classes as it ends (class_data.py); None for all but `prepare`.
    java: of the store whose tables it is to commit to. kafka: it has Spark's Kafka source, too. Raises
    JvmEnded, ConfigError.
    """
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        options = _prepared(deployment, java, short_lived, archive, kafka)
        return _started(deployment, app_name, options, java)
    finally:
        signal.signal(signal.SIGINT, interrupted)  # pyspark takes it over in the main thread


def starting(deployment: Deployment, app_name: str, java: JavaSide = JAVA) -> Callable[[], Any]:
    """A session as start() makes it, made while the caller does something else; what is returned waits for it."""
    options = _prepared(deployment, java)
    session = aside("spark", lambda: _started(deployment, app_name, options, java))

    def there() -> Any:
        import pyspark.testing.utils  # noqa: F401 - py4j's first call wants it: not to be waited for then

        return session.result()

    return there


def _prepared(
    deployment: Deployment,
    java: JavaSide = JAVA,
    short_lived: bool = False,
    archive: Path | None = None,
    kafka: bool = False,
) -> dict[str, str]:
    """Spark's options, and in this process's environment what the JVM and the workers inherit."""
    _check_name()
    os.environ.setdefault("JAVA_HOME", str(find_java().parent.parent.resolve()))
    os.environ["PYSPARK_PYTHON"] = (not deployment.is_local and deployment.worker_python) or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.update(java_locale(sys.getfilesystemencoding(), locale.nl_langinfo(locale.CODESET)))
    for name, value in PAGES.items():
        os.environ.setdefault(name, value)
    if deployment.is_local:  # else Spark asks for the address of this machine's name, which may have none
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    home = class_data.home() if archive is not None else class_data.ready() if deployment.is_local else None
    of_spark = [] if home is not None else ["spark"]  # a prepared home has them among Spark's own
    sets = [*of_spark, *java.jar_sets, *(["kafka"] if kafka else [])]
    jars = [str(path) for name in sets for path in jar_paths(name)]
    if home is not None:
        os.environ["SPARK_HOME"] = str(home)
    if home is not None and jars and not java.jars_first:
        os.environ[LAST_JARS] = os.pathsep.join(filter(None, (*jars, os.environ.get(LAST_JARS))))
        jars = []
    options = {"spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "spark-warehouse")}
    options |= deployment.spark_options(jars, {**batches.SIZES, **java.settings})
    keep_secret(*(value for name, value in options.items() if SECRET.search(name)))
    options["spark.driver.extraJavaOptions"] = shlex.join(_java_options(short_lived, home, archive))
    return options


def _check_name() -> None:
    """Raises ConfigError where Spark would end on the name of this machine: given keys of AWS, it asks for its address.
    """
    if not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= os.environ.keys():
        return
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        what = f"the name of this machine, {name}, has no address, and Spark asks for it where there are keys of AWS"
        raise ConfigError(what, f"add the line `127.0.0.1 {name}` to /etc/hosts") from None


def _started(deployment: Deployment, app_name: str, options: Mapping[str, str], java: JavaSide) -> Any:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    JvmLines.hushed = False
    told = [(name, value) for name, value in options.items() if not SECRET.search(name)]  # a command line is public
    conf = SparkConf().setMaster(deployment.master).setAppName(app_name).setAll(told)
    try:
        if SparkContext._gateway is None:  # pyspark has one JVM per process
            SparkContext._ensure_initialized(gateway=_launched(conf), conf=conf)
        session = SparkSession.builder.config(conf=conf).config(map=dict(options)).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        java_classes.install(session, java)
    except (Py4JError, PySparkRuntimeError, ConnectionError) as error:
        gateway = SparkContext._gateway
        if gateway is None or _ended(gateway.proc, error):
            raise JvmEnded from error
        raise
    return session


def _launched(conf: Any) -> Any:
    """A JVM whose words go through our log, and that SIGTERM does not end, from its first moment on."""
    from pyspark.java_gateway import launch_gateway

    with JvmLines.reading() as writing, _deaf():
        return launch_gateway(conf, popen_kwargs={"stdout": writing, "stderr": writing})


_births = threading.local()


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that this thread forks in here ignore SIGTERM. This process goes on hearing it.

    pyspark's own shield, against SIGINT, is of Python and between fork and exec: so Python runs this hook there.
    """
    _births.deaf = True
    try:
        yield
    finally:
        _births.deaf = False


def _ignore_term() -> None:
    if getattr(_births, "deaf", False):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_ignore_term)


def java_locale(python: str, system: str) -> dict[str, str]:
    """Environment in which Java writes the names of files as this Python does. python, system: their encodings.

    Under LC_ALL=C Python goes over to UTF-8 by itself, Java to ASCII: it would make other folders.
    """
    same = codecs.lookup(python) == codecs.lookup(system)
    return {"LC_ALL": "C.UTF-8"} if not same and codecs.lookup(python).name == "utf-8" else {}


def alive(session: Any) -> bool:
    """Whether the session's JVM, a child of this process, is there."""
    return session.sparkContext._gateway.proc.poll() is None  # pyspark has no public way to ask


def pid_of(session: Any) -> int:
    """That of the session's JVM."""
    return int(session.sparkContext._gateway.proc.pid)


def stop(session: Any) -> None:
    """Stop the session; a JVM that ends meanwhile, or has ended, has none any more."""
    from py4j.protocol import Py4JError

    if alive(session):
        JvmLines.hushed = True
        with suppress(Py4JError):
            session.stop()


def has_ended(session: Any, error: BaseException) -> bool:
    """Whether the session's JVM has ended, which is why a call to it failed."""
    return _ended(session.sparkContext._gateway.proc, error)


def _ended(jvm: Any, error: BaseException) -> bool:
    """Its connections are closed a moment before the process is gone."""
    from py4j.protocol import Py4JError, Py4JJavaError

    cause = error if isinstance(error, Py4JError | ConnectionError) else error.__cause__
    if isinstance(cause, Py4JError | ConnectionError) and not isinstance(cause, Py4JJavaError):
        with suppress(subprocess.TimeoutExpired):
            jvm.wait(ENDING_SECS)
    return jvm.poll() is not None


def start_secs(session: Any) -> tuple[float, float]:
    """Seconds from the JVM's start to that of Spark in it, and from there to now. For whoever asks right after start().

    By the JVM's clock alone.
    """
    jvm = session.sparkContext._jvm.java.lang
    began = jvm.management.ManagementFactory.getRuntimeMXBean().getStartTime()
    context, now = session.sparkContext.startTime, jvm.System.currentTimeMillis()
    return (context - began) / 1000, (now - context) / 1000


def _java_options(short_lived: bool, home: Path | None, archive: Path | None) -> list[str]:
    chosen = [f"-Dlog4j.configurationFile={LOG4J_FILE.as_uri()}", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
    chosen += [f"-Djava.io.tmpdir={tempfile.gettempdir()}"]  # Java does not look at TMPDIR; a killed JVM leaves files
    chosen += ["-XX:NewRatio=1"]  # records pass through: next to nothing of them grows old
    chosen += [CLASSES_AT_ONCE, "-XX:+ExitOnOutOfMemoryError", f"-XX:ReservedCodeCacheSize={CODE_CACHE}"]
    chosen += ["-XX:TieredStopAtLevel=1"] if short_lived else COMPILE_LATER
    chosen += ["-XX:+UseTransparentHugePages"] if _huge_pages() else []
    if kerberos := os.environ.get("KRB5_CONFIG"):  # Java looks for it at its own places only
        chosen += [f"-Djava.security.krb5.conf={kerberos.partition(':')[0]}"]
    if archive is not None:
        chosen += [f"-XX:ArchiveClassesAtExit={archive}"]
    elif home is not None:
        chosen += [f"-XX:SharedArchiveFile={home / class_data.ARCHIVE}", "-Xshare:auto"]
    # What the JVM does not like about an archive it would say on standard output; it does without, then. Java 25 says
    # as an error that its own archive knows nothing of the packages that Spark's launcher opens.
    return [*chosen, "-Xlog:disable", "-Xlog:all=error,cds*=off:stderr"]


def _huge_pages() -> bool:
    try:
        return "[madvise]" in HUGE_PAGES.read_text()
    except OSError:
        return False


@contextmanager
def jvm_watched(session: Any) -> Iterator[None]:
    """Whatever fails in here because the session's JVM has ended is raised as JvmEnded."""
    try:
        yield
    except Exception as error:
        by_jvm = isinstance(error, TableUnreadable | TableUnwritable) or not isinstance(error, ExporterError)
        if isinstance(error, JvmEnded) or not (by_jvm and has_ended(session, error)):
            raise
        raise JvmEnded from error
