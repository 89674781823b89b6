package lake

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/declared"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/property"
)

// SchemaChange is one of AddColumn, DropColumn, RenameColumn, PromoteColumn, DropNotNull.
type SchemaChange interface{ apply(e *schemaEdit) error }

// AddColumn adds a column at the end. A required one needs a default, unless the table never had rows.
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

// AlterSchema applies changes in order, in one commit.
func (t *Table) AlterSchema(ctx context.Context, changes ...SchemaChange) (*Table, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	return t.commitRetrying(ctx, func(cur *Table, made *ledger) (*Table, error) { return cur.alter(ctx, changes, made) })
}

func (t *Table) alter(ctx context.Context, changes []SchemaChange, made *ledger) (*Table, error) {
	now := t.meta.CurrentSchema()
	e := &schemaEdit{t: t, fields: slices.Clone(now.Fields()), last: t.meta.LastColumnID(), set: iceberg.Properties{}}
	for _, c := range changes {
		if err := c.apply(e); err != nil {
			return nil, err
		}
	}
	after := iceberg.NewSchemaWithIdentifiers(0, now.IdentifierFieldIDs, e.fields...)
	if old := t.meta.NameMapping(); old != nil {
		// Keep every old name, so that old files without ids stay readable, and add the new ones.
		m, err := nameMapping(extendMapping(old, after))
		if err != nil {
			return nil, errs.Wrap(errs.Internal, "lake.alter", err)
		}
		e.set[table.DefaultNameMappingKey] = m
	}
	if err := property.Check(e.set); err != nil {
		return nil, err
	}
	follow(e)
	updates := []table.Update{table.NewAddSchemaUpdate(after), table.NewSetCurrentSchemaUpdate(-1)}
	if len(e.remove) > 0 {
		updates = append(updates, table.NewRemovePropertiesUpdate(e.remove))
	}
	if len(e.set) > 0 {
		updates = append(updates, table.NewSetPropertiesUpdate(e.set))
	}
	return t.commitUpdates(ctx, []table.Requirement{
		table.AssertTableUUID(t.meta.TableUUID()), table.AssertCurrentSchemaID(now.ID), table.AssertLastAssignedFieldID(t.meta.LastColumnID()),
	}, updates, made)
}

// schemaEdit is a schema on its way to the next one. iceberg-go's UpdateSchema is not used: it looks up every change in the
// schema as it was before all of them, and it writes defaults of dates, times and decimals in forms that other engines
// refuse.
type schemaEdit struct {
	t      *Table
	fields []iceberg.NestedField
	last   int // the highest field id ever used
	set    iceberg.Properties
	remove []string
}

func (e *schemaEdit) next() int { e.last++; return e.last }

