import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.view.View;
import org.apache.paimon.view.ViewImpl;

/**
 * A catalog of Java Paimon at a time, in the line protocol of PaimonPeer: `open` makes another one of its options.
 * Tables it creates have k INT (the key) and v STRING, one bucket; tables it writes have them too.
 *
 * open key=value … | databases | createdb NAME | dropdb NAME | tables DB | create DB T [key=value,…] | drop DB T | rename DB T DB2 T2
 * createtypes DB T {"column": "TYPE", …} | rows DB T | write DB T IDENTIFIER k:v,… | options DB T | add DB T column | set DB T key value | unset DB T key
 * views DB | view DB V | createview DB V column=TYPE,… query comment | dropview DB V | renameview DB V DB2 V2
 * createdbwith NAME key=value,… | dbproperties NAME
 */
public class PaimonCatalog {
    static Catalog catalog;

    public static void main(String[] args) throws Exception {
        PaimonPeer.loop(PaimonCatalog::serve);
    }

    static List<String> open(String[] pairs) throws Exception {
        if (catalog != null) {
            catalog.close();
            catalog = null;
        }
        Options options = new Options();
        for (String pair : pairs) {
            int at = pair.indexOf('=');
            options.set(pair.substring(0, at), pair.substring(at + 1));
        }
        options.set("cache-enabled", "false");
        catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
        return Collections.emptyList();
    }

    static List<String> serve(String[] f) throws Exception {
        if (f[0].equals("open")) {
            return open(Arrays.copyOfRange(f, 1, f.length));
        }
        Identifier id = f.length > 2 ? Identifier.create(f[1], f[2]) : null;
        switch (f[0]) {
            case "databases":
                return sorted(catalog.listDatabases());
            case "createdb":
                catalog.createDatabase(f[1], false);
                return Collections.emptyList();
            case "dropdb":
                catalog.dropDatabase(f[1], false, true);
                return Collections.emptyList();
            case "tables":
                return sorted(catalog.listTables(f[1]));
            case "create":
                return create(id, f.length > 3 ? f[3] : "");
            case "createtypes":
                return createTypes(id, f[3]);
            case "drop":
                catalog.dropTable(id, false);
                return Collections.emptyList();
            case "rename":
                catalog.renameTable(id, Identifier.create(f[3], f[4]), false);
                return Collections.emptyList();
            case "rows":
                return rows(table(id));
            case "write":
                return write(table(id), Long.parseLong(f[3]), f[4]);
            case "options":
                return pairs(catalog.getTable(id).options());
            case "add":
                return alter(id, SchemaChange.addColumn(f[3], DataTypes.STRING()));
            case "set":
                return alter(id, SchemaChange.setOption(f[3], f[4]));
            case "unset":
                return alter(id, SchemaChange.removeOption(f[3]));
            case "views":
                return sorted(catalog.listViews(f[1]));
            case "view":
                return view(catalog.getView(id));
            case "createview":
                return createView(id, f[3], f[4], f[5]);
            case "dropview":
                catalog.dropView(id, false);
                return Collections.emptyList();
            case "renameview":
                catalog.renameView(id, Identifier.create(f[3], f[4]), false);
                return Collections.emptyList();
            case "createdbwith":
                catalog.createDatabase(f[1], false, map(f[2]));
                return Collections.emptyList();
            case "dbproperties":
                return pairs(catalog.getDatabase(f[1]).options());
            default:
                throw new IllegalArgumentException("unknown request " + f[0]);
        }
    }

    static Map<String, String> map(String pairs) {
        Map<String, String> found = new TreeMap<>();
        for (String pair : pairs.split(",")) {
            found.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        return found;
    }

    static List<String> view(View view) {
        List<String> found = new ArrayList<>();
        view.rowType().getFields().forEach(
                f -> found.add(f.name() + "\t" + f.type() + "\t" + (f.description() == null ? "" : f.description())));
        found.add("query\t" + view.query().replace("\n", " "));
        found.add("comment\t" + view.comment().orElse(""));
        return found;
    }

    static List<String> createView(Identifier id, String columns, String query, String comment) throws Exception {
        List<DataField> fields = new ArrayList<>();
        map(columns).forEach((name, type) -> fields.add(new DataField(
                fields.size(), name, DataTypeJsonParser.parseAtomicTypeSQLString(type))));
        catalog.createView(id, new ViewImpl(id, fields, query, Collections.emptyMap(), comment, Collections.emptyMap()), false);
        return Collections.emptyList();
    }

    static FileStoreTable table(Identifier id) throws Exception {
        return (FileStoreTable) catalog.getTable(id);
    }

    static List<String> alter(Identifier id, SchemaChange change) throws Exception {
        catalog.alterTable(id, change, false);
        return Collections.emptyList();
    }

    static List<String> create(Identifier id, String options) throws Exception {
        Schema.Builder schema = Schema.newBuilder()
                .column("k", DataTypes.INT().notNull(), "the key").column("v", DataTypes.STRING())
                .primaryKey("k").option("bucket", "1").comment("made by Java");
        for (String pair : options.isEmpty() ? new String[0] : options.split(",")) {
            schema.option(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        catalog.createTable(id, schema.build(), false);
        return Collections.emptyList();
    }

    static List<String> createTypes(Identifier id, String columns) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        JsonNode types = new ObjectMapper().readTree(columns);
        for (Iterator<String> names = types.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            schema.column(name, DataTypeJsonParser.parseDataType(types.get(name)));
        }
        catalog.createTable(id, schema.build(), false);
        return Collections.emptyList();
    }

    static List<String> rows(FileStoreTable table) throws Exception {
        List<String> found = new ArrayList<>();
        ReadBuilder reading = table.newReadBuilder();
        for (Split split : reading.newScan().plan().splits()) {
            reading.newRead().createReader(split).forEachRemaining(
                    row -> found.add(row.getInt(0) + "\t" + (row.isNullAt(1) ? "\\N" : row.getString(1))));
        }
        return sorted(found);
    }

    static List<String> write(FileStoreTable table, long identifier, String rows) throws Exception {
        try (StreamTableWrite write = table.newWrite("java"); StreamTableCommit commit = table.newCommit("java")) {
            write.withIOManager(PaimonDisk.DISK);
            for (String row : rows.split(",")) {
                String[] cells = row.split(":");
                GenericRow values = new GenericRow(table.rowType().getFieldCount());
                values.setField(0, Integer.parseInt(cells[0]));
                values.setField(1, BinaryString.fromString(cells[1]));
                write.write(values);
            }
            commit.commit(identifier, write.prepareCommit(true, identifier));
        }
        return Collections.emptyList();
    }

    static List<String> pairs(Map<String, String> options) {
        List<String> found = new ArrayList<>();
        new TreeMap<>(options).forEach((k, v) -> found.add(k + "\t" + v));
        return found;
    }

    static List<String> sorted(List<String> names) {
        List<String> found = new ArrayList<>(names);
        Collections.sort(found);
        return found;
    }
}
