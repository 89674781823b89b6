// Package ident answers: what may a table and its namespace be called?
//
// A name becomes a directory of a warehouse and a part of URLs and of SQL, so it must be usable as all of them.
package ident

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/overlakedb/overlake/internal/errs"
)

// Ident names a table inside a catalog.
type Ident struct{ Namespace, Name string }

// String is namespace.name.
func (i Ident) String() string { return i.Namespace + "." + i.Name }

// Check refuses names that cannot be directories of a warehouse.
func (i Ident) Check() error {
	if err := CheckNamespace(i.Namespace); err != nil {
		return err
	}
	return checkPart("table", i.Name)
}

// CheckNamespace refuses names that cannot be a namespace.
func CheckNamespace(name string) error { return checkPart("namespace", name) }

func checkPart(what, s string) error {
	bad := ""
	switch {
	case s == "":
		bad = "it is empty"
	case len(s) > 128:
		bad = "it is longer than 128 bytes"
	case !utf8.ValidString(s):
		bad = "it is not UTF-8"
	case s[0] == '_' || s[0] == '.':
		bad = "it begins with " + s[:1]
	case strings.ContainsAny(s, "/\\\x00%?#*\"'") || strings.ContainsFunc(s, func(r rune) bool { return r < 32 }):
		bad = "it holds a character that paths or URLs give a meaning to"
	case s == "metadata" || s == "data":
		bad = "it is the name of a directory inside tables"
	}
	if bad == "" {
		return nil
	}
	if len(s) > 64 {
		s = s[:61] + "…"
	}
	return errs.New(errs.Invalid, "lake.name", "this cannot be the name of a "+what+": "+bad, errs.On(fmt.Sprintf("%q", s)),
		errs.Hint("use letters, digits and underscores"))
}
