package lake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"

	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/codec"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/repair"
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
		repaired, ok := repair.Metadata(data)
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
