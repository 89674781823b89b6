package segment

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bm25/posting"
)

// A run in a spill file is, for each field, its terms in order: uvarint length of the term and one, its bytes, uvarint
// number of postings, and of each posting uvarint gap of the row, uvarint frequency, and where there are positions uvarint
// differences of them. A 0 ends the field.

// spillRuns are runs in one file.
type spillRuns struct {
	open func() (SpillFile, error)
	file SpillFile
	at   int64
	runs [][]spillPart // by run, then field
}

type spillPart struct {
	from, to int64
	tokens   int64
}

func (s *spillRuns) any() bool { return len(s.runs) > 0 }

// sum is how many tokens of a field have been written.
func (s *spillRuns) sum(field int) (n int64) {
	for _, r := range s.runs {
		n += r[field].tokens
	}
	return n
}

func (s *spillRuns) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.runs = nil, nil
	return spillError(f.Close())
}

// spillAll writes what the logs hold as a run.
func (b *Builder) spillAll() error {
	s := &b.spill
	if s.file == nil {
		f, err := openSpill(s.open)
		if err != nil {
			return err
		}
		s.file = f
	}
	var run []spillPart
	var buf, list []byte
	write := func() error {
		n, err := s.file.Write(buf)
		s.at += int64(n)
		buf = buf[:0]
		return spillError(err)
	}
	for i := range b.fields {
		f := &b.fields[i]
		part := spillPart{from: s.at, tokens: f.tokens}
		var term []byte
		docs, last := uint64(0), uint32(0)
		err := f.each(context.Background(), func(t []byte) error {
			term, docs, last, list = t, 0, 0, list[:0]
			return nil
		}, func(row, freq uint32, positions []uint32) error {
			list = binary.AppendUvarint(list, uint64(row-last))
			list = binary.AppendUvarint(list, uint64(freq))
			before := uint32(0)
			for _, p := range positions {
				list = binary.AppendUvarint(list, uint64(p-before))
				before = p
			}
			last = row
			docs++
			return nil
		}, func() error {
			buf = binary.AppendUvarint(buf, uint64(len(term))+1)
			buf = append(buf, term...)
			buf = binary.AppendUvarint(buf, docs)
			buf = append(buf, list...)
			if len(buf) < 64<<10 {
				return nil
			}
			return write()
		})
		if err == nil {
			buf = append(buf, 0)
			err = write()
		}
		if err != nil {
			return err
		}
		part.to = s.at
		run = append(run, part)
		f.log, f.terms = nil, newTerms() // made anew: the next run may be of other fields
	}
	s.runs = append(s.runs, run)
	return nil
}

// merge gives the terms of a field of all runs to a writer.
func (s *spillRuns) merge(ctx context.Context, field int, w *writer, memory int64) error {
	size := max(min(memory/int64(len(s.runs)), 64<<10), 1<<10)
	streams := make([]stream, len(s.runs))
	for i, r := range s.runs {
		streams[i] = &spillStream{file: s.file, at: r[field].from, end: r[field].to, buf: make([]byte, size), positions: w.head.Fields[field].Positions}
	}
	return mergeStreams(ctx, streams, true, w)
}

// spillStream reads a field of a run.
type spillStream struct {
	file      io.ReaderAt
	at, end   int64 // in the file, behind what is in buf
	buf       []byte
	from, to  int // in buf
	positions bool

	name []byte
	left uint64 // postings
	row  uint32
	list []uint32
}

func (s *spillStream) fill() error {
	n := copy(s.buf, s.buf[s.from:s.to])
	s.from, s.to = 0, n
	more := min(int64(len(s.buf)-n), s.end-s.at)
	if more <= 0 {
		return spillError(io.ErrUnexpectedEOF)
	}
	got, err := s.file.ReadAt(s.buf[n:n+int(more)], s.at)
	if got < int(more) {
		return spillError(firstError(err, io.ErrUnexpectedEOF))
	}
	s.at += more
	s.to += got
	return nil
}

func (s *spillStream) uvarint() (uint64, error) {
	if s.to-s.from < binary.MaxVarintLen64 && s.at < s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	v, n := binary.Uvarint(s.buf[s.from:s.to])
	if n <= 0 {
		return 0, spillError(errs.New(errs.Corrupt, "segment.spill", "a spill file is not what was written"))
	}
	s.from += n
	return v, nil
}

func (s *spillStream) next() ([]byte, error) {
	n, err := s.uvarint()
	if err != nil || n == 0 {
		return nil, err
	}
	s.name = s.name[:0]
	for left := int(n - 1); left > 0; {
		if s.from == s.to {
			if err := s.fill(); err != nil {
				return nil, err
			}
		}
		k := min(left, s.to-s.from)
		s.name = append(s.name, s.buf[s.from:s.from+k]...)
		s.from += k
		left -= k
	}
	s.row = 0
	s.left, err = s.uvarint()
	return s.name, err
}

func (s *spillStream) posting() (row, freq uint32, positions []uint32, err error) {
	if s.left == 0 {
		return posting.End, 0, nil, nil
	}
	s.left--
	gap, err := s.uvarint()
	if err != nil {
		return 0, 0, nil, err
	}
	f, err := s.uvarint()
	if err != nil {
		return 0, 0, nil, err
	}
	s.row += uint32(gap)
	if s.list = s.list[:0]; s.positions {
		p := uint32(0)
		for range f {
			d, err := s.uvarint()
			if err != nil {
				return 0, 0, nil, err
			}
			p += uint32(d)
			s.list = append(s.list, p)
		}
	}
	return s.row, uint32(f), s.list, nil
}
