package overlay

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// Edit is what one version changes against the one before.
type Edit struct {
	AddDefinitions    []Definition
	ChangeDefinitions []Definition // found by ID
	DropDefinitions   []string     // by ID, with all their artifacts

	// AddArtifacts cover their files from now on. An older artifact of the same index stays as long as it covers a file that
	// no newer one covers.
	AddArtifacts []Artifact
	// DropArtifacts takes artifacts as a Version gave them. One that is not there any more is no error.
	DropArtifacts []*Artifact
}

func (e *Edit) empty() bool {
	return len(e.AddDefinitions)+len(e.ChangeDefinitions)+len(e.DropDefinitions)+len(e.AddArtifacts)+len(e.DropArtifacts) == 0
}

const (
	updateTries = 30
	updatePause = 64 * time.Millisecond
	swapTime    = time.Minute // for the swap of the pointer, which does not end with the caller's context

	// Chunks of like size are merged when there are so many of them; sizes are alike when they are within the same power of
	// 8 times 4 KiB. So an artifact is written anew once for each such power between its first chunk and the largest.
	mergeAt   = 8
	tierUnit  = 4 << 10
	mergeMost = 32 << 20 // bytes of a chunk above which it is left alone
	// A chunk is written anew when a quarter of its artifacts are dead.
	deadShare = 4
)

// Update makes an edit for the newest version and publishes it; who loses a race makes it again for the version that won. An
// empty edit publishes nothing, unless there is damage to leave out.
func (c *Chain) Update(ctx context.Context, store objstore.Store, plan func(*Version) (Edit, error)) (*Version, error) {
	for try := 1; ; try++ {
		v, err := c.Load(ctx)
		if err != nil {
			return nil, err
		}
		e, err := plan(v)
		if err != nil {
			return nil, err
		}
		next, err := c.Publish(ctx, store, v, e)
		if !errs.Is(err, errs.Conflict) || try == updateTries {
			return next, err
		}
		select {
		case <-ctx.Done():
			return nil, errs.Wrap(errs.Canceled, "overlay.publish", ctx.Err(), errs.On(c.prefix))
		case <-time.After(time.Duration(rand.Int64N(int64(updatePause)))):
		}
	}
}

// Publish makes an edit the version after base. It is Conflict when there is one already, and Unavailable when the store did
// not say whether it was written. A base that a store failed to read in part cannot be built upon.
func (c *Chain) Publish(ctx context.Context, store objstore.Store, base *Version, e Edit) (*Version, error) {
	const op = "overlay.publish"
	if base.unread != nil {
		return nil, errs.Wrap(errs.KindOf(base.unread), op, fmt.Errorf("the newest version cannot be read whole: %w", base.unread), errs.On(c.prefix))
	}
	if e.empty() && len(base.Damage) == 0 {
		return base, nil
	}
	if err := c.checkBundles(ctx, e.AddArtifacts); err != nil {
		return nil, err
	}
	d, err := c.draft(base, e)
	if err != nil {
		return nil, err
	}
	next, written, err := c.writeChunks(ctx, store, base.Number+1, d)
	if err == nil {
		err = c.publish(ctx, store, base, next)
	}
	if err != nil {
		if !errs.Is(err, errs.Unavailable) { // then the version may be there and name them
			for _, name := range written {
				_ = store.Delete(context.WithoutCancel(ctx), name) // else they are garbage, which is collected
			}
		}
		if errs.Is(err, errs.Conflict) {
			c.forget()
		}
		return nil, err
	}
	c.remember(next, c.now())
	return next, nil
}

// checkBundles looks whether artifacts make sense and what they name is there.
func (c *Chain) checkBundles(ctx context.Context, artifacts []Artifact) error {
	ends := map[string]int64{}
	type place struct {
		index, bundle string
		offset        int64
	}
	places := make(map[place]bool, len(artifacts))
	for i := range artifacts {
		a := &artifacts[i]
		if err := checkBundle(c.prefix, a.Bundle); err != nil {
			return err
		}
		if err := a.check(); err != nil {
			return err
		}
		if places[place{a.Index, a.Bundle, a.Offset}] {
			return errs.Newf(errs.Invalid, "overlay.publish", "two artifacts of one index lie at %d in %s", a.Offset, a.Bundle)
		}
		places[place{a.Index, a.Bundle, a.Offset}] = true
		ends[a.Bundle] = max(ends[a.Bundle], a.Offset+a.Length)
	}
	for name, end := range ends {
		info, err := c.store.Stat(ctx, name)
		if err != nil {
			return errs.Wrap(errs.KindOf(err), "overlay.publish", fmt.Errorf("the bundle of an artifact: %w", err), errs.On(name))
		}
		if info.Size < end {
			return errs.With(errs.Newf(errs.Corrupt, "overlay.publish", "the bundle has %d bytes, an artifact in it ends at %d", info.Size, end), errs.On(name))
		}
	}
	return nil
}

