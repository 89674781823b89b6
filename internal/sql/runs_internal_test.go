package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Many rows that lie together are scanned in runs: the statistics of the column say nothing, because every part of the file
// holds smaller and larger values. What comes back is what a scan without the index gives, with deleted rows and without.
func TestRowsThatLieTogetherAreScannedInRuns(t *testing.T) {
	w := newWorld(t)
	w.do("CREATE TABLE r (id BIGINT, k BIGINT, s TEXT)")
	const rows = 900_000
	// 7 stands in two stretches of the file, 8 in one at its end, 9 everywhere; the rest are odd numbers up to 101.
	w.do(fmt.Sprintf(`INSERT INTO r SELECT i, CASE WHEN i BETWEEN 100001 AND 160000 OR i BETWEEN 500000 AND 530000 THEN 7 WHEN i >= 850000 THEN 8
		WHEN i %% 8 = 0 THEN 9 ELSE 11 + 2 * (i * 7919 %% 46) END, 'row ' || i FROM range(%d) t(i)`, rows))
	w.do("INSERT INTO r SELECT i, 7, 'second file' FROM range(5000000, 5001000) t(i)")
	w.do("CREATE INDEX rk ON r (k)")

	read := func(text string) (out []string) {
		err := w.ask(text, func(rec arrow.RecordBatch) {
			for i := range int(rec.NumRows()) {
				var cells []string
				for _, c := range rec.Columns() {
					if x, ok := c.(*array.String); ok {
						cells = append(cells, x.Value(i))
					} else {
						cells = append(cells, c.ValueStr(i))
					}
				}
				out = append(out, strings.Join(cells, " "))
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return out
	}
	check := func() {
		t.Helper()
		for where, part := range map[string]string{
			"k = 7":                          "1 of these files in part: ", // 90,001 rows of 900,000
			"k = 8":                          "1 of these files in part: ",
			"k IN (7, 8)":                    "1 of these files in part: ",
			"k = 7 AND s LIKE '%7'":          "1 of these files in part: ",
			"k = 7 OR k = 8 AND id > 860000": "1 of these files in part: ",
			"k = 9":                          "more than 5 % of the rows may match",
			"k IN (7, 9)":                    "more than 5 % of the rows may match",
		} {
			query := "SELECT count(*), sum(id), min(s), max(id), count(DISTINCT k) FROM r WHERE " + where
			got, want := fmt.Sprint(read(query)), fmt.Sprint(read("/*+ no_index */ "+query))
			if got != want {
				t.Errorf("%s: %s, a scan gives %s", where, got, want)
			}
			if plan := strings.Join(read("EXPLAIN "+query), "\n"); !strings.Contains(plan, part) {
				t.Errorf("%s: the plan does not say %q:\n%s", where, part, plan)
			}
		}
	}
	check()
	w.remove("r", 3, 1)
	check()
	if plan := strings.Join(read("EXPLAIN SELECT sum(id) FROM r WHERE k = 8"), "\n"); !strings.Contains(plan, "in part: 56224 of 900000 rows") {
		t.Errorf("the rows from 843,776 = 103 · 8,192 on are not all that is read:\n%s", plan)
	}

	// A table may have a column of the name by which rows are counted; then the whole file is read.
	w.do("CREATE TABLE n (file_row_number BIGINT, k BIGINT)")
	w.do("INSERT INTO n SELECT 900000 - i, CASE WHEN i < 60000 THEN 7 ELSE i * 7919 % 101 END FROM range(900000) t(i)")
	w.do("CREATE INDEX nk ON n (k)")
	if a, b := fmt.Sprint(read("SELECT count(*), sum(file_row_number) FROM n WHERE k = 7")), fmt.Sprint(read("/*+ no_index */ SELECT count(*), sum(file_row_number) FROM n WHERE k = 7")); a != b {
		t.Errorf("%s, a scan gives %s", a, b)
	}
}
