"""A broker that takes tokens as MSK does: whoever signed the URL with the right key is let in.

    broker ── JudgedTokens.java ── POST the token ── Judge: the signature, computed by hand (sigv4.py)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from exporter.spark.java_classes import compiled, packed
from tests.support.certificates import Authority
from tests.support.doors import OAUTH, Doors
from tests.support.posted import answering
from tests.support.sigv4 import query_of, signature_of, url_of

SOURCE = """
package judged;
import java.io.*;
import java.net.*;
import java.util.*;
import javax.security.auth.callback.*;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.*;

public class JudgedTokens implements AuthenticateCallbackHandler {
    public void configure(Map configs, String mechanism, List entries) { }
    public void close() { }
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (int i = 0; i < callbacks.length; i++) {
            boolean known = callbacks[i] instanceof OAuthBearerValidatorCallback;
            if (!known) throw new UnsupportedCallbackException(callbacks[i]);
            OAuthBearerValidatorCallback asked = (OAuthBearerValidatorCallback) callbacks[i];
            HttpURLConnection judge = (HttpURLConnection) new URL(System.getProperty("judge")).openConnection();
            judge.setDoOutput(true);
            judge.getOutputStream().write(asked.tokenValue().getBytes("UTF-8"));
            if (judge.getResponseCode() != 200) { asked.error("invalid_token", null, null); continue; }
            BufferedReader lines = new BufferedReader(new InputStreamReader(judge.getInputStream(), "UTF-8"));
            asked.token(new Judged(asked.tokenValue(), lines.readLine(), Long.parseLong(lines.readLine())));
        }
    }
    private static class Judged implements OAuthBearerToken {
        private final String value;
        private final String user;
        private final long expiresMs;
        Judged(String value, String user, long expiresMs) {
            this.value = value; this.user = user; this.expiresMs = expiresMs;
        }
        public String value() { return value; }
        public Set scope() { return Collections.EMPTY_SET; }
        public long lifetimeMs() { return expiresMs; }
        public String principalName() { return user; }
        public Long startTimeMs() { return null; }
    }
}
"""


class Judge:
    """keys: access key id -> its secret. tokens: all that were brought."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self.keys, self.tokens = keys, list[str]()
        self.url = ""

    def user(self, token: str) -> tuple[str, int] | None:
        """Who signed it, and until when it is good in ms since 1970; None if it is not."""
        self.tokens.append(token)
        url = url_of(token)
        query = query_of(url)
        key_id = query["X-Amz-Credential"].partition("/")[0]
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
        ends = signed + int(query["X-Amz-Expires"])
        right = signature_of(url, self.keys.get(key_id, "")) == query["X-Amz-Signature"]
        good = right and query["Action"] == "kafka-cluster:Connect" and ends > time.time()
        return (key_id, int(ends * 1000)) if good else None


@contextmanager
def judging(judge: Judge) -> Iterator[Judge]:
    """It listens inside the block."""

    def answer(text: str, headers: Mapping[str, str]) -> tuple[int, str]:
        found = judge.user(text)
        return 200 if found else 403, "".join(f"{part}\n" for part in found or ("no",))

    with answering(answer) as url:
        judge.url = url
        yield judge


class Msk(Doors):
    """Its door speaks TLS, as MSK's do."""

    def __init__(self, judge: Judge, spark: Any, ours: Authority, folder: Path) -> None:
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._jar = folder / "judged.jar"
        self._jar.write_bytes(packed(compiled(spark._jvm, loader, [SOURCE])))
        properties = {
            "listener.name.login.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.login.oauthbearer.sasl.jaas.config": f"{OAUTH.format('LoginModule')} required;",
            "listener.name.login.oauthbearer.sasl.server.callback.handler.class": "judged.JudgedTokens",
            "listener.name.login.oauthbearer.connections.max.reauth.ms": "5000",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(ours.issue("server")),
        }  # fmt: skip
        super().__init__("SASL_SSL", properties, {"judge": judge.url})

    def _java_command(self) -> list[str]:
        *rest, jars = super()._java_command()
        return [*rest, f"{self._jar}:{jars}"]
