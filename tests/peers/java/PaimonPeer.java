import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.paimon.Snapshot;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;

/**
 * Java Paimon behind a line protocol: one JSON request a line on stdin, {"ok": value} or {"error": text} a line on
 * stdout. A request has "op", "path" (the table's directory), maybe "branch" and "options" (dynamic ones), and what its
 * operation asks for. One process serves a whole test session; tests/peers/java_paimon.py is its client and says what
 * the operations are.
 */
public class PaimonPeer {
    /** Answers one request of the older text protocol (benchmarks): tab-separated fields in, lines out. */
    interface Service {
        List<String> serve(String[] fields) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        java.io.PrintStream out = new java.io.PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("ok", serve(PaimonCells.JSON.readTree(line)));
            } catch (Throwable e) {
                answer.put("error", chain(e));
            }
            out.println(PaimonCells.text(answer));
            out.flush();
        }
    }

    private static String chain(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable e = error; e != null; e = e.getCause() == e ? null : e.getCause()) {
            text.append(text.length() == 0 ? "" : " <- ").append(e);
        }
        for (int i = 0; i < Math.min(12, error.getStackTrace().length); i++) {
            text.append("\n    at ").append(error.getStackTrace()[i]);
        }
        return text.toString();
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
        return FileStoreTableFactory.create(LocalFileIO.create(), new Path(path));
    }

    static FileStoreTable table(JsonNode request) {
        FileStoreTable table = open(request.get("path").asText());
        if (request.path("branch").isTextual()) {
            table = table.switchToBranch(request.get("branch").asText());
        }
        Map<String, String> options = PaimonWrites.strings(request.get("options"));
        return options.isEmpty() ? table : table.copy(options);
    }

    /** For writing: compacts as the table says unless the request has other options, and keeps its snapshots. */
    static FileStoreTable writable(JsonNode request) {
        FileStoreTable table = table(request);
        Map<String, String> options = new HashMap<>();
        if (!request.path("expire").asBoolean(false)) {
            options.put("snapshot.num-retained.min", "1000");
            options.put("snapshot.num-retained.max", "2147483647");
        }
        options.put("write-only", request.path("write_only").asBoolean(false) ? "true" : "false");
        return table.copy(options);
    }

    static Object serve(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "create":
                return create(request);
            case "alter":
                return alter(request);
            case "schema":
                return table(request).schema().toString();
            case "write":
                return PaimonWrites.write(writable(request), request);
            case "compact":
                return PaimonWrites.compact(writable(request), request);
            case "delete":
                FileStoreTable target = writable(request);
                return PaimonWrites.delete(
                        target, request, PaimonReads.predicate(target.rowType(), request.get("where")));
            case "truncate":
                return truncate(writable(request), request);
            case "read":
                return PaimonReads.read(table(request), request);
            case "global":
                return PaimonReads.global(request);
            case "stream":
                return PaimonReads.stream(table(request), request);
            case "lookup":
                return PaimonReads.lookup(table(request), request);
            case "files":
                return PaimonFiles.files(table(request), request);
            case "index_files":
                return PaimonFiles.indexFiles(table(request), request);
            case "splits":
                return PaimonFiles.splits(table(request), request);
            case "bitmaps":
                return PaimonBitmaps.serve(request);
            case "picks":
                return PaimonPicks.picks(request);
            case "sections":
                return PaimonPicks.sections(request);
            case "off_peak_ratios":
                return PaimonPicks.ratios(request);
            case "bucket":
                return PaimonFiles.buckets(table(request), request);
            default:
                return maintain(table(request), request);
        }
    }

    private static Object maintain(FileStoreTable table, JsonNode request) throws Exception {
        String name = request.path("name").asText(null);
        Duration keep = request.path("retain_ms").isNumber()
                ? Duration.ofMillis(request.get("retain_ms").asLong())
                : null;
        switch (request.get("op").asText()) {
            case "create_tag":
                if (request.path("snapshot").isNumber()) {
                    table.createTag(name, request.get("snapshot").asLong(), keep);
                } else {
                    table.createTag(name, keep);
                }
                return null;
            case "delete_tag":
                table.deleteTag(name);
                return null;
            case "create_branch":
                if (request.path("tag").isTextual()) {
                    table.createBranch(name, request.get("tag").asText());
                } else {
                    table.createBranch(name);
                }
                return null;
            case "delete_branch":
                table.deleteBranch(name);
                return null;
            case "fast_forward":
                table.fastForward(name);
                return null;
            case "rollback":
                if (request.path("snapshot").isNumber()) {
                    table.rollbackTo(request.get("snapshot").asLong());
                } else {
                    table.rollbackTo(name);
                }
                return null;
            case "expire":
                return table.newExpireSnapshots().config(expiry(request)).expire();
            case "expire_partitions":
                org.apache.paimon.operation.PartitionExpire old =
                        table.store().newPartitionExpire("", table);
                return old.expire(Long.MAX_VALUE);
            case "expire_changelog":
                return table.newExpireChangelog().config(expiry(request)).expire();
            case "clean_orphans":
                return new LocalOrphanFilesClean(
                                table, request.get("older_than_ms").asLong(), request.get("dry_run").asBoolean())
                        .clean()
                        .getDeletedFileCount();
            case "statistics":
                return table.statistics().map(s -> {
                    s.serializeFieldsToString(table.schema());
                    return s.toJson();
                }).orElse(null);
            case "snapshot":
                Snapshot found = request.path("snapshot").isNumber()
                        ? table.snapshot(request.get("snapshot").asLong())
                        : table.latestSnapshot().orElse(null);
                return found == null ? null : found.toJson();
            default:
                return commitOnly(table, request);
        }
    }

    private static Object commitOnly(FileStoreTable table, JsonNode request) throws Exception {
        try (TableCommitImpl commit = table.newCommit(request.path("user").asText("java"))) {
            switch (request.get("op").asText()) {
                case "analyze":
                    commit.updateStatistics(Statistics.fromJson(request.get("statistics").asText()));
                    return null;
                case "compact_manifests":
                    commit.compactManifests();
                    return null;
                default:
                    throw new IllegalArgumentException("unknown request " + request.get("op"));
            }
        }
    }

    private static Object truncate(FileStoreTable table, JsonNode request) throws Exception {
        try (TableCommitImpl commit = table.newCommit(request.get("user").asText())) {
            if (!request.path("partitions").isArray()) {
                commit.truncateTable();
                return null;
            }
            List<Map<String, String>> partitions = new ArrayList<>();
            request.get("partitions").forEach(p -> partitions.add(PaimonWrites.strings(p)));
            commit.truncatePartitions(partitions);
            return null;
        }
    }

    private static ExpireConfig expiry(JsonNode request) {
        ExpireConfig.Builder b = ExpireConfig.builder();
        if (request.path("max").isNumber()) {
            b.snapshotRetainMax(request.get("max").asInt());
        }
        if (request.path("min").isNumber()) {
            b.snapshotRetainMin(request.get("min").asInt());
        }
        if (request.path("time_ms").isNumber()) {
            b.snapshotTimeRetain(Duration.ofMillis(request.get("time_ms").asLong()));
        }
        if (request.path("changelog_max").isNumber()) {
            b.changelogRetainMax(request.get("changelog_max").asInt());
        }
        if (request.path("changelog_min").isNumber()) {
            b.changelogRetainMin(request.get("changelog_min").asInt());
        }
        if (request.path("changelog_time_ms").isNumber()) {
            b.changelogTimeRetain(Duration.ofMillis(request.get("changelog_time_ms").asLong()));
        }
        return b.build();
    }

    private static Object create(JsonNode request) throws Exception {
        JsonNode schema = request.get("schema");
        Schema.Builder made = Schema.newBuilder();
        for (JsonNode field : schema.get("fields")) {
            DataType type = DataTypeJsonParser.parseDataType(field.get("type"), new AtomicInteger());
            made.column(field.get("name").asText(), type, field.path("description").asText(null));
        }
        made.partitionKeys(list(schema.get("partitionKeys")))
                .primaryKey(list(schema.get("primaryKeys")))
                .options(PaimonWrites.strings(schema.get("options")))
                .comment(schema.path("comment").asText(""));
        new SchemaManager(LocalFileIO.create(), new Path(request.get("path").asText())).createTable(made.build());
        return null;
    }

    static List<String> list(JsonNode texts) {
        List<String> found = new ArrayList<>();
        if (texts != null && texts.isArray()) {
            texts.forEach(t -> found.add(t.asText()));
        }
        return found;
    }

    private static Object alter(JsonNode request) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : request.get("changes")) {
            changes.add(change(change));
        }
        Path path = new Path(request.get("path").asText());
        String branch = request.path("branch").asText("main");
        return new SchemaManager(LocalFileIO.create(), path, branch).commitChanges(changes).id();
    }

    private static SchemaChange change(JsonNode c) {
        JsonNode named = c.path("name");
        String[] name = named.isArray() ? list(named).toArray(new String[0]) : new String[] {named.asText()};
        DataType type = c.has("type") ? DataTypeJsonParser.parseDataType(c.get("type"), new AtomicInteger()) : null;
        String comment = c.path("comment").asText(null);
        switch (c.get("change").asText()) {
            case "add":
                return SchemaChange.addColumn(name, type, comment, move(name[name.length - 1], c));
            case "drop":
                return SchemaChange.dropColumn(name);
            case "rename":
                return SchemaChange.renameColumn(name, c.get("to").asText());
            case "type":
                return SchemaChange.updateColumnType(name, type, c.path("keep_nullability").asBoolean(false));
            case "nullability":
                return SchemaChange.updateColumnNullability(name, c.get("nullable").asBoolean());
            case "position":
                return SchemaChange.updateColumnPosition(move(name[0], c));
            case "comment":
                return SchemaChange.updateColumnComment(name, comment);
            case "default":
                return SchemaChange.updateColumnDefaultValue(name, c.path("value").asText(null));
            case "set_option":
                return SchemaChange.setOption(c.get("key").asText(), c.get("value").asText());
            case "remove_option":
                return SchemaChange.removeOption(c.get("key").asText());
            case "table_comment":
                return SchemaChange.updateComment(comment);
            default:
                throw new IllegalArgumentException("unknown change " + c);
        }
    }

    private static SchemaChange.Move move(String name, JsonNode c) {
        if (c.has("after")) {
            return SchemaChange.Move.after(name, c.get("after").asText());
        }
        if (c.has("before")) {
            return SchemaChange.Move.before(name, c.get("before").asText());
        }
        if (c.path("first").asBoolean(false)) {
            return SchemaChange.Move.first(name);
        }
        return c.path("last").asBoolean(false) ? SchemaChange.Move.last(name) : null;
    }
}
