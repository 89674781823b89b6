package vector

import (
	"context"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/index/vector/flat"
	"github.com/overlakedb/overlake/internal/index/vector/section"
	"github.com/overlakedb/overlake/internal/vec"
)

// newKind begins an index of a kind that is not flat.
func (b *Builder) newKind() (kindBuilder, error) {
	return nil, errs.New(errs.Unsupported, "vector.build", "kind", errs.On(string(b.opts.Kind)))
}

// openKind opens what a head says.
func openKind(ctx context.Context, f *section.File, h *head, m vec.Metric) (kindReader, error) {
	if h.Built == Flat {
		dim := max(h.Dim, 1)
		x, err := flat.Open(ctx, f, m, dim, h.Rows)
		if err != nil {
			return nil, err
		}
		if int64(x.Len()) != h.Vectors {
			return nil, errs.Newf(errs.Corrupt, "vector.open", "%d vectors, the head says %d", x.Len(), h.Vectors)
		}
		return flatReader{x, dim}, nil
	}
	return nil, errs.New(errs.Unsupported, "vector.open", "kind", errs.On(string(h.Built)))
}
