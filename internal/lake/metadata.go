package lake

import (
	"context"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
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
	IndexColumnsKey    = "overlake.index.columns"    // the columns of a new table that get an index each, separated by commas
	OverlayLocationKey = "overlake.overlay-location" // where the table's indexes are to lie, as a URL
)

// checkProperties refuses values of our own properties that could not be honoured.
func checkProperties(props map[string]string) error {
	for k, v := range props {
		if !strings.HasPrefix(k, "overlake.") {
			continue
		}
		if k == IndexColumnsKey || k == OverlayLocationKey {
			continue
		}
		if strings.HasPrefix(k, "overlake.column.") && strings.HasSuffix(k, ".type") {
			if _, ok := declared.Parse(v); ok {
				continue
			}
			return errs.New(errs.Invalid, "lake.properties", "the type of a column cannot be declared as "+strconv.Quote(v), errs.On(k), errs.Hint("the types are %s", declared.Forms))
		}
		return errs.New(errs.Unsupported, "lake.properties", "there is no such property", errs.On(k),
			errs.Hint("properties that begin with overlake. are listed in docs/format/table-properties.md"))
	}
	return nil
}
