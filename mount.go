package overlake

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake"
	"github.com/overlakedb/overlake/internal/objstore"
	"github.com/overlakedb/overlake/internal/overlay"
	"github.com/overlakedb/overlake/internal/sql"
)

// mounts is a catalog with foreign tables beside the warehouse's own. Each mount is a small object of the warehouse,
// _mounts/<schema>.<table>.json, that holds the location.
type mounts struct {
	lake.Catalog
	store    objstore.Reader
	overlays *overlay.Set
	memory   lake.Option

	mu   sync.Mutex
	open map[string]*lake.Table // by location
}

type mountRecord struct {
	Location string `json:"location"`
}

const mountPrefix = "_mounts/"

func mountName(id lake.Ident) string { return mountPrefix + id.String() + ".json" }

func (m *mounts) Load(ctx context.Context, id lake.Ident) (*lake.Table, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	data, _, err := objstore.ReadAll(ctx, m.store, mountName(id), 1<<16)
	if errs.Is(err, errs.NotFound) {
		return m.Catalog.Load(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	var r mountRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, errs.Wrap(errs.Corrupt, "overlake.mount", err, errs.On(mountName(id)))
	}
	return m.foreign(ctx, id, r.Location)
}

// foreign opens a mounted table at its newest metadata.
func (m *mounts) foreign(ctx context.Context, id lake.Ident, location string) (*lake.Table, error) {
	dir, metadata := location, ""
	if strings.Contains(filepath.Base(location), ".metadata.json") {
		dir, metadata = filepath.Dir(filepath.Dir(location)), filepath.Base(filepath.Dir(location))+"/"+filepath.Base(location)
	}
	store, err := objstore.OpenLocalReadOnly(dir)
	if err != nil {
		return nil, errs.With(err, errs.Hint("mount a directory that holds metadata/, or a .metadata.json file inside one"))
	}
	t, err := lake.Mount(ctx, id, store, lake.MountOptions{Metadata: metadata}, m.memory)
	if err != nil {
		return nil, err
	}
	// The same version opened before keeps its caches.
	m.mu.Lock()
	defer m.mu.Unlock()
	key := id.String() + "\x00" + t.MetadataLocation()
	if known := m.open[key]; known != nil {
		return known, nil
	}
	m.open[key] = t
	return t, nil
}

func (m *mounts) Tables(ctx context.Context, namespace string) ([]lake.Ident, error) {
	out, err := m.Catalog.Tables(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for info, err := range m.store.List(ctx, mountPrefix+namespace+".") {
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(info.Name, mountPrefix+namespace+"."), ".json")
		out = append(out, lake.Ident{Namespace: namespace, Name: name})
	}
	return out, nil
}

func (m *mounts) mounted(ctx context.Context, id lake.Ident) bool {
	_, err := m.store.Stat(ctx, mountName(id))
	return err == nil
}

func (m *mounts) Drop(ctx context.Context, id lake.Ident) error {
	if err := id.Check(); err != nil {
		return err
	}
	if m.mounted(ctx, id) {
		return errs.New(errs.Denied, "overlake.drop", "a mounted table cannot be dropped", errs.On(id.String()), errs.Hint("overlake mount --remove %s forgets it and leaves its files alone", id.Name))
	}
	t, err := m.Catalog.Load(ctx, id)
	if derr := m.Catalog.Drop(ctx, id); derr != nil || err != nil {
		return derr
	}
	return m.overlays.Remove(ctx, t.UUID())
}

func (m *mounts) Create(ctx context.Context, id lake.Ident, spec lake.CreateSpec) (*lake.Table, error) {
	if err := free(id, "overlake.create"); err != nil {
		return nil, err
	}
	if id.Check() == nil && m.mounted(ctx, id) {
		return nil, errs.New(errs.Exists, "overlake.create", "a table is mounted under this name", errs.On(id.String()))
	}
	return m.Catalog.Create(ctx, id, spec)
}

// free refuses names under which a table would not be found.
func free(id lake.Ident, op string) error {
	if sql.IsView(id.Namespace, id.Name) {
		return errs.New(errs.Exists, op, "this is the name of a system table", errs.On(id.String()), errs.Hint("use another name or another schema"))
	}
	return nil
}

func (m *mounts) mount(ctx context.Context, id lake.Ident, location string) error {
	w, ok := m.store.(objstore.Store)
	if !ok {
		return errs.New(errs.Denied, "overlake.mount", "the warehouse is open read-only", errs.On(id.String()))
	}
	if err := free(id, "overlake.mount"); err != nil {
		return err
	}
	if _, err := os.Stat(location); err != nil {
		return errs.Wrap(errs.KindOf(err), "overlake.mount", err, errs.Hint("mount a directory that holds metadata/, or a .metadata.json file inside one"))
	}
	if _, err := m.Catalog.Load(ctx, id); err == nil {
		return errs.New(errs.Exists, "overlake.mount", "the warehouse has a table of this name", errs.On(id.String()))
	}
	if _, err := m.foreign(ctx, id, location); err != nil {
		return err
	}
	data, err := json.Marshal(mountRecord{Location: location})
	if err != nil {
		return errs.Wrap(errs.Internal, "overlake.mount", err)
	}
	_, err = w.Put(ctx, mountName(id), data, objstore.Condition{IfAbsent: true})
	if errs.Is(err, errs.Exists) {
		return errs.New(errs.Exists, "overlake.mount", "a table is mounted under this name", errs.On(id.String()), errs.Hint("overlake mount --remove %s forgets it", id.Name))
	}
	return err
}

func (m *mounts) unmount(ctx context.Context, id lake.Ident) error {
	w, ok := m.store.(objstore.Store)
	if !ok {
		return errs.New(errs.Denied, "overlake.unmount", "the warehouse is open read-only", errs.On(id.String()))
	}
	if !m.mounted(ctx, id) {
		return errs.New(errs.NotFound, "overlake.unmount", "no table is mounted under this name", errs.On(id.String()))
	}
	return w.Delete(ctx, mountName(id))
}
