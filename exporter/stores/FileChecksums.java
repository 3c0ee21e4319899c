/* See file.py. */
package exporter;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.spark.sql.execution.streaming.*; // to Spark 4.1
import org.apache.spark.sql.execution.streaming.checkpointing.*; // later

public class FileChecksums extends FileSystemBasedCheckpointFileManager {
    public FileChecksums(org.apache.hadoop.fs.Path log, Configuration conf) { super(log, conf); }

    public FSDataOutputStream createTempFile(org.apache.hadoop.fs.Path path) {
        try {
            return new FSDataOutputStream(Files.newOutputStream(local(path),
                new OpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE}), null);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public void renameTempFile(org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to, boolean overwrite) {
        Path whole = local(from);
        Path target = local(to);
        try {
            try {
                Files.move(whole, target,
                    overwrite ? new CopyOption[] {StandardCopyOption.REPLACE_EXISTING} : new CopyOption[0]);
                Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
            } finally {
                Files.deleteIfExists(whole);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Path local(org.apache.hadoop.fs.Path path) {
        return Paths.get(path.toUri().getPath(), new String[0]);
    }
}
