package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/overlakedb/overlake"
)

func (p *program) sqlCommand() *cobra.Command {
	var file string
	var echo bool
	cmd := &cobra.Command{
		Use:   "sql [statement ...]",
		Short: "run SQL from the arguments, a file or standard input",
		Long: "Runs statements in order and prints the rows of each. The text comes from the arguments, from -f FILE, or from\n" +
			"standard input (also as the argument -). The first error ends the run.",
		Example: `  overlake sql "SELECT count(*) FROM docs"
  overlake sql -f report.sql --format csv > report.csv
  echo "SHOW TABLES" | overlake sql`,
		RunE: func(cmd *cobra.Command, args []string) error {
			script, err := p.script(file, args)
			if err != nil {
				return err
			}
			return p.with(cmd.Context(), false, func(db *overlake.DB) error {
				session := db.Session()
				if !echo {
					return p.runScript(cmd.Context(), session, script)
				}
				statements, err := overlake.SplitScript(script)
				if err != nil {
					return err
				}
				for _, s := range statements {
					fmt.Fprintf(p.stdout, "\n%s;\n", s)
					if err := p.runScript(cmd.Context(), session, s); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&echo, "echo", false, "print every statement, with the comment before it, before its answer")
	cmd.Flags().StringVarP(&file, "file", "f", "", "read the statements from a file")
	return cmd
}

func (p *program) runScript(ctx context.Context, session *overlake.Session, script string) error {
	for rows, err := range session.Script(ctx, script) {
		if err != nil {
			return err
		}
		if err := p.show(rows); err != nil {
			return err
		}
	}
	return nil
}

// show prints the rows of a statement, or what it did.
func (p *program) show(rows *overlake.Rows) error {
	if rows.Tag() == "EXPLAIN" && p.format == "" {
		// A plan is text, not a table.
		for row, err := range rows.Values() {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(p.stdout, row[0]); err != nil {
				return err
			}
		}
		return nil
	}
	if rows.HasRows() {
		return p.print(rows)
	}
	defer rows.Close()
	tag := rows.Tag()
	if n := rows.RowsAffected(); n >= 0 {
		tag = fmt.Sprintf("%s %d", tag, n)
	}
	_, err := fmt.Fprintln(p.stderr, tag)
	return err
}

func (p *program) script(file string, args []string) (string, error) {
	switch {
	case file != "" && len(args) > 0:
		return "", overlakeError(overlake.KindInvalid, errors.New("both -f and a statement were given"), "use one of them")
	case file != "":
		text, err := os.ReadFile(file)
		return string(text), err
	case len(args) > 0 && !(len(args) == 1 && args[0] == "-"):
		return strings.Join(args, " "), nil
	}
	if f, ok := p.stdin.(*os.File); ok && len(args) == 0 && term.IsTerminal(int(f.Fd())) {
		return "", overlakeError(overlake.KindInvalid, errors.New("no statement was given"),
			`overlake sql "SELECT 1", or overlake repl for an interactive session`)
	}
	text, err := io.ReadAll(p.stdin)
	return string(text), err
}
