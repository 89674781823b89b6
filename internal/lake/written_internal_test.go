package lake

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/overlakedb/overlake/internal/objstore"
)

// TestLeavesOfStructsHaveBounds: manifests tell the bounds of leaves inside structs, and none of those inside lists.
func TestLeavesOfStructsHaveBounds(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "s", Nullable: true, Type: arrow.StructOf(
		arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "in", Nullable: true, Type: arrow.StructOf(
			arrow.Field{Name: "t", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true})})}}, nil)
	tbl := makeTable(t, OpenFileCatalog(objstore.NewMemory("t")), CreateSpec{Schema: sc})
	tbl = add(t, tbl, reader(t, sc, func(b *array.RecordBuilder) {
		s := b.Field(0).(*array.StructBuilder)
		in := s.FieldBuilder(1).(*array.StructBuilder)
		for i := range 5 {
			s.Append(true)
			s.FieldBuilder(0).(*array.Int64Builder).Append(int64(i))
			in.Append(true)
			in.FieldBuilder(0).(*array.StringBuilder).Append("v" + string(rune('a'+i)))
			l := in.FieldBuilder(1).(*array.ListBuilder)
			l.Append(true)
			l.ValueBuilder().(*array.Int32Builder).Append(int32(i))
		}
		s.AppendNull()
	}))
	p, err := tbl.Plan(t.Context(), Ref{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range p.Files[0].entry.stats {
		name, _ := tbl.meta.CurrentSchema().FindColumnName(b.id)
		got = append(got, fmt.Sprintf("%s %d nulls of %d, %x to %x", name, b.nulls, b.values, b.lower, b.upper))
	}
	const want = "s.x 1 nulls of 6, 0000000000000000 to 0400000000000000; s.in.t 1 nulls of 6, 7661 to 7665; s.in.l.element 1 nulls of 6,  to "
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("the manifest says %s", text)
	}
}
