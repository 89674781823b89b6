package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/overlakedb/overlake"
)

func (p *program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [TABLE ...]",
		Short: "read everything the tables name and tell what is wrong, changing nothing",
		Long:  "Reads every data file of the named tables, or of all, and compares sizes and row counts with the metadata. The exit code is 8\nwhen something is wrong.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			db, err := p.open(ctx, true)
			if err != nil {
				return err
			}
			defer db.Close()
			if len(args) == 0 {
				if args, err = db.Tables(ctx); err != nil {
					return err
				}
			}
			bad := 0
			for _, name := range args {
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
			}
			if bad > 0 {
				return overlakeError(overlake.KindCorrupt, fmt.Errorf("%d problems found", bad), "restore the files from a backup, or read an older snapshot with AT (VERSION => …)")
			}
			return nil
		},
	}
}
