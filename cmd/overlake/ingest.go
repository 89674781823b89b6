package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlakedb/overlake"
)

func (p *program) ingestCommand() *cobra.Command {
	var vectors, types []string
	var opts overlake.ImportOptions
	cmd := &cobra.Command{
		Use:   "ingest TABLE FILE ...",
		Short: "add the rows of files to a table, creating it when there is none",
		Long: "Reads Parquet, CSV, JSON (one object a line, or an array) and Arrow IPC files; the format goes by the name. Each file is\n" +
			"one commit, a large one several. What was ingested before is left out, files and the first rows of a file alike, so an\n" +
			"interrupted run can simply be started again.",
		Example: `  overlake ingest docs pages.parquet --vector embedding:384
  overlake ingest events 2026-*.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return overlakeError(overlake.KindInvalid, errors.New("a table and at least one file are needed"), "overlake ingest TABLE FILE ...")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, v := range vectors {
				name, dim, given := strings.Cut(strings.Replace(v, "=", ":", 1), ":")
				n := 0
				if given {
					var err error
					if n, err = strconv.Atoi(dim); err != nil || n < 1 {
						return overlakeError(overlake.KindInvalid, fmt.Errorf("--vector %s: the dimensions must be a positive number", v), "--vector embedding:384")
					}
				}
				if opts.Vectors == nil {
					opts.Vectors = map[string]int{}
				}
				opts.Vectors[name] = n
			}
			for _, v := range types {
				name, typ, given := strings.Cut(v, "=")
				if !given {
					return overlakeError(overlake.KindInvalid, fmt.Errorf("--type %s: a name and a type are needed", v), "--type zip=VARCHAR")
				}
				if opts.Types == nil {
					opts.Types = map[string]string{}
				}
				opts.Types[name] = typ
			}
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				for i, file := range args[1:] {
					bar := p.progress(fmt.Sprintf("%s (%d of %d)", file, i+1, len(args)-1), "rows")
					o := opts
					o.Progress = func(rows int64) { bar.at(rows, 0) }
					o.Resumed = func(rows int64) {
						fmt.Fprintf(p.stderr, "%s: %d rows were ingested before, going on behind them\n", file, rows)
					}
					info, done, err := db.Import(cmd.Context(), args[0], file, o)
					bar.end()
					if err != nil {
						return err
					}
					if done {
						fmt.Fprintf(p.stderr, "%s: %d rows in %d files, %s\n", file, info.Rows, info.Files, sizeText(info.Bytes))
					} else {
						fmt.Fprintf(p.stderr, "%s: ingested before, left out (--again ingests it once more)\n", file)
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&vectors, "vector", nil, "declare a column as a vector: NAME or NAME:DIMENSIONS; may be repeated")
	f.StringSliceVar(&types, "type", nil, "give a CSV column a type instead of the inferred one: NAME=TYPE; may be repeated")
	f.StringVar(&opts.Format, "input-format", "", "parquet, csv, json or arrow (default by the file's name)")
	f.Int64Var(&opts.CommitRows, "commit-rows", 10_000_000, "the most rows of one commit; 0 makes every file one commit")
	f.BoolVar(&opts.Again, "again", false, "ingest files that were ingested before once more, from their first row")
	return cmd
}
