package overlay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

const (
	// keepVersions is how many of the newest versions garbage collection leaves as they are, and how far back a reader looks
	// when the newest cannot be read.
	keepVersions = 10
	// trustFor is how long a version is taken for the newest when only the next one was looked for.
	trustFor = time.Minute
	// readAtOnce bounds the chunks that are read at one time.
	readAtOnce = 64
)

// Chain is the versions of one overlay. It is safe for concurrent use, and so are several, also in other processes.
type Chain struct {
	store  objstore.Reader
	prefix string
	now    func() time.Time

	mu    sync.Mutex
	known *Version
	sure  time.Time // when known was last found to be the newest by more than the absence of the next
	doubt bool      // a publish found the chain otherwise than it was thought to be; only a listing can tell
}

// OpenChain gives the chain below a prefix, without a slash at its end, of a store. It reads nothing, and there need be
// nothing yet.
func OpenChain(store objstore.Reader, prefix string) *Chain {
	return &Chain{store: store, prefix: prefix, now: time.Now}
}

func (c *Chain) name(below string) string { return c.prefix + "/" + below }

// Version is what one version says, as far as it can be read. It never changes.
type Version struct {
	Number int64   // 0 when there is none
	Damage []error // what could not be read

	head  head
	etag  string // of the object of this number, whether it could be read or not
	parts []part
	// unread is set when a store did not answer, or when something is of a later format: then publishing could lose what is
	// well.
	unread error
}

// part is a chunk as a version sees it.
type part struct {
	ref   chunkRef
	chunk *chunk
	dead  deadSet
}

func (p *part) live() int { return len(p.chunk.artifacts) - p.dead.n }

// Definitions lists the indexes; the caller may change what it gets.
func (v *Version) Definitions() []Definition {
	out := make([]Definition, len(v.head.Definitions))
	for i, d := range v.head.Definitions {
		out[i] = d.clone()
	}
	return out
}

// Artifact finds the newest artifact of an index that covers a file of this path. Whether it is the same file, and whether
// the fingerprint is still right, is the caller's to compare.
func (v *Version) Artifact(index, path string) (*Artifact, bool) {
	for i := len(v.parts) - 1; i >= 0; i-- {
		p := &v.parts[i]
		best := int32(-1)
		p.chunk.covering(index, path, func(n int32) bool {
			if n > best && !p.dead.has(n) {
				best = n
			}
			return true
		})
		if best >= 0 {
			return &p.chunk.artifacts[best], true
		}
	}
	return nil, false
}

// Artifacts lists all artifacts, oldest first.
func (v *Version) Artifacts() []*Artifact {
	out := make([]*Artifact, 0, v.Len())
	for i := range v.parts {
		p := &v.parts[i]
		for n := range p.chunk.artifacts {
			if !p.dead.has(int32(n)) {
				out = append(out, &p.chunk.artifacts[n])
			}
		}
	}
	return out
}

// Len is the number of artifacts.
func (v *Version) Len() int {
	n := 0
	for i := range v.parts {
		n += v.parts[i].live()
	}
	return n
}

// damaged adds what could not be read. What is missing or corrupt stays so; everything else may be well.
func (v *Version) damaged(err error) {
	v.Damage = append(v.Damage, err)
	if !lost(err) && v.unread == nil {
		v.unread = err
	}
}

// lost reports whether an object can never be read again.
func lost(err error) bool {
	return errs.Is(err, errs.NotFound) || errs.Is(err, errs.Corrupt)
}

// Load gives the newest version. A version that was loaded before costs one look for the next one; of a later version only
// the chunks are read that were not seen before. What cannot be read is left out and reported in Damage, and so is a store
// that does not answer: the only error is Canceled.
func (c *Chain) Load(ctx context.Context) (*Version, error) {
	c.mu.Lock()
	known, sure := c.known, c.sure
	c.mu.Unlock()
	v, err := c.load(ctx, known, sure)
	if err == nil {
		return v, nil
	}
	if ctx.Err() != nil || errs.Is(err, errs.Canceled) {
		return nil, errs.Wrap(errs.Canceled, "overlay.load", err, errs.On(c.prefix))
	}
	// Nobody knows which version is the newest. An old one is as right as a new one, only less complete.
	v = &Version{}
	if known != nil {
		*v = *known
		v.Damage = append([]error(nil), known.Damage...)
	}
	v.damaged(err)
	if v.unread == nil {
		v.unread = err
	}
	return v, nil
}

