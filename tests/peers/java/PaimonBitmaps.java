import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.utils.RoaringBitmap64;

/** Bitmaps of PaimonPeer: the bytes that aggregate function rbm64 keeps. */
final class PaimonBitmaps {
    private PaimonBitmaps() {}

    /** The bytes of each list of values, added in their order, and of the union of each with all before it. */
    static Object serve(JsonNode request) throws Exception {
        List<Object> alone = new ArrayList<>();
        List<Object> united = new ArrayList<>();
        byte[] held = null;
        for (JsonNode values : request.get("lists")) {
            RoaringBitmap64 given = new RoaringBitmap64();
            values.forEach(v -> given.add(Long.parseUnsignedLong(v.asText())));
            byte[] bytes = given.serialize();
            alone.add(PaimonCells.hex(bytes).get("hex"));
            held = held == null ? bytes : union(held, bytes);
            united.add(PaimonCells.hex(held).get("hex"));
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("alone", alone);
        found.put("united", united);
        return found;
    }

    private static byte[] union(byte[] held, byte[] given) throws Exception {
        RoaringBitmap64 one = new RoaringBitmap64();
        RoaringBitmap64 other = new RoaringBitmap64();
        one.deserialize(held);
        other.deserialize(given);
        one.or(other);
        return one.serialize();
    }
}
