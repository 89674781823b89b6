package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlakedb/overlake"
)

func (p *program) indexCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index",
		Short: "make, list, build, check and drop the indexes of tables",
		Long: "An index makes lookups fast and never changes an answer: what it does not cover is scanned. Indexes follow commits by\n" +
			"themselves. They lie beside the tables, in _overlay of the warehouse; also those of mounted tables.",
		Args: onlyCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(p.indexCreateCommand(), p.indexListCommand(), p.indexBuildCommand(), p.indexDropCommand(), p.indexVerifyCommand(), p.indexGCCommand())
	return cmd
}

func (p *program) indexCreateCommand() *cobra.Command {
	var spec overlake.IndexSpec
	var params []string
	var async bool
	cmd := &cobra.Command{
		Use:   "create TABLE COLUMN ...",
		Short: "make an index over a column, or one over several as a composite key, and build it",
		Long: "bitmap finds rows by value, range and prefix; bloom, smaller, only rules files out. Of a column of vectors, hnsw, hnsw_tq8,\n" +
			"hnsw_tq4 (graphs), ivfflat, ivf, ivf_tq8, ivf_tq4 (lists) and flat (all compared) find the rows that are nearest to a vector:\n" +
			"those of up to 1,000 vectors exactly, else most of them. --param metric= is l2, cosine, ip or l1.",
		Example: `  overlake index create events user_id
  overlake index create events country city --name place
  overlake index create events session --kind bloom --param fpr=0.001
  overlake index create docs embedding --kind hnsw_tq8 --param metric=cosine --param m=16`,
		Args: atLeast(2, "a table and at least one column are needed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if async {
				return overlakeError(overlake.KindUnsupported, errors.New("--async: a build in the background ends with the program"),
					"leave --async away and run the command in the background of your shell")
			}
			for _, s := range params {
				k, v, given := strings.Cut(s, "=")
				if !given {
					return overlakeError(overlake.KindInvalid, fmt.Errorf("--param %s: a name and a value are needed", s), "--param fpr=0.001")
				}
				if spec.Params == nil {
					spec.Params = map[string]string{}
				}
				spec.Params[k] = v
			}
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				t, err := db.Table(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				spec.Columns = args[1:]
				b := p.progress("indexing "+t.Name(), "rows")
				spec.Progress = b.build
				x, err := t.AddIndex(cmd.Context(), spec)
				b.end()
				if err != nil && x.Name != "" {
					return buildStopped(err, t.Name(), fmt.Sprintf("; overlake index drop %s %s removes it", args[0], x.Name))
				}
				if err == nil {
					fmt.Fprintf(p.stderr, "%s: %s\n", t.Name(), covered(x))
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&spec.Name, "name", "", "name of the index (default made of table, columns, kind and metric)")
	f.StringVar(&spec.Kind, "kind", "", "bitmap, bloom, hnsw, hnsw_tq8, hnsw_tq4, ivfflat, ivf, ivf_tq8, ivf_tq4 or flat (default bitmap; hnsw_tq8 of a column of vectors)")
	f.StringSliceVar(&params, "param", nil, "parameter of the kind: NAME=VALUE; may be repeated")
	f.BoolVar(&async, "async", false, "refused: see the message")
	_ = f.MarkHidden("async")
	return cmd
}

func (p *program) indexListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list [TABLE ...]",
		Short:   "list the indexes of the tables, or of all, with what they cover",
		Example: "  overlake index list\n  overlake index list events --format json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd.Context(), true, func(db *overlake.DB) error {
				for i, name := range args {
					t, err := db.Table(cmd.Context(), name)
					if err != nil {
						return err
					}
					args[i] = t.Name()
				}
				return p.listIndexes(cmd.Context(), db, args)
			})
		},
	}
}

