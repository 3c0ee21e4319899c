"""Azure's and Google's stores: what a root is, and what the JVM is told. That they store is tests/contract's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.spark import jars
from exporter.stores.azure import AzureStore
from exporter.stores.gcs import GcsStore
from exporter.stores.stores import open_store

HOST = "acc.dfs.core.windows.net"
ROOT = f"abfss://lake@{HOST}/tables"
KEY = {"AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0LWtleQ=="}
CLIENT = {"AZURE_CLIENT_ID": "the-client", "AZURE_TENANT_ID": "the-tenant"}
WORKLOAD = {**CLIENT, "AZURE_FEDERATED_TOKEN_FILE": "/var/run/token"}
PRINCIPAL = {**CLIENT, "AZURE_CLIENT_SECRET": "the-secret"}
EMULATED = {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": "http://127.0.0.1:7777"}
OAUTH = "account.oauth.provider.type"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any of the variables."""
    for name in {**KEY, **WORKLOAD, **PRINCIPAL, **EMULATED, "AZURE_AUTHORITY_HOST": ""}:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def hadoop(given: pytest.MonkeyPatch, environment: Mapping[str, str]) -> dict[str, str]:
    """What Hadoop's client is told in an environment, of credentials."""
    for name, text in environment.items():
        given.setenv(name, text)
    told = AzureStore.at(ROOT).java.settings
    names = {name.removeprefix("spark.hadoop.fs.azure."): text for name, text in told.items()}
    return {name: text for name, text in names.items() if name.startswith("account.")}


@pytest.mark.parametrize("root", [ROOT, f"abfs://lake@{HOST}", f"abfss://my-lake@{HOST}/a b/100%", f"{ROOT}/"])
def test_a_root_is_a_container_of_an_account_and_a_folder_in_it(given: pytest.MonkeyPatch, root: str) -> None:
    """With the scheme that was given, and a folder below it has the same."""
    store = open_store(root)
    assert isinstance(store, AzureStore) and store.uri() == root.rstrip("/")
    assert store.below("order").uri() == store.uri("order") == f"{root.rstrip('/')}/order"
    assert store.java.jar_sets == ("azure",)


def test_a_root_at_google_s_is_a_bucket_and_a_folder_in_it() -> None:
    """Without the slash at its end."""
    assert open_store("gs://lake/tables/") == GcsStore("gs://lake/tables")


@pytest.mark.parametrize(
    ("environment", "provider"),
    [
        pytest.param({}, "MsiTokenProvider", id="managed identity"),
        pytest.param({"AZURE_CLIENT_ID": "the-client"}, "MsiTokenProvider", id="one of several identities"),
        pytest.param(WORKLOAD, "WorkloadIdentityTokenProvider", id="workload identity"),
        pytest.param(PRINCIPAL, "ClientCredsTokenProvider", id="service principal"),
        pytest.param({**WORKLOAD, **PRINCIPAL}, "WorkloadIdentityTokenProvider", id="both"),
        pytest.param(CLIENT, "MsiTokenProvider", id="neither"),
    ],
)
def test_hadoop_looks_for_credentials_where_this_process_does(
    given: pytest.MonkeyPatch, environment: Mapping[str, str], provider: str
) -> None:
    """In the same order; with the name of a variable where its text belongs."""
    told = hadoop(given, environment)
    assert told.pop("account.auth.type") == "OAuth"
    assert told.pop(OAUTH) == f"org.apache.hadoop.fs.azurebfs.oauth2.{provider}"
    assert ("account.oauth2.client.id" in told) == ("AZURE_CLIENT_ID" in environment)
    assert all("${env.AZURE_" in text for name, text in told.items() if name != "account.oauth2.msi.authority")
    assert not any(text in " ".join(told.values()) for text in environment.values())


@pytest.mark.parametrize("host", ["https://login.microsoftonline.us", "https://login.microsoftonline.us/"])
def test_another_cloud_s_authority_is_asked_for_tokens(given: pytest.MonkeyPatch, host: str) -> None:
    """With or without a slash at its end, as Kubernetes has it."""
    told = hadoop(given, {**PRINCIPAL, "AZURE_AUTHORITY_HOST": host})
    endpoint = "https://login.microsoftonline.us/${env.AZURE_TENANT_ID}/oauth2/token"
    assert told["account.oauth2.client.endpoint"] == endpoint


def test_an_account_s_key_comes_before_all_else_and_is_told_to_nobody(given: pytest.MonkeyPatch) -> None:
    """Each JVM reads it from its own environment."""
    told = hadoop(given, {**PRINCIPAL, **KEY})
    assert told == {"account.auth.type": "SharedKey", "account.key": "${env.AZURE_STORAGE_ACCOUNT_KEY}"}


def test_the_emulator_has_a_client_of_its_own(given: pytest.MonkeyPatch) -> None:
    """Its address is the environment's, and it has the Blob endpoint only."""
    for name, text in EMULATED.items():
        given.setenv(name, text)
    java = AzureStore.at(ROOT).java
    assert java.jar_sets == ("azurite",) and java.settings["spark.hadoop.fs.azure.abfs.endpoint"] == "127.0.0.1:7777"
    assert java.settings["spark.hadoop.fs.azure.fns.account.service.type"] == "BLOB"


@pytest.mark.parametrize("root", [ROOT, "gs://lake/tables"])
def test_each_store_s_jars_are_listed_and_few(given: pytest.MonkeyPatch, root: str) -> None:
    """One jar each: whoever has no table there fetches none."""
    (name,) = open_store(root).java.jar_sets
    assert len(jars.listed(name)) == 1
