package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake"
)

// The table of the index cases: as large as hits, its key unique and in no order, columns of 100, 20 and 2 values.

// modulus is a prime above 10 million, so that multiples of a number modulo it are distinct; a table of more rows has
// another.
func (b *bench) modulus() int {
	if b.rows <= 10_000_000 {
		return 10_000_019
	}
	return 1_000_000_007
}

const keyStep = 7_368_787

func (b *bench) keyOf(i int) int { return i * keyStep % b.modulus() }

func (b *bench) fillKeyed() error {
	if b.has("keyed") {
		return b.list("keyed", &b.keyed)
	}
	if err := b.drain("CREATE TABLE keyed (id BIGINT, a INTEGER, b INTEGER, price DOUBLE, ts TIMESTAMP, name VARCHAR, flag BOOLEAN, tag VARCHAR)"); err != nil {
		return err
	}
	const files = 16
	per := b.rows / files
	for f := range files {
		sql := fmt.Sprintf(`INSERT INTO keyed SELECT (i * %d) %% %d, (hash(i) %% 100)::INTEGER, (hash(i * 3) %% 100)::INTEGER, (hash(i * 7) %% 1000000)::DOUBLE / 100,
			TIMESTAMP '2025-01-01' + to_seconds((hash(i * 11) %% 31536000)::BIGINT), 'name of ' || (hash(i * 13) %% 100000), hash(i * 5) %% 2 = 0, 'tag' || (hash(i * 17) %% 20)
			FROM range(%d, %d) t(i)`, keyStep, b.modulus(), f*per, (f+1)*per)
		if err := b.drain(sql); err != nil {
			return err
		}
	}
	return b.list("keyed", &b.keyed)
}

// indexes measures queries with an index beside DuckDB without one, over the same files.
func (b *bench) indexes() error {
	if err := b.fillKeyed(); err != nil {
		return err
	}
	if err := b.builds(); err != nil {
		return err
	}
	scan := "read_parquet(['" + strings.Join(b.keyed, "', '") + "'])"
	rng := rand.New(rand.NewPCG(1, 7))
	case_ := func(name, gate string, queries ...string) error {
		for i := range queries {
			queries[i] = strings.ReplaceAll(queries[i], "{t}", "keyed")
		}
		at := 0
		ours := func() error { at++; return b.drain(queries[at%len(queries)]) }
		theirs := func() error { return b.peer.drain(strings.ReplaceAll(queries[at%len(queries)], "keyed", scan)) }
		if err := ours(); err != nil { // what a cache holds, it holds
			return err
		}
		o, t, err := b.versus(ours, theirs)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.add(name, ms(o), ms(t), "DuckDB, no index", "ms", gate)
		return nil
	}
	keys := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Itoa(b.keyOf(rng.IntN(b.rows)))
		}
		return strings.Join(list, ", ")
	}
	sum := func(where string) string { return "SELECT sum(price), count(b) FROM {t} WHERE " + where }
	between := func(n int) string {
		lo := rng.IntN(b.modulus() - n)
		return fmt.Sprintf("id BETWEEN %d AND %d", lo, lo+n-1)
	}
	for _, c := range []struct {
		name, gate string
		queries    []string
	}{
		{"all columns of 1 row by unique key", ">= 20", []string{"SELECT * FROM {t} WHERE id = " + keys(1), "SELECT * FROM {t} WHERE id = " + keys(1)}},
		{"all columns of 10 rows by unique key", ">= 8", []string{"SELECT * FROM {t} WHERE id IN (" + keys(10) + ")"}},
		{"all columns of 100 rows by unique key", ">= 3", []string{"SELECT * FROM {t} WHERE id IN (" + keys(100) + ")"}},
		{"all columns of 1,000 rows by unique key", ">= 1.2", []string{"SELECT * FROM {t} WHERE id IN (" + keys(1000) + ")"}},
		{"all columns of 10,000 rows by unique key", "", []string{"SELECT * FROM {t} WHERE id IN (" + keys(10_000) + ")"}},
		{"all columns of 5 % of the rows by category", ">= 0.9", []string{"SELECT * FROM {t} WHERE tag = 'tag7'"}},
		{"all columns of 50 % of the rows by category", ">= 0.9", []string{"SELECT * FROM {t} WHERE flag"}},
		{"two columns of a range of 0.001 %", ">= 8", []string{sum(between(b.rows / 100_000))}},
		{"two columns of a range of 0.01 %", ">= 2", []string{sum(between(b.rows / 10_000))}},
		{"two columns of a range of 0.1 %", "", []string{sum(between(b.rows / 1000))}},
		{"two columns of a range of 1 %", ">= 0.95", []string{sum(between(b.rows / 100))}},
		{"two columns of a range of 10 %", "", []string{sum(between(b.rows / 10))}},
		{"two columns by prefix, 0.01 %", ">= 2", []string{sum("name LIKE 'name of 1234%'")}},
		{"two columns by two conditions of 1 %, 0.01 %", ">= 2", []string{sum("a = 17 AND b = 71")}},
		{"two columns by 50,000 keys", ">= 0.9", []string{sum("id IN (" + keys(50_000) + ")")}},
		{"count of 1 %", ">= 20", []string{"SELECT count(*) FROM {t} WHERE a = 17"}},
		{"count of a range of 10 %", ">= 20", []string{"SELECT count(*) FROM {t} WHERE " + between(b.rows/10)}},
		{"whether a key exists", ">= 20", []string{"SELECT EXISTS (SELECT 1 FROM {t} WHERE id = " + keys(1) + ")"}},
		{"least and greatest key of a range of 1 %", ">= 20", []string{"SELECT min(id), max(id) FROM {t} WHERE " + between(b.rows/100)}},
		{"join of 10 keys", ">= 8", []string{"SELECT sum(price), count(*) FROM (VALUES (" + strings.ReplaceAll(keys(10), ", ", "), (") + ")) k(x) JOIN {t} ON id = x"}},
		{"join of 1,000 keys", ">= 1.5", []string{"SELECT sum(price), count(*) FROM (VALUES (" + strings.ReplaceAll(keys(1000), ", ", "), (") + ")) k(x) JOIN {t} ON id = x"}},
		{"ten rows with the greatest keys", "", []string{"SELECT * FROM {t} ORDER BY id DESC LIMIT 10"}},
	} {
		if err := case_(c.name, c.gate, c.queries...); err != nil {
			return err
		}
	}
	return b.clustered(scan, between)
}

