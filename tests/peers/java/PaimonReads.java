import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.query.LocalTableQuery;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.SnapshotNotExistPlan;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;

/** Reading operations of PaimonPeer: batch (filters, projections, system tables), stream, point lookup. */
final class PaimonReads {
    private PaimonReads() {}

    static Map<String, Object> read(FileStoreTable base, JsonNode request) throws Exception {
        Table table = base;
        if (request.path("suffix").isTextual()) {
            table = SystemTableLoader.load(request.get("suffix").asText(), base);
            if (table == null) {
                throw new IllegalArgumentException("no system table " + request.get("suffix"));
            }
        }
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        if (request.path("columns").isArray()) {
            type = type.project(PaimonPeer.list(request.get("columns")));
            builder = builder.withReadType(type);
        }
        boolean filtered = request.path("where").isArray();
        if (filtered) {
            builder = builder.withFilter(predicate(table.rowType(), request.get("where")));
        }
        if (request.path("limit").isNumber()) {
            builder = builder.withLimit(request.get("limit").asInt());
        }
        TableRead read = builder.newRead().withIOManager(PaimonDisk.DISK);
        if (filtered && request.path("exact").asBoolean(true)) {
            read = read.executeFilter();
        }
        List<Split> splits = builder.newScan().plan().splits();
        List<Object> rows = new ArrayList<>();
        List<Object> kinds = new ArrayList<>();
        List<Object> planned = new ArrayList<>();
        for (Split split : splits) {
            if (split instanceof DataSplit) {
                ((DataSplit) split).dataFiles().forEach(f -> planned.add(f.fileName()));
            }
            collect(read, split, type.getFields(), rows, kinds);
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("fields", fields(type));
        found.put("rows", rows);
        found.put("kinds", kinds);
        found.put("files_planned", planned);
        return found;
    }

    /** A table of the database `sys` of the warehouse at `path`. */
    static Map<String, Object> global(JsonNode request) throws Exception {
        Options options = new Options();
        options.set("warehouse", request.get("path").asText());
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
            Table table = catalog.getTable(Identifier.create("sys", request.get("name").asText()));
            List<Object> rows = new ArrayList<>();
            ReadBuilder builder = table.newReadBuilder();
            for (Split split : builder.newScan().plan().splits()) {
                collect(builder.newRead(), split, table.rowType().getFields(), rows, new ArrayList<>());
            }
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("fields", fields(table.rowType()));
            found.put("rows", rows);
            return found;
        }
    }

    private static void collect(TableRead read, Split split, List<DataField> fields, List<Object> rows, List<Object> kinds)
            throws Exception {
        try (RecordReader<InternalRow> reader = read.createReader(split)) {
            reader.forEachRemaining(row -> {
                rows.add(PaimonCells.row(row, fields));
                kinds.add(row.getRowKind().shortString());
            });
        }
    }

    static List<Object> fields(RowType type) {
        List<Object> found = new ArrayList<>();
        for (DataField f : type.getFields()) {
            found.add(Arrays.asList(f.name(), f.type().asSQLString()));
        }
        return found;
    }

