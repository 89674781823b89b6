package lake

import (
	"context"

	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/property"
)

// readMetadata reads the table metadata at a location.
func readMetadata(ctx context.Context, io *fileIO, location string) (table.Metadata, error) {
	data, err := io.read(ctx, location)
	if err != nil {
		return nil, err
	}
	return parseMetadata(location, data)
}

// Table properties about indexes.
const (
	IndexColumnsKey    = property.IndexColumns
	OverlayLocationKey = property.OverlayLocation
)
