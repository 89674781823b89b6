// Package engine is DuckDB, and the only room that knows it: it runs one SELECT at a time and streams Arrow out.
//
// A DB is one embedded DuckDB without tables of its own. What a query reads comes in through three doors:
//
//   - virtual files: AddFile gives a file a path below a secret prefix; read_parquet reads it there, and nothing else on
//     the machine can be read (AddOutput is the same for the one file that a COPY writes);
//   - live bitmaps: NewLive registers deleted and allowed rows of a list of files for the predicate overlake_live;
//   - feeds: NewFeed makes Arrow batches readable as a table function.
//
// Functions written in Go enter through RegisterScalar and RegisterCast. The types vector and halfvec are aliases of FLOAT[],
// sparsevec is one of BLOB, so that operators on them can be ours while those on other lists and bytes stay DuckDB's.
//
// Rules of the room:
//
//	E1  Only SELECT and EXPLAIN run (COPY through RunCopy). Configuration is locked, extensions are off, and no file
//	    outside the doors can be opened.
//	E2  A query holds one connection of a fixed pool: the pool is the admission queue, first come, first served.
//	E3  A cancelled context interrupts the query at once, wherever it is; the connection is usable afterwards.
//	E4  Memory and spill space are bounded by Config.
//
// Measurements behind the choice of DuckDB and of this way to drive it: docs/decisions/0002-duckdb-embedding.md.
package engine

