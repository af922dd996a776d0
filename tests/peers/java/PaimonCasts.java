import java.util.Collections;
import java.util.List;
import org.apache.paimon.casting.CastExecutor;
import org.apache.paimon.casting.CastExecutors;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeCasts;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;

/**
 * Java Paimon's casts, in the tab-separated line protocol of PaimonPeer.loop.
 *
 * allowed FROM TO explicit   whether a column may change so
 * cast FROM TO VALUE         text to FROM, FROM to TO, TO to text; "NULL" where a step gives null, "error" where one fails
 */
public class PaimonCasts {
    public static void main(String[] args) throws Exception {
        PaimonPeer.loop(PaimonCasts::serve);
    }

    static List<String> serve(String[] f) {
        DataType from = DataTypeJsonParser.parseAtomicTypeSQLString(f[1]);
        DataType to = DataTypeJsonParser.parseAtomicTypeSQLString(f[2]);
        if (f[0].equals("allowed")) {
            boolean yes = DataTypeCasts.supportsCast(from, to, f[3].equals("true"))
                    && (from.equals(to) || CastExecutors.resolve(from, to) != null);
            return Collections.singletonList(String.valueOf(yes));
        }
        try {
            Object value = step(DataTypes.STRING(), from, BinaryString.fromString(f[3]));
            Object found = value == null ? null : step(from, to, value);
            Object text = found == null ? null : step(to, DataTypes.STRING(), found);
            return Collections.singletonList(text == null ? "NULL" : "=" + text);
        } catch (RuntimeException e) {
            return Collections.singletonList("error");
        }
    }

    @SuppressWarnings("unchecked")
    static Object step(DataType from, DataType to, Object value) {
        return from.equals(to) ? value : ((CastExecutor<Object, Object>) CastExecutors.resolve(from, to)).cast(value);
    }
}
