package sql

import (
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/sql/coltype"
)

// A systemView is a table that no file holds: what the catalog and the overlays know, made anew for each mention.
type systemView struct {
	schema, name string
	fields       []arrow.Field
	fill         func(q *statement, add func(values ...any)) error
}

func texts(names ...string) []arrow.Field   { return fields(arrow.BinaryTypes.String, names) }
func numbers(names ...string) []arrow.Field { return fields(arrow.PrimitiveTypes.Int64, names) }
func flags(names ...string) []arrow.Field   { return fields(arrow.FixedWidthTypes.Boolean, names) }

func fields(t arrow.DataType, names []string) []arrow.Field {
	out := make([]arrow.Field, len(names))
	for i, n := range names {
		out[i] = arrow.Field{Name: n, Type: t, Nullable: true}
	}
	return out
}

func columnsOf(parts ...[]arrow.Field) []arrow.Field {
	var out []arrow.Field
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

var (
	ofTable  = texts("table_schema", "table_name")
	nameList = []arrow.Field{{Name: "columns", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true}}
	created  = []arrow.Field{{Name: "created", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true}}
)

// systemViews lists all there are. A user's schema overlake may hold tables of other names.
var systemViews = []systemView{
	{"information_schema", "schemata", texts("catalog_name", "schema_name"), viewSchemata},
	{"information_schema", "tables", texts("table_catalog", "table_schema", "table_name", "table_type"), viewTables},
	{"information_schema", "columns", columnsOf(texts("table_catalog", "table_schema", "table_name", "column_name"),
		fields(arrow.PrimitiveTypes.Int32, []string{"ordinal_position"}), texts("is_nullable", "data_type")), viewColumns},
	{"overlake", "indexes", columnsOf(ofTable, texts("index_name", "kind"), nameList, texts("parameters"), created,
		numbers("files", "files_covered", "rows", "rows_covered", "bytes", "damaged")), viewIndexes},
	{"overlake", "artifacts", columnsOf(ofTable, texts("index_name", "bundle"), numbers("blob_offset", "blob_length", "files", "rows", "distinct_values", "nulls"),
		texts("checksum"), flags("damaged")), viewArtifacts},
	{"overlake", "coverage", columnsOf(ofTable, texts("index_name", "file"), numbers("rows"), flags("covered", "damaged")), viewCoverage},
}

// findView finds the view of a name; nil when the name is a table's.
func findView(schema, name string) (*systemView, error) {
	var names []string
	for i := range systemViews {
		if v := &systemViews[i]; strings.EqualFold(v.schema, schema) {
			if strings.EqualFold(v.name, name) {
				return v, nil
			}
			names = append(names, v.name)
		}
	}
	if strings.EqualFold(schema, "information_schema") {
		return nil, errs.New(errs.NotFound, "sql.table", "there is no such view", errs.On(schema+"."+name), errs.Hint("there are %s", strings.Join(names, ", ")))
	}
	return nil, nil
}

// IsView tells whether a name is that of a view, which no table may have.
func IsView(schema, name string) bool {
	v, err := findView(schema, name)
	return v != nil || err != nil
}

// systemView gives the rows of a view as an expression for FROM.
func (q *statement) systemView(v *systemView) (string, error) {
	sc := arrow.NewSchema(v.fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	err := v.fill(q, func(values ...any) {
		for i, x := range values {
			appendValue(b.Field(i), x)
		}
	})
	if err != nil {
		return "", err
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	from, release, err := q.s.env.engine.NewBatchFeed(sc, []arrow.RecordBatch{rec})
	if err != nil {
		return "", err
	}
	q.release = append(q.release, release)
	return "(SELECT * FROM " + from + ")", nil
}

// appendValue appends one of the few types that views have; nil is NULL.
func appendValue(b array.Builder, x any) {
	switch x := x.(type) {
	case string:
		b.(*array.StringBuilder).Append(x)
	case int64:
		b.(*array.Int64Builder).Append(x)
	case int32:
		b.(*array.Int32Builder).Append(x)
	case bool:
		b.(*array.BooleanBuilder).Append(x)
	case time.Time:
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(x.UnixMicro()))
	case []string:
		l := b.(*array.ListBuilder)
		l.Append(true)
		for _, s := range x {
			appendValue(l.ValueBuilder(), s)
		}
	default:
		b.AppendNull()
	}
}

// eachTable yields the tables of all schemas, without those that are dropped meanwhile.
func (q *statement) eachTable(yield func(t *lake.Table) error) error {
	namespaces, err := q.s.env.catalog.Namespaces(q.ctx)
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		if err := q.eachTableOf(n, yield); err != nil {
			return err
		}
	}
	return nil
}

// eachTableOf is eachTable for one schema.
func (q *statement) eachTableOf(schema string, yield func(t *lake.Table) error) error {
	ids, err := q.s.env.catalog.Tables(q.ctx, schema)
	if err != nil {
		return err
	}
	for _, id := range ids {
		t, err := q.table(id)
		if errs.Is(err, errs.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := yield(t); err != nil {
			return err
		}
	}
	return nil
}

func viewSchemata(q *statement, add func(...any)) error {
	namespaces, err := q.s.env.catalog.Namespaces(q.ctx)
	for _, n := range namespaces {
		add("overlake", n)
	}
	return err
}

func viewTables(q *statement, add func(...any)) error {
	return q.eachTable(func(t *lake.Table) error {
		add("overlake", t.Ident().Namespace, t.Ident().Name, "BASE TABLE")
		return nil
	})
}

func viewColumns(q *statement, add func(...any)) error {
	return q.eachTable(func(t *lake.Table) error {
		for i, f := range t.Schema().Fields() {
			typ, err := coltype.Shown(f)
			if err != nil {
				typ = f.Type.String()
			}
			null := "YES"
			if !f.Nullable {
				null = "NO"
			}
			add("overlake", t.Ident().Namespace, t.Ident().Name, f.Name, int32(i+1), null, typ)
		}
		return nil
	})
}

func viewIndexes(q *statement, add func(...any)) error {
	return q.eachTable(func(t *lake.Table) error {
		list, err := q.s.env.overlays.Of(t).Status(q.ctx, t)
		for _, s := range list {
			add(t.Ident().Namespace, t.Ident().Name, s.Name, s.Kind, s.Columns, paramText(s.Params), s.Created,
				int64(s.Files), int64(s.Covered), s.Rows, s.InIndex, s.Bytes, int64(s.Damaged))
		}
		return err
	})
}

func viewArtifacts(q *statement, add func(...any)) error {
	return q.eachTable(func(t *lake.Table) error {
		return q.s.env.overlays.Of(t).Artifacts(q.ctx, func(a overlay.ArtifactStatus) {
			var name any
			if a.Index != "" {
				name = a.Index
			}
			known := func(n int64) any {
				if n < 0 {
					return nil
				}
				return n
			}
			add(t.Ident().Namespace, t.Ident().Name, name, a.Bundle, a.Offset, a.Length, int64(len(a.Files)), a.Rows, known(a.Distinct), known(a.Nulls), a.CRC, a.Damaged)
		})
	})
}

func viewCoverage(q *statement, add func(...any)) error {
	return q.eachTable(func(t *lake.Table) error {
		return q.s.env.overlays.Of(t).Files(q.ctx, t, func(f overlay.FileStatus) {
			add(t.Ident().Namespace, t.Ident().Name, f.Index, f.File.Path, f.File.Rows, f.Artifact != nil && !f.Damaged, f.Damaged)
		})
	})
}