// builds measures how fast indexes are made.
func (b *bench) builds() error {
	t, err := b.db.Table(b.ctx, "keyed")
	if err != nil {
		return err
	}
	var size int64
	for _, f := range []struct {
		column, what string
		limit        float64 // million rows a second
	}{{"a", "100 values", 5}, {"name", "100,000 strings", 1}, {"id", "unique numbers", 0}, {"b", "", 0}, {"flag", "", 0}, {"tag", "", 0}} {
		start := cpu()
		x, err := t.AddIndex(b.ctx, overlake.IndexSpec{Name: "by_" + f.column, Columns: []string{f.column}})
		if err != nil {
			var e *overlake.Error
			if errors.As(err, &e) && overlake.KindOf(err) == overlake.KindExists {
				continue
			}
			return err
		}
		took := cpu() - start
		size += x.Bytes
		if f.what != "" {
			fmt.Printf("index on %s, %s: %.2f bytes a row\n", f.column, f.what, float64(x.Bytes)/float64(b.rows))
		}
		if f.limit > 0 {
			b.add("build of an index, "+f.what, ms(took)/1000, float64(b.rows)/1e6/f.limit, fmt.Sprintf("%g M rows/s", f.limit), "s", ">= 1")
		}
	}
	return nil
}

// clustered is a range over the same rows written in the order of the key.
func (b *bench) clustered(scan string, between func(int) string) error {
	if !b.has("sorted") {
		if err := b.drain("CREATE TABLE sorted AS SELECT * FROM keyed ORDER BY id"); err != nil {
			return err
		}
		t, err := b.db.Table(b.ctx, "sorted")
		if err != nil {
			return err
		}
		if _, err := t.AddIndex(b.ctx, overlake.IndexSpec{Columns: []string{"id"}}); err != nil {
			return err
		}
	}
	where := between(b.rows / 10_000)
	o, t, err := b.versus(func() error { return b.drain("SELECT sum(price), count(b) FROM sorted WHERE " + where) },
		func() error { return b.peer.drain("SELECT sum(price), count(b) FROM " + scan + " WHERE " + where) })
	if err != nil {
		return err
	}
	b.add("two columns of a range of 0.01 %, table sorted by the key", ms(o), ms(t), "DuckDB, unsorted", "ms", ">= 20")
	return nil
}
