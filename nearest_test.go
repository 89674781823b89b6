package overlake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/overlakedb/overlake"
)

// placesTable is a warehouse in memory with a table of 3,000 points on a spiral, and an index over them.
func placesTable(ctx context.Context, name string) (*overlake.DB, *overlake.Table, error) {
	db, err := overlake.Open(ctx, "mem://"+name, overlake.Options{})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []string{"CREATE TABLE places (id INTEGER, side VARCHAR, at vector(2))",
		"INSERT INTO places SELECT i, CASE WHEN cos(i) < 0 THEN 'left' ELSE 'right' END, [i * cos(i), i * sin(i)]::FLOAT[]::vector FROM range(3000) r(i)",
		"CREATE INDEX ON places USING hnsw (at vector_l2_ops)"} {
		rows, err := db.SQL(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		rows.Close()
	}
	t, err := db.Table(ctx, "places")
	return db, t, err
}

func ExampleQuery_NearEach() {
	ctx := context.Background()
	db, places, err := placesTable(ctx, "example-near-each")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	rows, err := places.Query().Where("side = ?", "right").NearEach("at", [][]float32{{100, 0}, {0, 7}}, overlake.L2).Select("id").Limit(2).Effort(overlake.Effort{Ef: 100}).Rows(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for row, err := range rows.Values() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row[0], row[1])
	}
	// Output:
	// 0 88
	// 0 113
	// 1 7
	// 1 1
}

// TestEffort checks that what a query says of effort arrives at the index.
func TestEffort(t *testing.T) {
	ctx := t.Context()
	db, places, err := placesTable(ctx, "effort")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	distances := func(e overlake.Effort) string {
		t.Helper()
		plan, err := places.Query().Near("at", []float32{700, 100}).Select("id").Limit(10).Effort(e).Explain(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(plan) {
			if strings.HasPrefix(line, "vector l2") {
				return line
			}
		}
		return "none"
	}
	few, many := distances(overlake.Effort{Ef: 20}), distances(overlake.Effort{Ef: 500})
	if few == many || !strings.Contains(few, "graph") {
		t.Errorf("ef 20: %sef 500: %s", few, many)
	}
	if exact := distances(overlake.Effort{Exact: true}); !strings.Contains(exact, "exact") || !strings.Contains(exact, " 3000 distances") {
		t.Errorf("exact: %s", exact)
	}
	if none := distances(overlake.Effort{NoIndex: true}); none != "none" {
		t.Errorf("without an index: %s", none)
	}
	if _, err := places.Query().Near("at", []float32{1, 2}).Effort(overlake.Effort{Ef: -1}).Limit(1).Rows(ctx); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("ef -1: %v", err)
	}
	if _, err := places.Query().NearEach("at", [][]float32{{1, 2}}, overlake.L2).Rows(ctx); overlake.KindOf(err) != overlake.KindInvalid {
		t.Errorf("NearEach without a limit: %v", err)
	}
}
