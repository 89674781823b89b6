package policy_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlakedb/overlake/internal/testenv"
)

// allowed are the licences that a linked module may have. The Mozilla licence binds the files that carry it and nothing
// else; such modules are used unchanged.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0", "Unlicense", "CC0-1.0"}

// TestLicences looks at the licence file of every module that the program links.
func TestLicences(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./cmd/overlake")
	cmd.Dir = testenv.Root(t)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := map[string]bool{}
	counts := map[string]int{}
	for {
		var p struct {
			Module *struct {
				Path, Dir string
				Main      bool
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || p.Module.Main || seen[p.Module.Path] {
			continue
		}
		seen[p.Module.Path] = true
		licence := licenceOf(t, p.Module.Dir)
		if !slices.Contains(allowed, licence) {
			t.Errorf("%s: licence %q is not among %v", p.Module.Path, licence, allowed)
		}
		counts[licence]++
	}
	if len(seen) < 10 {
		t.Fatalf("only %d modules were looked at", len(seen))
	}
	t.Logf("%d modules: %v", len(seen), counts)
}

// licenceOf names the licence of a module by the words of its licence file. Modules of a repository with several may keep
// the file some folders up.
func licenceOf(t *testing.T, dir string) string {
	t.Helper()
	for range 4 {
		for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "License", "license", "COPYING", "LICENSE-APACHE", "LICENSE_APACHE", "LICENSE_MIT"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				return classify(string(text))
			}
		}
		dir = filepath.Dir(dir)
	}
	return "none"
}

// classify tells licences apart by sentences that only they have.
func classify(text string) string {
	words := strings.ToLower(strings.Join(strings.Fields(text), " "))
	switch {
	case strings.HasPrefix(words, "copyright") && strings.Contains(words[:min(len(words), 200)], "mozilla public license"), strings.HasPrefix(words, "mozilla public license"):
		return "MPL-2.0" // its text names the GPL
	case strings.Contains(words, "gnu general public license") || strings.Contains(words, "gnu lesser") || strings.Contains(words, "gnu affero"):
		return "GPL"
	case strings.Contains(words, "apache license"):
		return "Apache-2.0"
	case strings.Contains(words, "redistribution and use in source and binary forms"):
		if strings.Contains(words, "neither the name") || strings.Contains(words, "names of its contributors may not") || strings.Contains(words, "names of contributors may not") {
			return "BSD-3-Clause"
		}
		return "BSD-2-Clause"
	case strings.Contains(words, "permission is hereby granted, free of charge"):
		return "MIT"
	case strings.Contains(words, "permission to use, copy, modify, and/or distribute"):
		return "ISC"
	case strings.Contains(words, "this is free and unencumbered software"):
		return "Unlicense"
	case strings.Contains(words, "cc0 1.0 universal"):
		return "CC0-1.0"
	}
	return "unknown"
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"GNU GENERAL PUBLIC LICENSE\n Version 3":                                                   "GPL",
		"Copyright (c) 2014 X\n\nMozilla Public License, version 2.0 … GNU General Public License": "MPL-2.0",
		"Apache License\nVersion 2.0, January 2004":                                                "Apache-2.0",
		"Permission is hereby granted, free of\ncharge, to any":                                    "MIT",
		"All rights reserved. Only with our permission in writing.":                                "unknown",
	} {
		if got := classify(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
