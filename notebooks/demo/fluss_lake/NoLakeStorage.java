import com.alibaba.fluss.config.Configuration;
import com.alibaba.fluss.lake.lakestorage.LakeCatalog;
import com.alibaba.fluss.lake.lakestorage.LakeStorage;
import com.alibaba.fluss.lake.lakestorage.LakeStoragePlugin;
import com.alibaba.fluss.lake.writer.LakeTieringFactory;

/**
 * The lake of a Fluss cluster whose lake is ours: it takes every table and creates none, since the tiering
 * service does. Without a plugin for its datalake.format a coordinator does not start.
 */
public final class NoLakeStorage implements LakeStoragePlugin, LakeStorage {
    @Override
    public String identifier() {
        return "paimon";
    }

    @Override
    public LakeStorage createLakeStorage(Configuration configuration) {
        return this;
    }

    @Override
    public LakeTieringFactory<?, ?> createLakeTieringFactory() {
        throw new UnsupportedOperationException("tables are tiered from outside");
    }

    @Override
    public LakeCatalog createLakeCatalog() {
        return (path, descriptor) -> {};
    }
}
