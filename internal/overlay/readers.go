package overlay

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/overlakedb/overlake/internal/cache"
	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/bitmap"
	"github.com/overlakedb/overlake/internal/index/bloom"
	"github.com/overlakedb/overlake/internal/index/bm25/segment"
	"github.com/overlakedb/overlake/internal/index/vector"
	"github.com/overlakedb/overlake/internal/objstore"
)

// readers keeps opened artifacts, bounded in bytes, and remembers the damaged ones. Of artifacts in stores that cannot map, it
// keeps in the same bytes what was read of them since they were opened, such as lists of vectors: a store is asked once for
// what fits.
type readers struct {
	bundles *bundles
	open    *cache.LRU
	limit   int64

	mu    sync.Mutex
	broke map[string]bool
}

// maxBroke bounds what is remembered of damage; what is forgotten is found out again.
const maxBroke = 100_000

func newReaders(store objstore.Reader, limit int64) *readers {
	return &readers{bundles: &bundles{store: store, open: map[string]*openBundle{}}, open: cache.NewWhole(limit), limit: limit, broke: map[string]bool{}}
}

func artifactKey(a *Artifact) string { return fmt.Sprintf("%s %d %s", a.Bundle, a.Offset, a.CRC) }

func (c *readers) isBad(a *Artifact) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broke[artifactKey(a)]
}

func (c *readers) bad(a *Artifact) {
	k := artifactKey(a)
	c.mu.Lock()
	if len(c.broke) < maxBroke {
		c.broke[k] = true
	}
	c.mu.Unlock()
	c.open.Delete(k)
}

// opened gives the reader of an artifact if it is at hand.
func (c *readers) opened(a *Artifact) *reader {
	r, _ := c.open.Get(artifactKey(a))
	out, _ := r.(*reader)
	return out
}

// reader gives the reader of an artifact; nil for one that is known to be damaged.
func (c *readers) reader(ctx context.Context, a *Artifact) (*reader, error) {
	if c.isBad(a) {
		return nil, nil
	}
	r, err := cache.Or(c.open, artifactKey(a), func() (*reader, int64, error) { return c.read(ctx, a) })
	if err != nil {
		return nil, errs.With(err, errs.On(a.Bundle))
	}
	return r, nil
}

func (c *readers) read(ctx context.Context, a *Artifact) (*reader, int64, error) {
	r := &reader{rows: a.Rows}
	src := artifactBytes{b: c.bundles, a: a, c: c, opened: new(atomic.Bool)}
	var size, rows int64
	var sum uint32
	var err error
	switch a.Type {
	case bitmap.BlobType:
		if r.bitmap, err = bitmap.Open(ctx, src, a.Length); err == nil {
			size, rows, sum = r.bitmap.Memory(), r.bitmap.Stats().Rows, r.bitmap.Sum()
		}
	case bloom.BlobType:
		if r.bloom, err = bloom.Open(ctx, src, a.Length); err == nil {
			size, rows, sum = r.bloom.Memory(), r.bloom.Stats().Rows, r.bloom.Sum()
		}
	case vector.BlobType:
		if r.vector, err = vector.Open(ctx, src, a.Length); err == nil {
			size, rows, sum = r.vector.Memory(), r.vector.Stats().Rows, r.vector.Sum()
		}
	case segment.BlobType:
		if r.text, err = segment.Open(ctx, src, a.Length, segment.OpenOptions{}); err == nil {
			size, rows, sum = r.text.Memory(), int64(r.text.Rows()), r.text.Sum()
		}
	default:
		err = errs.New(errs.Unsupported, "overlay.open", "the artifact is of a kind that this version does not know", errs.On(a.Type))
	}
	if err == nil && rows != a.Rows {
		err = errs.Newf(errs.Corrupt, "overlay.open", "the artifact has %d rows, the manifest says %d", rows, a.Rows)
	}
	// An artifact that is well may still be another one, when bundles were exchanged.
	if got := fmt.Sprintf("%08x", sum); err == nil && got != a.CRC {
		err = errs.Newf(errs.Corrupt, "overlay.open", "the artifact has the checksum %s, the manifest says %s", got, a.CRC)
	}
	src.opened.Store(true)
	return r, size + 1024, err
}

// artifactBytes reads an artifact inside its bundle.
type artifactBytes struct {
	b      *bundles
	a      *Artifact
	c      *readers
	opened *atomic.Bool // what is read by now the reader itself holds
}

// rangeShare is the part of what readers may hold that a range of an artifact takes at most.
const rangeShare = 1.0 / 16

// rangeKey is what a range is kept by; "" for one that is not.
func (s artifactBytes) rangeKey(off int64, n int) string {
	if !s.opened.Load() || float64(n) > rangeShare*float64(s.c.limit) {
		return ""
	}
	return fmt.Sprintf("%s %d %d", artifactKey(s.a), off, n)
}

