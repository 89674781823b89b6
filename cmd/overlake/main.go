// Command overlake is the program: SQL with vector and text search over Iceberg tables, from a shell.
//
// One file holds one command. Results go to standard output in the format of --format; progress, errors and hints go to
// standard error. The exit code tells the kind of failure (see exitCode).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/internal/render"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main without the process: tests call it with their own streams.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal has cancelled the work, a second one ends the process as usual.
	context.AfterFunc(ctx, stop)
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	root := p.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, syscall.EPIPE) {
		return 0 // the reader of our output had enough
	}
	printError(stderr, err)
	return exitCode(err)
}

// program carries what every command shares: the streams and the global flags.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	warehouse string
	format    string
	readOnly  bool
	catalog   string
	overlay   string
	memory    string
	threads   int
	export    []string

	errors sync.Mutex // held to write to stderr beside the command, and for:
	warned map[string]bool
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "overlake",
		Short:         "SQL with vector and text search over Apache Iceberg tables",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          onlyCommands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	f := root.PersistentFlags()
	f.StringVarP(&p.warehouse, "warehouse", "w", envOr("OVERLAKE_WAREHOUSE", "warehouse"),
		"directory that holds the tables (environment OVERLAKE_WAREHOUSE)")
	f.StringVar(&p.format, "format", os.Getenv("OVERLAKE_FORMAT"),
		"output format: table, json, csv, markdown or arrow (default table; environment OVERLAKE_FORMAT)")
	f.BoolVar(&p.readOnly, "read-only", false, "open the warehouse without any way to write")
	f.StringVar(&p.catalog, "catalog", envOr("OVERLAKE_CATALOG", "file"),
		"how names find tables: file or sqlite (environment OVERLAKE_CATALOG)")
	f.StringVar(&p.overlay, "overlay", os.Getenv("OVERLAKE_OVERLAY"),
		"directory that holds the indexes (default the warehouse; environment OVERLAKE_OVERLAY)")
	f.StringVar(&p.memory, "memory", envOr("OVERLAKE_MEMORY", "1GiB"), "memory for queries (environment OVERLAKE_MEMORY)")
	f.IntVar(&p.threads, "threads", 0, "threads for queries (default one per core)")
	f.StringSliceVar(&p.export, "export", nil, "directory that COPY ... TO may write into; may be repeated")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return overlakeError(overlake.KindInvalid, err, "overlake --help lists the flags")
	})
	root.AddCommand(p.sqlCommand(), p.replCommand(), p.ingestCommand(), p.inspectCommand(), p.checkCommand(),
		p.indexCommand(), p.mountCommand(), p.versionCommand())
	return root
}

// onlyCommands refuses a word that is none of a command's commands.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := c.CommandPath() + " --help lists the commands"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return overlakeError(overlake.KindInvalid, fmt.Errorf("there is no command %q", args[0]), hint)
}

// with opens the warehouse of the global flags for f, and closes it when the index builds that f's commits started have
// ended. Commands that cannot write pass readOnly.
func (p *program) with(ctx context.Context, readOnly bool, f func(db *overlake.DB) error) (err error) {
	memory, err := parseBytes(p.memory)
	if err != nil {
		return err
	}
	db, err := overlake.Open(ctx, p.warehouse, overlake.Options{
		// The sqlite catalog cannot be opened without writing.
		ReadOnly: p.readOnly || readOnly && p.catalog != "sqlite", Catalog: p.catalog, MemoryLimit: memory, Threads: p.threads, Export: p.export,
		Overlay: p.overlay, Events: p.warn, BoundGarbage: true,
	})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	err = f(db)
	switch werr := p.finishIndexes(ctx, db); {
	case err == nil:
		return werr
	case werr != nil:
		fmt.Fprintf(p.stderr, "warning: %v\n", werr)
	}
	return err
}

// warn prints an event, each once.
func (p *program) warn(e overlake.Event) {
	line := "warning: "
	if e.Index != "" {
		line += "index " + e.Index + " of "
	}
	line += e.Table + ": " + e.What
	if e.Err != nil {
		line += ": " + e.Err.Error()
	}
	if e.Object != "" && !strings.Contains(line, e.Object) {
		line += " (" + e.Object + ")"
	}
	p.errors.Lock()
	defer p.errors.Unlock()
	if p.warned[line] || len(p.warned) == maxWarnings {
		return
	}
	if p.warned == nil {
		p.warned = map[string]bool{}
	}
	p.warned[line] = true
	if p.watched() {
		fmt.Fprint(p.stderr, "\r\033[K") // a bar may stand there
	}
	fmt.Fprintln(p.stderr, line)
}

// maxWarnings bounds what is printed of a warehouse that is damaged all over.
const maxWarnings = 1000

// print streams rows to standard output in the format of the flags.
func (p *program) print(rows *overlake.Rows) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	format, err := p.outputFormat()
	if err != nil {
		return err
	}
	w, err := render.NewWriter(p.stdout, format, rows.Schema(), render.Options{Width: terminalWidth(p.stdout)})
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := w.Write(rows.RecordBatch()); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return w.Close()
}

func (p *program) outputFormat() (render.Format, error) {
	if p.format == "" {
		return render.Table, nil
	}
	return render.ParseFormat(p.format)
}

func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "error: %v\n", err)
	if hint := overlake.HintOf(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// exitCode gives every kind of failure a code of its own, so that scripts need not read messages.
func exitCode(err error) int {
	switch overlake.KindOf(err) {
	case overlake.KindInvalid:
		return 2
	case overlake.KindNotFound:
		return 3
	case overlake.KindExists:
		return 4
	case overlake.KindConflict:
		return 5
	case overlake.KindDenied, overlake.KindUnauthenticated:
		return 6
	case overlake.KindUnsupported:
		return 7
	case overlake.KindCorrupt:
		return 8
	case overlake.KindExhausted:
		return 9
	case overlake.KindUnavailable:
		return 10
	case overlake.KindCanceled:
		return 130
	}
	return 1
}

func overlakeError(kind overlake.Kind, err error, hint string) error {
	return &overlake.Error{Kind: kind, Op: "overlake", Err: err, Hint: hint}
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// terminalWidth is the width of the terminal behind w, or 0 when w is no terminal.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// atLeast demands a number of arguments.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return overlakeError(overlake.KindInvalid, errors.New(what), c.UseLine())
		}
		return nil
	}
}
