package overlay

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// The manifest is the durable record of which indexes and artifacts there are. It is a chain of versions under the overlay's
// prefix, apart from the table's own, so that building an index never conflicts with writing to the table.
//
//	<prefix>/v1.json, v2.json …     heads: one version each, written once, on the condition that it is not there
//	<prefix>/version-hint.text      a hint at the newest version; readers do not trust it
//	<prefix>/chunks/v<N>-<uuid>     artifacts, first named by version N; never changed
//	<prefix>/bundles/…              the artifacts' bytes, see docs/format/puffin-bundles.md
//
// A head holds all definitions and names chunks, oldest first, each with its checksum and with the artifacts in it that are
// dead by now. A publish adds a chunk with what is new and marks what is gone, so it costs what it changes; chunks of like
// size are merged now and then, as in a log-structured merge tree. docs/format/overlay-manifest.md has the details.
//
//	M1  A version names only bundles that were found with their size, and chunks that were read back, before it appeared.
//	M2  Of several writers of one version one wins; the others get Conflict and plan again.
//	M3  What of the newest version cannot be read is left out, and reported in Version.Damage; what is given out is what was
//	    published. The next publish leaves out for good what is missing or corrupt, never what a store only failed to answer.
//	M4  Garbage collection removes nothing that the newest versions name. What it removes by age it removes late rather than
//	    early when clocks are wrong.

// Definition is an index: what it is called, what it is over, and how it is built.
type Definition struct {
	ID      string            `json:"id"` // never used for another index again
	Name    string            `json:"name"`
	Kind    string            `json:"kind"`
	Columns []int             `json:"columns"` // field ids, in the order of the index
	Params  map[string]string `json:"params,omitempty"`
	Created time.Time         `json:"created"`
}

// FileKey identifies a data file. Two keys are of one file when all of it is equal.
type FileKey struct {
	Path string
	Size int64
	ETag string
	Rows int64
}

// CoveredFile is a data file that an artifact covers.
type CoveredFile struct {
	FileKey
	Base int64 // the row of the artifact that is the file's first
}

// Artifact says where the index of one or more data files lies. Artifacts that a Version gives out are shared: whoever wants
// to change one copies it.
type Artifact struct {
	Index       string // id of the definition
	Fingerprint string // of everything that the bytes depend on besides the files
	Files       []CoveredFile
	Bundle      string // object name
	Offset      int64  // in the bundle
	Length      int64
	Type        string // of the blob
	CRC         string // of the blob's plain bytes, as its properties have it
	Rows        int64
	Min, Max    []byte // keys; nil when not known
	Distinct    int64  // values; negative when not known
	Nulls       int64  // negative when not known
}

// same reports whether two entries are of one artifact: of one index at one place.
func (a *Artifact) same(b *Artifact) bool {
	return a.Index == b.Index && a.Bundle == b.Bundle && a.Offset == b.Offset
}

// Limits of what a manifest may hold. They bound what a reader allocates, and no sensible overlay comes near them.
const (
	maxHead        = 64 << 20  // bytes of a head
	maxChunk       = 128 << 20 // bytes of a chunk
	maxChunks      = 100_000   // chunks of a version
	maxDefinitions = 10_000
	maxText        = 64 << 10 // bytes of one string in a chunk
	maxArtifacts   = 2 << 20  // artifacts of one chunk
	maxCovered     = 4 << 20  // covered files of all artifacts of one chunk
)

// check refuses a definition that a head could not hold.
func (d *Definition) check() error {
	bad := func(why string) error {
		return errs.New(errs.Invalid, "overlay.publish", "bad definition of an index: "+why, errs.On(d.Name))
	}
	texts := []string{d.ID, d.Name, d.Kind}
	for k, v := range d.Params {
		texts = append(texts, k, v)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || len(s) > maxText {
			return bad("a text is too long or no UTF-8")
		}
	}
	switch {
	case d.ID == "":
		return bad("it has no id")
	case d.Name == "":
		return bad("it has no name")
	case d.Kind == "":
		return bad("it has no kind")
	}
	return nil
}

func (d Definition) clone() Definition {
	d.Columns = slices.Clone(d.Columns)
	d.Params = maps.Clone(d.Params)
	return d
}

// checkBundle refuses names that are none of a bundle of the overlay.
func checkBundle(prefix, bundle string) error {
	bad := func(why string) error {
		return errs.New(errs.Invalid, "overlay.publish", "bad artifact: its bundle "+why, errs.On(bundle))
	}
	name, inside := strings.CutPrefix(bundle, prefix+"/")
	switch {
	case !inside || name == hintName || versionOf(name) > 0 || strings.HasPrefix(name, chunksDir):
		return bad("is none of this overlay's, which are below " + prefix + "/")
	case objstore.CheckName(bundle) != nil:
		return bad("has no possible name")
	}
	return nil
}

// check refuses an artifact that a chunk could not hold, or that makes no sense, apart from its bundle's name.
func (a *Artifact) check() error {
	bad := func(why string) error {
		return errs.New(errs.Invalid, "overlay.publish", "bad artifact: "+why, errs.On(a.Bundle))
	}
	switch {
	case a.Offset < 0 || a.Length < 0 || a.Offset > 1<<62 || a.Length > 1<<62:
		return bad("it lies nowhere")
	case a.Rows < 0:
		return bad("it has a negative number of rows")
	case len(a.Files) == 0:
		return bad("it covers no file")
	case len(a.Files) > maxCovered/4:
		return bad("it covers too many files")
	}
	for _, n := range [...]int{len(a.Index), len(a.Fingerprint), len(a.Type), len(a.CRC), len(a.Min), len(a.Max)} {
		if n > maxText {
			return bad("a text is too long")
		}
	}
	var paths map[string]bool // of the usual single file nothing need be remembered
	if len(a.Files) > 1 {
		paths = make(map[string]bool, len(a.Files))
	}
	for i := range a.Files {
		switch f := &a.Files[i]; {
		case f.Path == "" || len(f.Path) > maxText || len(f.ETag) > maxText:
			return bad("a file has no path, or one that is too long")
		case paths[f.Path]:
			return bad("it covers a file twice")
		case f.Size < 0 || f.Rows < 0 || f.Base < 0 || f.Base > a.Rows-f.Rows:
			return bad("a file's rows are not among its own")
		case paths != nil:
			paths[f.Path] = true
		}
	}
	return nil
}
