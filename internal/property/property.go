// Package property answers: which table properties are followed, and what may they say?
//
// Names that begin with "overlake." are ours: one that is not known is refused, and so is a value that could not be honoured.
// All others are the user's or other engines'; of those, some of Iceberg's are followed. docs/format/table-properties.md lists
// both.
package property

import (
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/embedding"
	"github.com/overlakedb/overlake/internal/errs"
)

// Ours.
const (
	IndexColumns    = "overlake.index.columns"    // the columns of a new table that get an index each, separated by commas
	OverlayLocation = "overlake.overlay-location" // where the table's indexes are to lie, as a URL
	Column          = "overlake.column."          // begins those that ColumnType makes
)

// Bloom and the name of a column say that its data files get a bloom filter.
const Bloom = "write.parquet.bloom-filter-enabled.column."

// ColumnType is the property that declares the type of a column.
func ColumnType(id int) string { return Column + strconv.Itoa(id) + ".type" }

// Check refuses values of our own properties that could not be honoured, whatever the columns of the table are.
func Check(props map[string]string) error {
	for k, v := range props {
		switch {
		case !strings.HasPrefix(k, "overlake."), k == IndexColumns, k == OverlayLocation:
		case strings.HasPrefix(k, embedding.Prefix): // embedding.Read looks at them together with the columns
		case strings.HasPrefix(k, Column) && strings.HasSuffix(k, ".type"):
			if _, ok := declared.Parse(v); !ok {
				return errs.New(errs.Invalid, "property.check", "the type of a column cannot be declared as "+strconv.Quote(v), errs.On(k), errs.Hint("the types are %s", declared.Forms))
			}
		default:
			return errs.New(errs.Unsupported, "property.check", "there is no such property", errs.On(k),
				errs.Hint("properties that begin with overlake. are listed in docs/format/table-properties.md"))
		}
	}
	return nil
}

// Metrics is what the properties want to be known of a column: none, counts, or anything else for bounds too. Bounds are
// always those of truncate(16), Iceberg's default.
func Metrics(props map[string]string, column string) string {
	mode, ok := props["write.metadata.metrics.column."+column]
	if !ok {
		mode = props["write.metadata.metrics.default"]
	}
	return strings.ToLower(mode)
}
