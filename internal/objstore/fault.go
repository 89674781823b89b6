package objstore

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/overlakedb/overlake/internal/errs"
)

// fault is one rule of the language that Faulty describes.
type fault struct {
	action string
	delay  time.Duration
	op     string
	glob   string
	from   int
	times  int // -1: for ever
	seen   int
}

var faultOps = []string{"open", "read", "stat", "list", "put", "create", "write", "delete", "*"}

// faultActions names the operations that an action can befall; none means every one.
var faultActions = map[string][]string{
	"fail": nil, "503": nil, "full": nil, "deny": nil, "delay": nil,
	"unknown": {"put", "delete"}, "tear": {"put", "read"}, "flip": {"read"},
}

// parseFaults reads a script; a mistake is Invalid and names its line.
func parseFaults(script string) ([]*fault, error) {
	var rules []*fault
	for n, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r, err := parseFault(words)
		if err != nil {
			return nil, errs.Newf(errs.Invalid, "objstore.faults", "line %d: %w", n+1, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseFault(words []string) (*fault, error) {
	if len(words) < 3 || len(words)%2 != 1 {
		return nil, fmt.Errorf("want ACTION OPERATION GLOB [from N] [times M] or [at N], have %q", strings.Join(words, " "))
	}
	r := &fault{action: words[0], op: words[1], glob: words[2], from: 1, times: -1}
	if d, ok := strings.CutPrefix(r.action, "delay="); ok {
		var err error
		if r.delay, err = time.ParseDuration(d); err != nil {
			return nil, err
		}
		if r.delay < 0 {
			return nil, fmt.Errorf("a delay of %v is in the past", r.delay)
		}
		r.action = "delay"
	} else if r.action == "delay" {
		return nil, fmt.Errorf("a delay needs its time: delay=20ms")
	}
	befalls, ok := faultActions[r.action]
	if !ok {
		return nil, fmt.Errorf("unknown action %q", r.action)
	}
	if !slices.Contains(faultOps, r.op) {
		return nil, fmt.Errorf("unknown operation %q", r.op)
	}
	if befalls != nil && !slices.Contains(befalls, r.op) {
		return nil, fmt.Errorf("%s befalls only %s, not %s", r.action, strings.Join(befalls, " and "), r.op)
	}
	if _, err := path.Match(r.glob, ""); err != nil {
		return nil, err
	}
	for i := 3; i < len(words); i += 2 {
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			return nil, err
		}
		if n < 1 {
			return nil, fmt.Errorf("%s %d: counts begin at 1", words[i], n)
		}
		switch words[i] {
		case "from":
			r.from = n
		case "times":
			r.times = n
		case "at":
			r.from, r.times = n, 1
		default:
			return nil, fmt.Errorf("unknown word %q", words[i])
		}
	}
	return r, nil
}

// matches reports whether the rule is about an operation on a name, acting now or not.
func (r *fault) matches(op, name string) bool {
	if r.op != "*" && r.op != op {
		return false
	}
	if r.glob == "*" {
		return true
	}
	whole, _ := path.Match(r.glob, name)
	last, _ := path.Match(r.glob, path.Base(name))
	return whole || last
}

// due counts a match and reports whether the rule acts on it.
func (r *fault) due() bool {
	r.seen++
	return r.seen >= r.from && (r.times < 0 || r.seen-r.from < r.times)
}