// listIndexes prints the indexes of tables by their full names, of all when none is named.
func (p *program) listIndexes(ctx context.Context, db *overlake.DB, tables []string) error {
	where := ""
	values := make([]any, len(tables))
	for i, t := range tables {
		values[i] = t
	}
	if len(tables) > 0 {
		where = " WHERE table_schema || '.' || table_name IN (?" + strings.Repeat(", ?", len(tables)-1) + ")"
	}
	rows, err := db.SQL(ctx, `SELECT table_schema || '.' || table_name AS "table", index_name AS index, kind, array_to_string(columns, ', ') AS columns,
		parameters, files, files_covered, rows, rows_covered, bytes, damaged FROM overlake.indexes`+where+` ORDER BY 1, 2`, values...)
	if err != nil {
		return err
	}
	return p.print(rows)
}

func (p *program) indexBuildCommand() *cobra.Command {
	var only string
	var anew bool
	cmd := &cobra.Command{
		Use:   "build [TABLE ...]",
		Short: "build what the indexes of the tables, or of all, do not cover",
		Long: "Goes on where an interrupted build was, and covers what other programs have added: mounted tables are not followed by\n" +
			"themselves.",
		Example: "  overlake index build\n  overlake index build events --index place --anew",
		RunE: func(cmd *cobra.Command, args []string) error {
			if only != "" && len(args) != 1 {
				return overlakeError(overlake.KindInvalid, errors.New("--index needs the one table that the index is of"), "overlake index build TABLE --index NAME")
			}
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				return p.eachTable(cmd.Context(), db, args, func(t *overlake.Table) error {
					list, err := t.Indexes(cmd.Context())
					if err != nil {
						return err
					}
					if len(list) == 0 && only == "" {
						if len(args) > 0 {
							fmt.Fprintf(p.stderr, "%s: has no index\n", t.Name())
						}
						return nil
					}
					var names []string
					if only != "" {
						names = []string{only}
					}
					return p.buildIndexes(cmd.Context(), t, names, anew)
				})
			})
		},
	}
	cmd.Flags().StringVar(&only, "index", "", "only the index of this name")
	cmd.Flags().BoolVar(&anew, "anew", false, "build also what is covered once more")
	return cmd
}

// buildIndexes builds what indexes of a table lack and tells what they cover then.
func (p *program) buildIndexes(ctx context.Context, t *overlake.Table, names []string, anew bool) error {
	b := p.progress("indexing "+t.Name(), "rows")
	err := t.BuildIndexes(ctx, names, anew, b.build)
	b.end()
	if err != nil {
		return buildStopped(err, t.Name(), "")
	}
	list, err := t.Indexes(ctx)
	for _, x := range list {
		if len(names) == 0 || strings.EqualFold(names[0], x.Name) {
			fmt.Fprintf(p.stderr, "%s: %s\n", t.Name(), covered(x))
		}
	}
	return err
}

func covered(x overlake.Index) string {
	return fmt.Sprintf("index %s covers %d of %d files, %d of %d rows, in %s", x.Name, x.Covered, x.Files, x.RowsCovered, x.Rows, sizeText(x.Bytes))
}

// buildStopped says of a build that was interrupted or failed how to go on.
func buildStopped(err error, table, more string) error {
	kind := overlake.KindOf(err)
	if kind == overlake.KindNotFound || kind == overlake.KindDenied {
		return err // nothing was begun
	}
	if kind == overlake.KindCanceled {
		err = errors.New("the build was interrupted")
	}
	return overlakeError(kind, fmt.Errorf("%s: %w", table, err), "what was built is kept and used: overlake index build "+table+" goes on"+more)
}

func (p *program) indexDropCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drop TABLE NAME",
		Short: "remove an index",
		Long:  "Queries scan from then on. The index's files go with the next overlake index gc.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return overlakeError(overlake.KindInvalid, errors.New("a table and the name of an index are needed"), "overlake index list TABLE lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				t, err := db.Table(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return t.DropIndex(cmd.Context(), args[1])
			})
		},
	}
}

