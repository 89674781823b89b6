package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/peterh/liner"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/overlakedb/overlake"
)

const replHelp = `Statements end with a semicolon and may span lines. Commands:
  \d            list the tables
  \d TABLE      list the columns and the indexes of a table
  \timing       switch the printing of run times on or off
  \format NAME  set the output format: table, json, csv, markdown, arrow
  \?            this help
  \q            leave
`

func (p *program) replCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "repl",
		Short: "an interactive session",
		Long:  replHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.with(context.WithoutCancel(cmd.Context()), false, func(db *overlake.DB) error {
				lines, closeLines := p.lines()
				defer closeLines()
				r := &repl{p: p, session: db.Session(), timing: true}
				return r.loop(cmd.Context(), lines)
			})
		},
	}
}

type repl struct {
	p       *program
	session *overlake.Session
	timing  bool
	pending string
}

// lines gives a way to read lines: with history and editing on a terminal, plainly otherwise.
func (p *program) lines() (read func(prompt string) (string, error), close func()) {
	f, ok := p.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		in := bufio.NewReader(p.stdin)
		return func(string) (string, error) {
			s, err := in.ReadString('\n')
			if err == io.EOF && s != "" {
				err = nil
			}
			return strings.TrimRight(s, "\r\n"), err
		}, func() {}
	}
	l := liner.NewLiner()
	l.SetCtrlCAborts(true)
	l.SetMultiLineMode(true)
	history := historyFile()
	if h, err := os.Open(history); err == nil {
		_, _ = l.ReadHistory(h)
		h.Close()
	}
	return func(prompt string) (string, error) {
			s, err := l.Prompt(prompt)
			if err == nil && strings.TrimSpace(s) != "" {
				l.AppendHistory(s)
			}
			return s, err
		}, func() {
			if err := os.MkdirAll(filepath.Dir(history), 0o700); err == nil {
				if h, err := os.OpenFile(history, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err == nil {
					_, _ = l.WriteHistory(h)
					h.Close()
				}
			}
			l.Close()
		}
}

func historyFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "overlake", "history")
}

func (r *repl) loop(ctx context.Context, read func(string) (string, error)) error {
	for {
		prompt := "overlake> "
		if r.pending != "" {
			prompt = "     ...> "
		}
		line, err := read(prompt)
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			r.pending = ""
			continue
		case err == io.EOF:
			if strings.TrimSpace(r.pending) != "" {
				r.run(ctx, r.pending)
			}
			return nil
		case err != nil:
			return err
		}
		if r.pending == "" && strings.HasPrefix(strings.TrimSpace(line), `\`) {
			if r.command(ctx, strings.Fields(line)) {
				return nil
			}
			continue
		}
		r.pending += line + "\n"
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			text := r.pending
			r.pending = ""
			r.run(ctx, text)
		}
	}
}

// run runs the statements of a text; Ctrl-C cancels them and leaves the session.
func (r *repl) run(parent context.Context, text string) {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(parent), os.Interrupt)
	defer stop()
	start := time.Now()
	for rows, err := range r.session.Script(ctx, text) {
		if err == nil {
			err = r.p.show(rows)
		}
		if err != nil {
			printError(r.p.stderr, err)
			return
		}
	}
	if r.timing {
		fmt.Fprintf(r.p.stderr, "%v\n", time.Since(start).Round(100*time.Microsecond))
	}
}

// command runs a backslash command; true means leave.
func (r *repl) command(ctx context.Context, words []string) bool {
	switch {
	case words[0] == `\q`:
		return true
	case words[0] == `\d` && len(words) == 1:
		r.run(ctx, "SHOW TABLES")
	case words[0] == `\d` && len(words) == 2:
		r.run(ctx, "DESCRIBE "+strings.TrimSuffix(words[1], ";"))
		r.indexes(ctx, strings.TrimSuffix(words[1], ";"))
	case words[0] == `\timing`:
		r.timing = !r.timing
		fmt.Fprintf(r.p.stderr, "timing is %s\n", map[bool]string{true: "on", false: "off"}[r.timing])
	case words[0] == `\format` && len(words) == 2:
		old := r.p.format
		r.p.format = words[1]
		if _, err := r.p.outputFormat(); err != nil {
			r.p.format = old
			printError(r.p.stderr, err)
		}
	default:
		fmt.Fprint(r.p.stderr, replHelp)
	}
	return false
}

// indexes prints the indexes of a table, if it has any.
func (r *repl) indexes(ctx context.Context, table string) {
	rows, err := r.session.SQL(ctx, "SHOW INDEXES FROM "+table)
	if err != nil {
		return // DESCRIBE has said so
	}
	var names []string
	for _, f := range rows.Schema().Fields() {
		names = append(names, f.Name)
	}
	var cells [][]string
	for row, err := range rows.Values() {
		if err != nil {
			printError(r.p.stderr, err)
			return
		}
		line := make([]string, len(row))
		for i, v := range row {
			line[i] = fmt.Sprint(v)
		}
		cells = append(cells, line)
	}
	if len(cells) > 0 {
		if err := r.p.printText(names, cells); err != nil {
			printError(r.p.stderr, err)
		}
	}
}
