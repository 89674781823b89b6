// Package repair answers: what must change in a metadata document before it can be read?
//
// Some engines write table metadata that the specification does not allow, or that the library refuses. What is known of
// them is mended here, in the JSON; whatever else is wrong stays as it is.
package repair

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Metadata rewrites what other engines write and iceberg-go refuses. ok is false when there was nothing to repair.
func Metadata(data []byte) (repaired []byte, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var doc map[string]any
	if dec.Decode(&doc) != nil {
		return nil, false
	}
	changed := wrapSnapshotIDs(doc, 0)
	if v, _ := doc["format-version"].(json.Number); v == "3" && doc["next-row-id"] == nil {
		doc["next-row-id"] = json.Number(fmt.Sprint(nextRowID(doc)))
		changed = true
	}
	if !changed {
		return nil, false
	}
	repaired, err := json.Marshal(doc)
	return repaired, err == nil
}

// wrapSnapshotIDs turns unsigned 64-bit snapshot ids into the signed number of the same bits, everywhere.
func wrapSnapshotIDs(v any, depth int) (changed bool) {
	if depth > 16 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if n, ok := x.(json.Number); ok && strings.HasSuffix(k, "snapshot-id") {
				if i, ok := new(big.Int).SetString(string(n), 10); ok && !i.IsInt64() && i.IsUint64() {
					v[k] = json.Number(fmt.Sprint(int64(i.Uint64())))
					changed = true
				}
				continue
			}
			changed = wrapSnapshotIDs(x, depth+1) || changed
		}
	case []any:
		for _, x := range v {
			changed = wrapSnapshotIDs(x, depth+1) || changed
		}
	}
	return changed
}

// nextRowID is the first row id no snapshot of a V3 document has given out.
func nextRowID(doc map[string]any) int64 {
	next := int64(0)
	snapshots, _ := doc["snapshots"].([]any)
	for _, s := range snapshots {
		m, _ := s.(map[string]any)
		first, _ := m["first-row-id"].(json.Number)
		added, _ := m["added-rows"].(json.Number)
		f, err1 := first.Int64()
		a, err2 := added.Int64()
		if err1 == nil && err2 == nil && f >= 0 && a >= 0 {
			next = max(next, f+a)
		}
	}
	return next
}
