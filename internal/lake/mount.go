package lake

import (
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/objstore"
)

// MountOptions tell where the files of a foreign table are.
type MountOptions struct {
	// Metadata is the metadata file below the store; "" finds the newest one under metadata/.
	Metadata string
	// Prefixes map what the table's paths begin with to names below the store. The table's own location is mapped to the
	// place it was found at without being asked.
	Prefixes map[string]string
}

// Mount opens a table of another engine from its files. The store has no write methods, so neither has the table.
func Mount(ctx context.Context, id Ident, store objstore.Reader, opts MountOptions, more ...Option) (*Table, error) {
	return mount(ctx, id, objstore.ReadOnly(store), opts, newShared(more...))
}

func mount(ctx context.Context, id Ident, store objstore.Reader, opts MountOptions, caches *shared) (*Table, error) {
	name := opts.Metadata
	if name == "" {
		var err error
		if name, err = newestMetadata(ctx, store); err != nil {
			return nil, err
		}
	}
	f := &fileIO{ctx: context.Background(), store: store, prefixes: []prefix{{rootKey(store), ""}}}
	meta, err := readMetadata(ctx, f, f.location(name))
	if err != nil {
		return nil, err
	}
	dir := path.Dir(path.Dir(name))
	if dir == "." || dir == "/" {
		dir = ""
	}
	f.prefixes = append(f.prefixes, prefix{strings.TrimRight(pathKey(meta.Location()), "/"), dir})
	for from, to := range opts.Prefixes {
		f.prefixes = append(f.prefixes, prefix{strings.TrimRight(pathKey(from), "/"), strings.Trim(to, "/")})
	}
	t := &Table{id: id, meta: meta, location: f.location(name), io: f, shared: caches}
	if opts.Metadata == "" {
		t.reload = func(ctx context.Context) (*Table, error) {
			switch newest, err := newestMetadata(ctx, store); {
			case err != nil:
				return nil, err
			case newest == name:
				return t, nil
			}
			return mount(ctx, id, store, opts, caches)
		}
	}
	return t, nil
}

// newestMetadata finds the metadata file with the highest version: vN.metadata.json, NNNNN-uuid.metadata.json, both also
// with .gz. Among equal versions the last by name wins.
func newestMetadata(ctx context.Context, store objstore.Reader) (string, error) {
	best, version := "", -1
	for info, err := range store.List(ctx, "metadata/") {
		if err != nil {
			return "", err
		}
		base := path.Base(info.Name)
		if !strings.HasSuffix(base, ".metadata.json") && !strings.HasSuffix(base, ".metadata.json.gz") || strings.Count(info.Name, "/") != 1 {
			continue
		}
		num := strings.TrimPrefix(base, "v")
		end := 0
		for end < len(num) && num[end] >= '0' && num[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(num[:end])
		if err != nil {
			n = 0
		}
		if n >= version {
			best, version = info.Name, n
		}
	}
	if best == "" {
		return "", errs.New(errs.NotFound, "lake.mount", "there is no Iceberg metadata", errs.On(store.Location()),
			errs.Hint("give the directory that holds metadata/, or a .metadata.json file"))
	}
	return best, nil
}