// draft is a version in the making: its definitions, and its artifacts as runs, oldest first.
type draft struct {
	head head
	runs []run
}

// run is a chunk that stays, or artifacts that are to be written into new ones.
type run struct {
	part  part
	fresh []*Artifact // nil for a chunk that stays
	bytes int64       // about
}

// draft applies an edit to a version.
func (c *Chain) draft(base *Version, e Edit) (*draft, error) {
	d := &draft{head: head{Format: headFormat, Version: base.Number + 1, ID: uuid.NewString(), Parent: base.head.ID, Written: c.now().UTC().Truncate(time.Millisecond)}}
	gone, err := d.define(base, e)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for i := range d.head.Definitions {
		ids[d.head.Definitions[i].ID] = true
	}
	for i := range e.AddArtifacts {
		if a := &e.AddArtifacts[i]; !ids[a.Index] {
			return nil, errs.Newf(errs.Invalid, "overlay.publish", "there is no index %q for an artifact", a.Index)
		}
	}
	for _, p := range base.without(base.dropped(e, gone)).superseded(e.AddArtifacts).parts {
		d.keep(p)
	}
	if len(e.AddArtifacts) > 0 {
		r := run{}
		for i := range e.AddArtifacts {
			r.fresh = append(r.fresh, &e.AddArtifacts[i])
			r.bytes += about(&e.AddArtifacts[i])
		}
		d.runs = append(d.runs, r)
	}
	d.merge()
	return d, nil
}

// define sets the definitions and gives the ids of those that are dropped.
func (d *draft) define(base *Version, e Edit) (gone map[string]bool, err error) {
	const op = "overlay.publish"
	d.head.Definitions = base.Definitions()
	at := func(id string) int {
		return slices.IndexFunc(d.head.Definitions, func(o Definition) bool { return o.ID == id })
	}
	gone = map[string]bool{}
	for _, id := range e.DropDefinitions {
		i := at(id)
		if i < 0 {
			return nil, errs.New(errs.NotFound, op, "there is no index of this id", errs.On(id))
		}
		gone[id] = true
		d.head.Definitions = slices.Delete(d.head.Definitions, i, i+1)
	}
	for _, def := range e.ChangeDefinitions {
		i := at(def.ID)
		if i < 0 {
			return nil, errs.New(errs.NotFound, op, "there is no index of this id", errs.On(def.ID))
		}
		if err := def.check(); err != nil {
			return nil, err
		}
		d.head.Definitions[i] = def.clone()
	}
	for _, def := range e.AddDefinitions {
		if err := def.check(); err != nil {
			return nil, err
		}
		if at(def.ID) >= 0 {
			return nil, errs.New(errs.Exists, op, "there is an index of this id", errs.On(def.ID))
		}
		if len(d.head.Definitions) == maxDefinitions {
			return nil, errs.Newf(errs.Exhausted, op, "a table has at most %d indexes", maxDefinitions)
		}
		d.head.Definitions = append(d.head.Definitions, def.clone())
	}
	return gone, nil
}

// without gives the version with more artifacts dead, given for each part.
func (v *Version) without(dead [][]int32) *Version {
	out := &Version{Number: v.Number, parts: slices.Clone(v.parts)}
	for i := range out.parts {
		if p := &out.parts[i]; len(dead[i]) > 0 {
			p.dead = p.dead.add(p.ref.Artifacts, dead[i])
			p.ref.Dead = p.dead.ranges(p.ref.Artifacts)
		}
	}
	return out
}

// dropped gives for each part the artifacts of dropped indexes, and those that are dropped themselves.
func (v *Version) dropped(e Edit, gone map[string]bool) [][]int32 {
	dead := make([][]int32, len(v.parts))
	if len(gone) > 0 {
		for i := range v.parts {
			for n := range v.parts[i].chunk.artifacts {
				if gone[v.parts[i].chunk.artifacts[n].Index] {
					dead[i] = append(dead[i], int32(n))
				}
			}
		}
	}
	for _, a := range e.DropArtifacts {
		if len(a.Files) == 0 {
			continue
		}
		for i := range v.parts {
			c := v.parts[i].chunk
			c.covering(a.Index, a.Files[0].Path, func(n int32) bool {
				if c.artifacts[n].same(a) {
					dead[i] = append(dead[i], n)
				}
				return true
			})
		}
	}
	return dead
}

