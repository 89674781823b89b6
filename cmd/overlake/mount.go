package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlakedb/overlake"
)

func (p *program) mountCommand() *cobra.Command {
	var name string
	var remove bool
	cmd := &cobra.Command{
		Use:   "mount LOCATION",
		Short: "make a table of another engine readable, without ever writing to it",
		Long: "LOCATION is the directory of an Iceberg table (the one that holds metadata/), or one of its metadata files. The table is\n" +
			"then there under its name in every later command on this warehouse, always at its newest version.",
		Example: "  overlake mount /data/spark/taxi\n  overlake mount /data/x/metadata/v3.metadata.json --as x3\n  overlake mount --remove taxi",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return overlakeError(overlake.KindInvalid, errors.New("one location is needed"), "overlake mount /path/to/table")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				if remove {
					return db.Unmount(cmd.Context(), args[0])
				}
				if name == "" {
					dir := strings.TrimRight(args[0], "/")
					if strings.Contains(filepath.Base(dir), ".metadata.json") {
						dir = filepath.Dir(filepath.Dir(dir))
					}
					name = filepath.Base(dir)
				}
				t, err := db.Mount(cmd.Context(), name, args[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(p.stderr, "mounted %s, read-only; try: overlake sql \"SELECT * FROM %s LIMIT 5\"\n", t.Name(), name)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&name, "as", "", "name of the table (default the directory's)")
	cmd.Flags().BoolVar(&remove, "remove", false, "forget the mounted table of this name; its files stay")
	return cmd
}
