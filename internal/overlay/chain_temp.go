package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

type Definition struct {
	ID, Name, Kind string
	Columns        []int
	Params         map[string]string
	Created        time.Time
}
type FileKey struct {
	Path string
	Size int64
	ETag string
	Rows int64
}
type CoveredFile struct {
	FileKey
	Base int64
}
type Artifact struct {
	Index, Fingerprint, Bundle, Type, CRC string
	Files                                 []CoveredFile
	Offset, Length, Rows, Nulls, Distinct int64
	Min, Max                              []byte
}
type Edit struct {
	AddDefinitions, ChangeDefinitions []Definition
	DropDefinitions                   []string
	AddArtifacts                      []Artifact
}
type Version struct {
	Number int64
	Damage []error
	Defs   []Definition
	Arts   []*Artifact
	by     map[string]*Artifact
}

func (v *Version) Definitions() []Definition { return v.Defs }
func (v *Version) Artifact(index, path string) (*Artifact, bool) {
	a, ok := v.by[index+"\x00"+path]
	return a, ok
}
func (v *Version) Artifacts() []*Artifact { return v.Arts }

type Chain struct {
	store  objstore.Reader
	prefix string
	last   *Version
}

func OpenChain(store objstore.Reader, prefix string) *Chain {
	return &Chain{store: store, prefix: prefix}
}
func (c *Chain) name(n int64) string { return fmt.Sprintf("%s/v%d.json", c.prefix, n) }
func (c *Chain) Load(ctx context.Context) (*Version, error) {
	v := c.last
	if v == nil {
		v = &Version{}
	}
	for {
		raw, _, err := objstore.ReadAll(ctx, c.store, c.name(v.Number+1), 1<<30)
		if errs.Is(err, errs.NotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		n := &Version{}
		if err := json.Unmarshal(raw, n); err != nil {
			return nil, err
		}
		n.by = map[string]*Artifact{}
		for _, a := range n.Arts {
			for _, f := range a.Files {
				n.by[a.Index+"\x00"+f.Path] = a
			}
		}
		v = n
	}
	c.last = v
	return v, nil
}
func (c *Chain) Update(ctx context.Context, w objstore.Store, f func(*Version) (Edit, error)) (*Version, error) {
	for {
		v, err := c.Load(ctx)
		if err != nil {
			return nil, err
		}
		e, err := f(v)
		if err != nil {
			return nil, err
		}
		n := &Version{Number: v.Number + 1}
		drop := map[string]bool{}
		for _, d := range e.DropDefinitions {
			drop[d] = true
		}
		ch := map[string]Definition{}
		for _, d := range e.ChangeDefinitions {
			ch[d.ID] = d
		}
		for _, d := range v.Defs {
			if x, ok := ch[d.ID]; ok {
				d = x
			}
			if !drop[d.ID] {
				n.Defs = append(n.Defs, d)
			}
		}
		n.Defs = append(n.Defs, e.AddDefinitions...)
		n.Arts = append(n.Arts, v.Arts...)
		for i := range e.AddArtifacts {
			n.Arts = append(n.Arts, &e.AddArtifacts[i])
		}
		raw, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		if _, err := w.Put(ctx, c.name(n.Number), raw, objstore.Condition{IfAbsent: true}); errs.Is(err, errs.Exists) {
			continue
		} else if err != nil {
			return nil, err
		}
		return c.Load(ctx)
	}
}
func (c *Chain) Collect(ctx context.Context, w objstore.Store, age time.Duration) ([]objstore.Info, error) {
	return nil, nil
}
