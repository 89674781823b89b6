package sql

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/testenv"
)

// Words of texts, the first ones far more often than the last.
var textWords = strings.Fields("the of a lake index table running runs ran café CAFÉ naïve search 3.14 x-ray don't dogs dog's 中文 rows 😀 zyzzyva Ωmega commits committed querying")

// gramsAnalyzer makes several terms at one place.
const gramsAnalyzer = "tokenizer=whitespace, filters=lowercase|edge_ngram(1, 3)"

// someText is a text of some words, now and then empty, of stop words alone, or NULL.
func someText(rng *rand.Rand) string {
	switch rng.IntN(14) {
	case 0:
		return "NULL"
	case 1:
		return "''"
	case 2:
		return "'the of a'"
	}
	words := make([]string, 1+rng.IntN(12))
	for i := range words {
		words[i] = someWord(rng)
	}
	return "'" + strings.ReplaceAll(strings.Join(words, " "), "'", "''") + "'"
}

func someWord(rng *rand.Rand) string {
	return textWords[min(rng.IntN(len(textWords)), rng.IntN(len(textWords)))]
}

// All statements about texts answer the same with indexes of texts as without: random ones, over tables of which none, some or
// all files are covered, with deleted rows.
func TestTextsByIndexAreThoseOfAScan(t *testing.T) {
	worlds, statements := 4, 150
	if os.Getenv(testenv.DeepVar) != "" {
		worlds, statements = 60, 600
	}
	used := map[string]int{}
	for seed := range uint64(worlds) {
		rng := rand.New(rand.NewPCG(seed, 77))
		w := newWorld(t)
		w.do("CREATE TABLE d (id BIGINT, title TEXT, body TEXT, n INTEGER, k TEXT)")
		w.do("CREATE TABLE u (n INTEGER, name TEXT)")
		w.do("INSERT INTO u SELECT i, 'name ' || i FROM range(12) t(i)")
		id := 0
		insert := func() {
			var rows []string
			for range 1 + rng.IntN(400) {
				rows = append(rows, fmt.Sprintf("(%d, %s, %s, %d, 'k%d')", id, someText(rng), someText(rng), rng.IntN(12), rng.IntN(4)))
				id++
			}
			w.do("INSERT INTO d VALUES " + strings.Join(rows, ", "))
		}
		define := func() {
			w.do("CREATE INDEX ON d USING bm25 (body) WITH (positions = false)")
			w.do("CREATE INDEX tb ON d USING bm25 (title, body) WITH (analyzer = 'english', k1 = 0.9)")
			w.do("CREATE INDEX dg ON d USING bm25 (body) WITH (analyzer = '" + gramsAnalyzer + "')")
			w.do("CREATE INDEX ON d (n)")
		}
		for range 1 + rng.IntN(4) {
			insert()
		}
		switch seed % 4 {
		case 0: // all covered
			define()
		case 1: // some
			define()
			insert()
		case 2: // covered, then deleted
			define()
			w.remove("d", 3, 1)
		case 3: // deleted, covered, deleted and appended
			w.remove("d", 4, 0)
			define()
			w.remove("d", 5, 2)
			insert()
			w.build("d")
			insert()
		}
		for i := range statements {
			text := textStatement(rng)
			got, plan := textAnswer(t, w, text, true)
			want, _ := textAnswer(t, w, "/*+ no_index */ "+text, false)
			if got != want {
				t.Fatalf("seed %d, statement %d: %s\n%s\nwithout index:\n%s\n%s", seed, i, text, got, want, plan)
			}
			for _, how := range []string{"text best", "counted by index", "fetched by position", "nothing to read"} {
				if strings.Contains(plan, how) {
					used[how]++
					if strings.Contains(text, "syntax") && !strings.Contains(text, "'words'") {
						used[how+", of a form"]++
					}
				}
			}
		}
	}
	for _, how := range []string{"text best", "counted by index", "fetched by position", "text best, of a form", "counted by index, of a form", "fetched by position, of a form"} {
		if used[how] < worlds*statements/40 {
			t.Errorf("%q was met %d times in %d statements", how, used[how], worlds*statements)
		}
	}
}

