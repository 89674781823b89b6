package objstore

import (
	"context"
	"iter"
)

// ReadOnly gives the reading half of a store as a value that has no other methods, so that no type assertion finds a
// writer behind it. Local paths stay, and Get.
func ReadOnly(r Reader) Reader {
	switch x := r.(type) {
	case LocalPather:
		return readOnlyLocal{readOnly{r}, x}
	case Getter:
		return readOnlyGetter{readOnly{r}, x}
	}
	return readOnly{r}
}

type readOnly struct{ r Reader }

func (o readOnly) Open(ctx context.Context, name string) (Object, error) { return o.r.Open(ctx, name) }
func (o readOnly) Stat(ctx context.Context, name string) (Info, error)   { return o.r.Stat(ctx, name) }
func (o readOnly) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return o.r.List(ctx, prefix)
}
func (o readOnly) Location() string { return o.r.Location() }

type readOnlyLocal struct {
	readOnly
	p LocalPather
}

func (o readOnlyLocal) LocalPath(name string) (string, bool) { return o.p.LocalPath(name) }

type readOnlyGetter struct {
	readOnly
	g Getter
}

func (o readOnlyGetter) Get(ctx context.Context, name string, off, most int64) ([]byte, Info, error) {
	return o.g.Get(ctx, name, off, most)
}