// find gives the index of a column, or -1. Names that differ in case only are one name.
func (e *schemaEdit) find(name string) int {
	if i := slices.IndexFunc(e.fields, func(f iceberg.NestedField) bool { return f.Name == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(e.fields, func(f iceberg.NestedField) bool { return strings.EqualFold(f.Name, name) })
}

func (e *schemaEdit) column(name string) (*iceberg.NestedField, error) {
	if i := e.find(name); i >= 0 {
		return &e.fields[i], nil
	}
	return nil, errs.New(errs.NotFound, "lake.alter", "there is no such column", errs.On(name), errs.Hint("DESCRIBE %s lists the columns", e.t.id.Name))
}

// free refuses names that a column has or that no column can have.
func (e *schemaEdit) free(name string, self int) error {
	if name == "" {
		return errs.New(errs.Invalid, "lake.alter", "a column has no name")
	}
	if i := e.find(name); i >= 0 && i != self {
		return errs.New(errs.Exists, "lake.alter", "the column exists already", errs.On(name))
	}
	return nil
}

// unset removes a property and gives the value that it had until now.
func (e *schemaEdit) unset(key string) (string, bool) {
	v, ok := e.set[key]
	delete(e.set, key)
	if old, was := e.t.meta.Properties()[key]; was && !slices.Contains(e.remove, key) {
		e.remove = append(e.remove, key)
		if !ok {
			v, ok = old, true
		}
	}
	return v, ok
}

func (c AddColumn) apply(e *schemaEdit) error {
	if err := e.free(c.Field.Name, -1); err != nil {
		return err
	}
	if !c.Field.Nullable && c.Default == nil && e.t.meta.CurrentSnapshot() != nil {
		return errs.New(errs.Invalid, "lake.alter", "a required column without a default would be NULL in the rows there are", errs.On(c.Field.Name),
			errs.Hint("leave out NOT NULL"))
	}
	column, of, ok, err := declared.Stored(c.Field)
	if err != nil {
		return err
	}
	f := iceberg.NestedField{ID: e.next(), Name: column.Name, Required: !column.Nullable}
	f.Doc, _ = column.Metadata.GetValue(DocKey)
	if f.Type, err = icebergType(column, e.next); err != nil {
		return err
	}
	if err := fitsVersion(f, e.t.meta.Version()); err != nil {
		return err
	}
	if ok {
		e.set[property.ColumnType(f.ID)] = of.String()
	}
	if c.Default != nil {
		if err := setDefault(&f, c.Default, e.t.meta.Version()); err != nil {
			return err
		}
	}
	e.fields = append(e.fields, f)
	return nil
}

func (c DropColumn) apply(e *schemaEdit) error {
	f, err := e.column(c.Name)
	if err != nil {
		return err
	}
	used := ""
	spec, order := e.t.meta.PartitionSpec(), e.t.meta.SortOrder()
	if len(spec.FieldsBySourceID(f.ID)) > 0 {
		used = "the table is partitioned by this column"
	}
	for _, s := range order.Fields() {
		if s.SourceID() == f.ID {
			used = "the table is sorted by this column"
		}
	}
	if slices.Contains(e.t.meta.CurrentSchema().IdentifierFieldIDs, f.ID) {
		used = "the column identifies rows"
	}
	if used != "" {
		return errs.New(errs.Invalid, "lake.alter", used, errs.On(f.Name))
	}
	if len(e.fields) == 1 {
		return errs.New(errs.Invalid, "lake.alter", "the last column cannot be dropped", errs.On(f.Name), errs.Hint("use DROP TABLE"))
	}
	e.unset(property.ColumnType(f.ID))
	e.unset(property.Bloom + f.Name)
	id := f.ID
	e.fields = slices.DeleteFunc(e.fields, func(o iceberg.NestedField) bool { return o.ID == id })
	return nil
}

func (c RenameColumn) apply(e *schemaEdit) error {
	f, err := e.column(c.From)
	if err != nil {
		return err
	}
	if err := e.free(c.To, e.find(c.From)); err != nil {
		return err
	}
	// This property names a column by its name, so it goes along.
	if v, ok := e.unset(property.Bloom + f.Name); ok {
		e.set[property.Bloom+c.To] = v
	}
	f.Name = c.To
	return nil
}

func (c PromoteColumn) apply(e *schemaEdit) error {
	f, err := e.column(c.Name)
	if err != nil {
		return err
	}
	typ, err := icebergType(arrow.Field{Name: c.Name, Type: c.Type}, e.next)
	if err != nil {
		return err
	}
	if !promotes(f.Type, typ) {
		return errs.New(errs.Unsupported, "lake.alter", fmt.Sprintf("a column of type %s cannot become %s", f.Type, typ), errs.On(f.Name),
			errs.Hint("INTEGER can become BIGINT, FLOAT can become DOUBLE, DECIMAL(p,s) can get more digits before the point"))
	}
	f.Type = typ
	return nil
}

func (c DropNotNull) apply(e *schemaEdit) error {
	f, err := e.column(c.Name)
	if err != nil {
		return err
	}
	if slices.Contains(e.t.meta.CurrentSchema().IdentifierFieldIDs, f.ID) {
		return errs.New(errs.Invalid, "lake.alter", "the column identifies rows", errs.On(f.Name))
	}
	f.Required = false
	return nil
}

// defaultJSON is a default as the metadata has it: the Iceberg specification, appendix D, "JSON single-value
// serialization". false when the value has no such form.
func defaultJSON(l iceberg.Literal, t iceberg.Type) (any, bool) {
	const micros, nanos = "15:04:05.000000", "15:04:05.000000000"
	switch v := l.Any().(type) {
	case int32: // JSON numbers are read back as the wide types, so they are kept so from the start
		return int64(v), true
	case float32:
		short, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
		return short, err == nil && v-v == 0
	case float64:
		return v, v-v == 0
	case []byte:
		return hex.EncodeToString(v), true
	case uuid.UUID:
		return v.String(), true
	case iceberg.Decimal:
		d, ok := t.(iceberg.DecimalType)
		return v.Val.ToString(int32(v.Scale)), ok && d.Scale() == v.Scale && v.Val.FitsInPrecision(int32(d.Precision()))
	case iceberg.Date:
		return time.Unix(int64(v)*86400, 0).UTC().Format(time.DateOnly), true
	case iceberg.Time:
		return time.UnixMicro(int64(v)).UTC().Format(micros), true
	case iceberg.Timestamp:
		s := time.UnixMicro(int64(v)).UTC().Format("2006-01-02T" + micros)
		if _, zoned := t.(iceberg.TimestampTzType); zoned {
			s += "+00:00"
		}
		return s, true
	case iceberg.TimestampNano:
		s := time.Unix(0, int64(v)).UTC().Format("2006-01-02T" + nanos)
		if _, zoned := t.(iceberg.TimestampTzNsType); zoned {
			s += "+00:00"
		}
		return s, true
	default:
		return v, true // booleans, integers and texts are themselves
	}
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
	if err := property.Check(set); err != nil {
		return nil, err
	}
	for _, k := range slices.AppendSeq(slices.Clone(remove), maps.Keys(set)) {
		if k == "format-version" || strings.HasPrefix(k, property.Column) {
			return nil, errs.New(errs.Unsupported, "lake.properties", "this property cannot be changed", errs.On(k))
		}
	}
	return t.commitRetrying(ctx, func(cur *Table, made *ledger) (*Table, error) {
		var updates []table.Update
		if len(set) > 0 {
			updates = append(updates, table.NewSetPropertiesUpdate(iceberg.Properties(set)))
		}
		if len(remove) > 0 {
			updates = append(updates, table.NewRemovePropertiesUpdate(remove))
		}
		return cur.commitUpdates(ctx, []table.Requirement{table.AssertTableUUID(cur.meta.TableUUID())}, updates, made)
	})
}
