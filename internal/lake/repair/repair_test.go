package repair_test

import (
	"testing"

	"github.com/overlakedb/overlake/internal/lake/repair"
)

func TestMetadata(t *testing.T) {
	for doc, want := range map[string]string{
		`{"format-version":2,"current-snapshot-id":18446744073709551615}`:                                          `{"current-snapshot-id":-1,"format-version":2}`,
		`{"snapshots":[{"snapshot-id":9223372036854775808,"parent-snapshot-id":5}],"format-version":2}`:            `{"format-version":2,"snapshots":[{"parent-snapshot-id":5,"snapshot-id":-9223372036854775808}]}`,
		`{"format-version":3,"snapshots":[{"first-row-id":10,"added-rows":5},{"first-row-id":0,"added-rows":10}]}`: `{"format-version":3,"next-row-id":15,"snapshots":[{"added-rows":5,"first-row-id":10},{"added-rows":10,"first-row-id":0}]}`,
		`{"format-version":3}`:                                 `{"format-version":3,"next-row-id":0}`,
		`{"format-version":2,"current-snapshot-id":7}`:         "",
		`{"format-version":3,"next-row-id":1}`:                 "",
		`{"current-snapshot-id":18446744073709551616}`:         "",
		`{"snapshots":[{"first-row-id":-5,"added-rows":"x"}]}`: "",
		`not JSON`: "", `[1]`: "", `{"a":`: "",
	} {
		got, ok := repair.Metadata([]byte(doc))
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s became %s, %v; want %s", doc, got, ok, want)
		}
	}
}
