import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.client.deployment.executors.PipelineExecutorUtils;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.PipelineExecutorServiceLoader;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.minicluster.MiniClusterJobClient;
import org.apache.flink.streaming.api.graph.StreamGraph;

/** One Flink cluster in this JVM that all jobs share: starting one per job, as Flink does by itself, takes a second. */
final class FlinkCluster implements PipelineExecutorServiceLoader, PipelineExecutorFactory, PipelineExecutor {
    static final String TARGET = "shared-cluster";
    private final MiniCluster cluster;

    FlinkCluster(Configuration configuration) throws Exception {
        cluster = new MiniCluster(
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(configuration)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(16)
                        .withRandomPorts()
                        .build());
        cluster.start();
    }

    @Override
    public CompletableFuture<JobClient> execute(Pipeline pipeline, Configuration configuration, ClassLoader loader)
            throws Exception {
        StreamGraph graph = PipelineExecutorUtils.getStreamGraph(pipeline, configuration);
        return cluster.submitJob(graph)
                .thenApply(job -> new MiniClusterJobClient(
                        job.getJobID(), cluster, loader, MiniClusterJobClient.JobFinalizationBehavior.NOTHING));
    }

    @Override
    public PipelineExecutorFactory getExecutorFactory(Configuration configuration) {
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

    @Override
    public PipelineExecutor getExecutor(Configuration configuration) {
        return this;
    }
}
