package embedding

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/overlakedb/overlake/internal/errs"
)

// Keep refuses a change under which rows cannot stay (M3): another model or none, another number of dimensions or none.
// That a model is named where none was is no such change, nor another provider, endpoint or prefix. Columns that are not on
// both sides have no rows in common.
func Keep(before, after map[int]Contract, columns []Column) error {
	for i := range columns {
		c := &columns[i]
		was, ok1 := before[c.ID]
		is, ok2 := after[c.ID]
		if !ok1 || !ok2 {
			continue
		}
		what := ""
		switch {
		case was.Model != "" && was.Model != is.Model:
			what = fmt.Sprintf("the model of this column is %s and cannot become %s", was.Model, orNone(is.Model))
		case was.Dim == 0 && is.Dim != 0:
			what = fmt.Sprintf("the vectors of this column may have any number of dimensions, so they cannot be said to have %d", is.Dim)
		case was.Dim != is.Dim:
			what = fmt.Sprintf("the vectors of this column have %d dimensions and cannot get %s", was.Dim, orAny(is.Dim))
		default:
			continue
		}
		return errs.New(errs.Invalid, "embedding.change", what+", because the table has rows", errs.On(c.Name),
			errs.Hint("make a new column or a new table for the new vectors"))
	}
	return nil
}

func orNone(model string) string {
	if model == "" {
		return "none"
	}
	return model
}

func orAny(dim int) string {
	if dim == 0 {
		return "any number"
	}
	return strconv.Itoa(dim)
}

// Follow gives the properties that change when columns do: those of a column go along when it is renamed and go when it is
// dropped, and those in the plain form, which speak of the only column of vectors, name that column when another comes.
func Follow(props map[string]string, before, after []Column) (set map[string]string, remove []string) {
	set = map[string]string{}
	var only *Column // the column that the plain form speaks of
	var many int
	for i := range before {
		if before[i].dense() {
			only = &before[i]
			many++
		}
	}
	now := map[int]*Column{}
	dense := 0
	for i := range after {
		now[after[i].ID] = &after[i]
		if after[i].dense() {
			dense++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(Ours(props))) {
		name, field, err := cut(key)
		if err != nil {
			continue // not ours to move
		}
		c := named(name, before)
		if name == "" {
			if many != 1 {
				continue
			}
			c = only
		}
		if c == nil {
			continue
		}
		is := now[c.ID]
		switch {
		case is == nil:
			remove = append(remove, key)
		case name == "" && dense > 1 || name != "" && is.Name != c.Name:
			remove = append(remove, key)
			set[Prefix+is.Name+"."+field] = props[key]
		}
	}
	// A name that is free and taken in one change: two columns that swap their names.
	remove = slices.DeleteFunc(remove, func(k string) bool { _, again := set[k]; return again })
	return set, remove
}
