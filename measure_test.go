//go:build unix

package overlake_test

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/overlakedb/overlake"
)

// BenchmarkStatement is the processor time of a statement over a table of 16 files of eight columns, the smallest and the mean of
// all rounds: EXPLAIN plans and does not run, the count runs over files that statistics leave out, the sum reads all.
func BenchmarkStatement(b *testing.B) {
	db, err := overlake.Open(b.Context(), b.TempDir(), overlake.Options{Threads: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	drain := drainer(b, db)
	drain("CREATE TABLE hits (id BIGINT, cat INTEGER, price DOUBLE, qty INTEGER, ts TIMESTAMP, name VARCHAR, flag BOOLEAN, tag VARCHAR)")
	for f := range 16 {
		drain(fmt.Sprintf(`INSERT INTO hits SELECT i, i %% 7, i / 3.0, i %% 50, TIMESTAMP '2025-01-01' + to_seconds(i), 'name of ' || i, i %% 2 = 0, 'tag' || i %% 20
			FROM range(%d, %d) t(i)`, f*1000, (f+1)*1000))
	}
	for _, c := range []struct{ name, sql string }{
		{"explain", "EXPLAIN SELECT cat, sum(price) FROM hits WHERE id > 10 GROUP BY cat"},
		{"constant", "SELECT 1"},
		{"pruned", "SELECT count(*) FROM hits WHERE id < 0"},
		{"one", "SELECT * FROM hits WHERE id = 5000"},
		{"all", "SELECT cat, sum(price) FROM hits WHERE id > 10 GROUP BY cat"},
	} {
		b.Run(c.name, func(b *testing.B) {
			best, sum, n := time.Duration(1<<62), time.Duration(0), 0
			for b.Loop() {
				start := processor()
				drain(c.sql)
				d := processor() - start
				best, sum, n = min(best, d), sum+d, n+1
			}
			b.ReportMetric(float64(best.Microseconds()), "best-cpu-us")
			b.ReportMetric(float64(sum.Microseconds())/float64(n), "mean-cpu-us")
		})
	}
}

// BenchmarkDeletes is the processor time of a scan with one percent of deleted rows over that of the same rows without.
func BenchmarkDeletes(b *testing.B) {
	db, err := overlake.Open(b.Context(), b.TempDir(), overlake.Options{Threads: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	drain := drainer(b, db)
	const n, files = 2_500_000, 4
	for _, name := range []string{"fresh", "worn"} {
		drain("CREATE TABLE " + name + " (price DOUBLE, qty INTEGER, name VARCHAR)")
		for f := range files {
			drain(fmt.Sprintf(`INSERT INTO %s SELECT (hash(i * 7) %% 1000000)::DOUBLE / 100, (hash(i * 3) %% 50)::INTEGER, 'name of ' || (hash(i * 13) %% 100000)
				FROM range(%d, %d) t(i)`, name, f*n/files, (f+1)*n/files))
		}
	}
	worn, err := db.Table(b.Context(), "worn")
	if err != nil {
		b.Fatal(err)
	}
	list, err := worn.Files(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	gone := map[string][]int64{}
	for _, f := range list {
		for p := int64(0); p < f.Rows; p += 100 {
			gone[f.Path] = append(gone[f.Path], p)
		}
	}
	if err := worn.Delete(b.Context(), gone); err != nil {
		b.Fatal(err)
	}
	for _, what := range []string{"sum(price), sum(qty), count(name)", "sum(qty)", "max(name)"} {
		b.Run(what, func(b *testing.B) {
			best := map[string]time.Duration{}
			for b.Loop() {
				for _, name := range []string{"fresh", "worn"} {
					start := processor()
					drain("SELECT " + what + " FROM " + name)
					if d := processor() - start; best[name] == 0 || d < best[name] {
						best[name] = d
					}
				}
			}
			b.ReportMetric(float64(best["worn"])/float64(best["fresh"]), "ratio")
			b.ReportMetric(float64(best["worn"]-best["fresh"])/n, "cpu-ns/row")
		})
	}
}

// drainer runs a statement and reads its answer to the end.
func drainer(b *testing.B, db *overlake.DB) func(sql string) {
	return func(sql string) {
		rows, err := db.SQL(b.Context(), sql)
		if err != nil {
			b.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
		}
		if rows.Err() != nil {
			b.Fatal(rows.Err())
		}
	}
}

func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNearest is the processor time of a search for the ten nearest rows of 60,000 with three columns, by its forms: the plainest one, which
// the engine is not asked for, with the vector as a parameter or as text, and others.
func BenchmarkNearest(b *testing.B) {
	db, err := overlake.Open(b.Context(), b.TempDir(), overlake.Options{Threads: 2, IndexByHand: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	drain := drainer(b, db)
	const n, dim = 60_000, 64
	drain(fmt.Sprintf("CREATE TABLE pts (id BIGINT, cat INTEGER, name VARCHAR, e vector(%d))", dim))
	drain(fmt.Sprintf("INSERT INTO pts SELECT i, (i %% 100)::INTEGER, 'name of ' || i, [sin(i * (j + 1) * 0.37 + cos(i * 0.11 * (j %% 7))) for j in range(%d)]::FLOAT[]::vector FROM range(%d) t(i)", dim, n))
	drain("CREATE INDEX ON pts USING hnsw (e vector_l2_ops)")
	drain("CREATE INDEX ON pts (cat)")
	drain("REINDEX TABLE pts")
	vectors := make([][]float32, 64)
	for i := range vectors {
		v := make([]float32, dim)
		for j := range v {
			v[j] = float32(math.Sin(float64(i*977+j) * 1.7))
		}
		vectors[i] = v
	}
	for _, c := range []struct{ name, sql string }{
		{"text", "SELECT id, cat, name, e <-> '[…]' AS d FROM pts ORDER BY e <-> '[…]' LIMIT 10"},
		{"plain", "SELECT id, cat, name, e <-> $1 AS d FROM pts ORDER BY e <-> $1 LIMIT 10"},
		{"filtered", "SELECT id, cat, name, e <-> $1 AS d FROM pts WHERE cat = 7 ORDER BY e <-> $1 LIMIT 10"},
		{"engine", "SELECT id + 1 AS id, cat, name, e <-> $1 AS d FROM pts ORDER BY e <-> $1 LIMIT 10"},
		{"subquery", "SELECT s.id, s.name FROM (SELECT id, cat, name, e <-> $1 AS d FROM pts ORDER BY e <-> $1 LIMIT 10) s"},
		{"constant", "SELECT 1 WHERE $1 IS NOT NULL"},
	} {
		b.Run(c.name, func(b *testing.B) {
			best, sum, n := time.Duration(1<<62), time.Duration(0), 0
			for b.Loop() {
				start := processor()
				for i := range 16 {
					sql, args := c.sql, []any{vectors[(n+i)%len(vectors)]}
					if c.name == "text" { // each statement has its own
						sql, args = strings.ReplaceAll(sql, "[…]", strings.ReplaceAll(fmt.Sprint(vectors[(n+i)%len(vectors)]), " ", ",")), nil
					}
					rows, err := db.SQL(b.Context(), sql, args...)
					if err != nil {
						b.Fatal(err)
					}
					for rows.Next() {
					}
					if err := rows.Err(); err != nil {
						b.Fatal(err)
					}
					rows.Close()
				}
				d := (processor() - start) / 16
				best, sum, n = min(best, d), sum+d, n+1
			}
			b.ReportMetric(float64(best.Microseconds()), "best-cpu-us")
			b.ReportMetric(float64(sum.Microseconds())/float64(n), "mean-cpu-us")
		})
	}
}
