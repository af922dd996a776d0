package tablestore.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.collection.BitSet;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Frames over planned files and over the Python source, which Spark's plans show with what a scan leaves out.
 *
 * The files are known with their sizes, so Spark lists no directory. Called by `table_frames.py`.
 */
public final class TableFrames {
    /** The column with the place of a file's first row among the bits of a frame; null where all its rows stay. */
    private static final String PLACE = "_tablestore_place";
    /** The column whose values Spark's reader of Parquet makes: the number of a row in its file. */
    private static final String NUMBER = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();

    public TableFrames() {}

    /**
     * Spark's scan of Parquet files; `files` is a JSON list of [path, size, place of the first row or null]. A row
     * whose bit in `lost` is set, at the place of its file plus its number there, is left out.
     */
    public Dataset files(SparkSession session, String schema, String files, byte[] lost, Map options, String shown)
            throws IOException {
        Files index = new Files(new ObjectMapper().readTree(files), session.sessionState().newHadoopConf());
        StructType read = (StructType) DataType.fromJson(schema);
        if (lost.length > 0) read = read.add(NUMBER, DataTypes.LongType, true);
        HadoopFsRelation relation = new Shown(
            index, index.partitionSchema(), read, new ParquetFileFormat(), map(options), session, shown);
        Dataset rows = Dataset$.MODULE$.ofRows(session, LogicalRelation$.MODULE$.apply(relation, false));
        return lost.length == 0 ? rows : rows.filter(isKept(lost));
    }

    /** The condition on rows of `files` that their bit is not set; tasks know the classes in it. */
    private static Column isKept(byte[] lost) {
        ByteBuffer words = ByteBuffer.wrap(lost).order(ByteOrder.LITTLE_ENDIAN);
        BitSet bits = new BitSet(lost.length * 8);
        for (int at = 0; words.hasRemaining(); at += 64) {
            for (long word = words.getLong(); word != 0; word &= word - 1) bits.set(at + Long.numberOfTrailingZeros(word));
        }
        Column number = functions.col(PLACE).plus(functions.col(NUMBER)).cast("int");
        List arguments = new ArrayList();
        arguments.add(ExpressionUtils.expression(number));
        List either = new ArrayList();
        either.add(new Invoke(
            new Literal(bits, new ObjectType(BitSet.class)), "get", DataTypes.BooleanType, seq(arguments), seq(new ArrayList()),
            true, true, true));
        either.add(Literal.FalseLiteral());
        return ExpressionUtils.column(new Not(new Coalesce(seq(either))));
    }

    /** A scan of the Python source with these options. */
    public Dataset rows(SparkSession session, String source, String schema, Map options, String shown) {
        PythonDataSourceV2 python = new PythonDataSourceV2();
        python.setShortName(source);
        PythonTable table = new ShownTable(python, source, (StructType) DataType.fromJson(schema), shown);
        return Dataset$.MODULE$.ofRows(session, DataSourceV2Relation.create(
            table, Option.empty(), Option.empty(), new CaseInsensitiveStringMap(options), Option.empty()));
    }

    private static scala.collection.immutable.Seq seq(List items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    private static scala.collection.immutable.Map map(Map items) {
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(items));
    }

    /** Files of a plan, each a partition with its place. */
    private static final class Files implements FileIndex {
        private final List paths = new ArrayList();
        private final List partitions = new ArrayList();
        private long bytes = 0;

        Files(JsonNode files, Configuration conf) throws IOException {
            Iterator each = files.elements();
            while (each.hasNext()) {
                JsonNode file = (JsonNode) each.next();
                Path path = new Path(((JsonNode) file.get(0)).textValue());
                path = path.getFileSystem(conf).makeQualified(path);
                long size = ((JsonNode) file.get(1)).longValue();
                List statuses = new ArrayList();
                statuses.add(new FileStatusWithMetadata(
                    new FileStatus(size, false, 1, 128L << 20, 0L, path), scala.collection.immutable.Map$.MODULE$.empty()));
                JsonNode at = (JsonNode) file.get(2);
                Object[] place = new Object[] {at.isNull() ? null : Long.valueOf(at.longValue())};
                partitions.add(new PartitionDirectory(new GenericInternalRow(place), seq(statuses)));
                paths.add(path);
                bytes += size;
            }
        }

        public scala.collection.immutable.Seq rootPaths() {
            return seq(paths);
        }

        /** All files: what a condition leaves out was left out when they were planned. */
        public scala.collection.immutable.Seq listFiles(
                scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
            return seq(partitions);
        }

        public String[] inputFiles() {
            String[] names = new String[paths.size()];
            for (int i = 0; i < names.length; i++) names[i] = paths.get(i).toString();
            return names;
        }

        public void refresh() {}

        public long sizeInBytes() {
            return bytes;
        }

        public StructType partitionSchema() {
            return new StructType().add(PLACE, DataTypes.LongType, true);
        }

        public Option metadataOpsTimeNs() {
            return Option.empty();
        }

        public boolean equals(Object other) {
            return other instanceof Files && ((Files) other).partitions.equals(partitions);
        }

        public int hashCode() {
            return paths.hashCode();
        }
    }

    /** A relation of files that a plan shows with a text behind its format. */
    private static final class Shown extends HadoopFsRelation {
        private final String shown;

        Shown(FileIndex files, StructType partition, StructType schema, FileFormat format,
                scala.collection.immutable.Map options, org.apache.spark.sql.SparkSession session, String shown) {
            super(files, partition, schema, Option.empty(), format, options, session);
            this.shown = shown;
        }

        /** Rules of Spark copy relations, to add columns of metadata for example. */
        public HadoopFsRelation copy(
                FileIndex files, StructType partition, StructType schema, Option buckets, FileFormat format,
                scala.collection.immutable.Map options, org.apache.spark.sql.SparkSession session) {
            return new Shown(files, partition, schema, format, options, session, shown);
        }

        public String toString() {
            return "parquet " + shown;
        }
    }

    /** A table that a plan shows with a text behind its source. */
    private static final class ShownTable extends PythonTable {
        private final String shown;

        ShownTable(PythonDataSourceV2 python, String source, StructType schema, String shown) {
            super(python, source, schema);
            this.shown = shown;
        }

        public String name() {
            return super.name() + " " + shown;
        }
    }
}
