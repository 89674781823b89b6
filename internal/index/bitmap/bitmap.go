// Package bitmap answers: which rows hold these values?
//
// An artifact is one immutable blob that maps the keys of a column, or of a tuple of columns, to row positions. A Builder
// makes one of Arrow arrays and writes it as a stream; a Reader opens one by its last bytes and answers ranges of keys.
// Keys are those of internal/predicate: bytes in the order of the values.
//
// A posting is one (key, row). Postings are sorted by key, then row, and cut into blocks. A block of many keys holds
// keys that have few rows each; a key with many rows has blocks of its own, and so have the NULLs of a single column. The
// directory at the end says for each block where it is, where its keys begin, and how many postings come before it, so
// that counting a range reads its two ends only. docs/format/bitmap-index.md describes the bytes.
//
// Invariants:
//
//	M1  The first key of a block is in the directory (of a block of many keys, the shortest bytes that separate it from
//	    the keys before); keys ascend from block to block.
//	M2  Blocks with the same key follow each other, each holds that key alone, and their rows ascend.
//	M3  Every byte that decides an answer is under a checksum, which is verified before the byte is used.
//	M4  In a composite index NULL is a part of the tuple; only an index of one column has rows without a key.
package bitmap

import (
	"context"
	"io"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/predicate"
)

// BlobType names the format in a Puffin file.
const BlobType = "overlake-bitmap-v1"

// Stats sum up an artifact.
type Stats struct {
	Rows     int64 // rows covered, whether or not they have a key
	Nulls    int64 // rows whose value is NULL; 0 in a composite index
	Postings int64 // rows with a key
	Distinct int64 // different keys
	Size     int64 // bytes of the artifact
	Min, Max []byte
}

// Source reads ranges of an artifact, with the rules of io.ReaderAt. It may be called by several goroutines at once.
type Source interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// SpillFile is a temporary file. What was written is read back from offset 0; Close removes it.
type SpillFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// The measures of blocks. A reader takes what is within them and no more, so they are part of the format.
const (
	maxBlockKeys     = 1024    // keys of a block of many keys
	maxKeyBytes      = 1 << 18 // bytes of the keys of such a block, written out, unless it is one key
	maxBlockPostings = 1 << 16 // postings of a block
	ownBlocks        = 1024    // a key with so many rows has blocks of its own
)

// A block is closed at this size, which is estimated, and a block of many keys at this number of postings too.
const (
	blockBits     = 8 << 13
	blockPostings = 2048
)

// maxKinds bounds the columns of a composite index.
const maxKinds = 64

func corrupt(op, message string) error {
	return errs.New(errs.Corrupt, op, "the bitmap index is damaged: "+message, errs.Hint("drop the artifact and build it again"))
}

func unsupported(op string, version uint16) error {
	return errs.With(errs.Newf(errs.Unsupported, op, "the bitmap index has version %d of its format; this program reads version %d", version, formatVersion),
		errs.Hint("use a newer program, or build the index again"))
}

// keyKind is the kind of the keys of an index with these columns.
func keyKind(columns []predicate.KeyKind) predicate.KeyKind {
	if len(columns) == 1 {
		return columns[0]
	}
	return predicate.Tuples
}
