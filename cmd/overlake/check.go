package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/overlakedb/overlake"
)

func (p *program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [TABLE ...]",
		Short: "read everything the tables name and tell what is wrong, changing nothing",
		Long:  "Reads every data file of the named tables, or of all, and compares sizes and row counts with the metadata. The exit code is 8\nwhen something is wrong. Damaged indexes are warnings: they cost speed only.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd.Context(), true, func(db *overlake.DB) error { return p.check(cmd.Context(), db, args) })
		},
	}
}

func (p *program) check(ctx context.Context, db *overlake.DB, names []string) error {
	if len(names) == 0 {
		var err error
		if names, err = db.Tables(ctx); err != nil {
			return err
		}
	}
	bad := 0
	for _, name := range names {
		t, err := db.Table(ctx, name)
		if err != nil {
			if overlake.KindOf(err) != overlake.KindCorrupt {
				return err
			}
			fmt.Fprintf(p.stdout, "%s: %v\n", name, err)
			bad++
			continue
		}
		b := p.progress("checking "+name, "files")
		problems, err := t.Check(ctx, func(done, total int) { b.at(int64(done), int64(total)) })
		b.end()
		if err != nil {
			return err
		}
		for _, pr := range problems {
			fmt.Fprintf(p.stdout, "%s: %s: %v\n", name, pr.File, pr.Err)
		}
		if len(problems) == 0 {
			fmt.Fprintf(p.stdout, "%s: ok\n", name)
		}
		bad += len(problems)
		// A damaged index costs speed, not answers.
		problems, err = p.verifyIndexes(ctx, t)
		if err != nil {
			return err
		}
		for _, pr := range problems {
			fmt.Fprintf(p.stderr, "warning: index of %s: %s\n", name, problemText(pr))
		}
		if len(problems) > 0 {
			fmt.Fprintf(p.stderr, "hint: answers stay right; overlake index verify --repair %s builds what is damaged anew\n", name)
		}
	}
	if bad > 0 {
		return overlakeError(overlake.KindCorrupt, fmt.Errorf("%d problems found", bad), "restore the files from a backup, or read an older snapshot with AT (VERSION => …)")
	}
	return nil
}
