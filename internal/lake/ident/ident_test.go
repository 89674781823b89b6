package ident_test

import (
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/errs"
	"github.com/overlakedb/overlake/internal/lake/ident"
)

func TestCheck(t *testing.T) {
	for name, fine := range map[string]bool{
		"docs": true, "Größe 2": true, "a.b": true, strings.Repeat("x", 128): true,
		"": false, "_x": false, ".x": false, "a/b": false, `a\b`: false, "a?b": false, "a\nb": false, "data": false, "metadata": false, "\xff": false, strings.Repeat("x", 129): false,
	} {
		for _, err := range []error{ident.CheckNamespace(name), ident.Ident{Namespace: "main", Name: name}.Check()} {
			if fine != (err == nil) || err != nil && !errs.Is(err, errs.Invalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if err := (ident.Ident{Namespace: "_", Name: "t"}).Check(); err == nil {
		t.Error("a namespace that begins with _ is taken")
	}
	if s := (ident.Ident{Namespace: "a", Name: "b"}).String(); s != "a.b" {
		t.Error(s)
	}
}
