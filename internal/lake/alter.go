package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// SchemaChange is one of AddColumn, DropColumn, RenameColumn, PromoteColumn, DropNotNull.
type SchemaChange interface{ change() }

// AddColumn adds an optional column at the end.
type AddColumn struct {
	Field arrow.Field // with the metadata keys of Schema
	// Default, when set, is the value of the rows there are and of rows that do not give one; it needs format version 3.
	Default predicate.Value
}

// DropColumn removes a column; its data stays in old snapshots.
type DropColumn struct{ Name string }

// RenameColumn gives a column another name.
type RenameColumn struct{ From, To string }

// PromoteColumn widens a type: int to long, float to double, a decimal to more digits.
type PromoteColumn struct {
	Name string
	Type arrow.DataType
}

// DropNotNull makes a column optional.
type DropNotNull struct{ Name string }

func (AddColumn) change()     {}
func (DropColumn) change()    {}
func (RenameColumn) change()  {}
func (PromoteColumn) change() {}
func (DropNotNull) change()   {}

// AlterSchema applies changes in order, in one commit.
func (t *Table) AlterSchema(ctx context.Context, changes ...SchemaChange) (*Table, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	return t.commitRetrying(ctx, func(cur *Table, made *ledger) (*Table, error) { return cur.alter(ctx, changes, made) })
}

func (t *Table) alter(ctx context.Context, changes []SchemaChange, made *ledger) (*Table, error) {
	tx := t.ice(ctx, made).NewTransaction()
	up := tx.UpdateSchema(true, false)
	declare := map[string]string{} // column name → declared type
	var undeclare []string
	cur := t.meta.CurrentSchema()
	column := func(name string) (iceberg.NestedField, error) {
		f, ok := cur.FindFieldByNameCaseInsensitive(name)
		if !ok {
			return f, errs.New(errs.NotFound, "lake.alter", "there is no such column", errs.On(name), errs.Hint("DESCRIBE %s lists the columns", t.id.Name))
		}
		return f, nil
	}
	for _, c := range changes {
		switch c := c.(type) {
		case AddColumn:
			if _, ok := cur.FindFieldByNameCaseInsensitive(c.Field.Name); ok {
				return nil, errs.New(errs.Exists, "lake.alter", "the column exists already", errs.On(c.Field.Name))
			}
			if !c.Field.Nullable && c.Default == nil && t.meta.CurrentSnapshot() != nil {
				return nil, errs.New(errs.Invalid, "lake.alter", "a required column without a default would be NULL in the rows there are", errs.On(c.Field.Name),
					errs.Hint("leave out NOT NULL"))
			}
			next := 1 << 20 // ids are assigned by UpdateSchema
			typ, err := icebergType(c.Field, func() int { next++; return next })
			if err != nil {
				return nil, err
			}
			var def iceberg.Literal
			if c.Default != nil {
				if t.meta.Version() < 3 {
					return nil, errs.New(errs.Unsupported, "lake.alter", "a default for a new column needs format version 3", errs.On(c.Field.Name),
						errs.Hint("leave out DEFAULT; rows there are read as NULL"))
				}
				var ok bool
				if def, ok = literalOf(c.Default, typ); !ok {
					return nil, errs.New(errs.Invalid, "lake.alter", fmt.Sprintf("the default does not fit %s", typ), errs.On(c.Field.Name))
				}
			}
			doc, _ := c.Field.Metadata.GetValue(DocKey)
			up.AddColumn([]string{c.Field.Name}, typ, doc, !c.Field.Nullable, def)
			if d, ok := c.Field.Metadata.GetValue(TypeKey); ok {
				declare[c.Field.Name] = d
			}
		case DropColumn:
			f, err := column(c.Name)
			if err != nil {
				return nil, err
			}
			spec := t.meta.PartitionSpec()
			if len(spec.FieldsBySourceID(f.ID)) > 0 {
				return nil, errs.New(errs.Invalid, "lake.alter", "the table is partitioned by this column", errs.On(f.Name))
			}
			if cur.NumFields() == 1 {
				return nil, errs.New(errs.Invalid, "lake.alter", "the last column cannot be dropped", errs.On(f.Name), errs.Hint("use DROP TABLE"))
			}
			up.DeleteColumn([]string{f.Name})
			undeclare = append(undeclare, typeProperty(f.ID))
		case RenameColumn:
			f, err := column(c.From)
			if err != nil {
				return nil, err
			}
			if o, ok := cur.FindFieldByNameCaseInsensitive(c.To); ok && o.ID != f.ID {
				return nil, errs.New(errs.Exists, "lake.alter", "the column exists already", errs.On(c.To))
			}
			up.RenameColumn([]string{f.Name}, c.To)
		case PromoteColumn:
			f, err := column(c.Name)
			if err != nil {
				return nil, err
			}
			typ, err := icebergType(arrow.Field{Name: c.Name, Type: c.Type}, func() int { return 0 })
			if err != nil {
				return nil, err
			}
			if !promotes(f.Type, typ) {
				return nil, errs.New(errs.Unsupported, "lake.alter", fmt.Sprintf("a column of type %s cannot become %s", f.Type, typ), errs.On(f.Name),
					errs.Hint("INTEGER can become BIGINT, FLOAT can become DOUBLE, DECIMAL(p,s) can get more digits before the point"))
			}
			up.UpdateColumn([]string{f.Name}, table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: typ, Valid: true}})
		case DropNotNull:
			f, err := column(c.Name)
			if err != nil {
				return nil, err
			}
			up.UpdateColumn([]string{f.Name}, table.ColumnUpdate{Required: iceberg.Optional[bool]{Val: false, Valid: true}})
		}
	}
	if err := up.Commit(); err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.alter", err, errs.On(t.id.String()))
	}
	c, err := tx.TableCommit()
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "lake.alter", err)
	}
	updates := c.Updates
	// The ids and names that follow from the changes are known only now.
	after, err := table.UpdateTableMetadata(t.meta, updates, t.location)
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.alter", err, errs.On(t.id.String()))
	}
	set := iceberg.Properties{}
	for name, d := range declare {
		if f, ok := after.CurrentSchema().FindFieldByName(name); ok {
			set[typeProperty(f.ID)] = d
		}
	}
	if old := t.meta.NameMapping(); old != nil {
		// Keep every old name, so that old files without ids stay readable, and add the new ones.
		m, err := nameMapping(extendMapping(old, after.CurrentSchema()))
		if err != nil {
			return nil, errs.Wrap(errs.Internal, "lake.alter", err)
		}
		set[table.DefaultNameMappingKey] = m
	}
	if len(set) > 0 {
		updates = append(updates, table.NewSetPropertiesUpdate(set))
	}
	if len(undeclare) > 0 {
		updates = append(updates, table.NewRemovePropertiesUpdate(undeclare))
	}
	return t.cat.commit(ctx, t, c.Requirements, updates)
}

