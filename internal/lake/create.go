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
)

// newMetadata is the first version of a table.
func newMetadata(spec CreateSpec, location string) (table.Metadata, error) {
	sc, props, err := toIceberg(spec.Schema)
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
		version = 2
	}
	if version != 2 && version != 3 {
		return nil, errs.New(errs.Unsupported, "lake.create", fmt.Sprintf("tables are written in format version 2 or 3, not %d", version))
	}
	for _, f := range sc.Fields() {
		if err := fitsVersion(f, version); err != nil {
			return nil, err
		}
	}
	props["format-version"] = strconv.Itoa(version)
	if spec.Comment != "" {
		props["comment"] = spec.Comment
	}
	if err := checkProperties(props); err != nil {
		return nil, err
	}
	pspec, err := partitionSpec(sc, spec.Partition)
	if err != nil {
		return nil, err
	}
	meta, err := table.NewMetadata(sc, pspec, table.UnsortedSortOrder, location, props)
	if err != nil {
		return nil, errs.Wrap(errs.Invalid, "lake.create", err)
	}
	// Field ids may be assigned anew in NewMetadata; declarations follow the columns by name.
	return redeclare(meta, sc)
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
		d, ok := meta.Properties()[typeProperty(f.ID)]
		now, found := meta.CurrentSchema().FindFieldByName(f.Name)
		if ok && found && now.ID != f.ID {
			remove = append(remove, typeProperty(f.ID))
			set[typeProperty(now.ID)] = d
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

func partitionSpec(sc *iceberg.Schema, fields []PartitionField) (*iceberg.PartitionSpec, error) {
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
		out = append(out, iceberg.PartitionField{SourceIDs: []int{src.ID}, FieldID: 1000 + i, Name: name, Transform: tr})
	}
	spec := iceberg.NewPartitionSpec(out...)
	return &spec, nil
}