func (p *program) indexVerifyCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify [TABLE ...]",
		Short: "read everything the indexes consist of and tell what is damaged",
		Long: "Damage costs speed, never answers: what an index cannot tell is scanned. The exit code is 8 when something is damaged and\n" +
			"was not built anew.",
		RunE: func(cmd *cobra.Command, args []string) error {
			bad := 0
			return p.with(cmd.Context(), !repair, func(db *overlake.DB) error {
				err := p.eachTable(cmd.Context(), db, args, func(t *overlake.Table) error {
					problems, err := p.verifyIndexes(cmd.Context(), t)
					if err != nil {
						return err
					}
					for _, pr := range problems {
						fmt.Fprintf(p.stdout, "%s: %v\n", t.Name(), problemText(pr))
					}
					switch {
					case len(problems) == 0:
						fmt.Fprintf(p.stdout, "%s: ok\n", t.Name())
					case repair:
						return p.buildIndexes(cmd.Context(), t, nil, false)
					}
					bad += len(problems)
					return nil
				})
				if err == nil && bad > 0 {
					err = overlakeError(overlake.KindCorrupt, fmt.Errorf("%d problems found", bad), "answers stay right; overlake index verify --repair builds what is damaged anew")
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "build what is damaged anew")
	return cmd
}

func (p *program) verifyIndexes(ctx context.Context, t *overlake.Table) ([]overlake.Problem, error) {
	b := p.progress("verifying the indexes of "+t.Name(), "parts")
	defer b.end()
	return t.VerifyIndexes(ctx, func(done, total int) { b.at(int64(done), int64(total)) })
}

// problemText names the file of a problem once.
func problemText(pr overlake.Problem) string {
	if text := pr.Err.Error(); strings.Contains(text, pr.File) {
		return text
	}
	return pr.File + ": " + pr.Err.Error()
}

func (p *program) indexGCCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gc [TABLE ...]",
		Short: "remove files that indexes no longer use",
		Long:  "Files of dropped indexes and of data files that no snapshot holds any more. What is younger than an hour stays.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				return p.eachTable(cmd.Context(), db, args, func(t *overlake.Table) error {
					n, err := t.CollectIndexGarbage(cmd.Context())
					if err == nil && (n > 0 || len(args) > 0) {
						fmt.Fprintf(p.stderr, "%s: %s freed\n", t.Name(), sizeText(n))
					}
					return err
				})
			})
		},
	}
}

// eachTable calls f for the named tables, or for all. A table that fails does not keep the others from their turn, unless
// the command was interrupted; the first error is given at the end, the others are printed.
func (p *program) eachTable(ctx context.Context, db *overlake.DB, names []string, f func(t *overlake.Table) error) error {
	if len(names) == 0 {
		var err error
		if names, err = db.Tables(ctx); err != nil {
			return err
		}
	}
	var first error
	for _, name := range names {
		t, err := db.Table(ctx, name)
		if err == nil {
			err = f(t)
		}
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			printError(p.stderr, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// finishIndexes waits for the index builds that commits started. An interrupt ends the wait.
func (p *program) finishIndexes(parent context.Context, db *overlake.DB) error {
	if !db.BuildingIndexes() {
		return nil
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- db.WaitForIndexes(ctx) }()
	b := p.progress("", "rows")
	defer b.end()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	begun, told := time.Now(), b.live
	for {
		select {
		case <-tick.C:
			list := db.IndexBuilds()
			if len(list) == 0 {
				continue
			}
			b.what = "indexing " + list[0].Table
			b.build(list[0].IndexProgress)
			if !told && time.Since(begun) > time.Second { // no terminal: say once why it takes so long
				told = true
				fmt.Fprintf(p.stderr, "%s …\n", b.what)
			}
		case err := <-done:
			if err == nil {
				return nil
			}
			table := "TABLE"
			if list := db.IndexBuilds(); len(list) > 0 {
				table = list[0].Table
			}
			return overlakeError(overlake.KindCanceled, fmt.Errorf("%s: the rows are committed, but indexing them was interrupted", table),
				"overlake index build "+table+" goes on; until then what is not indexed is scanned")
		}
	}
}