func (c *Chain) load(ctx context.Context, known *Version, sure time.Time) (*Version, error) {
	began := c.now()
	hint := int64(-1) // not read yet
	if known == nil {
		var v *Version
		var err error
		if v, hint, err = c.loadCold(ctx); err != nil {
			return nil, err
		}
		if v != nil {
			c.remember(v, began)
			return v, nil
		}
	}
	for try := 1; ; try++ {
		n, same, err := c.newest(ctx, known, sure, hint)
		if err != nil {
			return nil, err
		}
		if same && known.unread == nil {
			return known, nil
		}
		v, err := c.read(ctx, n, known)
		if err != nil {
			return nil, err
		}
		// What is missing may have been collected, because there are many versions more by now.
		if len(v.Damage) > 0 && try < 3 {
			if now, _, err := c.newest(ctx, nil, time.Time{}, -1); err == nil && now != n {
				continue
			}
		}
		c.remember(v, began)
		return v, nil
	}
}

// remember keeps a version that was the newest at a time.
func (c *Chain) remember(v *Version, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || v.Number > c.known.Number || !at.Before(c.sure) {
		c.known, c.sure = v, at
	}
	c.doubt = false
}

// forget makes the next Load list the versions.
func (c *Chain) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sure, c.doubt = time.Time{}, true
}

// newest finds the number of the newest version, and whether it is the known one. Usually one look for the next version
// tells. From time to time, and whenever there is a next one, it is also made sure that the known one is still there: a
// chain that went on for long has removed it, and then the number after it says nothing. The hint is as for start.
func (c *Chain) newest(ctx context.Context, known *Version, sure time.Time, hint int64) (n int64, same bool, err error) {
	if known != nil && !sure.IsZero() {
		if n, err = c.probe(ctx, known.Number); err != nil {
			return 0, false, err
		}
		if age := c.now().Sub(sure); n == known.Number && age >= 0 && age < trustFor {
			return n, true, nil
		}
		if known.Number > 0 && n > known.Number && c.still(ctx, known) {
			return n, false, nil
		}
	}
	start, err := c.start(ctx, hint)
	if err != nil {
		return 0, false, err
	}
	if n, err = c.probe(ctx, start); err != nil {
		return 0, false, err
	}
	if known == nil || n != known.Number {
		return n, false, nil
	}
	if n > 0 && !c.still(ctx, known) {
		return n, false, nil
	}
	c.mu.Lock()
	if c.known == known {
		c.sure = c.now()
	}
	c.mu.Unlock()
	return n, true, nil
}

// probe gives the last of the versions that follow one without a gap.
func (c *Chain) probe(ctx context.Context, from int64) (int64, error) {
	for n := from; ; n++ {
		if _, err := c.store.Stat(ctx, c.name(versionName(n+1))); errs.Is(err, errs.NotFound) {
			return n, nil
		} else if err != nil {
			return 0, err
		}
	}
}

// still reports whether the object of a version is there as it was. When the store does not answer, it is taken to be.
func (c *Chain) still(ctx context.Context, v *Version) bool {
	info, err := c.store.Stat(ctx, c.name(versionName(v.Number)))
	return err == nil && info.ETag == v.etag || err != nil && !errs.Is(err, errs.NotFound)
}

// The hint is the number of a version, and a line for each of the names of its chunks, unless they are many.
const (
	hintChunks = 64
	hintSize   = 16 << 10 // bytes
	aheadMost  = 8 << 20  // bytes of a chunk that is read because the hint names it
)

func hintOf(h *head) []byte {
	out := strconv.AppendInt(nil, h.Version, 10)
	if len(h.Chunks) <= hintChunks {
		for i := range h.Chunks {
			out = append(append(out, '\n'), h.Chunks[i].Name...)
		}
	}
	if len(out) > hintSize {
		out = strconv.AppendInt(nil, h.Version, 10)
	}
	return out
}

