// Package policy answers one question: does the tree look as docs/architecture.md says?
//
// The page is the policy and this package only reads it. A room is a directory with Go files, named by its path below the
// project's root ("." is the root package). A floor is a heading "### Floor N: …" followed by a table with one room a
// line: its path, the question it answers, and the foreign import paths that enter by it. The vocabulary is a list under
// the heading "### Vocabulary": foreign import paths that every room may use. The rooms under "### For tests only" are
// seen by tests and by each other, never by the product.
//
// The rules, numbered so that a failure can cite them:
//
//	R1  A room imports rooms of lower floors only; rooms of one floor do not see each other.
//	R2  A room on the page exists, and a room that exists is on the page.
//	R3  A foreign import is declared for the room or is vocabulary. Where several entries of the page match an import, the
//	    most specific one decides: so arrow may be everybody's while arrow/ipc is one room's.
//	    Rooms for tests and measurements may use the libraries of all rooms, as peers to compare with.
//	R4  A foreign import path is declared by one room, because each foreign library enters by one room. Rooms for tests
//	    may declare it too, to compare us with it.
//	R5  Every package begins with a package comment.
//	R6  A Go file has at most 800 lines and a room at most 8,000; tests and generated files do not count.
//	R7  Only tests, and rooms for tests, import a room for tests.
//	R8  A relative link in a Markdown page leads to something.
package policy

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The limits of R6.
const (
	maxFileLines = 800
	maxRoomLines = 8000
)

// testFloor is above every floor of the product.
const testFloor = 1 << 20

// Page is the policy as docs/architecture.md states it.
type Page struct {
	Rooms      map[string]Room
	Vocabulary []string // foreign import paths open to every room
}

// Room is one line of the page.
type Room struct {
	Path     string
	Floor    int // testFloor for rooms for tests
	Question string
	Foreign  []string // import paths that enter by this room; each covers what lies below it
}

var (
	floorHeading = regexp.MustCompile(`^### Floor (\d+)\b`)
	codeSpan     = regexp.MustCompile("`([^`]+)`")
	mdLink       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	generated    = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// ParsePage reads the page. It reports lines it cannot read rather than passing over them.
func ParsePage(text string) (*Page, error) {
	p := &Page{Rooms: map[string]Room{}}
	floor, vocabulary := -1, false
	sc := bufio.NewScanner(strings.NewReader(text))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if strings.HasPrefix(line, "#") {
			floor, vocabulary = -1, false
			switch m := floorHeading.FindStringSubmatch(line); {
			case m != nil:
				floor, _ = strconv.Atoi(m[1])
			case line == "### For tests only":
				floor = testFloor
			case line == "### Vocabulary":
				vocabulary = true
			}
			continue
		}
		switch {
		case vocabulary && strings.HasPrefix(line, "- "):
			m := codeSpan.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("line %d: a vocabulary entry needs an import path in backquotes", n)
			}
			p.Vocabulary = append(p.Vocabulary, m[1])
		case floor >= 0 && strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			if len(cells) != 3 {
				return nil, fmt.Errorf("line %d: a room has three cells: path, question, foreign imports", n)
			}
			m := codeSpan.FindStringSubmatch(cells[0])
			if m == nil {
				continue // the table's head and rule
			}
			r := Room{Path: m[1], Floor: floor, Question: strings.TrimSpace(cells[1])}
			if r.Question == "" {
				return nil, fmt.Errorf("line %d: room %s has no question", n, r.Path)
			}
			if _, twice := p.Rooms[r.Path]; twice {
				return nil, fmt.Errorf("line %d: room %s is listed twice", n, r.Path)
			}
			for _, f := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
				r.Foreign = append(r.Foreign, f[1])
			}
			p.Rooms[r.Path] = r
		}
	}
	if len(p.Rooms) == 0 {
		return nil, fmt.Errorf("the page lists no rooms")
	}
	return p, sc.Err()
}

// source is one Go file of the tree.
type source struct {
	file    string // path below the root
	room    string
	test    bool
	lines   int // 0 for tests and generated files
	imports []string
	comment bool
}

