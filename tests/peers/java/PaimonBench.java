import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.JoinedRow;
import org.apache.paimon.format.FileFormat;
import org.apache.paimon.format.FormatReaderContext;
import org.apache.paimon.format.FormatReaderFactory;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Java Paimon's core as a contender of the benchmarks, in the line protocol of PaimonPeer; answers are "name TAB value".
 * One thread reads and writes; compactions run in the writer's own one. The source is read with Paimon's Parquet
 * reader; rows go to the writer as it hands them out. All writers share one pool of write-buffer-size, which spills.
 *
 * read FILES months         rows and sum of quantities (hundredths) of the source; FILES separated by commas
 * load PATH FILES           all rows, one commit
 * update PATH FILES         every hundredth row of each file with quantity 99
 * scan PATH                 rows and sum, every column read
 * compact PATH              full compaction of every bucket
 * upserts PATH FILES        one commit a file; their milliseconds, which include reading the file
 * deletes PATH FILES        the same with rows of kind -D
 * gets PATH FILE            rows and sum of the keys in a file, one plan and read a key; their milliseconds
 * commits PATH count rows   so many commits of small batches; their milliseconds
 * plan PATH                 the splits of a full scan
 */
public class PaimonBench {
    static final Map<String, String> KEEP = Map.of("write-only", "false", "snapshot.num-retained.min", "1000");
    static final int LINE = 3;
    static final int QUANTITY = 4;
    static final int SHIPPED = 10;
    static final int EVERY = 100;
    static final RowType LINEITEM = RowType.builder()
            .field("l_orderkey", DataTypes.BIGINT().notNull())
            .field("l_partkey", DataTypes.BIGINT().notNull())
            .field("l_suppkey", DataTypes.BIGINT().notNull())
            .field("l_linenumber", DataTypes.INT().notNull())
            .field("l_quantity", DataTypes.DECIMAL(15, 2).notNull())
            .field("l_extendedprice", DataTypes.DECIMAL(15, 2).notNull())
            .field("l_discount", DataTypes.DECIMAL(15, 2).notNull())
            .field("l_tax", DataTypes.DECIMAL(15, 2).notNull())
            .field("l_returnflag", DataTypes.STRING().notNull())
            .field("l_linestatus", DataTypes.STRING().notNull())
            .field("l_shipdate", DataTypes.DATE().notNull())
            .field("l_commitdate", DataTypes.DATE().notNull())
            .field("l_receiptdate", DataTypes.DATE().notNull())
            .field("l_shipinstruct", DataTypes.STRING().notNull())
            .field("l_shipmode", DataTypes.STRING().notNull())
            .field("l_comment", DataTypes.STRING().notNull())
            .build();

    /** Takes rows; a row is valid only during the call. */
    interface Sink {
        void take(InternalRow row) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        PaimonPeer.loop(PaimonBench::serve);
    }

    static List<String> serve(String[] f) throws Exception {
        switch (f[0]) {
            case "read":
                return total(sink -> source(f[1], f[2].equals("true"), sink));
            case "load":
                return write(f[1], sink -> source(f[2], hasMonths(f[1]), sink));
            case "update":
                return write(f[1], sink -> changed(f[2], hasMonths(f[1]), sink));
            case "upserts":
                return each(f[1], f[2], RowKind.INSERT);
            case "deletes":
                return each(f[1], f[2], RowKind.DELETE);
            case "gets":
                return gets(PaimonPeer.open(f[1]), f[2]);
            case "scan":
                return total(sink -> scan(PaimonPeer.open(f[1]), sink));
            case "compact":
                PaimonWrites.compact(PaimonPeer.open(f[1]).copy(KEEP), "bench-compaction", 1, true);
                return Collections.emptyList();
            case "commits":
                return commits(PaimonPeer.open(f[1]), Integer.parseInt(f[2]), Integer.parseInt(f[3]));
            case "plan":
                return Arrays.asList("splits\t" + splits(PaimonPeer.open(f[1])).size());
            default:
                throw new IllegalArgumentException("unknown request " + f[0]);
        }
    }

    /** Whatever hands rows to a sink. */
    interface Rows {
        void into(Sink sink) throws Exception;
    }

    static List<String> total(Rows rows) throws Exception {
        long[] sums = new long[2];
        rows.into(row -> {
            sums[0]++;
            sums[1] += row.getDecimal(QUANTITY, 15, 2).toUnscaledLong();
        });
        return Arrays.asList("rows\t" + sums[0], "quantity\t" + sums[1]);
    }

    static boolean hasMonths(String path) {
        return PaimonPeer.open(path).rowType().getFieldNames().contains("l_year");
    }

    static void source(String files, boolean months, Sink sink) throws Exception {
        for (String file : files.split(",")) {
            each(file, months, sink);
        }
    }

    static void each(String file, boolean months, Sink sink) throws Exception {
        if (!months) {
            rows(file, LINEITEM, sink);
            return;
        }
        GenericRow added = new GenericRow(2);
        JoinedRow joined = new JoinedRow();
        rows(file, LINEITEM, row -> {
            LocalDate day = LocalDate.ofEpochDay(row.getInt(SHIPPED));
            added.setField(0, (long) day.getYear());
            added.setField(1, (long) day.getMonthValue());
            sink.take(joined.replace(row, added));
        });
    }

