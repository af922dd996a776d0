-- What statements make of the merge engines.
CREATE TABLE partial (k INT, a INT, b STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update');
INSERT INTO partial (k, a) VALUES (1, 10), (2, 20);
INSERT INTO partial (k, b) VALUES (1, 'x'), (3, 'z');
INSERT INTO partial VALUES (1, CAST(NULL AS INT), 'y');
SELECT * FROM partial ORDER BY k;
DELETE FROM partial WHERE k = 1;
UPDATE partial SET a = 5 WHERE k = 2;
SELECT * FROM partial ORDER BY k;
CREATE TABLE groups_ (k INT, a INT, ga INT, b INT, gb INT, PRIMARY KEY (k) NOT ENFORCED)
    WITH ('bucket' = '1', 'merge-engine' = 'partial-update', 'fields.ga.sequence-group' = 'a', 'fields.gb.sequence-group' = 'b');
INSERT INTO groups_ VALUES (1, 1, 5, 1, 5);
INSERT INTO groups_ VALUES (1, 2, 4, 2, 6);
INSERT INTO groups_ (k, a, ga) VALUES (1, CAST(NULL AS INT), 7);
SELECT * FROM groups_;
CREATE TABLE sums (k INT, n INT, m DECIMAL(5, 2), hi INT, lo INT, txt STRING, flag BOOLEAN, PRIMARY KEY (k) NOT ENFORCED)
    WITH ('bucket' = '1', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', 'fields.m.aggregate-function' = 'sum',
          'fields.hi.aggregate-function' = 'max', 'fields.lo.aggregate-function' = 'min', 'fields.txt.aggregate-function' = 'listagg',
          'fields.flag.aggregate-function' = 'bool_or');
INSERT INTO sums VALUES (1, 1, 1.5, 1, 1, 'a', FALSE), (2, 5, 2, 2, 2, 'q', TRUE);
INSERT INTO sums VALUES (1, 2, 2.25, -5, -5, 'b', TRUE);
INSERT INTO sums (k, n) VALUES (1, 10);
SELECT * FROM sums ORDER BY k;
SELECT * FROM sums$aggregation_fields ORDER BY field_name;
CREATE TABLE first_ (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'first-row');
INSERT INTO first_ VALUES (1, 'first');
INSERT INTO first_ VALUES (1, 'second');
INSERT INTO first_ VALUES (1, 'third'), (2, 'other');
SELECT * FROM first_ ORDER BY k;
CREATE TABLE sequenced (k INT, seq INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'sequence.field' = 'seq');
INSERT INTO sequenced VALUES (1, 5, 'five');
INSERT INTO sequenced VALUES (1, 4, 'four'), (1, CAST(NULL AS INT), 'none');
SELECT * FROM sequenced;
INSERT INTO sequenced VALUES (1, 5, 'five again');
SELECT * FROM sequenced;
CREATE TABLE bad (k INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('merge-engine' = 'first-row', 'changelog-producer' = 'input');
CREATE TABLE bad (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('sequence.field' = 'nothing');
CREATE TABLE bad (k INT, v INT) WITH ('merge-engine' = 'aggregation');
