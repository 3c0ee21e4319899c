/* See file.py. Janino, which compiles it, knows neither type inference nor variable numbers of arguments. */
package exporter;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.delta.storage.CloseableIterator;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.delta.actions.Action$;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor;

public class FileLogStore extends io.delta.storage.LocalLogStore {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int THREADS = 8;

    public FileLogStore(Configuration conf) { super(conf); }

    public CloseableIterator read(org.apache.hadoop.fs.Path path, Configuration conf) throws IOException {
        Path file = local(path);
        if (file.getFileName().toString().matches("[0-9]{20}[.]crc")) requireOwn(file);
        return super.read(path, conf);
    }

    public Iterator listFrom(org.apache.hadoop.fs.Path path, Configuration conf) throws IOException {
        List whole = new ArrayList();
        for (Iterator each = super.listFrom(path, conf); each.hasNext();) {
            FileStatus one = (FileStatus) each.next();
            if (!takeAwayDamaged(local(one.getPath()))) whole.add(one);
        }
        return whole.iterator();
    }

    public void write(org.apache.hadoop.fs.Path path, Iterator actions, Boolean overwrite, Configuration conf)
            throws IOException {
        Path target = local(path);
        Path folder = target.getParent();
        String name = target.getFileName().toString();
        boolean isVersion = name.matches("[0-9]{20}[.]json");
        boolean synced = conf.getBoolean("exporter.sync", true);
        Path whole = hidden(target);
        Path checksum = target.resolveSibling("." + name + ".crc");
        try {
            Set needed = new LinkedHashSet();
            needed.add(whole);
            StringBuilder text = new StringBuilder();
            while (actions.hasNext()) {
                String line = (String) actions.next();
                text.append(line).append('\n');
                if (synced && isVersion) addNamed(line, folder.getParent(), needed);
            }
            Files.write(whole, text.toString().getBytes(StandardCharsets.UTF_8),
                new OpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE});
            if (synced && overwrite.booleanValue()) addCheckpoint(text.toString(), folder, needed);
            if (synced) force(needed);
            if (overwrite.booleanValue()) {
                Files.deleteIfExists(checksum);
                Files.move(whole, target,
                    new CopyOption[] {StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING});
            } else {
                if (isVersion) takeAwayFormer(checksumOf(target), target);
                link(whole, target);
                Files.deleteIfExists(checksum);
            }
            if (synced) force(name.matches("0{19}[0-9][.]json") ? upwards(folder) : Collections.singleton(folder));
        } finally {
            Files.deleteIfExists(whole);
        }
    }

    /* Else a power cut leaves an entry that names files without bytes, or with another length: the files that a version
       adds, and the folders in which their names stand. */
    private static void addNamed(String line, Path table, Set needed) throws IOException {
        if (!line.startsWith("{\"add\"") && !line.startsWith("{\"cdc\"")) return;
        JsonNode action = field(line, line.substring(2, 5));
        URI uri = URI.create(((JsonNode) action.get("path")).asText());
        if (uri.getScheme() != null && !uri.getScheme().equals("file")) return;
        addWithFolders(table.resolve(uri.getPath()), table, needed);
        if (action.has("deletionVector")) {
            DeletionVectorDescriptor vector = ((AddFile) Action$.MODULE$.fromJson(line)).deletionVector();
            org.apache.hadoop.fs.Path at = new org.apache.hadoop.fs.Path(table.toUri());
            if (vector != null && vector.isOnDisk()) addWithFolders(local(vector.absolutePath(at)), table, needed);
        }
    }

    private static void addWithFolders(Path file, Path table, Set needed) {
        needed.add(file);
        Path folder = file.getParent();
        for (needed.add(folder); folder.startsWith(table); folder = folder.getParent()) needed.add(folder);
    }

    /* What is overwritten is the pointer to the newest checkpoint, after which older entries may be deleted. */
    private static void addCheckpoint(String text, Path folder, Set needed) throws IOException {
        JsonNode version = field(text, "version");
        Path sidecars = folder.resolve("_sidecars");
        if (version == null) return;
        addAll(folder, String.format("%020d.checkpoint*", new Object[] {Long.valueOf(version.asLong())}), needed);
        if (Files.isDirectory(sidecars, new LinkOption[0])) addAll(sidecars, "*", needed);
    }

    private static void addAll(Path folder, String pattern, Set needed) throws IOException {
        needed.add(folder);
        DirectoryStream found = Files.newDirectoryStream(folder, pattern);
        try {
            for (Iterator each = found.iterator(); each.hasNext();) needed.add(each.next());
        } finally {
            found.close();
        }
    }

    /* The folders of a table that is new may be new as well, up to its root and beyond. */
    private static Set upwards(Path folder) {
        Set all = new LinkedHashSet();
        for (Path at = folder; at != null; at = at.getParent()) all.add(at);
        return all;
    }

    /* Several at once: a file system with a journal then writes that once for all of them. */
    private void force(Set paths) throws NotSynced {
        ExecutorService pool = Executors.newFixedThreadPool(Math.min(THREADS, paths.size()));
        try {
            List tasks = new ArrayList();
            for (Iterator each = paths.iterator(); each.hasNext();) tasks.add(new Forcing(this, (Path) each.next()));
            for (Iterator each = pool.invokeAll(tasks).iterator(); each.hasNext();) ((Future) each.next()).get();
        } catch (ExecutionException error) {
            throw new NotSynced(error.getCause());
        } catch (InterruptedException error) {
            throw new NotSynced(error);
        } finally {
            pool.shutdown();
        }
    }

    /* Of a folder: the names in it. A folder that may not be read was not made by this user. */
    protected void force(Path path) throws IOException {
        FileChannel channel = null;
        try {
            channel = FileChannel.open(path, new OpenOption[] {StandardOpenOption.READ});
            channel.force(true);
        } catch (AccessDeniedException error) {
            if (!Files.isDirectory(path, new LinkOption[0])) throw error;
        } finally {
            if (channel != null) channel.close();
        }
    }

    private static class Forcing implements Callable {
        private final FileLogStore store;
        private final Path path;

        Forcing(FileLogStore store, Path path) {
            this.store = store;
            this.path = path;
        }

        public Object call() throws IOException {
            store.force(path);
            return null;
        }
    }

    /* A file that could once not be synced is not asked again: the system may have dropped its bytes and then says
       that all is well. */
    public static class NotSynced extends IOException {
        public NotSynced(Throwable cause) { super("not on disk: " + cause, cause); }
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

    /* A checkpoint has its name before its bytes are on disk, and only then is it pointed to and brought there
       (addCheckpoint). Nobody could read the table by one that a power cut met in between; the entries tell the same. */
    private static boolean takeAwayDamaged(Path file) throws IOException {
        if (!file.getFileName().toString().matches("[0-9]{20}[.]checkpoint[.].*parquet")) return false;
        try {
            FileChannel channel = FileChannel.open(file, new OpenOption[] {StandardOpenOption.READ});
            try {
                if (isParquet(channel, 0L) && isParquet(channel, channel.size() - 4L)) return false;
            } finally {
                channel.close();
            }
            Files.move(file, hidden(file), new CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        } catch (NoSuchFileException gone) {
            return true;
        }
        return true;
    }

    private static boolean isParquet(FileChannel channel, long at) throws IOException {
        ByteBuffer magic = ByteBuffer.allocate(4);
        return at >= 0 && channel.read(magic, at) == 4 && "PAR1".equals(new String(magic.array(), StandardCharsets.UTF_8));
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
