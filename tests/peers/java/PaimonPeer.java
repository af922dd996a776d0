import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.utils.Pair;

/**
 * Java Paimon behind a line protocol: one request a line on stdin, fields separated by tabs; an answer is any number of
 * lines and then "OK" or "ERROR text". One process serves a whole test session.
 *
 * rows PATH [snapshot]      one line a row, cells separated by tabs (java text, \N for null)
 * levels PATH               partition-free: bucket, level, rows, deletes, file name
 * snapshots PATH            id, kind, user, identifier, total rows
 * write PATH user id rows   rows separated by ';', cells by ','; first cell is the row kind (+I, -D)
 * compact PATH user id      full compaction of every bucket
 */
public class PaimonPeer {
    /** Answers one request. */
    interface Service {
        List<String> serve(String[] fields) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        loop(PaimonPeer::serve);
    }

    static void loop(Service service) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        java.io.PrintStream out = new java.io.PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                for (String answer : service.serve(line.split("\t", -1))) {
                    out.println(answer);
                }
                out.println("OK");
            } catch (Throwable e) {
                out.println("ERROR " + e.toString().replace('\n', ' '));
            }
            out.flush();
        }
    }

    static FileStoreTable open(String path) {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(path));
        return table;
    }

    static List<String> serve(String[] f) throws Exception {
        switch (f[0]) {
            case "rows":
                return rows(open(f[1]), f.length > 2 ? f[2] : null);
            case "levels":
                return levels(open(f[1]));
            case "snapshots":
                return snapshots(open(f[1]));
            case "write":
                return write(open(f[1]), f[2], Long.parseLong(f[3]), f[4]);
            case "compact":
                return compact(open(f[1]), f[2], Long.parseLong(f[3]));
            default:
                throw new IllegalArgumentException("unknown request " + f[0]);
        }
    }

    static List<String> rows(FileStoreTable table, String snapshot) throws Exception {
        if (snapshot != null) {
            table = table.copy(Collections.singletonMap("scan.snapshot-id", snapshot));
        }
        List<DataField> fields = table.rowType().getFields();
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[fields.size()];
        for (int i = 0; i < getters.length; i++) {
            getters[i] = InternalRow.createFieldGetter(fields.get(i).type(), i);
        }
        List<String> found = new ArrayList<>();
        ReadBuilder read = table.newReadBuilder();
        for (Split split : read.newScan().plan().splits()) {
            read.newRead().createReader(split).forEachRemaining(row -> {
                StringBuilder text = new StringBuilder();
                for (InternalRow.FieldGetter getter : getters) {
                    Object value = getter.getFieldOrNull(row);
                    String cell = value == null ? "\\N"
                            : value instanceof byte[] ? Arrays.toString((byte[]) value) : value.toString();
                    text.append(text.length() == 0 ? "" : "\t").append(cell);
                }
                found.add(text.toString());
            });
        }
        return found;
    }

    static List<ManifestEntry> entries(FileStoreTable table) {
        return table.store().newScan().plan().files();
    }

    static List<String> levels(FileStoreTable table) {
        List<String> found = new ArrayList<>();
        for (ManifestEntry e : entries(table)) {
            found.add(e.bucket() + "\t" + e.file().level() + "\t" + e.file().rowCount() + "\t"
                    + e.file().deleteRowCount().orElse(-1L) + "\t" + e.file().fileName());
        }
        return found;
    }

    static List<String> snapshots(FileStoreTable table) throws Exception {
        List<String> found = new ArrayList<>();
        table.snapshotManager().snapshots().forEachRemaining(s -> found.add(s.id() + "\t" + s.commitKind() + "\t"
                + s.commitUser() + "\t" + s.commitIdentifier() + "\t" + s.totalRecordCount()));
        return found;
    }

    static Object value(String text, DataField field) {
        if (text.equals("\\N")) {
            return null;
        }
        switch (field.type().getTypeRoot()) {
            case INTEGER:
                return Integer.valueOf(text);
            case BIGINT:
                return Long.valueOf(text);
            case DOUBLE:
                return Double.valueOf(text);
            case VARCHAR:
                return BinaryString.fromString(text);
            default:
                throw new IllegalArgumentException("the protocol has no " + field.type());
        }
    }

    static FileStoreTable writable(FileStoreTable table) {
        Map<String, String> options = new HashMap<>();
        options.put("write-only", "false");
        options.put("snapshot.num-retained.min", "1000");
        return table.copy(options);
    }

    static List<String> write(FileStoreTable table, String user, long id, String text) throws Exception {
        table = writable(table);
        List<DataField> fields = table.rowType().getFields();
        try (TableWriteImpl<?> write = table.newWrite(user); StreamTableCommit commit = table.newCommit(user)) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            for (String row : text.split(";")) {
                String[] cells = row.split(",", -1);
                GenericRow made = new GenericRow(RowKind.fromShortString(cells[0]), fields.size());
                for (int i = 0; i < fields.size(); i++) {
                    made.setField(i, value(cells[i + 1], fields.get(i)));
                }
                write.write(made);
            }
            commit.commit(id, write.prepareCommit(true, id));
        }
        return Collections.emptyList();
    }

    static List<String> compact(FileStoreTable table, String user, long id) throws Exception {
        table = writable(table);
        LinkedHashSet<Pair<BinaryRow, Integer>> buckets = new LinkedHashSet<>();
        for (ManifestEntry e : entries(table)) {
            buckets.add(Pair.of(e.partition().copy(), e.bucket()));
        }
        try (TableWriteImpl<?> write = table.newWrite(user); TableCommitImpl commit = table.newCommit(user)) {
            write.withIOManager(IOManager.create(System.getProperty("java.io.tmpdir")));
            for (Pair<BinaryRow, Integer> b : buckets) {
                write.compact(b.getLeft(), b.getRight(), true);
            }
            commit.commit(id, write.prepareCommit(true, id));
        }
        return Collections.emptyList();
    }
}
