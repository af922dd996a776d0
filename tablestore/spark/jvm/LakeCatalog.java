package tablestore.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The tables of a lake by name, as they are when a query is analyzed. The engine makes, changes and drops tables.
 *
 * `ask` takes a verb and its arguments as JSON: tables (a namespace, or none), table (its name and what is asked of
 * it). It answers with JSON; `lake_catalog.py` has it.
 */
public final class LakeCatalog implements TableCatalog, SupportsNamespaces {
    private static final ObjectMapper JSON = new ObjectMapper();
    private String name;
    private String source;
    private BiFunction ask;

    public LakeCatalog() {}

    /** Make this the catalog `name` of a session, in place of one of that name. */
    public void install(SparkSession session, String name, String source, BiFunction ask) throws Exception {
        this.name = name;
        this.source = source;
        this.ask = ask;
        Object manager = session.sessionState().catalogManager();
        Field catalogs = manager.getClass().getDeclaredField("catalogs");
        catalogs.setAccessible(true);
        ((scala.collection.mutable.Map) catalogs.get(manager)).put(name, this);
    }

    public void initialize(String name, CaseInsensitiveStringMap options) {}

    public String name() {
        return name;
    }

    public String[] defaultNamespace() {
        return new String[] {"default"};
    }

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        List names = (List) asked("tables", one("database", single(namespace))).get("names");
        if (names == null) throw new NoSuchNamespaceException(namespace);
        Identifier[] found = new Identifier[names.size()];
        for (int i = 0; i < found.length; i++) found[i] = Identifier.of(namespace, (String) names.get(i));
        return found;
    }

    public Table loadTable(Identifier identifier) throws NoSuchTableException {
        return table(identifier, new HashMap());
    }

    public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
        return table(identifier, one("version", version));
    }

    public Table loadTable(Identifier identifier, long timestamp) throws NoSuchTableException {
        return table(identifier, one("timestamp", Long.valueOf(timestamp / 1000)));
    }

    private Table table(Identifier identifier, Map asked) throws NoSuchTableException {
        if (identifier.namespace().length != 1) throw new NoSuchTableException(identifier);
        asked.put("database", identifier.namespace()[0]);
        asked.put("table", identifier.name());
        Map found = asked("table", asked);
        if (found.get("schema") == null) throw new NoSuchTableException(identifier);
        PythonDataSourceV2 python = new PythonDataSourceV2();
        python.setShortName(source);
        return new LakeTable(
            python, source, name + "." + identifier, (StructType) DataType.fromJson((String) found.get("schema")), (Map) found.get("options"));
    }

    public Table createTable(
            Identifier identifier, org.apache.spark.sql.connector.catalog.Column[] columns,
            org.apache.spark.sql.connector.expressions.Transform[] partitions, Map properties) {
        throw refused("CREATE TABLE", "lake.create_table");
    }

    public Table alterTable(Identifier identifier, TableChange[] changes) {
        throw refused("ALTER TABLE", "Table.alter");
    }

    public boolean dropTable(Identifier identifier) {
        throw refused("DROP TABLE", "lake.drop_table");
    }

    public void renameTable(Identifier from, Identifier to) {
        throw refused("ALTER TABLE … RENAME", "lake.rename_table");
    }

    public String[][] listNamespaces() {
        List names = (List) asked("databases", new HashMap()).get("names");
        String[][] found = new String[names.size()][];
        for (int i = 0; i < found.length; i++) found[i] = new String[] {(String) names.get(i)};
        return found;
    }

    public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
        if (namespace.length == 0) return listNamespaces();
        loadNamespaceMetadata(namespace);
        return new String[0][];
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        List names = (List) asked("databases", new HashMap()).get("names");
        if (!names.contains(single(namespace))) throw new NoSuchNamespaceException(namespace);
        return new HashMap();
    }

    public void createNamespace(String[] namespace, Map metadata) {
        throw refused("CREATE DATABASE", "lake.create_database");
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        throw refused("ALTER DATABASE", "lake.sql");
    }

    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw refused("DROP DATABASE", "lake.drop_database");
    }

    private RuntimeException refused(String statement, String instead) {
        return new UnsupportedOperationException(
            statement + " in " + name + " by Spark is not supported: use " + instead + ", or the statement in lake.sql");
    }

    private Map asked(String verb, Map arguments) {
        try {
            Map answer = (Map) JSON.readValue((String) ask.apply(verb, JSON.writeValueAsString(arguments)), Map.class);
            if (answer.get("error") != null) throw new IllegalArgumentException((String) answer.get("error"));
            return answer;
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Map one(String key, Object value) {
        Map map = new HashMap();
        map.put(key, value);
        return map;
    }

    private static String single(String[] namespace) {
        return namespace.length == 1 ? namespace[0] : null;
    }

    /** A table of the source whose options come with its name. */
    private static final class LakeTable extends PythonTable {
        private final String shown;
        private final Map options;  // `TablePlanning` reads them

        LakeTable(PythonDataSourceV2 python, String source, String shown, StructType schema, Map options) {
            super(python, source, schema);
            this.shown = shown;
            this.options = options;
        }

        public String name() {
            return shown;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
            return super.newScanBuilder(with(given));
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return super.newWriteBuilder(new LakeWrite(info, with(info.options())));
        }

        private CaseInsensitiveStringMap with(CaseInsensitiveStringMap given) {
            Map all = new HashMap(options);
            all.putAll(given);
            return new CaseInsensitiveStringMap(all);
        }
    }

    /** A write with the options of its table. */
    private static final class LakeWrite implements LogicalWriteInfo {
        private final LogicalWriteInfo info;
        private final CaseInsensitiveStringMap options;

        LakeWrite(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
            this.info = info;
            this.options = options;
        }

        public CaseInsensitiveStringMap options() {
            return options;
        }

        public String queryId() {
            return info.queryId();
        }

        public StructType schema() {
            return info.schema();
        }
    }
}
