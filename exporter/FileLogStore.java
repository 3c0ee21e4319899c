/* See log_store.py, which compiles it. Janino knows neither type inference nor variable numbers of arguments. */
package exporter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.delta.storage.CloseableIterator;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;

public class FileLogStore extends io.delta.storage.LocalLogStore {
    private static final ObjectMapper JSON = new ObjectMapper();

    public FileLogStore(Configuration conf) { super(conf); }

    public CloseableIterator read(org.apache.hadoop.fs.Path path, Configuration conf) throws IOException {
        Path file = local(path);
        if (file.getFileName().toString().matches("[0-9]{20}[.]crc")) requireOwn(file);
        return super.read(path, conf);
    }

    public void write(org.apache.hadoop.fs.Path path, Iterator actions, Boolean overwrite, Configuration conf)
            throws IOException {
        Path target = local(path);
        String name = target.getFileName().toString();
        Path whole = hidden(target);
        Path checksum = target.resolveSibling("." + name + ".crc");
        try {
            StringBuilder text = new StringBuilder();
            while (actions.hasNext()) text.append((String) actions.next()).append('\n');
            Files.write(whole, text.toString().getBytes(StandardCharsets.UTF_8),
                new OpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE});
            if (overwrite.booleanValue()) {
                Files.deleteIfExists(checksum);
                Files.move(whole, target,
                    new CopyOption[] {StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING});
            } else {
                if (name.matches("[0-9]{20}[.]json")) takeAwayFormer(checksumOf(target), target);
                link(whole, target);
                Files.deleteIfExists(checksum);
            }
        } finally {
            Files.deleteIfExists(whole);
        }
    }

    /* A checksum is of the version beside it if both name the transaction that made it. One that does not is as good
       as none: Delta then goes by the entries. */
    private static void requireOwn(Path checksum) throws IOException {
        JsonNode told = field(Files.readString(checksum), "txnId");
        Path entry = checksum.resolveSibling(checksum.getFileName().toString().replace(".crc", ".json"));
        BufferedReader lines = Files.newBufferedReader(entry, StandardCharsets.UTF_8);
        try {
            JsonNode info = null;
            for (String line = lines.readLine(); line != null && info == null; line = lines.readLine()) {
                info = field(line, "commitInfo");
            }
            if (info == null || told == null || !told.isTextual() || !told.equals((JsonNode) info.get("txnId"))) {
                throw new NoSuchFileException(checksum.toString(), null, "only one of another transaction");
            }
        } finally {
            lines.close();
        }
    }

    private static JsonNode field(String text, String name) throws IOException {
        return (JsonNode) ((JsonNode) JSON.readTree(text)).get(name);
    }

    /* A checksum that was seen before its version was seen absent is of one that is no more: a checksum is written
       after its version. It is moved before it is looked at again, as by then another task may have made the version
       and its checksum; that one is put back. Without one, as for that moment, all is read from the entries. */
    private static void takeAwayFormer(Path checksum, Path version) throws IOException {
        Path away = hidden(checksum);
        try {
            byte[] seen = Files.readAllBytes(checksum);
            if (Files.exists(version, new LinkOption[0])) return;
            Files.move(checksum, away, new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
            if (!Arrays.equals(seen, Files.readAllBytes(away))) Files.createLink(checksum, away);
        } catch (NoSuchFileException gone) {
            return;
        } catch (FileAlreadyExistsException another) {
            return;
        } finally {
            Files.deleteIfExists(away);
        }
    }

    private static void link(Path whole, Path target) throws IOException {
        try {
            Files.createLink(target, whole);
        } catch (UnsupportedOperationException none) {
            throw new IOException("no hard links, so commits of two tasks could not be told apart: " + target, none);
        }
    }

    private static Path checksumOf(Path version) {
        return version.resolveSibling(version.getFileName().toString().replace(".json", ".crc"));
    }

    private static Path hidden(Path path) {
        return path.resolveSibling("." + path.getFileName() + "." + java.util.UUID.randomUUID() + ".tmp");
    }

    private static Path local(org.apache.hadoop.fs.Path path) {
        return Paths.get(path.toUri().getPath(), new String[0]);
    }
}
