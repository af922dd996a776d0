-- Streams: what a SELECT gives of each changelog producer; GROUP BY and INSERT over bounded sources.
CREATE TABLE none_ (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'continuous.discovery-interval' = '50 ms');
INSERT INTO none_ VALUES (1, 'a'), (2, 'b');
INSERT INTO none_ VALUES (1, 'A'), (3, 'c');
DELETE FROM none_ WHERE k = 2;
INSERT INTO none_ VALUES (3, 'c');
CREATE TABLE input_ (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'input', 'continuous.discovery-interval' = '50 ms');
INSERT INTO input_ VALUES (1, 'a'), (2, 'b');
INSERT INTO input_ VALUES (1, 'A'), (3, 'c');
UPDATE input_ SET v = 'B' WHERE k = 2;
DELETE FROM input_ WHERE k = 2;
CREATE TABLE lookup_ (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'lookup', 'continuous.discovery-interval' = '50 ms');
INSERT INTO lookup_ VALUES (1, 'a'), (2, 'b');
INSERT INTO lookup_ VALUES (1, 'A'), (3, 'c');
DELETE FROM lookup_ WHERE k = 2;
INSERT INTO lookup_ VALUES (3, 'c'), (4, 'd');
CREATE TABLE full_ (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'full-compaction', 'full-compaction.delta-commits' = '1', 'continuous.discovery-interval' = '50 ms');
INSERT INTO full_ VALUES (1, 'a'), (2, 'b');
INSERT INTO full_ VALUES (1, 'A'), (3, 'c');
CREATE TABLE appended (k INT, v STRING) WITH ('continuous.discovery-interval' = '50 ms');
INSERT INTO appended VALUES (1, 'a');
INSERT INTO appended VALUES (2, 'b');
CREATE TABLE partial_ (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update');
INSERT INTO partial_ VALUES (1, 'a');
SET 'execution.runtime-mode' = 'streaming';
-- rows: 2
SELECT * FROM none_;
-- rows: 6
SELECT * FROM none_ /*+ OPTIONS('scan.snapshot-id' = '1') */;
-- rows: 2
SELECT * FROM input_;
-- rows: 6
SELECT * FROM input_ /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */;
-- rows: 8
SELECT * FROM lookup_ /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */;
-- rows: 5
SELECT * FROM full_ /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */;
-- rows: 1
SELECT * FROM appended /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '2') */;
-- rows: 2
SELECT * FROM appended /*+ OPTIONS('scan.mode' = 'latest-full') */;
-- rows: 3
SELECT v, count(*) AS n FROM (VALUES ('x'), ('y'), ('x')) AS t (v) GROUP BY v;
-- rows: 1
SELECT * FROM partial_;
-- rows: 1
SELECT * FROM appended ORDER BY v;
SELECT count(*) AS n, sum(x) AS s, avg(CAST(x AS DECIMAL(5, 2))) AS a, min(x) AS lo, max(x) AS hi FROM (VALUES (1), (5), (3)) AS t (x);
CREATE TEMPORARY TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '10');
CREATE TABLE sums (parity INT, n BIGINT, total INT, PRIMARY KEY (parity) NOT ENFORCED) WITH ('bucket' = '1');
INSERT INTO sums SELECT n % 2, count(*), sum(n) FROM numbers GROUP BY n % 2;
CREATE TABLE twice (n INT, PRIMARY KEY (n) NOT ENFORCED) WITH ('bucket' = '1');
INSERT INTO twice SELECT n * 2 FROM numbers WHERE n > 7;
SET 'execution.runtime-mode' = 'batch';
SELECT * FROM sums ORDER BY parity;
SELECT * FROM twice ORDER BY n;
