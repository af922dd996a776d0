import com.alibaba.fluss.client.Connection;
import com.alibaba.fluss.client.ConnectionFactory;
import com.alibaba.fluss.client.admin.Admin;
import com.alibaba.fluss.client.admin.OffsetSpec;
import com.alibaba.fluss.client.metadata.LakeSnapshot;
import com.alibaba.fluss.client.table.Table;
import com.alibaba.fluss.client.table.scanner.ScanRecord;
import com.alibaba.fluss.client.table.scanner.log.LogScanner;
import com.alibaba.fluss.client.table.scanner.log.ScanRecords;
import com.alibaba.fluss.config.Configuration;
import com.alibaba.fluss.metadata.TableBucket;
import com.alibaba.fluss.metadata.TableInfo;
import com.alibaba.fluss.metadata.TablePath;
import com.alibaba.fluss.row.InternalRow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What Fluss's own client sees of a table (k INT, v STRING): server, database, table and password are given. */
public class FlussReader {
    public static void main(String[] args) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("bootstrap.servers", args[0]);
        settings.setString("client.security.protocol", "sasl");
        settings.setString("client.security.sasl.mechanism", "PLAIN");
        settings.setString("client.security.sasl.username", "java");
        settings.setString("client.security.sasl.password", args[3]);
        TablePath path = TablePath.of(args[1], args[2]);
        try (Connection connection = ConnectionFactory.createConnection(settings);
                Admin admin = connection.getAdmin()) {
            System.out.println("databases " + admin.listDatabases().get());
            System.out.println("tables " + admin.listTables(args[1]).get());
            TableInfo info = admin.getTableInfo(path).get();
            System.out.println("columns " + info.getRowType());
            List<Integer> buckets = new ArrayList<>();
            for (int bucket = 0; bucket < info.getNumBuckets(); bucket++) {
                buckets.add(bucket);
            }
            Map<Integer, Long> ends = admin.listOffsets(path, buckets, new OffsetSpec.LatestSpec()).all().get();
            System.out.println("ends " + new TreeMap<>(ends));
            LakeSnapshot lake = admin.getLatestLakeSnapshot(path).get();
            Map<Integer, Long> tiered = new TreeMap<>();
            lake.getTableBucketsOffset().forEach((bucket, offset) -> tiered.put(bucket.getBucket(), offset));
            System.out.println("lake " + lake.getSnapshotId() + " " + tiered);
            long wanted = ends.values().stream().mapToLong(Long::longValue).sum();
            try (Table table = connection.getTable(path);
                    LogScanner scanner = table.newScan().createLogScanner()) {
                buckets.forEach(scanner::subscribeFromBeginning);
                long deadline = System.currentTimeMillis() + 30_000;
                for (long seen = 0; seen < wanted && System.currentTimeMillis() < deadline; ) {
                    ScanRecords records = scanner.poll(Duration.ofMillis(500));
                    for (TableBucket bucket : records.buckets()) {
                        for (ScanRecord record : records.records(bucket)) {
                            InternalRow row = record.getRow();
                            Object value = row.isNullAt(1) ? null : row.getString(1);
                            String kind = record.getChangeType().shortString();
                            long offset = record.logOffset();
                            System.out.println(
                                    "row " + bucket.getBucket() + " " + offset + " " + kind + " " + row.getInt(0) + " " + value);
                            seen++;
                        }
                    }
                }
            }
        }
    }
}
