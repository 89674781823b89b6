package segment

import (
	"io"

	"github.com/overlakedb/overlake/internal/errs"
)

// spool takes bytes that are written elsewhere later: in memory up to a limit, then in a spill file. After drain it is empty
// and goes on.
type spool struct {
	open  func() (SpillFile, error)
	limit int
	buf   []byte
	file  SpillFile
	size  int64 // in the file
}

func spillError(err error) error {
	return errs.Wrap(errs.KindOf(err), "segment.spill", err)
}

func openSpill(open func() (SpillFile, error)) (SpillFile, error) {
	if open == nil {
		return nil, errs.New(errs.Exhausted, "segment.build", "the index does not fit into its memory, and there are no spill files", errs.Hint("give index builds more memory"))
	}
	f, err := open()
	return f, spillError(err)
}

func (s *spool) write(b []byte) error {
	if len(s.buf)+len(b) > s.limit && len(s.buf) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.buf = append(s.buf, b...)
	return nil
}

func (s *spool) flush() (err error) {
	if s.file == nil {
		if s.file, err = openSpill(s.open); err != nil {
			return err
		}
	}
	n, err := s.file.Write(s.buf)
	if err != nil {
		return spillError(err)
	}
	s.size += int64(n)
	s.buf = s.buf[:0]
	return nil
}

// drain gives all bytes to to and forgets them.
func (s *spool) drain(to func([]byte) error) error {
	if s.file != nil {
		chunk := make([]byte, min(1<<20, s.size))
		for at := int64(0); at < s.size; {
			part := chunk[:min(int64(len(chunk)), s.size-at)]
			if n, err := s.file.ReadAt(part, at); n < len(part) {
				return spillError(firstError(err, io.ErrUnexpectedEOF))
			}
			if err := to(part); err != nil {
				return err
			}
			at += int64(len(part))
		}
	}
	err := to(s.buf)
	s.buf = s.buf[:0]
	if cerr := s.close(); err == nil {
		err = cerr
	}
	return err
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.size = nil, 0
	return spillError(err)
}

func firstError(a, b error) error {
	if a != nil && a != io.EOF {
		return a
	}
	return b
}
