package sql

import (
	"fmt"
	"strings"
	"testing"
)

func TestLongListsComeBackAsTheyWere(t *testing.T) {
	list := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, ", ")
	}
	for _, c := range []struct {
		text string
		cut  int
	}{
		{"SELECT * FROM t WHERE id IN (" + list(1000, "%d") + ") AND x > 5", 1},
		{"SELECT * FROM t WHERE id NOT IN(" + list(1000, "%d") + ") OR name in (" + list(300, "'a %d'") + ")", 2},
		{"SELECT * FROM t WHERE name IN (" + list(1000, "'it''s %d'") + ")", 1},
		{"SELECT * FROM t WHERE id IN (" + list(200, "%d") + ")", 0},
		{"SELECT * FROM t WHERE id IN (" + list(500, "-%d") + ")", 0},
		{"SELECT * FROM t WHERE id IN (" + list(500, "%d.5") + ")", 0},
		{"SELECT * FROM t WHERE id IN (" + list(500, "%d") + ", 'x')", 0},
		{"SELECT * FROM t WHERE id IN (SELECT " + list(500, "%d") + ")", 0},
		{"SELECT * FROM t WHERE id IN (" + list(500, "%d") + ") AND y = 7000000000000000001", 1},
	} {
		q := &statement{}
		w := &rewriting{original: c.text, text: c.text}
		if err := q.cutLists(w); err != nil {
			t.Fatal(err)
		}
		if len(q.lists) != c.cut || c.cut > 0 && len(w.text) > 200 {
			t.Errorf("%.60s: %d lists are out, the text has %d bytes", c.text, len(q.lists), len(w.text))
		}
		q.restoreLists(w)
		if w.text != c.text {
			t.Errorf("%.60s came back as %.200s", c.text, w.text)
		}
		if at := strings.LastIndex(c.text, ")"); w.origin(at) != at {
			t.Errorf("%.60s: byte %d is told as %d", c.text, at, w.origin(at))
		}
	}
}
