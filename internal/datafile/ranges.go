package datafile

import (
	"cmp"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
)

// A span is a range of bytes of a file, end excluded.
type span struct{ from, to int64 }

const (
	// spanGap is the distance up to which two ranges are read as one: on object storage a request costs more than 64 KiB.
	spanGap = 64 << 10
	// spanReads is how many ranges are read at once.
	spanReads = 16
	// spanMemory bounds what is fetched ahead; a caller that needs more reads the rest as it goes.
	spanMemory = 256 << 20
)

// ranges are parts of a file in memory, sorted and apart from each other.
type ranges []loaded

type loaded struct {
	span
	b []byte
}

// view gives the bytes of a span that lies within one range.
func (r ranges) view(sp span) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(r, sp.from, func(l loaded, off int64) int {
		switch {
		case l.to <= off:
			return -1
		case l.from > off:
			return 1
		}
		return 0
	})
	if !ok || sp.to > r[i].to {
		return nil, false
	}
	return r[i].b[sp.from-r[i].from : sp.to-r[i].from], true
}

// readAt serves a read that lies within one range.
func (r ranges) readAt(p []byte, off int64) (int, bool) {
	b, ok := r.view(span{off, off + int64(len(p))})
	return copy(p, b), ok
}

// join sorts spans and joins those that touch or nearly do.
func join(spans []span, gap int64) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out []span
	for _, s := range spans {
		if s.to <= s.from {
			continue
		}
		if n := len(out); n > 0 && s.from <= out[n-1].to+gap {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// prefetch reads spans in parallel, in one round, so that what follows runs from memory. Spans beyond spanMemory are left to
// be read when they are needed.
func (s *source) prefetch(spans []span) error {
	spans = join(spans, spanGap)
	var total int64
	for i, sp := range spans {
		if total += sp.to - sp.from; total > spanMemory {
			spans = spans[:i]
			break
		}
	}
	got := make(ranges, len(spans))
	var g errgroup.Group
	g.SetLimit(spanReads)
	for i, sp := range spans {
		g.Go(func() error {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			b := make([]byte, sp.to-sp.from)
			n, err := s.f.src.ReadAt(b, sp.from)
			if n < len(b) {
				if err == nil || err == io.EOF {
					return corruptf("datafile.read", "the file ends at %d, before its pages do", sp.from+int64(n))
				}
				return wrap(errs.Unavailable, "datafile.read", err)
			}
			got[i] = loaded{span: sp, b: b}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return wrap(errs.Unavailable, "datafile.read", err)
	}
	s.ranges = got
	return nil
}