    /** What a stream delivers from snapshot "from" on, one entry per plan, until it has caught up. */
    static Object stream(FileStoreTable table, JsonNode request) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        if (request.path("from").isNumber()) {
            scan.restore(request.get("from").asLong());
        }
        TableRead read = builder.newRead().withIOManager(PaimonDisk.DISK);
        Long latest = table.snapshotManager().latestSnapshotId();
        List<Object> found = new ArrayList<>();
        for (int idle = 0; idle < 2; ) {
            TableScan.Plan plan;
            try {
                plan = scan.plan();
            } catch (EndOfScanException e) {
                break;
            }
            if (plan instanceof SnapshotNotExistPlan) {
                Long next = scan.checkpoint();
                idle = next != null && latest != null && next <= latest && idle == 0 ? 1 : idle + 1;
                continue;
            }
            idle = 0;
            List<Object> rows = new ArrayList<>();
            List<Object> kinds = new ArrayList<>();
            for (Split split : plan.splits()) {
                collect(read, split, table.rowType().getFields(), rows, kinds);
            }
            List<Object> changes = new ArrayList<>();
            for (int i = 0; i < rows.size(); i++) {
                List<Object> change = new ArrayList<>();
                change.add(kinds.get(i));
                change.addAll((List<?>) rows.get(i));
                changes.add(change);
            }
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("next", scan.checkpoint());
            entry.put("changes", changes);
            found.add(entry);
        }
        if (request.path("done").asBoolean(false)) {
            scan.notifyCheckpointComplete(scan.checkpoint());
        }
        return found;
    }

    /** The row of each key (trimmed primary key cells) in one partition, or null. */
    static Object lookup(FileStoreTable table, JsonNode request) throws Exception {
        RowType partitions = table.store().partitionType();
        RowType keys = table.schema().logicalTrimmedPrimaryKeysType();
        InternalRowSerializer binary = new InternalRowSerializer(partitions);
        var partition = binary.toBinaryRow(PaimonCells.row(
                        request.get("partition"), partitions.getFields(), org.apache.paimon.types.RowKind.INSERT))
                .copy();
        List<Object> found = new ArrayList<>();
        try (LocalTableQuery query = table.newLocalTableQuery().withIOManager(PaimonDisk.DISK)) {
            List<Integer> buckets = new ArrayList<>();
            for (DataSplit split : table.newSnapshotReader().read().dataSplits()) {
                if (split.partition().equals(partition)) {
                    query.refreshFiles(partition, split.bucket(), List.of(), split.dataFiles());
                    buckets.add(split.bucket());
                }
            }
            InternalRowSerializer key = new InternalRowSerializer(keys);
            for (JsonNode cells : request.get("keys")) {
                var wanted = key.toBinaryRow(PaimonCells.row(
                                cells, keys.getFields(), org.apache.paimon.types.RowKind.INSERT))
                        .copy();
                List<Object> row = null;
                for (int i = 0; i < buckets.size() && row == null; i++) {
                    InternalRow one = query.lookup(partition, buckets.get(i), wanted);
                    row = one == null ? null : PaimonCells.row(one, table.rowType().getFields());
                }
                found.add(row);
            }
        }
        return found;
    }

    /** ["=", column, literal], ["in", column, [literals]], ["null", column], ["and" | "or", p, p] and so on. */
    static Predicate predicate(RowType type, JsonNode p) {
        String op = p.get(0).asText();
        if (op.equals("and") || op.equals("or")) {
            Predicate left = predicate(type, p.get(1));
            Predicate right = predicate(type, p.get(2));
            return op.equals("and") ? PredicateBuilder.and(left, right) : PredicateBuilder.or(left, right);
        }
        PredicateBuilder b = new PredicateBuilder(type);
        int i = type.getFieldIndex(p.get(1).asText());
        DataType column = type.getTypeAt(i);
        switch (op) {
            case "null":
                return b.isNull(i);
            case "not null":
                return b.isNotNull(i);
            case "in":
            case "not in":
                List<Object> literals = new ArrayList<>();
                p.get(2).forEach(l -> literals.add(PaimonCells.value(l, column)));
                return op.equals("in") ? b.in(i, literals) : b.notIn(i, literals);
            default:
                return compare(b, i, op, PaimonCells.value(p.get(2), column));
        }
    }

    private static Predicate compare(PredicateBuilder b, int i, String op, Object literal) {
        switch (op) {
            case "=":
                return b.equal(i, literal);
            case "!=":
                return b.notEqual(i, literal);
            case "<":
                return b.lessThan(i, literal);
            case "<=":
                return b.lessOrEqual(i, literal);
            case ">":
                return b.greaterThan(i, literal);
            case ">=":
                return b.greaterOrEqual(i, literal);
            case "starts":
                return b.startsWith(i, literal);
            case "ends":
                return b.endsWith(i, literal);
            case "contains":
                return b.contains(i, literal);
            default:
                throw new IllegalArgumentException("unknown comparison " + op);
        }
    }
}
