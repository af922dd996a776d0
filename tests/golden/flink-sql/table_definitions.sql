-- Computed columns, watermarks, LIKE, AS SELECT, temporary tables, views.
CREATE TABLE computed (
    k INT, ts TIMESTAMP(3), price DECIMAL(10, 2), n INT,
    day_ AS DATE_FORMAT(ts, 'yyyy-MM-dd'), up AS k + 1 COMMENT 'the next', total AS price * n,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (k) NOT ENFORCED
);
DESCRIBE computed;
SHOW CREATE TABLE computed;
INSERT INTO computed VALUES (1, TIMESTAMP '2024-03-05 01:02:03', 2.50, 3), (2, TIMESTAMP '2024-03-06 23:59:59.999', 10, 7);
SELECT * FROM computed ORDER BY k;
SELECT k FROM computed WHERE day_ = '2024-03-06' AND total > 10;
SELECT day_, sum(total) AS s FROM computed GROUP BY day_ ORDER BY day_;
INSERT INTO computed (k, ts, up) VALUES (3, TIMESTAMP '2024-03-06 23:59:59.999', 4);
CREATE TABLE source (dt STRING, k INT, v STRING COMMENT 'value', PRIMARY KEY (dt, k) NOT ENFORCED)
    COMMENT 'where it comes from' PARTITIONED BY (dt) WITH ('bucket' = '1');
INSERT INTO source VALUES ('a', 1, 'x'), ('b', 2, 'y');
CREATE TABLE like_all LIKE source;
CREATE TABLE like_no_options WITH ('bucket' = '3') LIKE source (EXCLUDING OPTIONS);
SHOW CREATE TABLE like_no_options;
CREATE TABLE like_more (extra DOUBLE) LIKE source (EXCLUDING OPTIONS INCLUDING PARTITIONS);
SHOW CREATE TABLE like_more;
CREATE TABLE like_less (extra DOUBLE) LIKE source (EXCLUDING ALL);
SHOW CREATE TABLE like_less;
SELECT count(*) AS n FROM like_more;
CREATE TABLE as_select AS SELECT k, v, k * 2 AS k2, 'x' AS c, CAST(1.5 AS DECIMAL(5, 2)) AS d FROM source;
SHOW CREATE TABLE as_select;
SELECT * FROM as_select ORDER BY k;
CREATE TABLE as_keyed (PRIMARY KEY (dt, k) NOT ENFORCED) PARTITIONED BY (dt) WITH ('bucket' = '1') AS SELECT k, dt, v FROM source;
SHOW CREATE TABLE as_keyed;
CREATE TABLE as_options WITH ('primary-key' = 'dt,k', 'partition' = 'dt', 'bucket' = '1') AS SELECT dt, k, v FROM source;
SHOW CREATE TABLE as_options;
SELECT * FROM as_options ORDER BY k;
SHOW PARTITIONS as_options;
CREATE TABLE as_more (added INT) AS SELECT k FROM source;
SELECT * FROM as_more ORDER BY k;
CREATE TABLE as_select AS SELECT 1 AS a;
CREATE TEMPORARY TABLE made (a INT, b STRING) WITH (
    'connector' = 'datagen', 'number-of-rows' = '3', 'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '3', 'fields.b.length' = '5');
SELECT a, CHAR_LENGTH(b) AS n FROM made ORDER BY a;
SHOW TABLES;
DROP TEMPORARY TABLE made;
CREATE TEMPORARY VIEW temporary_view AS SELECT k FROM source WHERE k > 1;
SELECT * FROM temporary_view;
DROP TEMPORARY VIEW temporary_view;
CREATE VIEW seen (a, b) COMMENT 'a view' AS SELECT k, v FROM source;
SHOW VIEWS;
SELECT * FROM seen ORDER BY a;
DROP VIEW seen;
DROP VIEW seen;
DROP VIEW IF EXISTS seen;