    static void rows(String file, RowType type, Sink sink) throws Exception {
        LocalFileIO io = LocalFileIO.create();
        Path path = new Path(file);
        FormatReaderFactory factory = FileFormat.fromIdentifier("parquet", new Options())
                .createReaderFactory(type, type, Collections.emptyList());
        try (RecordReader<InternalRow> reader =
                factory.createReader(new FormatReaderContext(io, path, io.getFileSize(path)))) {
            RecordReader.RecordIterator<InternalRow> batch;
            while ((batch = reader.readBatch()) != null) {
                for (InternalRow row = batch.next(); row != null; row = batch.next()) {
                    sink.take(row);
                }
                batch.releaseBatch();
            }
        }
    }

    static void changed(String files, boolean months, Sink sink) throws Exception {
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[LINEITEM.getFieldCount()];
        for (int i = 0; i < getters.length; i++) {
            getters[i] = InternalRow.createFieldGetter(LINEITEM.getTypeAt(i), i);
        }
        Decimal value = Decimal.fromUnscaledLong(9900, 15, 2);
        for (String file : files.split(",")) {
            long[] at = new long[1];
            each(file, months, row -> {
                if (at[0]++ % EVERY == 0) {
                    GenericRow made = new GenericRow(row.getFieldCount());
                    for (int i = 0; i < getters.length; i++) {
                        made.setField(i, getters[i].getFieldOrNull(row));
                    }
                    made.setField(QUANTITY, value);
                    for (int i = getters.length; i < row.getFieldCount(); i++) {
                        made.setField(i, row.getLong(i));
                    }
                    sink.take(made);
                }
            });
        }
    }

    static List<String> write(String path, Rows rows) throws Exception {
        write(PaimonPeer.open(path), "bench", BatchWriteBuilder.COMMIT_IDENTIFIER, rows);
        return Collections.emptyList();
    }

    static void write(FileStoreTable table, String user, long identifier, Rows rows) throws Exception {
        try (TableWriteImpl<?> write = table.newWrite(user); StreamTableCommit commit = table.newCommit(user)) {
            write.withIOManager(PaimonDisk.DISK);
            rows.into(write::write);
            commit.commit(identifier, write.prepareCommit(true, identifier));
        }
    }

    static List<Split> splits(FileStoreTable table) {
        return table.newReadBuilder().newScan().plan().splits();
    }

    static void scan(FileStoreTable table, Sink sink) throws Exception {
        ReadBuilder read = table.newReadBuilder();
        for (Split split : splits(table)) {
            try (RecordReader<InternalRow> reader = read.newRead().createReader(split)) {
                RecordReader.RecordIterator<InternalRow> batch;
                while ((batch = reader.readBatch()) != null) {
                    for (InternalRow row = batch.next(); row != null; row = batch.next()) {
                        sink.take(row);
                    }
                    batch.releaseBatch();
                }
            }
        }
    }

    static List<String> each(String path, String files, RowKind kind) throws Exception {
        FileStoreTable table = PaimonPeer.open(path);
        List<String> times = new ArrayList<>();
        for (String file : files.split(",")) {
            long began = System.nanoTime();
            write(table, "bench", BatchWriteBuilder.COMMIT_IDENTIFIER, sink -> each(file, false, row -> {
                row.setRowKind(kind);
                sink.take(row);
            }));
            times.add(String.format("%.3f", (System.nanoTime() - began) / 1e6));
        }
        return Arrays.asList("ms\t" + String.join(",", times));
    }

    static List<String> gets(FileStoreTable table, String file) throws Exception {
        List<long[]> keys = new ArrayList<>();
        RowType type = RowType.builder()
                .field("l_orderkey", DataTypes.BIGINT().notNull())
                .field("l_linenumber", DataTypes.INT().notNull())
                .build();
        rows(file, type, row -> keys.add(new long[] {row.getLong(0), row.getInt(1)}));
        PredicateBuilder where = new PredicateBuilder(table.rowType());
        List<String> times = new ArrayList<>();
        long[] sums = new long[2];
        for (long[] key : keys) {
            long began = System.nanoTime();
            List<Predicate> equal = Arrays.asList(where.equal(0, key[0]), where.equal(LINE, (int) key[1]));
            ReadBuilder read = table.newReadBuilder().withFilter(equal);
            for (Split split : read.newScan().plan().splits()) {
                try (RecordReader<InternalRow> reader =
                        read.newRead().executeFilter().createReader(split)) {
                    reader.forEachRemaining(row -> {
                        sums[0]++;
                        sums[1] += row.getDecimal(QUANTITY, 15, 2).toUnscaledLong();
                    });
                }
            }
            times.add(String.format("%.3f", (System.nanoTime() - began) / 1e6));
        }
        return Arrays.asList("rows\t" + sums[0], "quantity\t" + sums[1], "ms\t" + String.join(",", times));
    }

    static List<String> commits(FileStoreTable table, int count, int rows) throws Exception {
        List<String> times = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            BinaryString value = BinaryString.fromString("value " + number);
            long first = number;
            long began = System.nanoTime();
            write(table, "bench", BatchWriteBuilder.COMMIT_IDENTIFIER, sink -> {
                for (int row = 0; row < rows; row++) {
                    sink.take(GenericRow.of(row * 7919L + first, value));
                }
            });
            times.add(String.format("%.3f", (System.nanoTime() - began) / 1e6));
        }
        return Arrays.asList("ms\t" + String.join(",", times));
    }
}
