package lake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
	"github.com/overlakedb/overlake/internal/property"
)

// newMetadata is the first version of a table.
func newMetadata(spec CreateSpec, location string) (table.Metadata, error) {
	s, err := shapeOf(spec, 2, 0, firstPartitionField-1)
	if err != nil {
		return nil, err
	}
	meta, err := table.NewMetadata(s.schema, s.partition, table.UnsortedSortOrder, location, s.props)
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.create", err)
	}
	// Field ids may be assigned anew in NewMetadata; declarations follow the columns by name.
	if meta, err = redeclare(meta, s.schema); err != nil {
		return nil, err
	}
	_, err = contractsOf(meta)
	return meta, err
}

// shape is what a CreateSpec says in Iceberg's terms.
type shape struct {
	schema    *iceberg.Schema
	partition *iceberg.PartitionSpec
	props     iceberg.Properties
	version   int
}

// firstPartitionField is the first id of a partition field.
const firstPartitionField = 1000

// shapeOf checks a CreateSpec. The format version is otherwise where the spec names none; the ids of fields and partition
// fields come behind the given ones.
func shapeOf(spec CreateSpec, otherwise, lastField, lastPartitionField int) (*shape, error) {
	sc, props, err := toIceberg(spec.Schema, lastField)
	if err != nil {
		return nil, err
	}
	if sc.NumFields() == 0 {
		return nil, errs.New(errs.Invalid, "lake.create", "a table needs at least one column")
	}
	maps.Copy(props, spec.Properties)
	version := spec.FormatVersion
	if v, ok := props["format-version"]; ok && version == 0 {
		if version, err = strconv.Atoi(v); err != nil {
			return nil, errs.New(errs.Invalid, "lake.create", "format-version must be 2 or 3, not "+strconv.Quote(v))
		}
	}
	if version == 0 {
		version = otherwise
	}
	if version != 2 && version != 3 {
		return nil, errs.New(errs.Unsupported, "lake.create", fmt.Sprintf("tables are written in format version 2 or 3, not %d", version))
	}
	for _, f := range sc.Fields() {
		if err := fitsVersion(f, version); err != nil {
			return nil, err
		}
	}
	if sc, err = withDefaults(sc, spec.Defaults, version); err != nil {
		return nil, err
	}
	props["format-version"] = strconv.Itoa(version)
	if spec.Comment != "" {
		props["comment"] = spec.Comment
	}
	if err := property.Check(props); err != nil {
		return nil, err
	}
	pspec, err := partitionSpec(sc, spec.Partition, lastPartitionField)
	return &shape{sc, pspec, props, version}, err
}

// withDefaults gives columns their defaults.
func withDefaults(sc *iceberg.Schema, defaults map[string]predicate.Value, version int) (*iceberg.Schema, error) {
	if len(defaults) == 0 {
		return sc, nil
	}
	fields := slices.Clone(sc.Fields())
	for i := range fields {
		if v, ok := defaults[fields[i].Name]; ok {
			if err := setDefault(&fields[i], v, version); err != nil {
				return nil, err
			}
		}
	}
	return iceberg.NewSchema(sc.ID, fields...), nil
}

// setDefault makes a value the default of a new column.
func setDefault(f *iceberg.NestedField, v predicate.Value, version int) error {
	if version < 3 {
		return errs.New(errs.Unsupported, "lake.schema", "a default of a column needs format version 3", errs.On(f.Name),
			errs.Hint(`create the table with ("format-version" = 3), or leave out DEFAULT: rows that give no value get NULL`))
	}
	l, ok := literalOf(v, f.Type)
	if ok {
		f.InitialDefault, ok = defaultJSON(l, f.Type)
	}
	if !ok {
		return errs.New(errs.Invalid, "lake.schema", fmt.Sprintf("the default does not fit %s", f.Type), errs.On(f.Name))
	}
	f.WriteDefault = f.InitialDefault
	return nil
}

// fitsVersion refuses columns of types that a format version does not have.
func fitsVersion(f iceberg.NestedField, version int) error {
	nanos := false
	var walk func(t iceberg.Type)
	walk = func(t iceberg.Type) {
		switch t := t.(type) {
		case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
			nanos = true
		case iceberg.NestedType:
			for _, c := range t.Fields() {
				walk(c.Type)
			}
		}
	}
	if walk(f.Type); nanos && version < 3 {
		return errs.New(errs.Unsupported, "lake.schema", "nanosecond timestamps need format version 3", errs.On(f.Name),
			errs.Hint(`create the table with ("format-version" = 3), or cast the column to TIMESTAMP`))
	}
	return nil
}

// redeclare moves the declarations of types to the ids that the columns really got.
func redeclare(meta table.Metadata, before *iceberg.Schema) (table.Metadata, error) {
	set, remove := iceberg.Properties{}, []string{}
	for _, f := range before.Fields() {
		d, ok := meta.Properties()[property.ColumnType(f.ID)]
		now, found := meta.CurrentSchema().FindFieldByName(f.Name)
		if ok && found && now.ID != f.ID {
			remove = append(remove, property.ColumnType(f.ID))
			set[property.ColumnType(now.ID)] = d
		}
	}
	if len(set) == 0 {
		return meta, nil
	}
	for k := range set {
		remove = slices.DeleteFunc(remove, func(r string) bool { return r == k })
	}
	return table.UpdateTableMetadata(meta, []table.Update{table.NewRemovePropertiesUpdate(remove), table.NewSetPropertiesUpdate(set)}, "")
}

func partitionSpec(sc *iceberg.Schema, fields []PartitionField, last int) (*iceberg.PartitionSpec, error) {
	if len(fields) == 0 {
		return iceberg.UnpartitionedSpec, nil
	}
	var out []iceberg.PartitionField
	for i, f := range fields {
		src, ok := sc.FindFieldByNameCaseInsensitive(f.Column)
		if !ok {
			return nil, errs.New(errs.NotFound, "lake.partition", "there is no such column to partition by", errs.On(f.Column))
		}
		tr, err := iceberg.ParseTransform(f.Transform)
		if err != nil {
			return nil, errs.Wrap(errs.Invalid, "lake.partition", err, errs.On(f.Column))
		}
		if _, unknown := tr.(iceberg.UnknownTransform); unknown {
			return nil, errs.New(errs.Invalid, "lake.partition", "unknown partition transform "+strconv.Quote(f.Transform), errs.On(f.Column),
				errs.Hint("use identity, bucket[n], truncate[n], year, month, day, hour or void"))
		}
		if !tr.CanTransform(src.Type) {
			return nil, errs.New(errs.Invalid, "lake.partition", fmt.Sprintf("the transform %s does not apply to %s", tr, src.Type), errs.On(f.Column))
		}
		name := f.Name
		if name == "" {
			name = src.Name
			if t := tr.String(); t != "identity" {
				kind, _, _ := strings.Cut(t, "[")
				name += "_" + kind
			}
		}
		out = append(out, iceberg.PartitionField{SourceIDs: []int{src.ID}, FieldID: last + 1 + i, Name: name, Transform: tr})
	}
	spec := iceberg.NewPartitionSpec(out...)
	return &spec, nil
}
