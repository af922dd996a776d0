import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestCommittable;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.reader.FileRecordIterator;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.DeletionFile;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.utils.Pair;

/** Writing operations of PaimonPeer: rows into every bucket mode, overwrite, compaction, deletes in append tables. */
final class PaimonWrites {
    private PaimonWrites() {}

    /** Rows and kinds of the request in one commit; "overwrite" holds the partition spec to replace. */
    static Object write(FileStoreTable table, JsonNode request) throws Exception {
        String user = request.get("user").asText();
        long id = request.get("identifier").asLong();
        JsonNode spec = request.get("overwrite");
        boolean overwrite = spec != null && !spec.isNull();
        try (TableWriteImpl<?> write = table.newWrite(user); TableCommitImpl commit = table.newCommit(user)) {
            write.withIOManager(PaimonDisk.DISK);
            if (overwrite) {
                write.withIgnorePreviousFiles(true);
                commit.withOverwrite(strings(spec));
            }
            send(table, write, request, overwrite);
            boolean wait = request.path("wait").asBoolean(true);
            List<CommitMessage> messages = write.prepareCommit(wait, id);
            Long watermark = request.path("watermark").isNumber() ? request.get("watermark").asLong() : null;
            Map<String, String> properties = strings(request.get("properties"));
            commit.ignoreEmptyCommit(request.path("ignore_empty").asBoolean(false));
            commit.commit(new ManifestCommittable(id, watermark, messages, properties));
        }
        return null;
    }

    static Map<String, String> strings(JsonNode object) {
        Map<String, String> found = new LinkedHashMap<>();
        if (object != null && object.isObject()) {
            object.fields().forEachRemaining(e -> found.put(e.getKey(), e.getValue().asText()));
        }
        return found;
    }

    private static void send(FileStoreTable table, TableWriteImpl<?> write, JsonNode request, boolean overwrite)
            throws Exception {
        List<InternalRow> rows = rows(table, request);
        BucketMode mode = table.bucketMode();
        if (mode == BucketMode.HASH_DYNAMIC) {
            RowPartitionKeyExtractor keys = new RowPartitionKeyExtractor(table.schema());
            BucketAssigner assigner = assigner(table, request.get("user").asText(), overwrite);
            for (InternalRow row : rows) {
                write.write(row, assigner.assign(keys.partition(row), keys.trimmedPrimaryKey(row).hashCode()));
            }
            assigner.prepareCommit(request.get("identifier").asLong());
        } else if (mode == BucketMode.KEY_DYNAMIC) {
            across(table, write, rows);
        } else {
            for (InternalRow row : rows) {
                write.write(row);
            }
        }
    }

    static List<InternalRow> rows(FileStoreTable table, JsonNode request) {
        List<DataField> fields = table.rowType().getFields();
        List<InternalRow> rows = new ArrayList<>();
        JsonNode kinds = request.path("kinds");
        for (JsonNode cells : request.get("rows")) {
            RowKind kind = kinds.isArray()
                    ? RowKind.fromShortString(kinds.get(rows.size()).asText())
                    : RowKind.INSERT;
            rows.add(PaimonCells.row(cells, fields, kind));
        }
        return rows;
    }

    private static BucketAssigner assigner(FileStoreTable table, String user, boolean overwrite) {
        long target = table.coreOptions().dynamicBucketTargetRowNum();
        int most = table.coreOptions().dynamicBucketMaxBuckets();
        return overwrite
                ? new SimpleHashBucketAssigner(1, 0, target, most)
                : new HashBucketAssigner(
                        table.snapshotManager(), user, table.store().newIndexFileHandler(), 1, 1, 0, target, most);
    }

