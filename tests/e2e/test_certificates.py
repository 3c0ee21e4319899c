"""A certificate whose key has a file of its own, as it is or encrypted, for every client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.local.broker import create_topic
from tests.support.certificates import Authority
from tests.support.doors import Doors
from tests.support.lakes import DDL, Export, mixed
from tests.support.services import produce

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("logins")]

PASSWORD = "of the key"


def apart(pem: Path, folder: Path, encrypted: bool) -> dict[str, str]:
    """Settings of a certificate and its key in two files."""
    key, end, chain = pem.read_text().partition("-----END PRIVATE KEY-----\n")
    certificates, own = folder / "chain.pem", folder / "key.pem"
    certificates.write_text(chain)
    own.touch(mode=0o600)
    own.write_text(key + end)
    if not encrypted:
        return {"ssl_certfile": str(certificates), "ssl_keyfile": str(own)}
    locked = folder / "locked.pem"
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", own, "-out", locked]
    subprocess.run([*command, "-passout", f"pass:{PASSWORD}"], check=True)
    return {"ssl_certfile": str(certificates), "ssl_keyfile": str(locked), "ssl_password": PASSWORD}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a key is encrypted by openssl, which is not here")
def test_a_key_in_a_file_of_its_own_is_a_login_for_every_client(tmp_path: Path, spark: Any) -> None:
    """Group, admin, workers and the audit; neither key nor password is in what is left."""
    ours = Authority(tmp_path, "ours")
    properties = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(ours.issue("server")),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(ours.ca),
        "listener.name.login.ssl.client.auth": "required",
    }  # fmt: skip
    with Doors("SSL", properties) as broker:
        create_topic(broker.bootstrap, "events")
        produce(broker.bootstrap, "events", {0: mixed(40)})
        for encrypted in (False, True):
            folder = tmp_path / f"encrypted-{encrypted}"
            (folder / "root").mkdir(parents=True)
            table = apart(ours.issue("client"), folder, encrypted)
            given = {"security_protocol": "SSL", "ssl_cafile": str(ours.ca), **table}
            lines = "\n".join(f"{name} = '{value}'" for name, value in given.items())
            e = Export(broker.login, "events", folder / "root", "export-us", kafka_client=lines)
            e.run(spark)
            assert {e.position(name)[1] for name in (DEAD_LETTERS, *DDL)} == {39}
            report = e.audit(spark)
            assert report.clean and "unknown" not in report.as_text(), report.as_text()
            left = [path for path in (folder / "root").rglob("*") if path.is_file() and path.suffix != ".toml"]
            said = [path.read_text("latin-1") for path in left]
            secrets = [PASSWORD, *Path(table["ssl_keyfile"]).read_text().splitlines()[1:-1]]
            assert [one for one in said for secret in secrets if secret in one] == []
