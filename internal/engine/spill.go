package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
)

// Spill directories are named spill-<process>-<random>, so that one left behind by a process that died can be told from
// one in use. Each is private to its DB and to the user.
const spillPrefix = "overlake-spill-"

// makeSpill creates the DB's spill directory and sweeps those of dead processes beside it.
func (db *DB) makeSpill() error {
	parent := db.cfg.SpillDir
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.Abs(parent)
	if err == nil {
		err = os.MkdirAll(parent, 0o700)
	}
	if err != nil {
		return errs.Wrap(errs.KindOf(err), "engine.open", err, errs.On(parent), errs.Hint("name a spill directory that can be written"))
	}
	sweepSpills(parent)
	dir, err := os.MkdirTemp(parent, spillPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return errs.Wrap(errs.KindOf(err), "engine.open", err, errs.On(parent), errs.Hint("name a spill directory that can be written"))
	}
	db.spill = dir
	return nil
}

func (db *DB) removeSpill() error {
	if db.spill == "" {
		return nil
	}
	if err := os.RemoveAll(db.spill); err != nil {
		return errs.Wrap(errs.KindOf(err), "engine.close", err, errs.On(db.spill))
	}
	return nil
}

// sweepSpills removes the directories whose process is gone. A directory it may not remove stays: it belongs to another
// user, and failing to tidy must not keep a database from opening.
func sweepSpills(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		var pid int
		rest, ours := strings.CutPrefix(e.Name(), spillPrefix)
		if !ours || !e.IsDir() {
			continue
		}
		if n, err := fmt.Sscanf(rest, "%d-", &pid); n == 1 && err == nil && pid > 0 && !alive(pid) {
			_ = os.RemoveAll(filepath.Join(parent, e.Name()))
		}
	}
}
