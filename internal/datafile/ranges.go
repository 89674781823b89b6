package datafile

import (
	"cmp"
	"io"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
)

// A span is a range of bytes of a file, end excluded.
type span struct{ from, to int64 }

const (
	// spanGap is the distance up to which two ranges are read as one: on object storage a request costs more than 64 KiB.
	spanGap = 64 << 10
	// nearGap is that distance for a reader that is Near: there the bytes cost more than the request.
	nearGap = 4 << 10
	// nearReads is how many ranges it takes there to be worth a goroutine.
	nearReads = 4
	// spanReads is how many ranges are read at once.
	spanReads = 16
	// spanMemory bounds what is fetched ahead; a caller that needs more reads the rest as it goes.
	spanMemory = 256 << 20
)

// near is implemented by readers that may answer at once, from memory or from a disk of this machine.
type near interface{ Near() bool }

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

// prefetch reads spans in parallel, in one round, so that what follows runs from memory: that of r, until it is freed. Spans
// beyond spanMemory are left to be read when they are needed.
func (s *source) prefetch(spans []span, r *room) error {
	gap, each := int64(spanGap), 1
	if o, ok := s.f.src.(near); ok && o.Near() {
		gap, each = nearGap, nearReads
	}
	spans = join(spans, gap)
	total := int64(0)
	for i, sp := range spans {
		if total+sp.to-sp.from > spanMemory {
			spans = spans[:i]
			break
		}
		total += sp.to - sp.from
	}
	b := r.of(int(total), nil) // bounded by spanMemory, whatever the limit of the batch
	got := make(ranges, len(spans))
	for i, sp := range spans {
		n := sp.to - sp.from
		got[i], b = loaded{span: sp, b: b[:n:n]}, b[n:]
	}
	// Whoever asks reads too, so that a store that answers at once needs no help.
	var next atomic.Int64
	read := func() error {
		for i := int(next.Add(1)) - 1; i < len(got); i = int(next.Add(1)) - 1 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			n, err := s.f.src.ReadAt(got[i].b, got[i].from)
			if n < len(got[i].b) {
				if err == nil || err == io.EOF {
					return corruptf("datafile.read", "the file ends at %d, before its pages do", got[i].from+int64(n))
				}
				return wrap(errs.Unavailable, "datafile.read", err)
			}
		}
		return nil
	}
	var g errgroup.Group
	for range min(spanReads, (len(got)+each-1)/each) - 1 {
		g.Go(read)
	}
	err := read()
	if others := g.Wait(); err == nil {
		err = others
	}
	if err != nil {
		return wrap(errs.Unavailable, "datafile.read", err)
	}
	s.ranges = got
	return nil
}
