// Package slt runs tests that are text: a statement, and the answer it must give.
//
// A script is a list of records, separated by empty lines. Lines that begin with # are comments. The records:
//
//	statement ok                 the statement succeeds
//	statement count 3            it succeeds and says that it wrote 3 rows
//	statement error REGEX        it fails, and the error matches; the error reads "kind: message (hint: text)"
//	query TIR rowsort LABEL      it answers with these rows
//	  one letter a column: T is compared as text, I must be a whole number, R is a number compared to within 1e-6
//	  then nosort (the default: the order counts), rowsort or valuesort
//	  queries with the same LABEL must have the same answer
//	  the text, a line of ----, and the rows: one a line, values separated by tabs
//	skipif NAME, onlyif NAME     the next record is left out for, or kept for, runners of that name
//	fails REASON                 the next record is right and the answer is not: a known defect; when it passes, take this off
//	let NAME                     the next lines are a query with one value; ${NAME} stands for it from here on
//	snapshot NAME TABLE          ${NAME} is the table's snapshot from here on, and ${NAME.time} its time
//	halt                         what follows is not run
//	coverage none                the script says what it wants of indexes itself; others are run three times, see Coverage
//
// Values are written so that one line holds them: NULL for SQL's NULL, (empty) for the empty string, and \n, \t and \\ for
// the characters that would break a line. A text that reads NULL or (empty) itself gets a backslash before it.
//
// go test ./test/slt -rewrite runs the scripts and writes the answers into them; read the difference before you commit it.
package slt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Record is one step of a script.
type Record struct {
	Line    int // of its first line, from 1
	Kind    Kind
	Text    string         // the statement; of a snapshot, the table
	Error   *regexp.Regexp // of a statement that must fail
	Count   string         // of a statement that writes rows
	Types   string         // of a query: a letter a column
	Sort    string         // nosort, rowsort or valuesort
	Label   string
	Rows    []string // expected, as written
	Name    string   // of let and snapshot
	Skip    []string // runners to leave this record out for
	Only    []string // runners to keep it for
	Fails   string   // why the record is known to fail
	rows    [2]int   // lines of Rows in the script: first, and the one behind the last
	divider bool     // whether ---- is there
}

// Kind is what a record does.
type Kind int

// The kinds of records.
const (
	StatementOK Kind = iota
	StatementCount
	StatementError
	Query
	Let
	Snapshot
)

// Parse reads a script.
func Parse(script string) ([]Record, error) {
	lines := strings.Split(script, "\n")
	var out []Record
	var skip, only []string
	fails := ""
	for i := 0; i < len(lines); {
		line := strings.TrimRight(lines[i], " \r")
		if line == "" || strings.HasPrefix(line, "#") {
			i++
			continue
		}
		words := strings.Fields(line)
		switch words[0] {
		case "halt":
			return out, nil
		case "coverage":
			if line != uncovered {
				return nil, fmt.Errorf("line %d: only %q can be said of coverage", i+1, uncovered)
			}
			i++
			continue
		case "fails":
			if fails = strings.TrimSpace(strings.TrimPrefix(line, "fails")); fails == "" {
				return nil, fmt.Errorf("line %d: fails needs a reason", i+1)
			}
			i++
			continue
		case "skipif", "onlyif":
			if len(words) != 2 {
				return nil, fmt.Errorf("line %d: %s needs one name", i+1, words[0])
			}
			if words[0] == "skipif" {
				skip = append(skip, words[1])
			} else {
				only = append(only, words[1])
			}
			i++
			continue
		}
		r := Record{Line: i + 1, Skip: skip, Only: only, Fails: fails, Sort: "nosort"}
		skip, only, fails = nil, nil, ""
		if err := r.head(line, words); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		i++
		if r.Kind != Snapshot {
			start := i
			for i < len(lines) && strings.TrimSpace(lines[i]) != "" && strings.TrimRight(lines[i], " \r") != "----" {
				i++
			}
			r.Text = strings.TrimRight(strings.Join(lines[start:i], "\n"), " \r\n")
			if r.Text == "" {
				return nil, fmt.Errorf("line %d: the record has no statement", r.Line)
			}
		}
		if i < len(lines) && strings.TrimRight(lines[i], " \r") == "----" {
			if r.Kind != Query {
				return nil, fmt.Errorf("line %d: only a query has rows", i+1)
			}
			i++
			r.divider = true
			r.rows[0] = i
			for i < len(lines) && strings.TrimRight(lines[i], "\r") != "" {
				r.Rows = append(r.Rows, strings.TrimRight(lines[i], "\r"))
				i++
			}
			r.rows[1] = i
		} else {
			r.rows = [2]int{i, i}
		}
		out = append(out, r)
	}
	return out, nil
}

// uncovered is the line of a script that is run without indexes of the runner's.
const uncovered = "coverage none"

// Coverage tells whether a script may be run once more with indexes over its tables: the answers must stay.
func Coverage(script string) bool {
	return !strings.Contains("\n"+script, "\n"+uncovered+"\n")
}

// head reads the first line of a record.
func (r *Record) head(line string, words []string) error {
	switch {
	case words[0] == "statement" && len(words) > 1 && words[1] == "ok" && len(words) == 2:
		r.Kind = StatementOK
	case words[0] == "statement" && len(words) == 3 && words[1] == "count":
		r.Kind, r.Count = StatementCount, words[2]
	case words[0] == "statement" && len(words) > 2 && words[1] == "error":
		r.Kind = StatementError
		_, pattern, _ := strings.Cut(line, "error")
		re, err := regexp.Compile("(?s)" + strings.TrimSpace(pattern))
		if err != nil {
			return err
		}
		r.Error = re
	case words[0] == "query" && len(words) > 1 && len(words) < 5:
		r.Kind, r.Types = Query, words[1]
		if strings.Trim(r.Types, "TIR") != "" {
			return fmt.Errorf("column types are T, I and R, not %q", r.Types)
		}
		rest := words[2:]
		if len(rest) > 0 && slices.Contains([]string{"nosort", "rowsort", "valuesort"}, rest[0]) {
			r.Sort, rest = rest[0], rest[1:]
		}
		if len(rest) > 1 {
			return fmt.Errorf("unknown sort mode %q", rest[0])
		}
		r.Label = strings.Join(rest, "")
	case words[0] == "let" && len(words) == 2:
		r.Kind, r.Name = Let, words[1]
	case words[0] == "snapshot" && len(words) == 3:
		r.Kind, r.Name, r.Text = Snapshot, words[1], words[2]
	default:
		return fmt.Errorf("this is no record: %s", line)
	}
	return nil
}

// rewrite gives the script with the rows of some records replaced, by index of the record.
func rewrite(script string, records []Record, answers map[int][]string) string {
	lines := strings.Split(script, "\n")
	for i := len(records) - 1; i >= 0; i-- {
		rows, ok := answers[i]
		if !ok {
			continue
		}
		r := records[i]
		if !r.divider {
			rows = append([]string{"----"}, rows...)
		}
		lines = slices.Replace(lines, r.rows[0], r.rows[1], rows...)
	}
	return strings.Join(lines, "\n")
}
