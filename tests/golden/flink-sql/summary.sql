-- Loading a table of order lines and keeping a summary of it: in batch, and as a stream of changes.
CREATE TABLE lineitem (
    l_orderkey INT, l_linenumber INT, l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2),
    l_tax DECIMAL(15, 2), l_returnflag CHAR(1), l_linestatus CHAR(1), l_shipdate DATE, l_year BIGINT, l_month STRING,
    PRIMARY KEY (l_year, l_orderkey, l_linenumber) NOT ENFORCED
) PARTITIONED BY (l_year) WITH ('bucket' = '2', 'changelog-producer' = 'lookup', 'continuous.discovery-interval' = '50 ms');
INSERT INTO lineitem
SELECT o, n, q, p, d, t, rf, ls, sd, YEAR(sd), DATE_FORMAT(CAST(sd AS TIMESTAMP(3)), 'yyyy-MM')
FROM (VALUES (1, 1, 17.00, 21168.23, 0.04, 0.02, 'N', 'O', DATE '1996-03-13'), (1, 2, 36.00, 45983.16, 0.09, 0.06, 'N', 'O', DATE '1996-04-12'),
             (2, 1, 38.00, 44694.46, 0.00, 0.05, 'N', 'O', DATE '1997-01-28'), (3, 1, 45.00, 54058.05, 0.06, 0.00, 'R', 'F', DATE '1994-02-02'),
             (3, 2, 49.00, 46796.47, 0.10, 0.00, 'R', 'F', DATE '1993-11-09'), (4, 1, 30.00, 30690.90, 0.03, 0.08, 'A', 'F', DATE '1992-04-21'),
             (5, 1, 15.00, 23678.55, 0.02, 0.04, 'N', 'F', DATE '1994-10-31')) AS v (o, n, q, p, d, t, rf, ls, sd);
SELECT l_orderkey, l_linenumber, l_year, l_month FROM lineitem ORDER BY l_orderkey, l_linenumber;
SHOW PARTITIONS lineitem;
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, count(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;
CREATE TABLE summary (
    l_returnflag CHAR(1), l_linestatus CHAR(1), sum_qty DECIMAL(38, 2), sum_charge DECIMAL(38, 6), count_order BIGINT,
    PRIMARY KEY (l_returnflag, l_linestatus) NOT ENFORCED
) WITH ('bucket' = '2');
INSERT INTO summary
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(*) FROM lineitem GROUP BY l_returnflag, l_linestatus;
SELECT * FROM summary ORDER BY l_returnflag, l_linestatus;
UPDATE lineitem SET l_quantity = 50, l_returnflag = 'A' WHERE l_orderkey = 3 AND l_linenumber = 2;
DELETE FROM lineitem WHERE l_orderkey = 5;
INSERT INTO lineitem SELECT 6, 1, CAST(37.00 AS DECIMAL(15, 2)), 45000.10, 0.08, 0.03, 'A', 'F', DATE '1992-04-27', 1992, '1992-04';
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS q, count(*) AS n FROM lineitem GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;
SET 'execution.runtime-mode' = 'streaming';
-- rows: 11
SELECT l_orderkey, l_linenumber, l_quantity, l_returnflag FROM lineitem /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */;
-- rows: 7
SELECT l_orderkey, l_linenumber, l_returnflag FROM lineitem;
SET 'execution.runtime-mode' = 'batch';
SELECT count(*) AS n FROM lineitem;
