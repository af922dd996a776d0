import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.SerializationFeature;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeChecks;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/**
 * Paimon's internal values and their JSON form, both ways. DECIMAL, DATE, TIME and TIMESTAMP are strings with the
 * type's fraction digits (TIME always 3, local-zone timestamps in UTC with Z), binaries {"hex"}, MAP and MULTISET lists
 * of [key, value] sorted by the key's JSON text, ROW objects, VARIANT {"value", "metadata"}, NaN and the infinities
 * strings.
 */
final class PaimonCells {
    static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    private PaimonCells() {}

    static List<Object> row(InternalRow row, List<DataField> fields) {
        List<Object> cells = new ArrayList<>();
        for (int i = 0; i < fields.size(); i++) {
            DataType type = fields.get(i).type();
            cells.add(cell(InternalRow.createFieldGetter(type, i).getFieldOrNull(row), type));
        }
        return cells;
    }

    static Map<String, Object> named(InternalRow row, List<DataField> fields) {
        Map<String, Object> found = new LinkedHashMap<>();
        List<Object> cells = row(row, fields);
        for (int i = 0; i < cells.size(); i++) {
            found.put(fields.get(i).name(), cells.get(i));
        }
        return found;
    }

    static Object cell(Object value, DataType type) {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case CHAR:
            case VARCHAR:
                return value.toString();
            case BINARY:
            case VARBINARY:
                return hex((byte[]) value);
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case FLOAT:
                float narrow = (Float) value;
                return Float.isFinite(narrow) ? (Object) Double.valueOf(Float.toString(narrow)) : "" + narrow;
            case DOUBLE:
                double wide = (Double) value;
                return Double.isFinite(wide) ? (Object) wide : "" + wide;
            case DATE:
                return LocalDate.ofEpochDay((Integer) value).toString();
            case TIME_WITHOUT_TIME_ZONE:
                return LocalTime.ofNanoOfDay((Integer) value * 1_000_000L)
                        .format(DateTimeFormatter.ofPattern("HH:mm:ss.SSS"));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return moment((Timestamp) value, type);
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return moment((Timestamp) value, type) + "Z";
            case ARRAY:
                return elements((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                MapType map = (MapType) type;
                return pairs((InternalMap) value, map.getKeyType(), map.getValueType());
            case MULTISET:
                return pairs((InternalMap) value, ((MultisetType) type).getElementType(),
                        org.apache.paimon.types.DataTypes.INT());
            case ROW:
                return named((InternalRow) value, ((RowType) type).getFields());
            case VARIANT:
                Map<String, Object> parts = new LinkedHashMap<>();
                parts.put("value", hex(((Variant) value).value()));
                parts.put("metadata", hex(((Variant) value).metadata()));
                return parts;
            default:
                return value;
        }
    }

    static Map<String, Object> hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return Map.of("hex", text.toString());
    }

    private static String moment(Timestamp value, DataType type) {
        int digits = DataTypeChecks.getPrecision(type);
        LocalDateTime at = value.toLocalDateTime();
        String text = at.format(DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss"));
        return digits == 0 ? text : text + "." + String.format("%09d", at.getNano()).substring(0, digits);
    }

    private static List<Object> elements(InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            found.add(cell(getter.getElementOrNull(array, i), type));
        }
        return found;
    }

    private static List<Object> pairs(InternalMap map, DataType key, DataType value) {
        List<Object> keys = elements(map.keyArray(), key);
        List<Object> values = elements(map.valueArray(), value);
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            found.add(java.util.Arrays.asList(keys.get(i), values.get(i)));
        }
        found.sort(java.util.Comparator.comparing(pair -> text(((List<?>) pair).get(0))));
        return found;
    }

    static String text(Object value) {
        try {
            return JSON.writeValueAsString(value);
        } catch (java.io.IOException e) {
            throw new IllegalStateException(e);
        }
    }

    static GenericRow row(JsonNode cells, List<DataField> fields, RowKind kind) {
        GenericRow made = new GenericRow(kind, fields.size());
        for (int i = 0; i < fields.size(); i++) {
            JsonNode cell = cells.isObject() ? cells.get(fields.get(i).name()) : cells.get(i);
            made.setField(i, value(cell, fields.get(i).type()));
        }
        return made;
    }

    static Object value(JsonNode cell, DataType type) {
        if (cell == null || cell.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return cell.asBoolean();
            case TINYINT:
                return (byte) cell.asInt();
            case SMALLINT:
                return (short) cell.asInt();
            case INTEGER:
                return cell.asInt();
            case BIGINT:
                return cell.asLong();
            case FLOAT:
                return Float.valueOf(cell.asText());
            case DOUBLE:
                return Double.valueOf(cell.asText());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(cell.asText());
            case BINARY:
            case VARBINARY:
                return bytes(cell.get("hex").asText());
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(cell.asText()), decimal.getPrecision(), decimal.getScale());
            case DATE:
                return (int) LocalDate.parse(cell.asText()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE:
                return (int) (LocalTime.parse(cell.asText()).toNanoOfDay() / 1_000_000L);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromLocalDateTime(
                        LocalDateTime.parse(cell.asText().replace("Z", "").replace(' ', 'T')));
            case ARRAY:
                return array(cell, ((ArrayType) type).getElementType());
            case MAP:
                return map(cell, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map(cell, ((MultisetType) type).getElementType(),
                        org.apache.paimon.types.DataTypes.INT());
            case ROW:
                return row(cell, ((RowType) type).getFields(), RowKind.INSERT);
            case VARIANT:
                return new GenericVariant(
                        bytes(cell.get("value").get("hex").asText()), bytes(cell.get("metadata").get("hex").asText()));
            default:
                throw new IllegalArgumentException("no JSON form for " + type);
        }
    }

    private static GenericArray array(JsonNode cells, DataType type) {
        Object[] found = new Object[cells.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = value(cells.get(i), type);
        }
        return new GenericArray(found);
    }

    private static GenericMap map(JsonNode pairs, DataType key, DataType value) {
        Map<Object, Object> found = new LinkedHashMap<>();
        for (JsonNode pair : pairs) {
            found.put(value(pair.get(0), key), value(pair.get(1), value));
        }
        return new GenericMap(found);
    }

    static byte[] bytes(String hex) {
        byte[] found = new byte[hex.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }
}
