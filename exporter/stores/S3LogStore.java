/* Writes a version of a table by one PUT on the condition that nobody was first. Janino compiles it, which knows neither type
 * inference nor variable numbers of arguments. */
package exporter;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
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
    static final int ATTEMPTS = 5;

    public S3LogStore(Configuration conf) { super(conf); }

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
        AwsRequestOverrideConfiguration.Builder absent = AwsRequestOverrideConfiguration.builder();
        absent.putHeader("If-None-Match", "*");
        PutObjectRequest.Builder request = fs.getRequestFactory().newPutObjectRequestBuilder(
            key, PutObjectOptions.keepingDirs(), (long) body.length, false);
        request.overrideConfiguration(absent.build());
        for (int attempt = 1;; attempt++) {
            try {
                client.putObject((PutObjectRequest) request.build(), RequestBody.fromBytes(body));
                return;
            } catch (SdkException error) { /* 412: taken, maybe by this write, whose reply was lost; else: maybe done */
                byte[] found = found(client, fs.getBucket(), key, error);
                if (found != null && Arrays.equals(found, body)) return;
                if (found != null) throw new FileAlreadyExistsException(path.toString());
                boolean conflict = error instanceof S3Exception && ((S3Exception) error).statusCode() == 409;
                if (!conflict || attempt == ATTEMPTS) throw new IOException("not written: " + path, error);
            }
        }
    }

    private static byte[] found(S3Client client, String bucket, String key, SdkException before) throws IOException {
        GetObjectRequest.Builder request = GetObjectRequest.builder();
        try {
            return client.getObjectAsBytes((GetObjectRequest) request.bucket(bucket).key(key).build()).asByteArray();
        } catch (NoSuchKeyException none) {
            return null;
        } catch (SdkException error) {
            before.addSuppressed(error);
            throw new IOException("neither written nor seen: " + key, before);
        }
    }
}
