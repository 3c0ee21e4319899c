"""Azure's storage: Delta's own store renames a log entry into place, on the condition that nobody was first.

Data files go through the account's Blob endpoint, the log through its DFS endpoint: two doors of the same storage.

Credentials are in no setting, and no order carries them. Both sides find them in the environment that each process has:

    AZURE_STORAGE_ACCOUNT_KEY                                         the account's key
    AZURE_CLIENT_ID, AZURE_TENANT_ID, AZURE_FEDERATED_TOKEN_FILE      workload identity
    AZURE_CLIENT_ID, AZURE_TENANT_ID, AZURE_CLIENT_SECRET             a service principal
    nothing, or AZURE_CLIENT_ID                                       the machine's managed identity

What Hadoop is told has the name of a variable where the secret belongs; each JVM puts in what its environment says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from exporter.secrets import keep_secret
from exporter.stores.object_client import Waiting, kept_client
from exporter.stores.object_store import ObjectStore
from exporter.stores.store import Entry, JavaSide

AUTHORITY = "https://login.microsoftonline.com"
_ROOT = re.compile(r"abfss?://(?P<container>[a-z0-9-]{3,63})@(?P<account>[a-z0-9]{3,24})\.dfs\.(?P<domain>[^/:@]+)(?:/.*)?")
_TOKENS = "org.apache.hadoop.fs.azurebfs.oauth2"
_HADOOP = {
    "io.retry.max.retries": "3",
    "io.retry.min.backoff.interval": "200",
    "io.retry.backoff.interval": "500",
    "io.retry.max.backoff.interval": "5000",
    "http.connection.timeout": "5000",
    "http.read.timeout": "15000",
    "ssl.channel.mode": "Default_JSSE",
}
"""A store that is silent or down is given up after a minute; Hadoop's own bounds give a quarter of an hour. ms."""
_CHAIN_HINT = "give credentials by the environment (AZURE_...), workload identity or the machine's managed identity"


class AzureStore(ObjectStore):
    """root: also abfs://. There are no options."""

    shape: ClassVar[str] = "abfss://container@account.dfs.core.windows.net/path"
    hints: ClassVar[Mapping[str, str]] = {
        "ContainerNotFound": "make the container, or correct `table_root`",
        "AuthenticationFailed": _CHAIN_HINT,
        "AuthorizationPermissionMismatch": "give it the role Storage Blob Data Contributor",
        "AuthorizationFailure": _CHAIN_HINT,
    }

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> AzureStore:
        store = super().at(root, options)
        store._parts()
        return store

    def _client(self, waiting: Waiting) -> Any:
        return _client(*self._parts(), emulated(), waiting)

    def _parts(self) -> tuple[str, str, str]:
        """Container, account, and the domain that accounts have their names in. Raises ValueError."""
        found = _ROOT.fullmatch(self.root)
        if found is None:
            raise ValueError(f"should be {self.shape}")
        return found["container"], found["account"], found["domain"]

    @property
    def java(self) -> JavaSide:
        told = {**_HADOOP, **_credentials()}
        if emulated():
            told |= _emulator()
        settings = {f"spark.hadoop.fs.azure.{name}": value for name, value in told.items()}
        return JavaSide(settings=settings, jar_sets=("azurite" if emulated() else "azure",), jars_first=emulated())

    # Hadoop marks the folders that it makes by empty objects, where the account has none of its own

    def size(self, path: str) -> int | None:
        found = super().size(path)
        return None if found == 0 and self.has_folder(path) else found

    def files(self, folder: str = "") -> Iterator[Entry]:
        return (one for one in super().files(folder) if one.bytes or not self.has_folder(one.path))


def emulated() -> bool:
    """Whether Azurite stands in for Azure, by the variable that obstore has for that.

    AZURITE_BLOB_STORAGE_URL is its address, http://127.0.0.1:10000 without.
    """
    return os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true")


def _credentials() -> dict[str, str]:
    """Hadoop's settings for what obstore takes from the same environment, in the order in which it looks."""
    given = os.environ.get
    if given("AZURE_STORAGE_ACCOUNT_KEY"):
        return {"account.auth.type": "SharedKey", "account.key": "${env.AZURE_STORAGE_ACCOUNT_KEY}"}
    authority = given("AZURE_AUTHORITY_HOST", AUTHORITY).rstrip("/")  # Kubernetes gives it with a slash
    named = {"client.id": "${env.AZURE_CLIENT_ID}"} if given("AZURE_CLIENT_ID") else {}
    if named and given("AZURE_TENANT_ID") and given("AZURE_FEDERATED_TOKEN_FILE"):
        provider = "WorkloadIdentityTokenProvider"
        named |= {
            "msi.authority": authority,
            "msi.tenant": "${env.AZURE_TENANT_ID}",
            "token.file": "${env.AZURE_FEDERATED_TOKEN_FILE}",
        }
    elif named and given("AZURE_TENANT_ID") and given("AZURE_CLIENT_SECRET"):
        provider = "ClientCredsTokenProvider"
        named |= {
            "client.endpoint": authority + "/${env.AZURE_TENANT_ID}/oauth2/token",
            "client.secret": "${env.AZURE_CLIENT_SECRET}",
        }
    else:
        provider = "MsiTokenProvider"
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_TOKENS}.{provider}",
        **{f"account.oauth2.{name}": value for name, value in named.items()},
    }


def _emulator() -> dict[str, str]:
    """Hadoop's settings for Azurite, which has the Blob endpoint only."""
    url = urlsplit(os.environ.get("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000"))
    return {
        "abfs.endpoint": url.netloc,
        "always.use.https": "false",
        "fns.account.service.type": "BLOB",
        "account.hns.enabled": "false",
        "emulator.enabled": "true",
    }


@kept_client
def _client(container: str, account: str, domain: str, emulator: bool, waiting: Waiting) -> Any:
    """obstore's store of a container; without a key it asks for tokens as it needs them."""
    from obstore.store import AzureStore as Container

    keep_secret(os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"), os.environ.get("AZURE_CLIENT_SECRET"))
    return Container(
        container,
        account_name=account,
        endpoint=f"https://{account}.blob.{domain}",
        use_emulator=emulator,
        **waiting.told(),
    )
