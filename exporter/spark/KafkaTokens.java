/* See java_classes.py. Janino, which compiles it, knows neither type inference nor variable numbers of arguments. */
package exporter;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URL;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

public class KafkaTokens implements AuthenticateCallbackHandler {
    private static final int WAIT_MS = 10000;
    private static final int TOKEN_BYTES_MAX = 1 << 20;
    private String desk;
    private String key;

    public void configure(Map configs, String mechanism, List entries) {
        Map options = ((AppConfigurationEntry) entries.get(0)).getOptions();
        desk = (String) options.get("desk");
        key = (String) options.get("password");
    }

    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (int i = 0; i < callbacks.length; i++) {
            if (!(callbacks[i] instanceof OAuthBearerTokenCallback)) throw new UnsupportedCallbackException(callbacks[i]);
            ((OAuthBearerTokenCallback) callbacks[i]).token(asked());
        }
    }

    public void close() { }

    private OAuthBearerToken asked() throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(desk).openConnection(Proxy.NO_PROXY);
        connection.setRequestProperty("Authorization", "Bearer " + key);
        connection.setConnectTimeout(WAIT_MS);
        connection.setReadTimeout(WAIT_MS);
        try {
            int status = connection.getResponseCode();
            String text = text(status == 200 ? connection.getInputStream() : connection.getErrorStream());
            int end = text.indexOf('\n');
            if (status != 200 || end < 0) throw new IOException("the driver gives no token: HTTP " + status + " " + text);
            return new Given(text.substring(end + 1), Long.parseLong(text.substring(0, end)));
        } finally {
            connection.disconnect();
        }
    }

    private static String text(InputStream from) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] some = new byte[8192];
        for (int n = from == null ? -1 : from.read(some); n >= 0; n = from.read(some)) {
            all.write(some, 0, n);
            if (all.size() > TOKEN_BYTES_MAX) throw new IOException("a token of more than a megabyte");
        }
        return all.toString("UTF-8");
    }

    private static class Given implements OAuthBearerToken {
        private final String value;
        private final long expiresMs;

        Given(String value, long expiresMs) {
            this.value = value;
            this.expiresMs = expiresMs;
        }

        public String value() { return value; }

        public java.util.Set scope() { return Collections.EMPTY_SET; }

        public long lifetimeMs() { return expiresMs; }

        public String principalName() { return "exporter"; }

        public Long startTimeMs() { return null; }
    }
}
