"""S3, and stores that speak like it: a log entry is one PUT on the condition that nobody was first.

    S3LogStore.java    writes versions; Delta's own store looks whether one is there and writes then, and two processes
                       that look at the same moment are both told that they committed
    S3Checksums.java   writes the checksum of each by one PUT; Spark's own way, renaming a file, takes 22 requests

Credentials are those of AWS's standard chain, here (botocore's) as in the JVM (its SDK's); they are in no setting and
in no order. Where the settings name neither endpoint nor region, the variables of the environment do, for both.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar

from exporter import aws
from exporter.stores.object_client import Waiting, kept_client
from exporter.stores.object_errors import StoreRefused, may_have_expired
from exporter.stores.object_store import ObjectStore, require_root
from exporter.stores.store import JavaSide
from exporter.text import first_line

LOG_STORE = "exporter.S3LogStore"
CHECKSUMS = "exporter.S3Checksums"
CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
VARIABLES = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
"""Of the environment, by option, the first one that is there."""
ANSWERS = "org.apache.hadoop.fs.s3a.AWS"
"""So the names of Hadoop's errors for an answer of the store begin, but for what is not there or is not allowed. One is
a 400, as after keys that have ended, which neither Hadoop nor the SDK tries again."""
REGION = "us-east-1"
"""Where nothing says one; stores that are not AWS's take any."""
KEPT_FOR = timedelta(minutes=5)
"""obstore asks for credentials before each request that comes so near to their end: thus before each."""
BOUNDS = {
    "connection.establish.timeout": "15s", "connection.timeout": "15s", "connection.request.timeout": "20s",
    "attempts.maximum": "2", "retry.limit": "2", "retry.interval": "500ms",
    "retry.throttle.limit": "5", "retry.throttle.interval": "500ms",
}  # fmt: skip
"""Of Hadoop's client: a store that is silent or down is given up after a minute; its own bounds give half an hour. 15 s
is the least that it takes. Parts of large files have a limit of their own."""
_CHAIN_HINT = "give credentials by the environment, ~/.aws, web identity or the machine's role"


class S3Store(ObjectStore):
    """root: s3a://bucket/path. options: endpoint, region. With an endpoint the bucket stands in the path."""

    shape: ClassVar[str] = "s3://bucket/path"
    hints: ClassVar[Mapping[str, str]] = {
        "no credentials": _CHAIN_HINT,
        "InvalidAccessKeyId": _CHAIN_HINT,
        "SignatureDoesNotMatch": _CHAIN_HINT,
        "ExpiredToken": "renew the credentials of the environment",
        "RequestTimeTooSkewed": "set this machine's clock",
        "another region": "set `s3_region` to that of the bucket",
        "AuthorizationHeaderMalformed": "set `s3_region` to that of the bucket",
        "certificate is not trusted": "name its authority in SSL_CERT_FILE, and in Java's own trust store",
        "NoSuchBucket": "make the bucket, or correct `table_root`",
        "NotImplemented": "use a store, or a version of it, that knows conditional writes",
    }

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> S3Store:
        """The store at s3://bucket/path or s3a://bucket/path. Raises ValueError for what is neither.

        s3a:// is what uri() says, of folders too that bear values; s3:// is what people write, some of them encoded.
        """
        require_root(root, cls.shape)
        if root.startswith("s3://") and {*root} & {*"%?#"}:
            raise ValueError("should be written plainly, without %, ? and #")
        return cls(f"s3a://{root.partition('://')[2].rstrip('/')}", {**_of_environment(), **(options or {})})

    def _client(self, waiting: Waiting) -> Any:
        bucket = self.root.partition("://")[2].partition("/")[0]
        return _client(bucket, tuple(sorted(self.options.items())), waiting)

    def _is_for_the_keys(self, error: Exception, client: Any) -> bool:
        return client.credential_provider.renews and may_have_expired(error)

    @property
    def java(self) -> JavaSide:
        told = self.options
        hadoop = {
            "aws.credentials.provider": CHAIN,
            "path.style.access": "true" if told.get("endpoint") else "false",
            "connection.ssl.enabled": "false" if _is_plain(told) else "true",
            "endpoint.region": _region(told),
            "input.stream.type": "classic",  # as before Hadoop 3.5, which reads ahead by a client of its own
            **BOUNDS,
        }
        if endpoint := told.get("endpoint"):
            hadoop["endpoint"] = endpoint
        settings = {
            "spark.delta.logStore.s3a.impl": LOG_STORE,
            "spark.sql.streaming.checkpointFileManagerClass": CHECKSUMS,
            "spark.hadoop.delta.enableFastS3AListFrom": "false",  # VACUUM would delete the log (S3LogStore.java)
            **{f"spark.hadoop.fs.s3a.{name}": text for name, text in hadoop.items()},
        }
        sources = tuple(Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in (LOG_STORE, CHECKSUMS))
        return JavaSide(settings=settings, sources=sources, jar_sets=("s3",), of_storage=ANSWERS)


def _of_environment() -> dict[str, str]:
    found = {option: next(filter(None, map(os.environ.get, names)), "") for option, names in VARIABLES.items()}
    return {option: text for option, text in found.items() if text}


def _region(options: Mapping[str, str]) -> str:
    """The one that was told, or that of the profile in ~/.aws."""
    if told := options.get("region"):
        return told
    return _chain(lambda session: session.get_config_variable("region")) or REGION


def _chain(ask: Callable[[Any], Any]) -> Any:
    """What the standard chain says. Raises StoreRefused for a profile that is not there, or a file that cannot be read.

    OSError where credentials would come from elsewhere, a process or STS, and do not.
    """
    from botocore.exceptions import BotoCoreError, CredentialRetrievalError

    try:
        return ask(aws.session())
    except CredentialRetrievalError as error:
        raise OSError(errno.EIO, f"no credentials: {first_line(error)}") from error
    except BotoCoreError as error:
        raise StoreRefused(errno.EACCES, f"no credentials: {error}") from error


def _is_plain(options: Mapping[str, str]) -> bool:
    """Whether nothing is encrypted on the way."""
    return options.get("endpoint", "").startswith("http://")


@kept_client
def _client(bucket: str, options: tuple[tuple[str, str], ...], waiting: Waiting) -> Any:
    """obstore's store of a bucket. Raises StoreRefused if there are no credentials."""
    from obstore.store import S3Store as Bucket

    told = dict(options)
    endpoint = told.get("endpoint", "").rstrip("/")
    return Bucket(
        bucket,
        region=_region(told),
        virtual_hosted_style_request=not endpoint,
        credential_provider=_Chain(),
        **waiting.told(allow_http=_is_plain(told)),
        **({"endpoint": endpoint} if endpoint else {}),
    )


class _Chain:
    """Credentials of the standard chain, for obstore. renews: whether it may give others another time."""

    def __init__(self) -> None:
        self._found = _chain(lambda session: session.get_credentials())
        if self._found is None:
            raise StoreRefused(errno.EACCES, "no credentials: AWS's standard chain finds none")
        self.renews = isinstance(self._found, aws.Keys)

    def __call__(self) -> dict[str, Any]:
        """Raises botocore's errors, of which obstore makes one of its own."""
        now = self._found.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(timezone.utc) + KEPT_FOR,
        }
