package lake

import (
	"fmt"
	"testing"
)

// TestIdentityOfVersion1 holds that tables of format version 1, which need no UUID, are told apart all the same, and are
// the same table every time.
func TestIdentityOfVersion1(t *testing.T) {
	open := func(location, id string) string {
		t.Helper()
		text := fmt.Sprintf(`{"format-version":1,%s"location":%q,"last-updated-ms":1,"last-column-id":1,"schema":{"type":"struct","fields":[
			{"id":1,"name":"a","required":false,"type":"int"}]},"partition-spec":[],"properties":{},"current-snapshot-id":-1,"snapshots":[]}`, id, location)
		m, err := parseMetadata("v1.metadata.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return (&Table{meta: m}).UUID()
	}
	const known = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
	if got := open("file:///x", `"table-uuid":"`+known+`",`); got != known {
		t.Errorf("the UUID is %s", got)
	}
	a, again, b := open("file:///x", ""), open("file:///x", ""), open("file:///y", "")
	if a != again || a == b || a == known {
		t.Errorf("%s, %s, %s", a, again, b)
	}
}
