package lake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/overlakedb/overlake/internal/budget"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/predicate"
)

// TestMemoryFollowsTheBudget: planning a table takes no more memory than there is. With less and less it ends in Exhausted,
// with a hint, and never keeps a reservation.
func TestMemoryFollowsTheBudget(t *testing.T) {
	var positions, keys, others []string
	for i := range 20_000 {
		positions = append(positions, fmt.Sprintf(`{"file_path":"s3://forged/t/a.parquet","pos":%d}`, i%3))
		keys = append(keys, fmt.Sprintf(`{"id":%d}`, i+4))
		others = append(others, fmt.Sprintf(`{"id":%d}`, i+50_000))
	}
	id := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true, Metadata: fieldID(1)}}
	for _, c := range []struct {
		name  string
		world func(w *deleteWorld) *deleteWorld
		left  int64
		fails string // of the error with too little memory
	}{
		{"a manifest", func(w *deleteWorld) *deleteWorld { return w }, 5, "manifest"},
		{"positions", func(w *deleteWorld) *deleteWorld { return w.positions(t, 6, strings.Join(positions, ",")) }, 2, "deletes"},
		{"keys", func(w *deleteWorld) *deleteWorld { return w.equal(t, 6, []int{1}, strings.Join(keys, ","), id) }, 4, "deletes"},
		{"keys of two files", func(w *deleteWorld) *deleteWorld {
			return w.equal(t, 6, []int{1}, strings.Join(keys, ","), id).equal(t, 7, []int{1}, strings.Join(others, ","), id)
		}, 4, "deletes"},
		{"a vector", func(w *deleteWorld) *deleteWorld { return w.vector(t, 6, nil, 0, 1) }, 3, "manifest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(newDeleteWorld(t))
			w.mount(t, w.store) // writes the metadata
			var messages []string
			enough := true
			for limit := int64(64 << 20); limit >= 256; limit /= 2 {
				b := budget.New(limit)
				tbl, err := lake.Mount(t.Context(), docs, w.store, lake.MountOptions{}, lake.Memory(b))
				if err != nil {
					t.Fatal(err)
				}
				p, err := tbl.Plan(t.Context(), lake.Ref{}, predicate.Expr(nil))
				switch {
				case err == nil && (!enough || p.Rows-p.Deleted != c.left):
					t.Errorf("%d bytes: %d of %d rows are deleted", limit, p.Deleted, p.Rows)
				case err != nil && (!errs.Is(err, errs.Exhausted) || !strings.Contains(errs.HintOf(err), "memory")):
					t.Errorf("%d bytes: %v (%s)", limit, err, errs.HintOf(err))
				case err != nil:
					enough = false
					messages = append(messages, err.Error())
				}
				if b.Used() != 0 || b.Peak() > limit {
					t.Errorf("%d bytes: %d are still in use, %d were", limit, b.Used(), b.Peak())
				}
			}
			if enough || !strings.Contains(strings.Join(messages, "\n"), c.fails) {
				t.Errorf("with too little memory: %q", messages)
			}
		})
	}
}
