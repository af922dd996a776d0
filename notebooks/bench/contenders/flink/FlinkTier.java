import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.client.deployment.executors.PipelineExecutorUtils;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.PipelineExecutorServiceLoader;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.MiniClusterJobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Flink with Fluss's connector and Java Paimon as a contender of `bench tier`, in the line protocol of PaimonPeer.
 *
 * tier SERVERS TABLE RECORDS WAREHOUSE FOLDER
 *
 * copies RECORDS records of the log of fluss.TABLE into the Paimon table of that name, with a job that is stopped
 * with a savepoint in FOLDER, which commits, as soon as its source has handed them on. The answer says after how many
 * seconds its first row came: before, the job was made and started. One cluster serves all jobs, and what is
 * compiled stays compiled.
 */
public final class FlinkTier implements PipelineExecutorServiceLoader, PipelineExecutorFactory, PipelineExecutor {
    private static final String TARGET = "shared-cluster";
    private static final int PARALLELISM = 2;
    private static final long MOST_NANOS = TimeUnit.MINUTES.toNanos(10);

    private final MiniCluster cluster;

    private FlinkTier(Configuration configuration) throws Exception {
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(4)
                .withRandomPorts()
                .build());
        cluster.start();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        FlinkTier flink = new FlinkTier(configuration());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split("\t");
            try {
                long waited = flink.tier(asked[1], asked[2], Long.parseLong(asked[3]), asked[4], asked[5]);
                out.println("first\t" + waited / 1e9);
                out.println("OK");
            } catch (Throwable e) {
                e.printStackTrace();
                Throwable root = e;
                while (root.getCause() != null && root.getCause() != root) {
                    root = root.getCause();
                }
                out.println("ERROR " + String.valueOf(root).replaceAll("\\s+", " "));
            }
            out.flush();
        }
        System.exit(0); // threads of the cluster are still there
    }

    /** Nanoseconds until the first row. */
    private long tier(String servers, String table, long records, String warehouse, String folder) throws Exception {
        long began = System.nanoTime();
        long first = 0;
        Configuration configuration = configuration();
        StreamTableEnvironment sql = StreamTableEnvironment.create(
                new StreamExecutionEnvironment(this, configuration, FlinkTier.class.getClassLoader()),
                EnvironmentSettings.newInstance().withConfiguration(configuration).inStreamingMode().build());
        sql.executeSql("CREATE CATALOG fluss WITH ('type' = 'fluss', 'bootstrap.servers' = '" + servers + "')");
        sql.executeSql("CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '" + warehouse + "')");
        SourceCount.forget();
        JobClient job = sql.executeSql("INSERT INTO lake." + table + " SELECT * FROM fluss." + table)
                .getJobClient()
                .get();
        while (true) {
            long rows = SourceCount.rows();
            long now = System.nanoTime() - began;
            if (first == 0 && rows > 0) {
                first = now;
            }
            if (rows >= records) {
                break;
            }
            if (job.getJobStatus().get().isGloballyTerminalState()) {
                job.getJobExecutionResult().get(); // throws what ended it
                throw new IllegalStateException("the job ended after " + rows + " rows");
            }
            if (now > MOST_NANOS) {
                job.cancel().get();
                throw new IllegalStateException("only " + rows + " rows of " + records + " came");
            }
            Thread.sleep(5);
        }
        job.stopWithSavepoint(false, folder, SavepointFormatType.CANONICAL).get();
        job.getJobExecutionResult().get();
        return first;
    }

    private static Configuration configuration() {
        Configuration configuration = new Configuration();
        configuration.setString("execution.target", TARGET);
        configuration.setString("parallelism.default", String.valueOf(PARALLELISM));
        configuration.setString("execution.checkpointing.interval", "1 h"); // only the savepoint commits
        configuration.setString("pipeline.object-reuse", "true");
        configuration.setString("rest.bind-address", "127.0.0.1");
        configuration.setString("rest.address", "127.0.0.1");
        configuration.setString("jobmanager.bind-host", "127.0.0.1");
        configuration.setString("taskmanager.bind-host", "127.0.0.1");
        configuration.setString("metrics.reporters", "count");
        configuration.setString("metrics.reporter.count.factory.class", "SourceCount");
        return configuration;
    }

    @Override
    public CompletableFuture<JobClient> execute(Pipeline pipeline, Configuration configuration, ClassLoader loader)
            throws Exception {
        JobGraph graph = PipelineExecutorUtils.getJobGraph(pipeline, configuration, loader);
        return cluster.submitJob(graph)
                .thenApply(job -> new MiniClusterJobClient(
                        job.getJobID(), cluster, loader, MiniClusterJobClient.JobFinalizationBehavior.NOTHING));
    }

    @Override
    public PipelineExecutorFactory getExecutorFactory(Configuration configuration) {
        return this;
    }

    @Override
    public PipelineExecutor getExecutor(Configuration configuration) {
        return this;
    }

    @Override
    public Stream<String> getExecutorNames() {
        return Stream.of(TARGET);
    }

    @Override
    public String getName() {
        return TARGET;
    }

    @Override
    public boolean isCompatibleWith(Configuration configuration) {
        return true;
    }
}