    private static void across(FileStoreTable table, TableWriteImpl<?> write, List<InternalRow> rows)
            throws Exception {
        try (GlobalIndexAssigner assigner = new GlobalIndexAssigner(table)) {
            assigner.open(64L << 20, null, PaimonDisk.DISK, 1, 0, (row, bucket) -> {
                try {
                    write.write(row, bucket);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            try (RecordReader<InternalRow> known = new IndexBootstrap(table).bootstrap(1, 0)) {
                known.forEachRemaining(row -> {
                    try {
                        assigner.bootstrapKey(row);
                    } catch (java.io.IOException e) {
                        throw new java.io.UncheckedIOException(e);
                    }
                });
            }
            assigner.endBoostrap(false);
            for (InternalRow row : rows) {
                assigner.processInput(row);
            }
        }
    }

    /** Full (or rule-picked) compaction of every bucket; of an append table without buckets, all that is small. */
    static Object compact(FileStoreTable table, JsonNode request) throws Exception {
        return compact(
                table, request.get("user").asText(), request.get("identifier").asLong(),
                request.path("full").asBoolean(true));
    }

    static int compact(FileStoreTable table, String user, long id, boolean full) throws Exception {
        try (TableWriteImpl<?> write = table.newWrite(user); TableCommitImpl commit = table.newCommit(user)) {
            write.withIOManager(PaimonDisk.DISK);
            List<CommitMessage> messages;
            if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
                messages = compactUnaware(table, write);
            } else {
                for (Pair<BinaryRow, Integer> b : buckets(table)) {
                    write.compact(b.getLeft(), b.getRight(), full);
                }
                messages = write.prepareCommit(true, id);
            }
            commit.ignoreEmptyCommit(true);
            commit.commit(id, messages);
            return messages.size();
        }
    }

    private static LinkedHashSet<Pair<BinaryRow, Integer>> buckets(FileStoreTable table) {
        LinkedHashSet<Pair<BinaryRow, Integer>> buckets = new LinkedHashSet<>();
        for (ManifestEntry e : table.store().newScan().plan().files()) {
            if (e.bucket() >= 0) {
                buckets.add(Pair.of(e.partition().copy(), e.bucket()));
            }
        }
        return buckets;
    }

    private static List<CommitMessage> compactUnaware(FileStoreTable table, TableWriteImpl<?> write)
            throws Exception {
        if (table.coreOptions().rowTrackingEnabled()) {
            write.withWriteType(SpecialFields.rowTypeWithRowTracking(table.rowType()));
        }
        AppendCompactCoordinator coordinator = new AppendCompactCoordinator(table, false, null);
        List<CommitMessage> messages = new ArrayList<>();
        try {
            while (true) {
                for (AppendCompactTask task : coordinator.run()) {
                    messages.add(task.doCompact(table, (BaseAppendFileStoreWrite) write.fileStoreWrite()));
                }
            }
        } catch (EndOfScanException e) {
            return messages;
        }
    }

    /** Deletion vectors for the rows of an append table that match; how many. */
    static Object delete(FileStoreTable table, JsonNode request, Predicate predicate) throws Exception {
        Map<Pair<BinaryRow, Integer>, BaseAppendDeleteFileMaintainer> maintainers = new HashMap<>();
        long deleted = 0;
        for (DataSplit split : table.newSnapshotReader().read().dataSplits()) {
            for (int i = 0; i < split.dataFiles().size(); i++) {
                DeletionVector found = matching(table, split, i, predicate);
                if (!found.isEmpty()) {
                    deleted += found.getCardinality();
                    maintainers
                            .computeIfAbsent(Pair.of(split.partition(), split.bucket()), k -> maintainer(table, k))
                            .notifyNewDeletionVector(split.dataFiles().get(i).fileName(), found);
                }
            }
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (BaseAppendDeleteFileMaintainer one : maintainers.values()) {
            messages.add(message(one));
        }
        try (TableCommitImpl commit = table.newCommit(request.get("user").asText())) {
            commit.ignoreEmptyCommit(true);
            commit.commit(request.get("identifier").asLong(), messages);
        }
        return deleted;
    }

    private static BaseAppendDeleteFileMaintainer maintainer(FileStoreTable table, Pair<BinaryRow, Integer> place) {
        return table.bucketMode() == BucketMode.BUCKET_UNAWARE
                ? BaseAppendDeleteFileMaintainer.forUnawareAppend(
                        table.store().newIndexFileHandler(), table.latestSnapshot().get(), place.getLeft())
                : BaseAppendDeleteFileMaintainer.forBucketedAppend(
                        table.store().newIndexFileHandler(), table.latestSnapshot().get(), place.getLeft(),
                        place.getRight());
    }

    private static CommitMessage message(BaseAppendDeleteFileMaintainer maintainer) {
        List<IndexFileMeta> added = new ArrayList<>();
        List<IndexFileMeta> removed = new ArrayList<>();
        for (IndexManifestEntry entry : maintainer.persist()) {
            (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
        }
        List<DataFileMeta> none = new ArrayList<>();
        return new CommitMessageImpl(
                maintainer.getPartition(), maintainer.getBucket(), null,
                new DataIncrement(none, none, none, added, removed), CompactIncrement.emptyIncrement());
    }

    private static DeletionVector matching(FileStoreTable table, DataSplit split, int i, Predicate predicate)
            throws Exception {
        DataFileMeta file = split.dataFiles().get(i);
        DataSplit.Builder one = DataSplit.builder()
                .withSnapshot(split.snapshotId())
                .withPartition(split.partition())
                .withBucket(split.bucket())
                .withBucketPath(split.bucketPath())
                .withTotalBuckets(split.totalBuckets())
                .withDataFiles(List.of(file))
                .rawConvertible(true);
        if (split.deletionFiles().isPresent()) {
            List<DeletionFile> files = new ArrayList<>();
            files.add(split.deletionFiles().get().get(i));
            one.withDataDeletionFiles(files);
        }
        DeletionVector found = table.coreOptions().deletionVectorBitmap64()
                ? new Bitmap64DeletionVector()
                : new BitmapDeletionVector();
        try (RecordReader<InternalRow> reader = table.newReadBuilder().newRead().createReader(one.build())) {
            for (var batch = reader.readBatch(); batch != null; batch = reader.readBatch()) {
                FileRecordIterator<InternalRow> rows = (FileRecordIterator<InternalRow>) batch;
                for (InternalRow row = rows.next(); row != null; row = rows.next()) {
                    if (predicate.test(row)) {
                        found.delete(rows.returnedPosition());
                    }
                }
                batch.releaseBatch();
            }
        }
        return found;
    }
}
