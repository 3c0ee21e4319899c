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
import org.apache.hadoop.fs.s3a.S3AUtils;
import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.GetObjectRequest;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.S3Object;

public class S3LogStore extends io.delta.storage.S3SingleDriverLogStore {
    private static final int ATTEMPTS = 5;
    private static final int READS = 3;
    private static final int PAGE = 1000;
    private static final long PAUSE_MS = 100L;
    private static final long SECS = 20L;
    private static final int BYTES_PER_SEC_MIN = 1 << 20;

    public S3LogStore(Configuration conf) { super(conf); }

    /* Delta's own looks first whether the folder is there, which takes two requests of each commit. The quick listing
     * names no folder, and VACUUM lists a table by this method as well: so it is for the log alone. */
    public Iterator listFrom(Path path, Configuration conf) throws IOException {
        S3AFileSystem fs = (S3AFileSystem) path.getFileSystem(conf);
        Path from = fs.makeQualified(path);
        if (!from.getParent().getName().equals("_delta_log")) return super.listFrom(path, conf);
        Iterator found = listed(fs, from);
        Path folder = from.getParent();
        if (!found.hasNext() && !fs.exists(folder)) throw new FileNotFoundException(folder.toString());
        return found;
    }

    /* The files of a folder from a name on, in their order. Delta's own calls what later Hadoops have no more. The key
     * without its last character is before it, and before all that comes after it. */
    private static Iterator listed(S3AFileSystem fs, Path from) throws IOException {
        String folder = fs.pathToKey(from.getParent()) + "/";
        String key = folder + from.getName();
        ListObjectsV2Request.Builder request = fs.getRequestFactory().newListObjectsV2RequestBuilder(folder, "/", PAGE);
        request.startAfter(key.substring(0, key.length() - 1));
        request.overrideConfiguration(bounded(0).build());
        TreeMap byName = new TreeMap();
        ListObjectsV2Response page;
        do {
            page = page(fs, from, (ListObjectsV2Request) request.build());
            for (Iterator objects = page.contents().iterator(); objects.hasNext();) {
                S3Object one = (S3Object) objects.next();
                String name = one.key().substring(folder.length());
                if (name.compareTo(from.getName()) < 0) continue;
                byName.put(name, new FileStatus(one.size().longValue(), false, 1, fs.getDefaultBlockSize(from),
                    one.lastModified().toEpochMilli(), new Path(from.getParent(), name)));
            }
            request.continuationToken(page.nextContinuationToken());
        } while (page.nextContinuationToken() != null);
        return byName.values().iterator();
    }

    private static ListObjectsV2Response page(S3AFileSystem fs, Path from, ListObjectsV2Request request)
            throws IOException {
        S3Client client = fs.getS3AInternals().getAmazonS3Client("log");
        for (int attempt = 1; ; attempt++) {
            try {
                return client.listObjectsV2(request);
            } catch (SdkException error) {
                boolean refused = error instanceof S3Exception && ((S3Exception) error).statusCode() / 100 == 4;
                if (refused || attempt == READS) throw S3AUtils.translateException("list", from.getParent(), error);
                pause(attempt);
            }
        }
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
            key, null, (long) body.length, false);
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
