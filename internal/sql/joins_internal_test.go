package sql

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// Joins of a large table to few keys of all kinds of types: the keys filter the large table through its indexes, and the
// answer is the one of a join without them.
func TestJoinsAgreeWithTheEngine(t *testing.T) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(4, 2))
	columns := []column{{"i", "int"}, {"b", "big"}, {"c", "cents"}, {"l", "long"}, {"d", "day"}, {"ts", "at"}, {"tz", "tz"}, {"s", "text"}, {"u", "uuid"}, {"f", "single"}, {"g", "double"}, {"tm", "clock"}}
	w.do(create("large", columns, ""))
	w.index("large", columns)
	// Values that both tables have, among many that the small one has not.
	w.insert(rng, "large", 0, 300, columns)
	w.do(`INSERT INTO large SELECT 1000 + i, (i * 7)::INTEGER, i * 9007199254, ((i % 99999) / 100)::DECIMAL(9,2), (i / 7)::DECIMAL(38,10), DATE '2000-01-01' + (i % 9000)::INTEGER,
		TIMESTAMP '2000-01-01' + INTERVAL (i) MINUTE, TIMESTAMPTZ '2000-01-01' + INTERVAL (i) MINUTE, 'text ' || i, md5(i::VARCHAR)::UUID, i / 3, i / 3, TIME '00:00' + INTERVAL (i) SECOND FROM range(60000) t(i)`)
	w.build("large")
	w.do(create("small", columns, ""))
	w.insert(rng, "small", 0, 60, columns)
	w.do("INSERT INTO small SELECT id, i, b, c, l, d, ts, tz, s, u, f, g, tm FROM large WHERE id % 7001 = 3")
	w.do("CREATE TABLE precise (x DECIMAL(20,18), y DECIMAL(38,30), z DECIMAL(38,0), n TIMESTAMP_NS) WITH (\"format-version\" = '3')")
	w.do("INSERT INTO precise VALUES (1.123456789000000001, 0.1, 5, '2000-01-01 00:05:00.000000001'), (5.5, 5.000000000000000000000000000001, 7, '2000-01-01 00:05:00'), (1.123456789, 5, 100, NULL), (0.1, 100, 0, NULL)")

	ask := func(use, text string) (string, error) {
		w.do("SET use_index = '" + use + "'")
		var b strings.Builder
		err := w.ask(text, func(rec arrow.RecordBatch) {
			for i := range int(rec.NumRows()) {
				for k := range int(rec.NumCols()) {
					b.WriteString(rec.Column(k).ValueStr(i) + " ")
				}
				b.WriteString("\n")
			}
		})
		return b.String(), err
	}
	var texts []string
	keys := map[string][]string{"small": nil, "precise": {"x", "y", "z", "n"}}
	for _, c := range columns {
		keys["small"] = append(keys["small"], c.name)
	}
	for _, c := range columns {
		for from, list := range keys {
			for _, k := range list {
				texts = append(texts,
					"SELECT count(*), sum(a.id) FROM large a JOIN "+from+" b ON a."+c.name+" = b."+k,
					"SELECT count(*), sum(id) FROM large WHERE "+c.name+" IN (SELECT "+k+" FROM "+from+")")
			}
		}
		n := c.name
		texts = append(texts,
			"SELECT count(*), sum(a.id) FROM large a LEFT JOIN small b ON a."+n+" = b."+n,
			"SELECT count(*), sum(a.id) FROM small b LEFT JOIN large a ON a."+n+" = b."+n,
			"SELECT count(*), sum(a.id) FROM large a JOIN small b USING ("+n+")",
			"SELECT count(*), sum(id) FROM large WHERE "+n+" NOT IN (SELECT "+n+" FROM small WHERE "+n+" IS NOT NULL)",
			"SELECT count(*), sum(a.id) FROM large a, small b WHERE a."+n+" = b."+n+" AND b.id < 30",
			"SELECT count(*), sum(a.id) FROM large a JOIN small b ON a."+n+" = b."+n+" WHERE b."+n+" IS NOT NULL AND a.id > 100",
			"SELECT count(*), sum(a.id) FROM large a WHERE EXISTS (SELECT 1 FROM small b WHERE a."+n+" = b."+n+")",
			"SELECT count(*), sum(a.id) FROM large a SEMI JOIN small b ON a."+n+" = b."+n,
			"SELECT count(*), sum(a.id) FROM large a ANTI JOIN small b ON a."+n+" = b."+n,
			"SELECT count(*), sum(a.id) FROM large a JOIN (SELECT "+n+" AS k, count(*) FROM small GROUP BY ALL) b ON a."+n+" = b.k",
			"WITH k AS (SELECT "+n+" FROM small LIMIT 1000) SELECT count(*), sum(a.id) FROM large a JOIN k ON a."+n+" = k."+n,
			"SELECT count(*), sum(a.id) FROM large a JOIN large b ON a."+n+" = b."+n+" JOIN small c ON b."+n+" = c."+n)
	}
	texts = append(texts,
		"SELECT count(*), sum(id) FROM large JOIN (VALUES (1), (7), (700), (NULL)) v(k) ON i = k",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES (1), (7.5), (700)) v(k) ON i = k",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES (9007199254740993), (0.5e0)) v(k) ON b = k",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES ('2000-01-01'), ('2000-1-2')) v(k) ON d = k::DATE",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES ('text 5'), ('abc')) v(k) ON s = k",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES (1.1234567890), (1.12345678900000000000001)) v(k) ON l = k",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES (16777217), (5)) v(k) ON f = k",
		"SELECT count(*), sum(id) FROM large JOIN (VALUES (DATE '2000-01-05'), (TIMESTAMP '2000-01-06 12:00')) v(k) ON ts = k")
	asked, rows := 0, 0
	for _, text := range texts {
		want, err := ask("off", text)
		if err != nil {
			continue // types that are not compared
		}
		asked++
		if !strings.HasPrefix(want, "0 ") {
			rows++
		}
		for _, use := range []string{"on", "auto"} {
			if got, err := ask(use, text); err != nil || got != want {
				t.Errorf("%s\n  use_index %s: %s%v\n  without: %s", text, use, got, err, want)
			}
		}
	}
	t.Logf("%d joins of %d, %d with rows", asked, len(texts), rows)
	if asked < 150 || rows < 100 {
		t.Errorf("%d joins of %d could be asked, %d had rows", asked, len(texts), rows)
	}
}