func (s artifactBytes) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off > s.a.Length-int64(len(p)) {
		return 0, errs.New(errs.Corrupt, "overlay.read", "an artifact points outside of itself", errs.On(s.a.Bundle))
	}
	key := s.rangeKey(off, len(p))
	if key != "" {
		if b, ok := s.c.open.Get(key); ok {
			return copy(p, b.([]byte)), nil
		}
	}
	n, maps, err := s.read(ctx, p, off)
	if key != "" && !maps && n == len(p) && err == nil {
		s.c.open.Put(key, slices.Clone(p), int64(n))
	}
	return n, err
}

// read asks the store; maps tells that its objects could be mapped, so that the system keeps what is read of them.
func (s artifactBytes) read(ctx context.Context, p []byte, off int64) (n int, maps bool, err error) {
	if g, ok := s.b.store.(objstore.Getter); ok {
		data, _, err := g.Get(ctx, s.a.Bundle, s.a.Offset+off, int64(len(p)))
		if n := copy(p, data); err != nil || n == len(p) {
			return n, false, err
		}
		return len(data), false, io.EOF
	}
	o, err := s.b.acquire(ctx, s.a.Bundle)
	if err != nil {
		return 0, false, err
	}
	defer s.b.release(o)
	if s.a.Offset < 0 || s.a.Offset > o.object.Size()-s.a.Length {
		return 0, false, errs.New(errs.Corrupt, "overlay.read", "the bundle is shorter than its artifacts", errs.On(s.a.Bundle))
	}
	_, maps = o.object.(objstore.Mapper)
	n, err = objstore.ReadAt(ctx, o.object, p, s.a.Offset+off)
	return n, maps, err
}

// Map maps bytes of the artifact; Unsupported when its store cannot.
func (s artifactBytes) Map(ctx context.Context, off, length int64) (b []byte, unmap func(), err error) {
	if off < 0 || off > s.a.Length-length {
		return nil, nil, errs.New(errs.Corrupt, "overlay.read", "an artifact points outside of itself", errs.On(s.a.Bundle))
	}
	if _, far := s.b.store.(objstore.Getter); far { // to open an object there takes a round trip
		return nil, nil, errs.New(errs.Unsupported, "overlay.read", "the store does not map")
	}
	o, err := s.b.acquire(ctx, s.a.Bundle)
	if err != nil {
		return nil, nil, err
	}
	defer s.b.release(o)
	m, ok := o.object.(objstore.Mapper)
	if !ok {
		return nil, nil, errs.New(errs.Unsupported, "overlay.read", "the store does not map")
	}
	if s.a.Offset < 0 || s.a.Offset > o.object.Size()-s.a.Length {
		return nil, nil, errs.New(errs.Corrupt, "overlay.read", "the bundle is shorter than its artifacts", errs.On(s.a.Bundle))
	}
	return m.Map(s.a.Offset+off, length)
}

// bundles keeps bundles open, a bounded number of them.
type bundles struct {
	store objstore.Reader

	mu   sync.Mutex
	open map[string]*openBundle
	last int64
}

type openBundle struct {
	object objstore.Object
	refs   int
	used   int64 // when it was asked for last, in calls
	gone   bool  // no longer in the map: who releases it last closes it
}

// maxBundles bounds the bundles that stay open while nobody reads them.
const maxBundles = 128

func (b *bundles) acquire(ctx context.Context, name string) (*openBundle, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	if o, ok := b.open[name]; ok {
		o.refs++
		o.used = b.last
		return o, nil
	}
	b.mu.Unlock()
	object, err := b.store.Open(ctx, name)
	b.mu.Lock()
	if err != nil {
		return nil, err
	}
	if o, ok := b.open[name]; ok { // another was faster
		object.Close()
		o.refs++
		o.used = b.last
		return o, nil
	}
	o := &openBundle{object: object, refs: 1, used: b.last}
	b.open[name] = o
	for len(b.open) > maxBundles {
		oldest := ""
		for n, x := range b.open {
			if x != o && (oldest == "" || x.used < b.open[oldest].used) {
				oldest = n
			}
		}
		b.forget(oldest)
	}
	return o, nil
}

// forget takes a bundle out of the map.
func (b *bundles) forget(name string) {
	o := b.open[name]
	delete(b.open, name)
	o.gone = true
	if o.refs == 0 {
		o.object.Close()
	}
}

func (b *bundles) release(o *openBundle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.refs--; o.refs == 0 && o.gone {
		o.object.Close()
	}
}

// close closes what is open. Readers in use go on.
func (b *bundles) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.open {
		b.forget(name)
	}
}