// superseded gives the version without the artifacts all of whose files are covered by newer ones, once there are more.
func (v *Version) superseded(more []Artifact) *Version {
	type file struct{ index, path string }
	newer := map[file]bool{}
	for i := range more {
		for j := range more[i].Files {
			newer[file{more[i].Index, more[i].Files[j].Path}] = true
		}
	}
	type place struct {
		part int
		n    int32
	}
	touched := map[place]bool{}
	for f := range newer {
		for i := range v.parts {
			v.parts[i].chunk.covering(f.index, f.path, func(n int32) bool {
				if !v.parts[i].dead.has(n) {
					touched[place{i, n}] = true
				}
				return true
			})
		}
	}
	dead := make([][]int32, len(v.parts))
	for at := range touched {
		a := &v.parts[at.part].chunk.artifacts[at.n]
		used := slices.ContainsFunc(a.Files, func(f CoveredFile) bool {
			if newer[file{a.Index, f.Path}] {
				return false
			}
			now, _ := v.Artifact(a.Index, f.Path)
			return now == a
		})
		if !used {
			dead[at.part] = append(dead[at.part], at.n)
		}
	}
	return v.without(dead)
}

// about estimates what an artifact takes in a chunk.
func about(a *Artifact) int64 {
	n := 40 + len(a.CRC) + len(a.Min) + len(a.Max)
	for i := range a.Files {
		n += 12 + len(a.Files[i].Path)/2 + len(a.Files[i].ETag)
	}
	return int64(n)
}

// keep adds a chunk of the base: as it is, written anew without its dead, or not at all.
func (d *draft) keep(p part) {
	total, live := len(p.chunk.artifacts), p.live()
	if live == 0 {
		return
	}
	r := run{part: p, bytes: p.ref.Size}
	if p.dead.n*deadShare >= total {
		r = r.rewritten()
	}
	d.runs = append(d.runs, r)
}

// rewritten gives the run with its artifacts as ones to be written.
func (r run) rewritten() run {
	if r.fresh != nil {
		return r
	}
	c := r.part.chunk
	out := run{fresh: make([]*Artifact, 0, r.part.live()), bytes: r.bytes * int64(r.part.live()) / int64(len(c.artifacts))}
	for n := range c.artifacts {
		if !r.part.dead.has(int32(n)) {
			out.fresh = append(out.fresh, &c.artifacts[n])
		}
	}
	return out
}

func tier(size int64) int { return bits.Len64(uint64(size)/tierUnit) / 3 }

// merge joins the newest runs when there are many that are no larger than the last.
func (d *draft) merge() {
	for {
		n := len(d.runs)
		if n == 0 {
			return
		}
		first, sum := n, int64(0)
		for first > 0 && tier(d.runs[first-1].bytes) <= tier(d.runs[n-1].bytes) && sum+d.runs[first-1].bytes <= mergeMost {
			first--
			sum += d.runs[first].bytes
		}
		if n-first < mergeAt {
			return
		}
		var all run
		for _, r := range d.runs[first:] {
			r = r.rewritten()
			all.fresh = append(all.fresh, r.fresh...)
			all.bytes += r.bytes
		}
		d.runs = append(d.runs[:first], all)
	}
}

// writeChunks writes what is new and gives the version that names it. The names of the objects written are given also
// with an error.
func (c *Chain) writeChunks(ctx context.Context, store objstore.Store, number int64, d *draft) (next *Version, written []string, err error) {
	next = &Version{Number: number, head: d.head}
	for _, r := range d.runs {
		if r.fresh == nil {
			next.parts = append(next.parts, r.part)
			continue
		}
		for len(r.fresh) > 0 {
			n, covered, size := 0, 0, int64(0)
			for n < len(r.fresh) && n < maxArtifacts/2 {
				covered += len(r.fresh[n].Files)
				size += about(r.fresh[n])
				if n > 0 && (covered > maxCovered/2 || size > mergeMost) {
					break
				}
				n++
			}
			data := encodeChunk(c.prefix, r.fresh[:n])
			ref := chunkRef{Name: fmt.Sprintf("%sv%d-%s", chunksDir, number, uuid.NewString()), Size: int64(len(data)), CRC32C: manifestSum(data), Artifacts: n}
			if ref.Size > maxChunk {
				return nil, written, errs.Newf(errs.Exhausted, "overlay.publish", "a chunk of the manifest has %d bytes, more than a chunk may have", ref.Size)
			}
			name := c.name(ref.Name)
			written = append(written, name)
			if _, err := store.Put(ctx, name, data, objstore.Condition{IfAbsent: true}); err != nil {
				return nil, written, err
			}
			back, err := c.readChunk(ctx, &ref)
			if err != nil {
				return nil, written, errs.Wrap(errs.KindOf(err), "overlay.publish", fmt.Errorf("what was written does not come back: %w", err), errs.On(name))
			}
			next.parts = append(next.parts, part{ref: ref, chunk: back})
			r.fresh = r.fresh[n:]
		}
	}
	if len(next.parts) > maxChunks {
		return nil, written, errs.Newf(errs.Exhausted, "overlay.publish", "the manifest has %d chunks", len(next.parts))
	}
	next.head.Chunks = make([]chunkRef, len(next.parts))
	for i := range next.parts {
		next.head.Chunks[i] = next.parts[i].ref
	}
	return next, written, nil
}

