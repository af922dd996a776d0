import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.index.DeletionVectorMeta;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.table.source.ScanMode;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowType;

/** Metadata operations of PaimonPeer: manifest entries in full, index files, splits, bucket numbers and key bytes. */
final class PaimonFiles {
    private PaimonFiles() {}

    /** Entries of a snapshot ("snapshot", "mode": ALL, DELTA, CHANGELOG). */
    static Object files(FileStoreTable table, JsonNode request) {
        var scan = table.store().newScan();
        if (request.path("snapshot").isNumber()) {
            scan.withSnapshot(request.get("snapshot").asLong());
        }
        scan.withKind(ScanMode.valueOf(request.path("mode").asText("ALL")));
        List<Object> found = new ArrayList<>();
        for (ManifestEntry e : scan.plan().files()) {
            found.add(file(table, e));
        }
        return found;
    }

    private static Map<String, Object> file(FileStoreTable table, ManifestEntry e) {
        DataFileMeta f = e.file();
        RowType keys = table.schema().logicalTrimmedPrimaryKeysType();
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("kind", e.kind().name());
        found.put("partition", PaimonCells.named(e.partition(), table.store().partitionType().getFields()));
        found.put("bucket", e.bucket());
        found.put("total_buckets", e.totalBuckets());
        found.put("level", f.level());
        found.put("name", f.fileName());
        found.put("size", f.fileSize());
        found.put("rows", f.rowCount());
        found.put("deletes", f.deleteRowCount().orElse(null));
        found.put("min_key", key(f.minKey(), keys));
        found.put("max_key", key(f.maxKey(), keys));
        found.put("min_seq", f.minSequenceNumber());
        found.put("max_seq", f.maxSequenceNumber());
        found.put("schema_id", f.schemaId());
        found.put("source", f.fileSource().map(Enum::name).orElse(null));
        found.put("first_row_id", f.firstRowId());
        found.put("extra_files", f.extraFiles());
        found.put("embedded_index_bytes", f.embeddedIndex() == null ? null : f.embeddedIndex().length);
        found.put("value_stats_cols", f.valueStatsCols());
        found.put("write_cols", f.writeCols());
        found.put("external_path", f.externalPath().orElse(null));
        found.put("key_stats", stats(f.keyStats(), keys.getFields()));
        found.put("value_stats", stats(f.valueStats(), statFields(table, f)));
        return found;
    }

    private static Object key(BinaryRow row, RowType keys) {
        return row.getFieldCount() == 0 ? Map.of() : PaimonCells.named(row, keys.getFields());
    }

    private static List<DataField> statFields(FileStoreTable table, DataFileMeta f) {
        RowType own = table.schemaManager().schema(f.schemaId()).logicalRowType();
        List<String> names = f.valueStatsCols() != null ? f.valueStatsCols() : f.writeCols();
        if (names == null) {
            return own.getFields();
        }
        List<DataField> found = new ArrayList<>();
        for (String name : names) {
            if (own.containsField(name)) {
                found.add(own.getField(name));
            }
        }
        return found;
    }

    private static Object stats(SimpleStats stats, List<DataField> fields) {
        if (stats.minValues().getFieldCount() != fields.size()) {
            return Map.of();
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("min", PaimonCells.named(stats.minValues(), fields));
        found.put("max", PaimonCells.named(stats.maxValues(), fields));
        List<Object> nulls = new ArrayList<>();
        for (int i = 0; i < stats.nullCounts().size(); i++) {
            nulls.add(stats.nullCounts().isNullAt(i) ? null : stats.nullCounts().getLong(i));
        }
        found.put("nulls", nulls);
        return found;
    }

    static Object indexFiles(FileStoreTable table, JsonNode request) {
        Snapshot snapshot = request.path("snapshot").isNumber()
                ? table.snapshot(request.get("snapshot").asLong())
                : table.latestSnapshot().orElse(null);
        List<Object> found = new ArrayList<>();
        if (snapshot == null || snapshot.indexManifest() == null) {
            return found;
        }
        for (IndexManifestEntry e :
                table.store().newIndexFileHandler().scan(snapshot, (IndexManifestEntry any) -> true)) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("kind", e.kind().name());
            one.put("partition", PaimonCells.named(e.partition(), table.store().partitionType().getFields()));
            one.put("bucket", e.bucket());
            one.put("type", e.indexFile().indexType());
            one.put("name", e.indexFile().fileName());
            one.put("size", e.indexFile().fileSize());
            one.put("rows", e.indexFile().rowCount());
            if (e.indexFile().dvRanges() != null) {
                List<Object> ranges = new ArrayList<>();
                for (DeletionVectorMeta r : e.indexFile().dvRanges().values()) {
                    ranges.add(Arrays.asList(r.dataFileName(), r.offset(), r.length(), r.cardinality()));
                }
                one.put("dv_ranges", ranges);
            }
            found.add(one);
        }
        return found;
    }

    static Object splits(FileStoreTable table, JsonNode request) {
        List<Object> found = new ArrayList<>();
        for (Split split : table.newReadBuilder().newScan().plan().splits()) {
            DataSplit s = (DataSplit) split;
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("partition", PaimonCells.named(s.partition(), table.store().partitionType().getFields()));
            one.put("bucket", s.bucket());
            one.put("raw", s.rawConvertible());
            List<Object> files = new ArrayList<>();
            s.dataFiles().forEach(f -> files.add(f.fileName()));
            one.put("files", files);
            List<Object> deletions = new ArrayList<>();
            if (s.deletionFiles().isPresent()) {
                for (DeletionFile d : s.deletionFiles().get()) {
                    deletions.add(d == null ? null : Arrays.asList(
                            d.path().substring(d.path().lastIndexOf('/') + 1), d.offset(), d.length(),
                            d.cardinality()));
                }
            }
            one.put("deletion_files", deletions);
            found.add(one);
        }
        return found;
    }

    /** Of each row: [bucket by the writer or null, hex of the BinaryRow of its partition, of its trimmed key]. */
    static Object buckets(FileStoreTable table, JsonNode request) throws Exception {
        List<Object> found = new ArrayList<>();
        RowPartitionKeyExtractor keys = new RowPartitionKeyExtractor(table.schema());
        try (TableWriteImpl<?> write = table.newWrite("probe")) {
            for (InternalRow row : PaimonWrites.rows(table, request)) {
                Integer bucket = request.path("hash").asBoolean(true) ? write.getBucket(row) : null;
                String partition = hex(keys.partition(row));
                String key = table.primaryKeys().isEmpty() ? null : hex(keys.trimmedPrimaryKey(row));
                found.add(Arrays.asList(bucket, partition, key));
            }
        }
        return found;
    }

    private static String hex(BinaryRow row) {
        return (String) PaimonCells.hex(row.toBytes()).get("hex");
    }
}
