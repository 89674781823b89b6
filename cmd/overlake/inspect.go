package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/render"
)

func (p *program) inspectCommand() *cobra.Command {
	var snapshots, files, indexes, schema bool
	cmd := &cobra.Command{
		Use:     "inspect TABLE",
		Short:   "show the schema, the indexes, the snapshots and the data files of a table",
		Example: "  overlake inspect docs\n  overlake inspect docs --files --format csv",
		Args:    oneTable,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return p.with(ctx, true, func(db *overlake.DB) error {
				t, err := db.Table(ctx, args[0])
				if err != nil {
					return err
				}
				all := !snapshots && !files && !indexes && !schema
				if all || schema {
					if all {
						location, err := t.Location(ctx)
						if err != nil {
							return err
						}
						fmt.Fprintf(p.stderr, "table %s at %s\n", t.Name(), location)
					}
					rows, err := db.SQL(ctx, "DESCRIBE "+quoteName(t.Name()))
					if err != nil {
						return err
					}
					if err := p.print(rows); err != nil {
						return err
					}
				}
				if all || indexes {
					list, err := t.Indexes(ctx)
					if err != nil {
						return err
					}
					if indexes || len(list) > 0 {
						if err := p.listIndexes(ctx, db, []string{t.Name()}); err != nil {
							return err
						}
					}
				}
				if all || snapshots {
					list, err := t.Snapshots(ctx)
					if err != nil {
						return err
					}
					var cells [][]string
					for _, s := range list {
						cells = append(cells, []string{strconv.FormatInt(s.ID, 10), s.Time.Format(time.RFC3339), s.Operation, s.Summary["added-records"], s.Summary["total-records"], s.Summary["total-data-files"]})
					}
					if err := p.printText([]string{"snapshot", "time", "operation", "added_rows", "total_rows", "total_files"}, cells); err != nil {
						return err
					}
				}
				if all || files {
					list, err := t.Files(ctx)
					if err != nil {
						return err
					}
					var cells [][]string
					for _, f := range list {
						cells = append(cells, []string{f.Path, strconv.FormatInt(f.Rows, 10), strconv.FormatInt(f.Bytes, 10), strconv.FormatInt(f.Deleted, 10)})
					}
					return p.printText([]string{"file", "rows", "bytes", "deleted_rows"}, cells)
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&snapshots, "snapshots", false, "only the snapshots")
	f.BoolVar(&files, "files", false, "only the data files")
	f.BoolVar(&indexes, "indexes", false, "only the indexes")
	f.BoolVar(&schema, "schema", false, "only the schema")
	return cmd
}

func oneTable(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return overlakeError(overlake.KindInvalid, errors.New("one table is needed"), "SHOW TABLES lists them")
	}
	return nil
}

// quoteName quotes schema.table.
func quoteName(name string) string {
	for i := range name {
		if name[i] == '.' {
			return `"` + name[:i] + `"."` + name[i+1:] + `"`
		}
	}
	return `"` + name + `"`
}

// printText prints rows of text in the format of the flags.
func (p *program) printText(columns []string, cells [][]string) error {
	rec := render.Texts(columns, cells)
	defer rec.Release()
	format, err := p.outputFormat()
	if err != nil {
		return err
	}
	w, err := render.NewWriter(p.stdout, format, rec.Schema(), render.Options{Width: terminalWidth(p.stdout)})
	if err != nil {
		return err
	}
	if err := w.Write(rec); err != nil {
		return err
	}
	return w.Close()
}