func textStatement(rng *rand.Rand) string {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	column := pick("body", "body", "title")
	words := make([]string, 1+rng.IntN(4))
	for i := range words {
		words[i] = someWord(rng)
	}
	args := column + ", '" + strings.ReplaceAll(strings.Join(words, " "), "'", "''") + "'" +
		pick("", "", ", analyzer => 'english'", ", analyzer => 'english', operator => 'and'", ", operator => 'and'", ", k1 => 0.9, analyzer => 'english'", ", b => 0", ", analyzer => '"+gramsAnalyzer+"'")
	if rng.IntN(2) == 0 {
		args = column + ", " + formArgs(rng)
	}
	score, match := "bm25("+args+")", "match("+args+")"
	other := "match(" + pick("body", "title") + ", '" + strings.ReplaceAll(someWord(rng), "'", "''") + "'" + pick("", ", analyzer => 'english'") + ")"
	where := pick("", " WHERE "+match, " WHERE "+match, " WHERE "+match+" AND n < 5", " WHERE n IN (1, 4, 7)", " WHERE "+match+" AND k = 'k1'", " WHERE "+match+" AND "+other, " WHERE "+other,
		" WHERE "+match+" OR n = 3", " WHERE NOT "+match+" AND n > 8", " WHERE "+score+" > 0.5", " WHERE "+match+" AND body IS NOT NULL AND id % 3 = 0")
	limit := " LIMIT " + pick("1", "3", "10", "50", "1000") + pick("", "", " OFFSET 4")
	switch rng.IntN(8) {
	case 0, 1:
		return "SELECT id, " + score + " AS s FROM d" + where + " ORDER BY s DESC, id" + limit
	case 2: // ties are in no order
		return "SELECT " + score + " AS s FROM d" + where + " ORDER BY s DESC" + limit
	case 3:
		return "SELECT id FROM d" + where + " ORDER BY id"
	case 4:
		return "SELECT count(*), sum(id), max(" + score + ") FROM d" + where
	case 5:
		return "SELECT d.id, name FROM d JOIN u ON u.n = d.n" + strings.ReplaceAll(strings.ReplaceAll(where, "n <", "d.n <"), "n IN", "d.n IN") + " AND name <> 'name 2' ORDER BY id"
	case 6:
		return "SELECT name, d.id FROM u LEFT JOIN d ON u.n = d.n AND " + match + " ORDER BY name, d.id"
	}
	return "WITH b AS (SELECT id, " + score + " AS s FROM d" + where + ") SELECT id, s FROM b WHERE s > 0 ORDER BY s DESC, id" + limit
}

// formArgs is a query of some syntax, with options, behind the column.
func formArgs(rng *rand.Rand) string {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	words := func(n int) string {
		out := make([]string, 1+rng.IntN(n))
		for i := range out {
			out[i] = someWord(rng)
		}
		return strings.Join(out, " ")
	}
	start := func() string { // of a word
		w := []rune(strings.ToLower(someWord(rng)))
		return string(w[:1+rng.IntN(len(w))])
	}
	clause := func() string {
		w := pick(textWords[:10]...)
		return pick(w, w, "+"+w, "-"+w, "NOT "+w, w+"^2", w+"~1", start()+"*", "("+words(2)+")", `"`+words(2)+`"`, `"`+words(3)+`"~2`, w+" AND "+pick(textWords[:10]...), "[a TO m}", "*:*", "/r.*s/")
	}
	syntax := pick("words", "query_string", "query_string", "simple", "phrase", "phrase", "phrase_prefix", "bool_prefix", "prefix", "wildcard", "regexp", "fuzzy", "term")
	text, options := words(3), ""
	near := pick("", "", ", fuzziness => 'AUTO'", ", fuzziness => 1", ", fuzziness => 'AUTO:2,4'")
	least := pick("", "", ", operator => 'and'", ", minimum_should_match => '2'", ", minimum_should_match => '-1'", ", minimum_should_match => '60%'")
	slop := pick("", "", ", slop => 1", ", slop => 3")
	switch syntax {
	case "words", "bool_prefix":
		options = least + near
		if syntax == "bool_prefix" {
			text += " " + start()
		}
	case "query_string", "simple":
		text, options = clause(), least
		for range rng.IntN(3) {
			text += " " + clause()
		}
		if syntax == "query_string" {
			options += slop
		}
	case "phrase", "phrase_prefix":
		options = slop
		if syntax == "phrase_prefix" {
			text += " " + start()
		}
	case "prefix":
		text = start()
	case "wildcard":
		text = pick("r?ns", start()+"*", "*s", "*", "?")
	case "regexp":
		text = pick("run(s|ning)?", "r.*", "[a-d]+", "<1-9>\\.14")
	case "fuzzy":
		text, options = strings.ToLower(someWord(rng)), near
	case "term":
		text = strings.ToLower(someWord(rng))
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "', syntax => '" + syntax + "'" + options +
		pick("", "", ", analyzer => 'english'", ", analyzer => 'english', k1 => 0.9", ", b => 0", ", analyzer => '"+gramsAnalyzer+"'")
}

// textAnswer is what a statement answers, and how.
func textAnswer(t *testing.T, w *world, text string, explain bool) (answer, plan string) {
	t.Helper()
	text = strings.Replace(text, "u.n = d.n AND name", "u.n = d.n WHERE name", 1) // a join without a condition
	text = strings.ReplaceAll(strings.ReplaceAll(text, " n = 3", " d.n = 3"), "AND n > 8", "AND d.n > 8")
	read := func(text string) string {
		var b strings.Builder
		err := w.ask(text, func(rec arrow.RecordBatch) {
			for i := range int(rec.NumRows()) {
				for _, c := range rec.Columns() {
					if x, ok := c.(*array.String); ok {
						fmt.Fprintf(&b, "%s\t", x.Value(i))
					} else {
						fmt.Fprintf(&b, "%s\t", c.ValueStr(i))
					}
				}
				b.WriteString("\n")
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return b.String()
	}
	if explain {
		plan = read("EXPLAIN " + text)
	}
	return read(text), plan
}
