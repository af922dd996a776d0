import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.api.internal.TableResultInternal;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.utils.print.RowDataToStringConverter;
import org.apache.flink.util.CloseableIterator;

/**
 * Flink SQL behind a line protocol: one JSON request a line on stdin, one JSON answer a line on stdout. A request is
 * {"new": true, "settings": {..}} (forget the session: its catalogs and settings, nothing on disk) or {"sql": one
 * statement, "limit": how many rows at most}. The answer of a statement is {"columns": [[name, type]], "rows": [[text
 * or null]], "kinds": ["+I", ..]} with values as Flink's own client prints them, or {"error": the root
 * cause}. tests/peers/flink_sql.py is the client.
 */
public class FlinkPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MODE = "execution.runtime-mode";
    private static final Pattern SETTING = // of Flink's client, unknown to its table environments
            Pattern.compile("(?is)(?:SET|RESET)\\s+'([^']+)'(?:\\s*=\\s*'(.*)')?");
    private static final Pattern SHARED =
            Pattern.compile("(?is)(?:(?:CREATE|ALTER|DROP)\\s+CATALOG|USE|(?:CREATE|DROP)\\s+TEMPORARY)\\s.*");

    private final FlinkCluster cluster;
    private final Map<String, TableEnvironment> environments = new HashMap<>();
    private final List<String> shared = new ArrayList<>();
    private final Map<String, String> settings = new HashMap<>();
    private String mode = "batch";

    private FlinkPeer(FlinkCluster cluster) {
        this.cluster = cluster;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        FlinkCluster cluster = new FlinkCluster(configuration());
        FlinkPeer session = new FlinkPeer(cluster);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                JsonNode request = JSON.readTree(line);
                if (request.path("new").asBoolean(false)) {
                    session = new FlinkPeer(cluster);
                    for (Map.Entry<String, JsonNode> setting : request.path("settings").properties()) {
                        session.settings.put(setting.getKey(), setting.getValue().asText());
                    }
                } else {
                    answer = session.run(request.get("sql").asText(), request.path("limit").asInt(10000));
                }
            } catch (Throwable e) {
                Throwable root = e;
                while (root.getCause() != null && root.getCause() != root) {
                    root = root.getCause();
                }
                answer.clear();
                answer.put("error", root.getClass().getSimpleName() + ": " + root.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        System.exit(0); // threads of Flink's clusters may still be there
    }

    private Map<String, Object> run(String sql, int limit) throws Exception {
        Matcher setting = SETTING.matcher(sql.strip());
        if (setting.matches()) {
            set(setting.group(1), setting.group(2));
            return answer(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        }
        TableEnvironment here = environment();
        TableResult result = here.executeSql(sql);
        if (SHARED.matcher(sql.strip()).matches()) {
            shared.add(sql);
            for (TableEnvironment other : environments.values()) {
                if (other != here) {
                    other.executeSql(sql);
                }
            }
        }
        return read((TableResultInternal) result, limit);
    }

    private void set(String key, String value) {
        if (key.equals(MODE)) {
            mode = "streaming".equals(value) ? "streaming" : "batch";
            return;
        }
        String initial = configuration().getString(key, null);
        settings.put(key, value == null ? initial : value);
        for (TableEnvironment one : environments.values()) {
            one.getConfig().getConfiguration().removeKey(key);
            if (settings.get(key) != null) {
                one.getConfig().set(key, settings.get(key));
            }
        }
    }

    /** The environment of the current mode: Flink fixes the mode of one for good, so there may be two. */
    private TableEnvironment environment() {
        return environments.computeIfAbsent(mode, name -> {
            Configuration configuration = new Configuration(configuration());
            settings.forEach((key, value) -> {
                configuration.removeKey(key);
                if (value != null) {
                    configuration.setString(key, value);
                }
            });
            EnvironmentSettings.Builder builder = EnvironmentSettings.newInstance().withConfiguration(configuration);
            TableEnvironment made = StreamTableEnvironment.create(
                    new StreamExecutionEnvironment(cluster, configuration, FlinkPeer.class.getClassLoader()),
                    (name.equals("batch") ? builder.inBatchMode() : builder.inStreamingMode()).build());
            shared.forEach(made::executeSql);
            return made;
        });
    }

    private static Configuration configuration() {
        Configuration configuration = new Configuration();
        configuration.setString("execution.target", FlinkCluster.TARGET);
        configuration.setString("jobmanager.scheduler", "Default");
        configuration.setString("parallelism.default", "1");
        configuration.setString("table.dml-sync", "true"); // INSERT returns when its job has ended
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("taskmanager.memory.managed.size", "256mb");
        configuration.setString("taskmanager.memory.network.max", "64mb");
        configuration.setString("taskmanager.memory.network.min", "64mb");
        return configuration;
    }

    /** All rows, or the first `limit`: then the job is cancelled, which ends a stream that has no end. */
    private static Map<String, Object> read(TableResultInternal result, int limit) throws Exception {
        List<List<String>> columns = new ArrayList<>();
        for (Column column : result.getResolvedSchema().getColumns()) {
            columns.add(List.of(column.getName(), column.getDataType().getLogicalType().asSummaryString()));
        }
        RowDataToStringConverter converter = result.getRowDataToStringConverter();
        List<List<String>> rows = new ArrayList<>();
        List<String> kinds = new ArrayList<>();
        try (CloseableIterator<RowData> found = result.collectInternal()) {
            while (rows.size() < limit && found.hasNext()) {
                RowData row = found.next();
                String[] texts = converter.convert(row);
                List<String> cells = new ArrayList<>();
                for (int i = 0; i < texts.length; i++) {
                    cells.add(row.isNullAt(i) ? null : texts[i]);
                }
                rows.add(cells);
                kinds.add(row.getRowKind().shortString());
            }
        }
        return answer(columns, rows, kinds);
    }

    private static Map<String, Object> answer(
            List<List<String>> columns, List<List<String>> rows, List<String> kinds) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("columns", columns);
        answer.put("rows", rows);
        answer.put("kinds", kinds);
        return answer;
    }
}