// publish writes the head of a version if there is none yet.
func (c *Chain) publish(ctx context.Context, store objstore.Store, base, next *Version) error {
	const op = "overlay.publish"
	conflict := errs.New(errs.Conflict, op, "another writer published first", errs.On(c.prefix))
	data, err := encodeHead(&next.head)
	if err != nil {
		return errs.Wrap(errs.Internal, op, err, errs.On(c.prefix))
	}
	if len(data) > maxHead {
		return errs.Newf(errs.Exhausted, op, "the head of the version has %d bytes", len(data))
	}
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.Canceled, op, err, errs.On(c.prefix))
	}
	// The version after base may be free because it was collected: then base was, too, before it.
	if base.Number > 0 && !c.still(ctx, base) {
		return conflict
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), swapTime)
	defer cancel()
	name := c.name(versionName(next.Number))
	if next.etag, err = c.swap(ctx, store, name, data); err != nil {
		return err
	}
	if !c.follows(ctx, base, next) {
		if err := store.Delete(ctx, name); err != nil {
			return unknownOutcome(name, err)
		}
		return conflict
	}
	// The hint saves readers a listing and a round. Failing to write it is no failure to publish.
	_, _ = store.Put(ctx, c.name(hintName), hintOf(&next.head), objstore.Condition{})
	return nil
}

// follows reports whether a version that was just written is part of the chain: the one before it is there, and the one after
// it, if there is one already, was made from it. It is not when versions were collected, or lost, around it. When the store
// does not answer it is taken to be.
func (c *Chain) follows(ctx context.Context, base, next *Version) bool {
	after := next.Number + 1
	if base.Number > 0 {
		if !c.still(ctx, base) {
			return false
		}
		if _, err := c.store.Stat(ctx, c.name(versionName(after))); err != nil {
			return true
		}
	} else if last, err := c.last(ctx); err != nil || last <= next.Number {
		return true
	}
	h, _, err := c.readHead(ctx, after)
	return err == nil && h.Parent == next.head.ID || err != nil && !lost(err)
}

// swap writes a head if there is none. An answer that was lost is looked up: the head is ours when its bytes are. When there is
// none, the write may still be under way, so the same bytes are written again under the same condition, which settles it.
func (c *Chain) swap(ctx context.Context, store objstore.Store, name string, data []byte) (etag string, err error) {
	for try := 1; ; try++ {
		info, err := store.Put(ctx, name, data, objstore.Condition{IfAbsent: true})
		if err == nil {
			return info.ETag, nil
		}
		kind := errs.KindOf(err)
		if kind != errs.Exists && kind != errs.Unavailable && kind != errs.Canceled {
			if try > 1 { // of a try before nobody knows
				return "", unknownOutcome(name, err)
			}
			return "", err
		}
		there, found, rerr := objstore.ReadAll(ctx, c.store, name, maxHead)
		switch {
		case rerr == nil && bytes.Equal(there, data):
			return found.ETag, nil
		case rerr == nil, kind == errs.Exists && errs.Is(rerr, errs.NotFound):
			return "", errs.New(errs.Conflict, "overlay.publish", "another writer published first", errs.On(c.prefix))
		case try == 3:
			return "", unknownOutcome(name, err)
		}
	}
}

// unknownOutcome is Unavailable whatever the cause is: a context that ended is no reason to take back what may be there.
func unknownOutcome(name string, err error) error {
	return errs.New(errs.Unavailable, "overlay.publish", "whether the version was published is not known: "+err.Error(), errs.On(name),
		errs.Hint("what was to be published may be there: look before you build it again"))
}