// Check compares the tree under root with the page and returns every breach, one a line, sorted.
func Check(root, module string, page *Page) ([]string, error) {
	files, err := readTree(root)
	if err != nil {
		return nil, err
	}
	var out []string
	report := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }

	owner := map[string]string{}
	for _, name := range sortedKeys(page.Rooms) {
		if page.Rooms[name].Floor == testFloor {
			continue
		}
		for _, f := range page.Rooms[name].Foreign {
			if other, taken := owner[f]; taken {
				report("R4 %s is declared by %s and by %s; one room lets it in", f, other, name)
			}
			owner[f] = name
		}
	}
	for _, v := range page.Vocabulary {
		if other, taken := owner[v]; taken {
			report("R4 %s is vocabulary and declared by %s; one of the two", v, other)
		}
		owner[v] = "" // everybody
	}

	lines := map[string]int{}
	comment := map[string]bool{}
	for _, f := range files {
		if _, seen := lines[f.room]; !seen {
			if _, ok := page.Rooms[f.room]; !ok {
				report("R2 %s is not on the page docs/architecture.md", f.room)
			}
		}
		lines[f.room] += f.lines
		comment[f.room] = comment[f.room] || f.comment
		if f.lines > maxFileLines {
			report("R6 %s has %d lines, more than %d: one subject a file", f.file, f.lines, maxFileLines)
		}
		for _, imp := range f.imports {
			if msg := checkImport(f, imp, module, page, owner); msg != "" {
				report("%s", msg)
			}
		}
	}
	for _, room := range sortedKeys(page.Rooms) {
		if _, ok := lines[room]; !ok {
			report("R2 the page lists %s, which has no Go files", room)
		}
	}
	for _, room := range sortedKeys(lines) {
		if !comment[room] {
			report("R5 %s has no package comment", room)
		}
		if lines[room] > maxRoomLines {
			report("R6 room %s has %d lines, more than %d: it wants a sub-room", room, lines[room], maxRoomLines)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// checkImport applies R1, R3 and R7 to one import and returns the breach, or "".
func checkImport(f source, imp, module string, page *Page, owner map[string]string) string {
	from, known := page.Rooms[f.room]
	if !known {
		return "" // R2 has said so
	}
	if to, ours := ownRoom(imp, module); ours {
		if to == f.room {
			return "" // a black-box test imports its room
		}
		target, ok := page.Rooms[to]
		switch {
		case !ok:
			return fmt.Sprintf("R2 %s imports %s, which is not on the page", f.file, to)
		case target.Floor == testFloor && !f.test && from.Floor != testFloor:
			return fmt.Sprintf("R7 %s imports %s, a room for tests", f.file, to)
		case target.Floor == testFloor, from.Floor == testFloor:
			return ""
		case target.Floor >= from.Floor:
			return fmt.Sprintf("R1 %s (%s, floor %d) imports %s (floor %d): imports go down", f.file, from.Path, from.Floor, to, target.Floor)
		}
		return ""
	}
	if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
		return "" // the standard library, and "C"
	}
	for _, e := range from.Foreign {
		if within(imp, e) {
			return ""
		}
	}
	entry := ""
	for e := range owner {
		if within(imp, e) && len(e) > len(entry) {
			entry = e
		}
	}
	switch {
	case entry == "":
		return fmt.Sprintf("R3 %s imports %s, which no room declares", f.file, imp)
	case owner[entry] != "" && owner[entry] != f.room && from.Floor != testFloor:
		return fmt.Sprintf("R3 %s imports %s, which enters by %s", f.file, imp, owner[entry])
	}
	return ""
}

// ownRoom turns an import path of the module into a room.
func ownRoom(imp, module string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// within reports whether an import path is the entry or lies below it.
func within(imp, entry string) bool {
	return imp == entry || strings.HasPrefix(imp, entry+"/")
}

// readTree parses the head of every Go file below root, without those that the go command ignores.
func readTree(root string) ([]source, error) {
	var out []source
	err := walk(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), rel, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		s := source{file: rel, room: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), comment: isComment(tree)}
		if !s.test && !generated.Match(text) {
			s.lines = strings.Count(string(text), "\n")
		}
		for _, i := range tree.Imports {
			imp, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imp)
		}
		out = append(out, s)
		return nil
	})
	return out, err
}

// isComment reports whether the file carries the package comment in the form godoc shows.
func isComment(f *ast.File) bool {
	if f.Doc == nil {
		return false
	}
	text := f.Doc.Text()
	if f.Name.Name == "main" {
		return strings.HasPrefix(text, "Command ")
	}
	return strings.HasPrefix(text, "Package "+strings.TrimSuffix(f.Name.Name, "_test")+" ")
}

// walk visits the files of the tree by slash-separated path, without hidden places, test data and what git ignores.
func walk(root string, visit func(rel string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
			if p != root && (hidden || name == "testdata" || name == "vendor" || (name == "bin" && filepath.Dir(p) == root)) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel))
	})
}

// CheckLinks applies R8 to every Markdown page below root.
func CheckLinks(root string) ([]string, error) {
	var out []string
	err := walk(root, func(rel string) error {
		if !strings.HasSuffix(rel, ".md") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		for _, m := range mdLink.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(rel), filepath.FromSlash(target))); err != nil {
				out = append(out, fmt.Sprintf("R8 %s links to %s, which is not there", rel, m[1]))
			}
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