// hint reads the hint: a version, 0 when there is no hint that makes sense, and names of chunks, which may be anything.
func (c *Chain) hint(ctx context.Context) (n int64, chunks []string) {
	data, _, err := objstore.ReadAll(ctx, c.store, c.name(hintName), hintSize)
	if err != nil {
		return 0, nil
	}
	return parseHint(data)
}

func parseHint(data []byte) (n int64, chunks []string) {
	lines := strings.Split(string(data), "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(lines[0]), 10, 64)
	if err != nil || n <= 0 {
		return 0, nil
	}
	return n, lines[1:]
}

// loadCold gives the newest version in two rounds, by a hint that is right: the hint; then the head that it names, the look
// for the next one, and the chunks that it names, all at once. It gives nil when there is more to it, and the number that the
// hint names, as for start.
func (c *Chain) loadCold(ctx context.Context) (v *Version, n int64, err error) {
	c.mu.Lock()
	doubt := c.doubt
	c.mu.Unlock()
	if doubt {
		return nil, -1, nil
	}
	n, names := c.hint(ctx)
	if n == 0 {
		return nil, 0, nil
	}
	v = &Version{Number: n}
	var h *head
	var last int64
	var failed, unknown error
	var g errgroup.Group
	g.Go(func() error {
		h, v.etag, failed = c.readHead(ctx, n)
		return nil
	})
	g.Go(func() error {
		last, unknown = c.probe(ctx, n)
		return nil
	})
	var mu sync.Mutex
	ahead := map[string][]byte{}
	for _, name := range names[:min(len(names), hintChunks)] {
		if !strings.HasPrefix(name, chunksDir) || objstore.CheckName(name) != nil {
			continue
		}
		g.Go(func() error {
			if data, _, err := objstore.ReadAll(ctx, c.store, c.name(name), aheadMost); err == nil {
				mu.Lock()
				ahead[name] = data
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // failures are noted
	if failed != nil || unknown != nil || last != n {
		return nil, n, nil
	}
	v.head = *h
	if err := c.readChunks(ctx, v, nil, ahead); err != nil || len(v.Damage) > 0 {
		return nil, n, err
	}
	return v, n, nil
}

// start is a version that exists, from which the newest can be found: by the hint when it is right, else the last of a
// listing. 0 means that there is none. The number that the hint names is n, 0 for none, below 0 when it was not read yet.
func (c *Chain) start(ctx context.Context, n int64) (int64, error) {
	c.mu.Lock()
	doubt := c.doubt
	c.mu.Unlock()
	if doubt {
		return c.last(ctx)
	}
	if n < 0 {
		n, _ = c.hint(ctx)
	}
	if n > 0 {
		if _, err := c.store.Stat(ctx, c.name(versionName(n))); err == nil {
			return n, nil
		}
	}
	return c.last(ctx)
}

// last is the highest number of a listing.
func (c *Chain) last(ctx context.Context) (int64, error) {
	n := int64(0)
	for info, err := range c.store.List(ctx, c.name("v")) {
		if err != nil {
			return 0, err
		}
		n = max(n, versionOf(strings.TrimPrefix(info.Name, c.prefix+"/")))
	}
	return n, nil
}

// read reads version n, or of the versions before it the newest that can be read. The result is version n all the same: what
// is published on it comes after n.
func (c *Chain) read(ctx context.Context, n int64, known *Version) (*Version, error) {
	v := &Version{Number: n}
	for m := n; m > 0 && m > n-keepVersions; m-- {
		h, etag, err := c.readHead(ctx, m)
		if m == n {
			v.etag = etag
		}
		if err == nil {
			v.head = *h
			break
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if m == n || !errs.Is(err, errs.NotFound) {
			v.damaged(err)
		}
	}
	return v, c.readChunks(ctx, v, known, nil)
}

func (c *Chain) readHead(ctx context.Context, n int64) (h *head, etag string, err error) {
	name := c.name(versionName(n))
	data, info, err := objstore.ReadAll(ctx, c.store, name, maxHead)
	if err != nil {
		return nil, "", asCorrupt(err)
	}
	if h, err = decodeHead(data, n); err != nil {
		return nil, info.ETag, unreadable(name, err)
	}
	return h, info.ETag, nil
}

// asCorrupt makes an object that is larger than it may be a corrupt one.
func asCorrupt(err error) error {
	var e *errs.Error
	if errors.As(err, &e) && e.Kind == errs.Exhausted {
		return errs.New(errs.Corrupt, "overlay.load", e.Err.Error(), errs.On(e.Object))
	}
	return err
}

// unreadable classifies what a decoder says.
func unreadable(name string, err error) error {
	if errors.Is(err, errHeadFormat) || errors.Is(err, errChunkFormat) {
		return errs.Wrap(errs.Unsupported, "overlay.load", err, errs.On(name), errs.Hint("a newer version of Overlake wrote it"))
	}
	return errs.Wrap(errs.Corrupt, "overlay.load", fmt.Errorf("a damaged part of the overlay's manifest: %w", err), errs.On(name),
		errs.Hint("build the indexes again to replace what is lost"))
}

// readChunks reads the chunks of a version, except those that a known one has, or whose bytes were read ahead, by name.
func (c *Chain) readChunks(ctx context.Context, v *Version, known *Version, ahead map[string][]byte) error {
	have := map[chunkKey]*chunk{}
	if known != nil {
		for i := range known.parts {
			have[known.parts[i].ref.key()] = known.parts[i].chunk
		}
	}
	refs := v.head.Chunks
	parts := make([]part, len(refs))
	failed := make([]error, len(refs))
	var g errgroup.Group
	g.SetLimit(readAtOnce)
	for i := range refs {
		parts[i] = part{ref: refs[i], chunk: have[refs[i].key()]}
		if data, ok := ahead[refs[i].Name]; ok {
			parts[i].chunk, _ = c.decode(data, &refs[i]) // what is damaged is read once more
		}
		if parts[i].chunk == nil {
			g.Go(func() error {
				parts[i].chunk, failed[i] = c.readChunk(ctx, &refs[i])
				return nil
			})
		}
	}
	_ = g.Wait() // failures are in failed
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range parts {
		if failed[i] != nil {
			v.damaged(failed[i])
			continue
		}
		parts[i].dead = deadRanges(refs[i].Artifacts, refs[i].Dead)
		v.parts = append(v.parts, parts[i])
	}
	return nil
}

// chunkKey is what makes two references be of the same bytes.
type chunkKey struct {
	name string
	size int64
	sum  string
}

func (r *chunkRef) key() chunkKey { return chunkKey{r.Name, r.Size, r.CRC32C} }

// readChunk reads a chunk that a head names; one that looks damaged is read once more.
func (c *Chain) readChunk(ctx context.Context, ref *chunkRef) (*chunk, error) {
	name := c.name(ref.Name)
	for try := 1; ; try++ {
		data, _, err := objstore.ReadAll(ctx, c.store, name, ref.Size)
		if err != nil {
			return nil, asCorrupt(err)
		}
		out, err := c.decode(data, ref)
		if err == nil {
			return out, nil
		}
		if try == 2 {
			return nil, unreadable(name, err)
		}
	}
}

func (c *Chain) decode(data []byte, ref *chunkRef) (*chunk, error) {
	if int64(len(data)) != ref.Size {
		return nil, fmt.Errorf("it has %d bytes, its version says %d", len(data), ref.Size)
	}
	if sum := manifestSum(data); sum != ref.CRC32C {
		return nil, fmt.Errorf("it fails its checksum: %s, its version says %.20q", sum, ref.CRC32C)
	}
	out, err := decodeChunk(c.prefix, data)
	if err != nil {
		return nil, err
	}
	if len(out.artifacts) != ref.Artifacts {
		return nil, fmt.Errorf("it has %d artifacts, its version says %d", len(out.artifacts), ref.Artifacts)
	}
	return out, nil
}
