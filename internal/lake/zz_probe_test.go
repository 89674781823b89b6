package lake_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/testenv"
)

func TestProbe(t *testing.T) {
	root := testenv.Shared(t, "data", "iceberg-tables")
	raw, _ := os.ReadFile(filepath.Join(root, "expected", "tables.jsonl"))
	store, _ := objstore.OpenLocalReadOnly(root)
	for line := range strings.Lines(string(raw)) {
		var f foreignTable
		json.Unmarshal([]byte(line), &f)
		got, err := func() (n int64, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			return countForeign(t.Context(), store, f)
		}()
		if err != nil || f.Rows == nil || got != *f.Rows {
			fmt.Println(f.Table, got, f.Rows != nil, err)
			if err != nil {
				fmt.Println("    ", errs.KindOf(err))
			}
		}
	}
}
