package search_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/overlakedb/overlake/internal/index/bm25/similarity"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
)

// Texts that nobody writes, and everybody has: an index says of them what a scan says. (Bytes that are no UTF-8 do not get into a table; a query
// may have them.)
func TestHostileTexts(t *testing.T) {
	c := newCollection()
	odd := []string{"", " ", "fox\x00dog", "\x00\x01\x02", "zero\u200bwidth f\u200dox", "\u202exof\u202c fox", "fo\u0301x FOX fox",
		"İstanbul ISTANBUL ﬁne ½ Ⅷ", "👩‍👩‍👧 fox 👍🏽", "the of a", strings.Repeat("x", 60_000), strings.Repeat("fox ", 12_000), strings.Repeat("e\u0301", 5_000), "日本語 テキスト ﾃｷｽﾄ fox", "\ufffd fox", "'; DROP TABLE fox --"}
	for n := range 3 {
		for i, text := range odd {
			c.add(fmt.Sprint(n, i), text, len(odd))
		}
	}
	c.texts = append([]string{"fox", "\xff\xfe", "fox \xed\xa0\x80", "zerowidth zero width", "lone", "x\x00", "日本語", "of the", "👍🏽", "nothing", "\ufffd", "i i̇ istanbul", "fox\x00dog"}, odd[:11]...)
	for _, name := range []string{"standard", "english", "simple", "whitespace", "keyword", "cjk", "code", "turkish", "german", "url_email",
		"tokenizer=standard, filters=icu_folding|ngram(2, 3, preserve_original=true)", `tokenizer=pattern("\\W+"), filters=lowercase|shingle(2, 3)`} {
		for _, hits := range c.both(t, analyzer(t, name), similarity.DefaultParams, 7, 1) {
			for _, h := range hits {
				if !(h.Score > 0) {
					t.Errorf("%s: %v", name, hits)
				}
			}
		}
	}
}

// TestTextBuilder is the child of the test below: it builds an index of texts again and again until it is killed.
func TestTextBuilder(t *testing.T) {
	if os.Getenv(childVar) != "texts" {
		t.Skip("a child of another test")
	}
	store, err := objstore.OpenLocal(os.Getenv(childDir), objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := load(t, store, "texts")
	s := overlay.NewSet(store, overlay.Options{Memory: 1 << 20}) // so that it spills
	fmt.Println("ready")
	for i := 0; ; i++ {
		if table, _, err = table.Append(t.Context(), textsOf(uint64(100+i), 3000), lake.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Of(table).Build(t.Context(), table, overlay.BuildOptions{Anew: i%2 == 1}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			if table, _, err = table.Overwrite(t.Context(), textsOf(uint64(i), 500), lake.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Whenever a builder of an index of texts is killed, answers stay right, and the next build goes on.
func TestKilledTextBuilders(t *testing.T) {
	dir := t.TempDir()
	store, err := objstore.OpenLocal(dir, objstore.LocalOptions{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	textTable(t, store)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for n := range 6 {
		c := exec.Command(os.Args[0], "-test.run=^TestTextBuilder$", "-test.v")
		c.Env = append(os.Environ(), childVar+"=texts", childDir+"="+dir)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "ready" {
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.Contains(lines.Text(), "FAIL") {
				t.Error("a builder failed by itself")
			}
		}
		_ = c.Wait() // it was killed
		table := load(t, store, "texts")
		if _, err := textAnswers(t.Context(), open(t, store, nil), table, textQuestions(t, table)); err != nil {
			t.Fatalf("kill %d: %v", n, err)
		}
		expire(t, store)
		if n%3 == 2 {
			s := open(t, store, nil)
			build(t, s, table)
			status, err := s.Of(table).Status(t.Context(), table)
			if err != nil || len(status) != 1 || status[0].Covered != status[0].Files || status[0].Files == 0 {
				t.Fatalf("kill %d, built again: %+v, %v", n, status, err)
			}
			if u, err := textAnswers(t.Context(), open(t, store, nil), table, textQuestions(t, table)); err != nil || u.stats == 0 {
				t.Fatalf("kill %d, built again: %+v, %v", n, u, err)
			}
		}
	}
}
