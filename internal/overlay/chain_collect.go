package overlay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// Garbage is everything below the prefix that none of the newest versions names: bundles of dropped and replaced artifacts,
// chunks that were merged, heads of old versions, and what writers left that died before they published. Three things may
// look like garbage and are not:
//
//   - A bundle that is still being built, or is about to be published. It is young: the safety age must be longer than
//     any build.
//   - A chunk whose version is about to be published. Its name has the number of that version, and chunks for versions after
//     the newest are let alone, whatever a clock says. A chunk for a version that is there already can never be named again.
//   - What an old version names that a reader is still at. The newest ten versions count as used.
//
// Ages are taken by the store's own clock and by this machine's, whichever says less. Old heads are removed in their order, so
// that a writer who has slept can see that its base is gone before the number after it becomes free (see Chain.publish).

// Unreferenced lists garbage that is older than a safety age, heads first. It fails when the newest version
// cannot be read whole, or when a store does not answer, since nobody knows then what is named.
func (c *Chain) Unreferenced(ctx context.Context, older time.Duration) ([]objstore.Info, error) {
	return c.unreferenced(ctx, older, c.now())
}

// Collect removes garbage that is older than a safety age and gives what it removed, also with an error.
func (c *Chain) Collect(ctx context.Context, store objstore.Store, older time.Duration) (removed []objstore.Info, err error) {
	mark, err := store.Put(ctx, c.name("collect-"+uuid.NewString()), nil, objstore.Condition{IfAbsent: true})
	if err != nil {
		return nil, err
	}
	if err := store.Delete(ctx, mark.Name); err != nil {
		return nil, err
	}
	now := c.now()
	if !mark.ModTime.IsZero() && mark.ModTime.Before(now) {
		now = mark.ModTime
	}
	garbage, err := c.unreferenced(ctx, older, now)
	if err != nil {
		return nil, err
	}
	for i, info := range garbage {
		if err := store.Delete(ctx, info.Name); err != nil {
			return garbage[:i], err
		}
	}
	return garbage, nil
}

func (c *Chain) unreferenced(ctx context.Context, older time.Duration, now time.Time) ([]objstore.Info, error) {
	const op = "overlay.collect"
	if older < 0 {
		return nil, errs.Newf(errs.Invalid, op, "a safety age cannot be negative: %v", older)
	}
	// First the objects, then the versions: what is published in between is named.
	var found []objstore.Info
	last := int64(0)
	for info, err := range c.store.List(ctx, c.prefix+"/") {
		if err != nil {
			return nil, err
		}
		found = append(found, info)
		last = max(last, versionOf(strings.TrimPrefix(info.Name, c.prefix+"/")))
	}
	last, err := c.probe(ctx, last)
	if err != nil {
		return nil, err
	}
	used, err := c.used(ctx, last)
	if err != nil {
		return nil, errs.Wrap(errs.KindOf(err), op, fmt.Errorf("nothing is removed while a version cannot be read: %w", err), errs.On(c.prefix),
			errs.Hint("build or drop an index, which publishes versions without the damage"))
	}
	var out []objstore.Info
	for _, info := range found {
		name := strings.TrimPrefix(info.Name, c.prefix+"/")
		number := versionOf(name)
		target, isChunk := chunkVersion(name)
		switch {
		case used[info.Name], name == hintName, number > last-keepVersions, isChunk && target > last, now.Sub(info.ModTime) < older:
			continue
		}
		out = append(out, info)
	}
	slices.SortStableFunc(out, func(a, b objstore.Info) int {
		x, y := versionOf(strings.TrimPrefix(a.Name, c.prefix+"/")), versionOf(strings.TrimPrefix(b.Name, c.prefix+"/"))
		if (x > 0) != (y > 0) {
			return cmp.Compare(y, x) // heads first
		}
		return cmp.Compare(x, y)
	})
	return out, nil
}

// used gives the names of all objects that the newest versions name.
func (c *Chain) used(ctx context.Context, last int64) (map[string]bool, error) {
	used := map[string]bool{}
	c.mu.Lock()
	v := c.known
	c.mu.Unlock()
	for n := last; n > 0 && n > last-keepVersions; n-- {
		h, _, err := c.readHead(ctx, n)
		if err != nil && n < last && lost(err) {
			continue // nobody can read it, now or later
		}
		if err != nil {
			return nil, err
		}
		next := &Version{Number: n, head: *h}
		if err := c.readChunks(ctx, next, v, nil); err != nil {
			return nil, err
		}
		if len(next.Damage) > 0 && (n == last || next.unread != nil) {
			return nil, next.Damage[0]
		}
		v = next // shares most chunks with the one before it
		for i := range next.parts {
			used[c.name(next.parts[i].ref.Name)] = true
		}
		for _, a := range next.Artifacts() {
			used[a.Bundle] = true
		}
	}
	return used, nil
}
