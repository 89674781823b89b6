package render_test

import (
	"fmt"
	"testing"

	"github.com/overlakedb/overlake/internal/render"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct{ plan, want string }{
		{`[{"name":"PROJECTION","children":[{"name":"FILTER ","extra_info":{"Filters":"a > 1\nb < 2","Estimated Cardinality":"20"},"children":[]}]}]`,
			"[[PROJECTION] [  FILTER, filters a > 1, b < 2, about 20 rows]]"},
		{`{"latency":0.0125,"children":[{"operator_name":"TABLE_SCAN","operator_timing":0.001,"operator_cardinality":7,"children":[]}]}`,
			"[[ran in 12.5 ms] [TABLE_SCAN, 7 rows in 1.0 ms]]"},
		{"no JSON\nat all\n", "[[no JSON] [at all]]"},
		{"", "[]"},
	} {
		if got := fmt.Sprint(render.Plan(c.plan)); got != c.want {
			t.Errorf("%s\n is drawn %s\n want %s", c.plan, got, c.want)
		}
	}
}
