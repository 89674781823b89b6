package lake

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/embedding"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/property"
)

// columnsOf lists columns as package embedding looks at them. A declaration that does not fit the column is none.
func columnsOf(fields []iceberg.NestedField, props iceberg.Properties) []embedding.Column {
	out := make([]embedding.Column, len(fields))
	for i, f := range fields {
		out[i] = embedding.Column{ID: f.ID, Name: f.Name}
		if d, ok := declared.Parse(props[property.ColumnType(f.ID)]); ok {
			if a, err := arrowField(f); err == nil && d.Holds(a.Type) {
				out[i].Type = d
			}
		}
	}
	return out
}

// contractsOf gives what a version says of the vectors of its columns, by field id.
func contractsOf(meta table.Metadata) (map[int]embedding.Contract, error) {
	return embedding.Read(meta.Properties(), columnsOf(meta.CurrentSchema().Fields(), meta.Properties()))
}

// keepContracts refuses a commit that would break what a table says of its vectors. The version that it builds on is the
// one whose pointer it swaps, so rows that another writer commits first are seen: the swap is lost, and this is asked again.
func keepContracts(before, after table.Metadata) error {
	was, is := columnsOf(before.CurrentSchema().Fields(), before.Properties()), columnsOf(after.CurrentSchema().Fields(), after.Properties())
	if slices.Equal(was, is) && maps.Equal(embedding.Ours(before.Properties()), embedding.Ours(after.Properties())) {
		return nil // also where another engine left what cannot be read
	}
	now, err := embedding.Read(after.Properties(), is)
	if err != nil || !hasRows(before) {
		return err
	}
	then, err := embedding.Read(before.Properties(), was)
	if err != nil {
		return nil // what could not be read promised nothing
	}
	return embedding.Keep(then, now, is)
}

// sameContracts refuses to put rows that were written for one version under another one that says something else of them.
func sameContracts(written, now table.Metadata) error {
	before, err := contractsOf(written)
	if err != nil {
		return err
	}
	after, err := contractsOf(now)
	if err != nil {
		return err
	}
	if embedding.Keep(before, after, columnsOf(now.CurrentSchema().Fields(), now.Properties())) != nil {
		return fmt.Errorf("what the table says of its vectors was changed while rows were written")
	}
	return nil
}

// hasRows tells whether a branch may hold rows. Of a snapshot that does not count them it is assumed.
func hasRows(meta table.Metadata) bool {
	for _, r := range meta.Refs() {
		s := meta.SnapshotByID(r.SnapshotID)
		if r.SnapshotRefType == table.BranchRef && s != nil && (s.Summary == nil || s.Summary.Properties["total-records"] != "0") {
			return true
		}
	}
	return false
}

// follow makes the properties about vectors go with their columns.
func follow(e *schemaEdit) {
	old := e.t.meta.Properties()
	props := maps.Clone(old)
	if props == nil {
		props = iceberg.Properties{}
	}
	maps.Copy(props, e.set)
	set, remove := embedding.Follow(old, columnsOf(e.t.meta.CurrentSchema().Fields(), old), columnsOf(e.fields, props))
	maps.Copy(e.set, set)
	e.remove = append(e.remove, remove...)
}

// promised gives the error of a value a hint where it is the table's word about the vectors that the value breaks.
func (w *tableWriter) promised(err error) error {
	var e *errs.Error
	if !errors.As(err, &e) || errs.HintOf(err) != "" {
		return err
	}
	f, ok := w.t.meta.CurrentSchema().FindFieldByName(e.Object)
	if k := w.contracts[f.ID]; ok && k.Model != "" {
		return errs.With(err, errs.Hint("the table says that this column holds vectors of %s, which have %d dimensions", k.Model, k.Dim))
	}
	return err
}
