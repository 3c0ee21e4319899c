/* See log_store.py, which compiles it. Janino knows neither type inference nor variable numbers of arguments. */
package exporter;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;

public class FileLogStore extends io.delta.storage.LocalLogStore {
    public FileLogStore(Configuration conf) { super(conf); }

    public void write(org.apache.hadoop.fs.Path path, Iterator actions, Boolean overwrite, Configuration conf)
            throws IOException {
        Path target = Paths.get(path.toUri().getPath(), new String[0]);
        String name = target.getFileName().toString();
        Path whole = target.resolveSibling("." + name + "." + java.util.UUID.randomUUID() + ".tmp");
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
                link(whole, target);
                Files.deleteIfExists(checksum);
            }
        } finally {
            Files.deleteIfExists(whole);
        }
    }

    private static void link(Path whole, Path target) throws IOException {
        try {
            Files.createLink(target, whole);
        } catch (UnsupportedOperationException none) {
            throw new IOException("no hard links, so commits of two tasks could not be told apart: " + target, none);
        }
    }
}
