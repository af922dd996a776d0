import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** How many rows the sources of this JVM's jobs have handed on: Flink's own counters, looked at in place. */
public final class SourceCount implements MetricReporter, MetricReporterFactory {
    private static final Map<Metric, Counter> COUNTERS = new ConcurrentHashMap<>();

    static long rows() {
        return COUNTERS.values().stream().mapToLong(Counter::getCount).sum();
    }

    static void forget() {
        COUNTERS.clear();
    }

    @Override
    public MetricReporter createMetricReporter(Properties properties) {
        return this;
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
        String operator = group.getAllVariables().get("<operator_name>");
        if (name.equals("numRecordsOut") && operator != null && operator.startsWith("Source: ")) {
            COUNTERS.put(metric, (Counter) metric);
        }
    }

    @Override
    public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {} // of a job that has ended
}
