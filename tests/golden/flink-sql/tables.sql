-- CREATE TABLE with all types, keys, partitions, options and comments; DESCRIBE and SHOW CREATE TABLE; DROP.
CREATE TABLE every_type (
    b BOOLEAN, ti TINYINT, si SMALLINT, i INT, i2 INTEGER, bi BIGINT, f FLOAT, db DOUBLE, dp DOUBLE PRECISION,
    de DECIMAL(12, 3), d0 DECIMAL, d5 DEC(5), nu NUMERIC(5, 1), c CHAR(4), c1 CHAR, vc VARCHAR(10), vs VARCHAR, s STRING,
    bn BINARY(3), vb VARBINARY(5), ab BYTES, da DATE, t0 TIME, t3 TIME(3),
    ts0 TIMESTAMP(0), ts3 TIMESTAMP(3), ts6 TIMESTAMP, ts9 TIMESTAMP(9) WITHOUT TIME ZONE,
    l3 TIMESTAMP_LTZ(3), l6 TIMESTAMP WITH LOCAL TIME ZONE,
    a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<x INT, y STRING>
);
DESCRIBE every_type;
SHOW CREATE TABLE every_type;
INSERT INTO every_type (b, ti, si, i, bi, f, db, de, c, vc, s, bn, vb, ab, da, t0, t3, ts0, ts3, ts6, ts9, l3, l6, a, m, r)
SELECT TRUE, CAST(-1 AS TINYINT), CAST(2 AS SMALLINT), 3, CAST(4 AS BIGINT), CAST(1.5 AS FLOAT), CAST(2.5 AS DOUBLE), CAST(12.345 AS DECIMAL(12, 3)),
    'ab', 'cd', 'ef', X'010203', X'0102', X'0a0b', DATE '2024-03-05', TIME '01:02:03', TIME '01:02:03',
    TIMESTAMP '2024-03-05 01:02:03', TIMESTAMP '2024-03-05 01:02:03.123', TIMESTAMP '2024-03-05 01:02:03.123456', TIMESTAMP '2024-03-05 01:02:03.123456789',
    CAST(TIMESTAMP '2024-03-05 01:02:03.123' AS TIMESTAMP_LTZ(3)), CAST(TIMESTAMP '2024-03-05 01:02:03.123456' AS TIMESTAMP_LTZ(6)),
    ARRAY[1, 2], MAP['k', CAST(7 AS BIGINT)], ROW(1, 'y');
SELECT * FROM every_type;
INSERT INTO every_type (i) VALUES (9);
SELECT i, b, a, m, r, r.y, a[1], m['k'] FROM every_type ORDER BY i;
CREATE TABLE nested (
    ms MULTISET<STRING>, deep ARRAY<ROW<p DECIMAL(4, 2), q MAP<INT, ARRAY<STRING>>>>, rn ROW<x INT NOT NULL, y ROW<z DATE>>, an ARRAY<INT NOT NULL> NOT NULL
);
DESCRIBE nested;
SHOW CREATE TABLE nested;
SELECT * FROM nested;
CREATE TABLE keyed (
    dt STRING COMMENT 'the day', h INT, k BIGINT NOT NULL COMMENT 'the key; it''s unique', v STRING,
    CONSTRAINT my_key PRIMARY KEY (dt, h, k) NOT ENFORCED
) COMMENT 'a table of keys' PARTITIONED BY (dt, h) WITH ('bucket' = '2', 'merge-engine' = 'deduplicate', 'my.own' = 'x=y');
DESCRIBE keyed;
DESC EXTENDED keyed;
SHOW CREATE TABLE keyed;
SHOW COLUMNS FROM keyed;
SHOW COLUMNS IN keyed LIKE '%t';
SHOW PARTITIONS keyed;
SELECT * FROM keyed$options;
CREATE TABLE in_line (k INT PRIMARY KEY NOT ENFORCED, `order` STRING, `a b` INT, `ä.ö` INT);
DESCRIBE in_line;
INSERT INTO in_line VALUES (1, 'first', 2, 3);
SELECT `order`, `a b`, `ä.ö` FROM in_line;
CREATE TABLE in_line (z INT);
CREATE TABLE IF NOT EXISTS in_line (z INT);
SHOW TABLES;
SHOW TABLES LIKE '%y%';
DROP TABLE in_line;
DROP TABLE in_line;
DROP TABLE IF EXISTS in_line;
SELECT * FROM in_line;
CREATE TABLE bad (a INT, a STRING);
CREATE TABLE bad (a INT, PRIMARY KEY (b) NOT ENFORCED);
CREATE TABLE bad (a INT, PRIMARY KEY (a));
CREATE TABLE bad (a INT) PARTITIONED BY (b);
CREATE TABLE bad (a INT) WITH ('merge-engine' = 'nothing');
CREATE TABLE bad (a INT) WITH ('bucket' = 'x');
CREATE TABLE bad (a INT) WITH ('connector' = 'datagen');
CREATE TABLE bad (a NOTHING);
CREATE TABLE nowhere.bad (a INT);
SHOW TABLES;
