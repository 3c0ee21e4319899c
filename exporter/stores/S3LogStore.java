/* See s3.py. Janino, which compiles it, knows neither type inference nor variable numbers of arguments. */
package exporter;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.time.Duration;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.impl.PutObjectOptions;
import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.GetObjectRequest;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Exception;

public class S3LogStore extends io.delta.storage.S3SingleDriverLogStore {
    private static final int ATTEMPTS = 5;
    private static final long PAUSE_MS = 100L;
    private static final long SECS = 20L;
    private static final int BYTES_PER_SEC_MIN = 1 << 20;

    public S3LogStore(Configuration conf) { super(conf); }

    /* Delta's own looks first whether the folder is there, which takes two requests of each commit. The quick listing
     * goes down into all folders and names none: VACUUM, which lists a table by this method as well, would take the log's
     * entries for files of nobody, and delete them. So it is for the log alone. */
    public Iterator listFrom(Path path, Configuration conf) throws IOException {
        S3AFileSystem fs = (S3AFileSystem) path.getFileSystem(conf);
        Path from = fs.makeQualified(path);
        if (!from.getParent().getName().equals("_delta_log")) return super.listFrom(path, conf);
        FileStatus[] found = io.delta.storage.internal.S3LogStoreUtil.s3ListFromArray(fs, from, from.getParent());
        if (found.length == 0 && !fs.exists(from.getParent())) throw new FileNotFoundException(from.getParent().toString());
        TreeMap byName = new TreeMap();
        for (int index = 0; index < found.length; index++) {
            String name = found[index].getPath().getName();
            boolean below = found[index].getPath().getParent().equals(from.getParent());
            if (below && name.compareTo(from.getName()) >= 0) byName.put(name, found[index]);
        }
        return byName.values().iterator();
    }

    /* What may be overwritten is a hint, such as which checkpoint is the newest one. */
    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        StringBuilder text = new StringBuilder();
        while (actions.hasNext()) text.append((String) actions.next()).append('\n');
        byte[] body = text.toString().getBytes(StandardCharsets.UTF_8);
        S3AFileSystem fs = (S3AFileSystem) path.getFileSystem(conf);
        S3Client client = fs.getS3AInternals().getAmazonS3Client("log");
        String key = fs.pathToKey(path);
        for (int attempt = 1; ; attempt++) {
            try {
                client.putObject(absent(fs, key, body), RequestBody.fromBytes(body));
                return;
            } catch (SdkException error) {
                byte[] found = found(client, fs.getBucket(), key, body.length, error);
                if (found != null && Arrays.equals(found, body)) return;
                if (found != null) throw new FileAlreadyExistsException(path.toString());
                if (!isConflict(error) || attempt == ATTEMPTS) throw new IOException("not written: " + path, error);
                pause(attempt);
            }
        }
    }

    /* By the file system's own builder, as its settings say how objects are encrypted and kept. */
    private static PutObjectRequest absent(S3AFileSystem fs, String key, byte[] body) {
        PutObjectRequest.Builder request = fs.getRequestFactory().newPutObjectRequestBuilder(
            key, PutObjectOptions.keepingDirs(), (long) body.length, false);
        AwsRequestOverrideConfiguration.Builder bounded = bounded(body.length);
        bounded.putHeader("If-None-Match", "*");
        request.overrideConfiguration(bounded.build());
        return (PutObjectRequest) request.build();
    }

    private static AwsRequestOverrideConfiguration.Builder bounded(int bytes) {
        AwsRequestOverrideConfiguration.Builder made = AwsRequestOverrideConfiguration.builder();
        made.apiCallTimeout(Duration.ofSeconds(SECS + bytes / BYTES_PER_SEC_MIN));
        return made;
    }

    /* What stands there after a failure. The client tries again by itself, so that it was refused may mean that this
       write was first and its reply was lost: the bytes, in which is the transaction's id, tell. Null: nothing yet. */
    private static byte[] found(S3Client client, String bucket, String key, int bytes, SdkException before)
            throws IOException {
        GetObjectRequest.Builder request = GetObjectRequest.builder().bucket(bucket).key(key);
        request.overrideConfiguration(bounded(bytes).build());
        try {
            return client.getObjectAsBytes((GetObjectRequest) request.build()).asByteArray();
        } catch (NoSuchKeyException none) {
            return null;
        } catch (SdkException error) {
            before.addSuppressed(error);
            throw new IOException("neither written nor seen: " + key, before);
        }
    }

    /* Another request for that key was under way, and came to nothing. */
    private static boolean isConflict(SdkException error) {
        return error instanceof S3Exception && ((S3Exception) error).statusCode() == 409;
    }

    private static void pause(int attempt) throws IOException {
        try {
            Thread.sleep(PAUSE_MS << attempt);
        } catch (InterruptedException error) {
            throw new InterruptedIOException("interrupted while it waited to write again");
        }
    }
}