func promotes(from, to iceberg.Type) bool {
	switch f := from.(type) {
	case iceberg.Int32Type:
		_, ok := to.(iceberg.Int64Type)
		return ok
	case iceberg.Float32Type:
		_, ok := to.(iceberg.Float64Type)
		return ok
	case iceberg.DecimalType:
		d, ok := to.(iceberg.DecimalType)
		return ok && d.Scale() == f.Scale() && d.Precision() >= f.Precision()
	}
	return false
}

func extendMapping(old iceberg.NameMapping, sc *iceberg.Schema) iceberg.NameMapping {
	out := append(iceberg.NameMapping(nil), old...)
	for _, f := range sc.Fields() {
		found := false
		for i := range out {
			if out[i].FieldID == nil || *out[i].FieldID != f.ID {
				continue
			}
			found = true
			has := false
			for _, n := range out[i].Names {
				has = has || n == f.Name
			}
			if !has {
				out[i].Names = append(append([]string(nil), out[i].Names...), f.Name)
			}
		}
		if !found {
			id := f.ID
			out = append(out, iceberg.MappedField{FieldID: &id, Names: []string{f.Name}})
		}
	}
	return out
}

// nameMapping is the property that lets other engines read files without field ids; kept in step with the schema.
func nameMapping(m iceberg.NameMapping) (string, error) {
	b, err := json.Marshal(m)
	return string(b), err
}

// SetProperties sets and removes table properties.
func (t *Table) SetProperties(ctx context.Context, set map[string]string, remove ...string) (*Table, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	if err := checkProperties(set); err != nil {
		return nil, err
	}
	for _, k := range append(keys(set), remove...) {
		if k == "format-version" || strings.HasPrefix(k, "overlake.column.") {
			return nil, errs.New(errs.Unsupported, "lake.properties", "this property cannot be changed", errs.On(k))
		}
	}
	return t.commitRetrying(ctx, func(cur *Table, _ *ledger) (*Table, error) {
		var updates []table.Update
		if len(set) > 0 {
			updates = append(updates, table.NewSetPropertiesUpdate(iceberg.Properties(set)))
		}
		if len(remove) > 0 {
			updates = append(updates, table.NewRemovePropertiesUpdate(remove))
		}
		return cur.cat.commit(ctx, cur, []table.Requirement{table.AssertTableUUID(cur.meta.TableUUID())}, updates)
	})
}

func keys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
