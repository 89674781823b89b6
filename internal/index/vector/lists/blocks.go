package lists

import (
	"io"

	"github.com/overlakedb/overlake/internal/checksum"
	"github.com/overlakedb/overlake/internal/errs"
)

// heap keeps blocks of bytes in memory, and in a temporary file what does not fit.
type heap struct {
	limit  int64
	spill  func() (SpillFile, error)
	file   SpillFile
	blocks []block
	held   int64
	filed  int64
}

type block struct {
	bytes []byte // nil: in the file
	at    int64
	size  int
	sum   uint32
}

// add keeps a block and gives its number. The bytes belong to the heap from then on when kept is true.
func (h *heap) add(b []byte) (id int, kept bool, err error) {
	const op = "lists.spill"
	id = len(h.blocks)
	if h.held+int64(len(b)) <= h.limit {
		h.held += int64(len(b))
		h.blocks = append(h.blocks, block{bytes: b, size: len(b)})
		return id, true, nil
	}
	if h.file == nil {
		if h.spill == nil {
			return 0, false, errs.New(errs.Exhausted, op, "the vectors do not fit into the memory of the build", errs.Hint("give it more memory, or room for temporary files"))
		}
		if h.file, err = h.spill(); err != nil {
			h.file = nil
			return 0, false, errs.Wrap(errs.KindOf(err), op, err)
		}
	}
	if _, err := h.file.Write(b); err != nil {
		return 0, false, errs.Wrap(errs.KindOf(err), op, err)
	}
	h.blocks = append(h.blocks, block{at: h.filed, size: len(b), sum: checksum.Of(b)})
	h.filed += int64(len(b))
	return id, false, nil
}

// read gives a block, in room when it must be read. It may not be changed.
func (h *heap) read(id int, room *[]byte) ([]byte, error) {
	const op = "lists.spill"
	b := h.blocks[id]
	if b.bytes != nil || b.size == 0 {
		return b.bytes, nil
	}
	*room = grow(*room, b.size)
	if n, err := h.file.ReadAt(*room, b.at); n < b.size {
		if err == nil || err == io.EOF {
			return nil, errs.Newf(errs.Corrupt, op, "a temporary file of %d bytes ends after %d", h.filed, b.at+int64(n))
		}
		return nil, errs.Wrap(errs.KindOf(err), op, err)
	}
	if checksum.Of(*room) != b.sum {
		return nil, errs.New(errs.Corrupt, op, "a temporary file is not as it was written")
	}
	return *room, nil
}

// close gives everything back.
func (h *heap) close() error {
	h.blocks, h.held = nil, 0
	if h.file == nil {
		return nil
	}
	err := h.file.Close()
	h.file = nil
	return errs.Wrap(errs.KindOf(err), "lists.spill", err)
}

// grow is a slice of n elements, the given one where it is large enough. What it holds is anything.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
