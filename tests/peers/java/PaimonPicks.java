import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.paimon.compact.CompactUnit;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryRowWriter;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.mergetree.LevelSortedRun;
import org.apache.paimon.mergetree.SortedRun;
import org.apache.paimon.mergetree.compact.CompactStrategy;
import org.apache.paimon.mergetree.compact.EarlyFullCompaction;
import org.apache.paimon.mergetree.compact.ForceUpLevel0Compaction;
import org.apache.paimon.mergetree.compact.IntervalPartition;
import org.apache.paimon.mergetree.compact.OffPeakHours;
import org.apache.paimon.mergetree.compact.UniversalCompaction;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.stats.SimpleStats;

/** Picks of PaimonPeer: what Java's compaction strategies answer to layouts without a table. */
final class PaimonPicks {
    private PaimonPicks() {}

    /** The unit of each case (null: none), in the form of recorded picks. */
    static Object picks(JsonNode request) {
        List<Object> found = new ArrayList<>();
        request.get("cases").forEach(c -> found.add(pick(c)));
        return found;
    }

    /** Sections of runs of file numbers of each list of [min key, max key]. */
    static Object sections(JsonNode request) {
        List<Object> found = new ArrayList<>();
        for (JsonNode spans : request.get("cases")) {
            List<DataFileMeta> files = new ArrayList<>();
            spans.forEach(s -> files.add(file(files.size(), 1, s.get(0).asLong(), s.get(1).asLong(), 0)));
            List<List<List<Integer>>> sections = new ArrayList<>();
            new IntervalPartition(files, (a, b) -> Long.compare(a.getLong(0), b.getLong(0)))
                    .partition()
                    .forEach(runs -> {
                        List<List<Integer>> section = new ArrayList<>();
                        runs.forEach(run -> section.add(numbers(run.files())));
                        sections.add(section);
                    });
            found.add(sections);
        }
        return found;
    }

    /** The ratio in force of each [start hour, end hour, ratio, hour]. */
    static Object ratios(JsonNode request) {
        List<Object> found = new ArrayList<>();
        for (JsonNode c : request.get("cases")) {
            OffPeakHours hours = OffPeakHours.create(c.get(0).asInt(), c.get(1).asInt(), c.get(2).asInt());
            found.add(hours == null ? 0 : hours.currentRatio(c.get(3).asInt()));
        }
        return found;
    }

    private static Object pick(JsonNode c) {
        int ratio = c.path("off_peak_ratio").asInt(0);
        UniversalCompaction universal = new UniversalCompaction(
                c.get("max_size_amp").asInt(),
                c.get("size_ratio").asInt(),
                c.get("trigger").asInt(),
                early(c),
                ratio == 0 ? null : OffPeakHours.create(0, 24, ratio));
        CompactStrategy strategy =
                c.path("force_up_level_0").asBoolean() ? new ForceUpLevel0Compaction(universal, null) : universal;
        List<LevelSortedRun> runs = new ArrayList<>();
        int number = 0;
        for (JsonNode run : c.get("runs")) {
            int level = run.get(0).asInt();
            List<DataFileMeta> files = new ArrayList<>();
            for (int i = 1; i < run.size(); i++) {
                JsonNode f = run.get(i);
                files.add(file(number++, f.get(0).asLong(), f.get(1).asLong(), f.get(2).asLong(), level));
            }
            runs.add(new LevelSortedRun(level, SortedRun.fromSorted(files)));
        }
        Optional<CompactUnit> unit = strategy.pick(c.get("num_levels").asInt(), runs);
        if (!unit.isPresent()) {
            return null;
        }
        List<DataFileMeta> files = unit.get().files();
        Map<String, Object> found = new HashMap<>();
        found.put("output_level", unit.get().outputLevel());
        found.put("files", numbers(files));
        found.put(
                "discarded",
                files.isEmpty()
                        || files.size() == 1 && files.get(0).level() == unit.get().outputLevel());
        return found;
    }

    private static EarlyFullCompaction early(JsonNode c) {
        if (!c.has("interval_ms")) {
            return null;
        }
        Long since = number(c, "since_last_full_ms");
        return new EarlyFullCompaction(
                number(c, "interval_ms"),
                number(c, "total_size_threshold"),
                number(c, "incremental_size_threshold"),
                since == null ? null : System.currentTimeMillis() - since);
    }

    private static Long number(JsonNode c, String name) {
        return c.path(name).isNumber() ? c.get(name).asLong() : null;
    }

    private static List<Integer> numbers(List<DataFileMeta> files) {
        List<Integer> found = new ArrayList<>();
        files.forEach(f -> found.add(Integer.parseInt(f.fileName())));
        return found;
    }

    private static DataFileMeta file(int number, long size, long low, long high, int level) {
        return DataFileMeta.create(
                String.valueOf(number),
                size,
                1,
                key(low),
                key(high),
                SimpleStats.EMPTY_STATS,
                SimpleStats.EMPTY_STATS,
                -number,
                -number,
                0,
                level,
                0L,
                null,
                FileSource.APPEND,
                null,
                null,
                null);
    }

    private static BinaryRow key(long value) {
        BinaryRow row = new BinaryRow(1);
        BinaryRowWriter writer = new BinaryRowWriter(row);
        writer.writeLong(0, value);
        writer.complete();
        return row;
    }
}
