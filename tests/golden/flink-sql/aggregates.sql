-- Aggregate functions and windows, and the types that they give.
CREATE TABLE t (k INT, g STRING, ti TINYINT, i INT, bi BIGINT, f FLOAT, d DOUBLE, de DECIMAL(10, 2), s STRING, da DATE, b BOOLEAN);
INSERT INTO t VALUES
    (1, 'a', CAST(100 AS TINYINT), 2147483647, 9223372036854775807, CAST(1.5 AS FLOAT), 1e0, 99999999.99, 'x', DATE '2024-03-05', TRUE),
    (2, 'a', CAST(100 AS TINYINT), 1, CAST(1 AS BIGINT), CAST(2.5 AS FLOAT), 2e0, 0.01, 'y', DATE '2024-03-06', FALSE),
    (3, 'b', CAST(-1 AS TINYINT), 10, CAST(10 AS BIGINT), CAST(0.25 AS FLOAT), 5e0, 2.55, CAST(NULL AS STRING), DATE '1969-12-31', TRUE),
    (4, 'b', CAST(-2 AS TINYINT), -3, CAST(-3 AS BIGINT), CAST(0.5 AS FLOAT), -1e0, -2.56, 'x', CAST(NULL AS DATE), CAST(NULL AS BOOLEAN));
SELECT sum(ti), sum(i), sum(bi), sum(f), sum(d), sum(de) FROM t;
SELECT g, sum(ti) AS ti, sum(i) AS i, sum(bi) AS bi, sum(f) AS f, sum(d) AS d, sum(de) AS de FROM t GROUP BY g ORDER BY g;
SELECT avg(ti), avg(i), avg(f), avg(d) FROM t WHERE g = 'b';
SELECT min(ti), max(ti), min(de), max(de), min(s), max(s), min(da), max(da), min(b), max(b) FROM t;
SELECT count(*), count(s), count(DISTINCT s), count(DISTINCT g), sum(DISTINCT ti), count(b) FROM t;
SELECT stddev_pop(d), stddev_samp(d), var_pop(d), var_samp(d), variance(d) FROM t;
SELECT stddev_pop(i), var_samp(ti) FROM t WHERE g = 'b';
SELECT count(*) FILTER (WHERE g = 'a') AS na, sum(i) FILTER (WHERE i < 100) AS small FROM t;
SELECT g, count(*) AS n, max(k) AS m FROM t GROUP BY g HAVING max(k) > 2;
SELECT count(*) AS n FROM t WHERE k > 100;
SELECT g, count(*) AS n FROM t WHERE k > 100 GROUP BY g;
SELECT g, b, count(*) AS n FROM t GROUP BY GROUPING SETS ((g), (b), ()) ORDER BY g, b, n;
SELECT g, b, count(*) AS n, GROUPING(g) AS gg, GROUPING_ID(g, b) AS gi FROM t GROUP BY ROLLUP (g, b) ORDER BY gi, g, b;
SELECT g, count(*) AS n FROM t GROUP BY CUBE (g) ORDER BY g;
SELECT upper(g) AS u, count(*) AS n FROM t GROUP BY upper(g) ORDER BY u;
SELECT g AS x, count(*) FROM t GROUP BY x;
SELECT g, count(*) FROM t GROUP BY 1;
SELECT g, k FROM t GROUP BY g;
SELECT sum(s) FROM t;
SELECT g, listagg(s) AS l, listagg(s, '|') AS p FROM t WHERE k <> 2 GROUP BY g ORDER BY g;
SELECT s, first_value(k) AS f, last_value(k) AS l FROM t WHERE s <> 'x' GROUP BY s;
SELECT g, k, row_number() OVER (PARTITION BY g ORDER BY k DESC) AS rn, rank() OVER (ORDER BY g) AS r, dense_rank() OVER (ORDER BY g) AS dr, sum(d) OVER (PARTITION BY g ORDER BY k) AS run FROM t ORDER BY k;
SELECT k, lag(k) OVER (PARTITION BY g ORDER BY k) AS before_, lead(k) OVER (PARTITION BY g ORDER BY k) AS after_, lag(k, 2, -1) OVER (ORDER BY k) AS two FROM t ORDER BY k;
SELECT k, sum(d) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two, max(d) OVER () AS top, first_value(k) OVER (PARTITION BY g ORDER BY k DESC) AS first_, ntile(2) OVER (ORDER BY k) AS nt, cume_dist() OVER (ORDER BY k) AS cd, percent_rank() OVER (ORDER BY k) AS pr FROM t ORDER BY k;
SELECT g, k FROM (SELECT g, k, row_number() OVER (PARTITION BY g ORDER BY k) AS rn FROM t) WHERE rn = 1 ORDER BY g;
SELECT sum(de) * 2 AS twice, sum(de) / count(*) AS each_, sum(i) / 2 AS half FROM t WHERE g = 'b';
SELECT max(k) + 1 AS next_, count(*) * 1.5 AS n FROM t;
SELECT DISTINCT g FROM t ORDER BY g;
SELECT g, sum(i * de) AS p FROM t WHERE k > 1 GROUP BY g ORDER BY g;
SELECT bool_and(b) FROM t;
SELECT approx_count_distinct(g) AS n FROM t;
SELECT PERCENTILE(i, 0.5) AS median FROM t WHERE k > 1;

-- More of types, windows and FILTER.
SELECT g, SUM(i) FILTER (WHERE k > 1) AS s, AVG(i) FILTER (WHERE k > 1) AS a, COUNT(*) FILTER (WHERE i > 3) AS c FROM t GROUP BY g ORDER BY g;
SELECT k, SUM(i) OVER (ORDER BY k) AS s, AVG(i) OVER (PARTITION BY g ORDER BY k) AS a, COUNT(*) OVER (PARTITION BY g) AS c FROM t WHERE k < 4 ORDER BY k;
SELECT SUM(DISTINCT i), AVG(DISTINCT i), SUM(i + 1), AVG(i * 2), MAX(de) + 1, SUM(de) / 3, COUNT(*) * 1.5 FROM t WHERE g = 'b';
SELECT STDDEV_POP(k), STDDEV_SAMP(k), VAR_POP(k), VAR_SAMP(k), VARIANCE(CAST(k AS BIGINT)), STDDEV(CAST(k AS DOUBLE)), VAR_POP(de) FROM t WHERE g = 'b';
SELECT SUM(s) FROM t;
SELECT AVG(b) FROM t;
