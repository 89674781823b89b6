package property_test

import (
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/property"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       errs.Kind
		fine       bool
	}{
		{"anything.of.others", "x", 0, true},
		{property.IndexColumns, "a,b", 0, true},
		{property.OverlayLocation, "file:///x", 0, true},
		{property.ColumnType(3), "vector(4)", 0, true},
		{property.ColumnType(3), "matrix", errs.Invalid, false},
		{"overlake.embedding.model", "m", 0, true},
		{"overlake.colour", "red", errs.Unsupported, false},
		{"overlake.column.3.size", "4", errs.Unsupported, false},
	} {
		err := property.Check(map[string]string{c.key: c.value})
		if c.fine != (err == nil) || err != nil && (errs.KindOf(err) != c.want || errs.HintOf(err) == "") {
			t.Errorf("%s = %s: %v, hint %q", c.key, c.value, err, errs.HintOf(err))
		}
	}
}

func TestMetrics(t *testing.T) {
	props := map[string]string{"write.metadata.metrics.default": "None", "write.metadata.metrics.column.a": "counts"}
	if a, b := property.Metrics(props, "a"), property.Metrics(props, "b"); a != "counts" || b != "none" {
		t.Errorf("a: %s, b: %s", a, b)
	}
	if m := property.Metrics(nil, "a"); m != "" {
		t.Errorf("without properties: %q", m)
	}
}