/*
#cgo CFLAGS: -O3 -Wall
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	_ "github.com/duckdb/duckdb-go/v2/mapping" // links the DuckDB library of this platform

	"github.com/overlakedb/overlake/internal/errs"
)

// Config bounds a DB. The zero value is usable.
type Config struct {
	MemoryLimit  int64         // bytes for queries; 0 means 1 GiB. The process needs up to 200 MB more.
	Threads      int           // threads that run queries; 0 means GOMAXPROCS
	SpillDir     string        // where large queries spill, each DB into a private directory that Close removes; "" means the system's temporary directory
	SpillLimit   int64         // bytes of spill files; 0 means what the disk has
	MaxQueries   int           // queries that run at once; 0 means twice Threads
	QueueTimeout time.Duration // longest wait for a place among them; 0 means until the context ends
}

// DB is an embedded DuckDB. It is safe for concurrent use.
type DB struct {
	cfg    Config
	db     C.duckdb_database
	pool   chan place
	conns  []C.duckdb_connection
	spill  string
	opened bool // the pool is full
	door   door // how files come in

	control sync.Mutex // guards the first connection: parsing and registrations
	parser  C.ov_query // on the first connection, prepared once

	// runs is what each connection runs, by the engine's number of the connection. The map is complete when Open returns.
	runs map[C.idx_t]*atomic.Pointer[Result]

	mu      sync.Mutex // guards what follows
	running map[*Result]struct{}
	life    context.Context // ends when Close begins
	end     context.CancelFunc
	closed  bool
}

// Open starts a DuckDB.
func Open(cfg Config) (_ *DB, err error) {
	if cfg.MemoryLimit == 0 {
		cfg.MemoryLimit = 1 << 30
	}
	if cfg.Threads == 0 {
		cfg.Threads = runtime.GOMAXPROCS(0)
	}
	if cfg.MaxQueries == 0 {
		cfg.MaxQueries = 2 * cfg.Threads
	}
	if cfg.MemoryLimit < 16<<20 || cfg.Threads < 0 || cfg.MaxQueries < 0 {
		return nil, errs.New(errs.Invalid, "engine.open", "the memory limit must be at least 16 MiB, and no limit negative")
	}
	db := &DB{cfg: cfg, pool: make(chan place, cfg.MaxQueries),
		running: map[*Result]struct{}{}, runs: map[C.idx_t]*atomic.Pointer[Result]{}}
	db.life, db.end = context.WithCancel(context.Background())
	if err := db.makeSpill(); err != nil {
		return nil, err
	}
	if err := db.open(); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// How much of a result the engine makes ahead, and with it how much before the first row is seen. With 1 MB it holds back
// 125,000 distances. With 64 KB it is at a stand whenever one thread is ahead of another, since rows leave in order: a
// result of many wide rows costs a fifth more. So each place among the queries has a connection of each kind.
const (
	littleAhead = "SET streaming_buffer_size = '64KB'"
	farAhead    = "SET streaming_buffer_size = '1MB'"
)

func (db *DB) open() error {
	var cfg C.duckdb_config
	if C.duckdb_create_config(&cfg) != 0 {
		return errs.New(errs.Internal, "engine.open", "no memory for the configuration")
	}
	defer C.duckdb_destroy_config(&cfg)
	settings := [][2]string{
		{"threads", strconv.Itoa(db.cfg.Threads)},
		{"memory_limit", strconv.FormatInt(db.cfg.MemoryLimit, 10) + "B"},
		{"temp_directory", db.spill},
		{"enable_external_file_cache", "false"}, // local files are in the system's page cache already
		{"autoinstall_known_extensions", "false"},
		{"autoload_known_extensions", "false"},
		{"allow_community_extensions", "false"},
		{"allow_persistent_secrets", "false"},
	}
	if db.cfg.SpillLimit > 0 {
		settings = append(settings, [2]string{"max_temp_directory_size", strconv.FormatInt(db.cfg.SpillLimit, 10) + "B"})
	}
	for _, s := range settings {
		name, value := C.CString(s[0]), C.CString(s[1])
		st := C.duckdb_set_config(cfg, name, value)
		C.free(unsafe.Pointer(name))
		C.free(unsafe.Pointer(value))
		if st != 0 {
			return errs.Newf(errs.Internal, "engine.open", "the engine does not know the setting %s = %s", s[0], s[1])
		}
	}
	path := C.CString(":memory:")
	defer C.free(unsafe.Pointer(path))
	var message *C.char
	if C.duckdb_open_ext(path, &db.db, cfg, &message) != 0 {
		defer C.duckdb_free(unsafe.Pointer(message))
		return errs.New(errs.Internal, "engine.open", C.GoString(message))
	}
	// Two for each query that may run, and the first one for control.
	for i := range 2*db.cfg.MaxQueries + 1 {
		ahead := littleAhead
		if i > db.cfg.MaxQueries {
			ahead = farAhead
		}
		var con C.duckdb_connection
		if C.duckdb_connect(db.db, &con) != 0 {
			return errs.New(errs.Internal, "engine.open", "cannot connect to the engine")
		}
		db.conns = append(db.conns, con)
		db.runs[connectionID(con)] = new(atomic.Pointer[Result])
		for _, s := range []string{"SET errors_as_json = true", "SET TimeZone = 'UTC'", ahead} {
			if err := exec(con, s); err != nil {
				return err
			}
		}
	}
	control := db.conns[0]
	if C.ov_live_register(control) != 0 || C.ov_feed_register(control) != 0 {
		return errs.New(errs.Internal, "engine.open", "cannot register the scan functions")
	}
	if err := db.registerAliases(); err != nil {
		return err
	}
	if err := db.openDoor(); err != nil {
		return err
	}
	for _, s := range []string{
		"SET allowed_directories = [" + literal(db.door.dir()) + ", " + literal(db.spill+"/") + "]",
		"SET enable_external_access = false",
		"SET lock_configuration = true",
	} {
		if err := exec(control, s); err != nil {
			return err
		}
	}
	db.parser.con = control
	text := C.CString("SELECT json_serialize_sql($1::VARCHAR)")
	defer C.free(unsafe.Pointer(text))
	if err := engineError("engine.open", C.ov_prepare(&db.parser, text)); err != nil {
		return err
	}
	for i := range db.cfg.MaxQueries {
		db.pool <- place{little: db.conns[1+i], far: db.conns[1+db.cfg.MaxQueries+i]}
	}
	db.opened = true
	return nil
}

// Close ends the DB. Running queries are cancelled; their results answer Unavailable from then on.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.end()
	running := slices.Collect(maps.Keys(db.running))
	db.mu.Unlock()
	for _, r := range running {
		if r.finish() {
			db.leave(r)
			db.pool <- r.place
		}
	}
	// Statements that were about to start give their connections back by themselves.
	if db.opened {
		for range db.cfg.MaxQueries {
			<-db.pool
		}
	}
	db.control.Lock()
	defer db.control.Unlock()
	C.ov_finish(&db.parser)
	for i := range db.conns {
		C.duckdb_disconnect(&db.conns[i])
	}
	if db.db != nil {
		C.duckdb_close(&db.db)
	}
	return db.removeSpill()
}

func (db *DB) isClosing() bool {
	select {
	case <-db.life.Done():
		return true
	default:
		return false
	}
}

func errClosed(op string) error { return errs.New(errs.Unavailable, op, "the database is closed") }

// enter remembers a started result, so that Close can end it.
func (db *DB) enter(r *Result) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return errClosed("engine.query")
	}
	db.running[r] = struct{}{}
	return nil
}

func (db *DB) leave(r *Result) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.running, r)
}

// Config is the configuration with its defaults filled in.
func (db *DB) Config() Config { return db.cfg }

// place is a place among the running queries, of which one of the two connections runs one.
type place struct{ little, far C.duckdb_connection }

// acquire waits for a place.
func (db *DB) acquire(ctx context.Context) (place, error) {
	if err := ctx.Err(); err != nil {
		return place{}, errs.Wrap(errs.Canceled, "engine.query", err)
	}
	if db.isClosing() {
		return place{}, errClosed("engine.query")
	}
	select {
	case p := <-db.pool:
		return p, nil
	default:
	}
	var timeout <-chan time.Time
	if db.cfg.QueueTimeout > 0 {
		t := time.NewTimer(db.cfg.QueueTimeout)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case p := <-db.pool:
		return p, nil
	case <-ctx.Done():
		return place{}, errs.Wrap(errs.Canceled, "engine.query", ctx.Err())
	case <-db.life.Done():
		return place{}, errClosed("engine.query")
	case <-timeout:
		return place{}, errs.New(errs.Exhausted, "engine.query",
			fmt.Sprintf("%d queries run already and none ended within %v", db.cfg.MaxQueries, db.cfg.QueueTimeout),
			errs.Hint("try again later, or raise the number of queries or the queue timeout"))
	}
}

// openDoor chooses how files come in: through the linker's wrapping if the engine reads a test file that way, else through
// links. (It does not where DuckDB is a shared library, or where the linker cannot wrap.)
func (db *DB) openDoor() error {
	if canWrap && !noWrap {
		var secret [16]byte
		if _, err := rand.Read(secret[:]); err != nil {
			return errs.Wrap(errs.Internal, "engine.open", err)
		}
		db.door = &wrapped{prefix: "/.overlake-files/" + hex.EncodeToString(secret[:]) + "/"}
		const text = "reads come here"
		path, release, err := db.AddReader(context.Background(), "test", strings.NewReader(text), int64(len(text)))
		if err != nil {
			return err
		}
		defer release()
		r, err := db.run(context.Background(), db.conns[0], "SELECT content FROM read_text("+literal(path)+")", nil, false)
		if err == nil {
			defer r.finish()
			if r.Next() && firstText(r.Record()) == text {
				return nil
			}
		}
	}
	var err error
	db.door, err = newLinked(db.spill)
	return err
}

// noWrap makes tests take the other door.
var noWrap bool

func connectionID(con C.duckdb_connection) C.idx_t {
	var ctx C.duckdb_client_context
	C.duckdb_connection_get_client_context(con, &ctx)
	defer C.duckdb_destroy_client_context(&ctx)
	return C.duckdb_client_context_get_connection_id(ctx)
}

func exec(con C.duckdb_connection, sql string) error {
	text := C.CString(sql)
	defer C.free(unsafe.Pointer(text))
	return engineError("engine.exec", C.ov_exec(con, text))
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Parse turns one SELECT into DuckDB's syntax tree as JSON. A text that does not parse is Invalid with a *SQLError that
// tells where.
func (db *DB) Parse(ctx context.Context, sql string) (string, error) {
	if strings.ContainsRune(sql, 0) {
		return "", errs.New(errs.Invalid, "engine.parse", "the statement holds a NUL character")
	}
	db.control.Lock()
	defer db.control.Unlock()
	if db.isClosing() {
		return "", errClosed("engine.parse")
	}
	r, err := db.runAgain(ctx, db.conns[0], db.parser.stmt, Arg{Value: sql})
	if err != nil {
		return "", err
	}
	defer r.finish()
	if !r.Next() {
		return "", errors.Join(errs.New(errs.Internal, "engine.parse", "the parser gave no answer"), r.Err())
	}
	return parsed(firstText(r.Record()))
}
