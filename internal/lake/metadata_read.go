package lake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
)

// maxMetadata bounds a metadata JSON document in bytes, packed and unpacked. A snapshot takes about 700 bytes, so this
// is some 300,000 snapshots.
const maxMetadata = 256 << 20

// parseMetadata reads a table metadata document: plain, gzip or zstd, told apart by the first bytes, whatever the name
// says. A document that iceberg-go refuses is repaired where other engines are known to deviate and tried again:
// snapshot ids above 2^63-1, and V3 documents without next-row-id. Errors are Corrupt and name the file.
func parseMetadata(name string, data []byte) (meta table.Metadata, err error) {
	corrupt := func(err error) error {
		return errs.Wrap(errs.Corrupt, "lake.metadata", fmt.Errorf("bad table metadata: %w", err), errs.On(name))
	}
	defer func() { // iceberg-go's visitors report some broken schemas by panic
		if r := recover(); r != nil {
			meta, err = nil, corrupt(fmt.Errorf("%v", r))
		}
	}()
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			if data, err = io.ReadAll(io.LimitReader(r, maxMetadata+1)); err == nil && len(data) > maxMetadata {
				err = fmt.Errorf("it decompresses to more than %d bytes", maxMetadata)
			}
		}
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		data, err = codec.Zstd.Unpack(data, maxMetadata)
	}
	if err != nil {
		return nil, corrupt(err)
	}
	var head struct {
		Version int64 `json:"format-version"`
	}
	if json.Unmarshal(data, &head) == nil && head.Version > 3 {
		return nil, errs.With(errs.Newf(errs.Unsupported, "lake.metadata", "format version %d is newer than the 3 that are read", head.Version), errs.On(name))
	}
	meta, err = table.ParseMetadataBytes(data)
	if err != nil {
		repaired, ok := repairMetadata(data)
		if !ok {
			return nil, corrupt(err)
		}
		if meta, err = table.ParseMetadataBytes(repaired); err != nil {
			return nil, corrupt(err)
		}
	}
	if meta.CurrentSchema() == nil {
		return nil, corrupt(fmt.Errorf("the current schema is missing"))
	}
	return meta, nil
}

// repairMetadata rewrites what other engines write and iceberg-go refuses. ok is false when there was nothing to repair.
func repairMetadata(data []byte) (repaired []byte, ok bool) {
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
