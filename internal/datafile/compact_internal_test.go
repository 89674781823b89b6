package datafile

import "testing"

func TestCompactRefusesWhatDoesNotFit(t *testing.T) {
	deep := func(head, tail string, n int) string {
		s := ""
		for range n {
			s = head + s + tail
		}
		return s
	}
	for name, c := range map[string]struct {
		bytes string
		ok    bool
	}{
		"empty struct":            {"\x00", true},
		"nothing":                 {"", false},
		"integer":                 {"\x15\x02\x00", true},
		"field id of its own":     {"\x05\x80\x01\x02\x00", true},
		"integer without end":     {"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", false},
		"text":                    {"\x18\x03abc\x00", true},
		"text that is too long":   {"\x18\x04abc", false},
		"text of 2^63":            {"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f", false},
		"list of booleans":        {"\x19\x21\x01\x02\x00", true},
		"list of two billion":     {"\x19\xf5\xff\xff\xff\xff\x07\x00", false},
		"map":                     {"\x1b\x01\x85\x01a\x02\x00", true},
		"empty map":               {"\x1b\x00\x00", true},
		"map of two billion":      {"\x1b\xff\xff\xff\xff\x07\x55\x00", false},
		"unknown type":            {"\x1e\x00", false},
		"sixty structs deep":      {deep("\x1c", "\x00", 60) + "\x00", true},
		"a hundred structs deep":  {deep("\x1c", "\x00", 100) + "\x00", false},
		"a hundred lists deep":    {"\x19" + deep("\x19", "", 100) + "\x05\x00", false},
		"a list that is cut off":  {"\x19\x25\x02", false},
		"a double that is cut":    {"\x17\x00\x00", false},
		"a boolean without value": {"\x11\x00", true},
	} {
		err := (&thriftWalk{b: []byte(c.bytes)}).structure(0, nil, nil)
		if (err == nil) != c.ok {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

func TestPageHeaders(t *testing.T) {
	// {1: i32 2, 2: i32 100, 3: i32 40, 7: {1: i32 9, 2: i32 0}}
	h, err := parsePageHeader([]byte("\x15\x04\x15\xc8\x01\x15\x50\x4c\x15\x12\x15\x00\x00\x00rest"))
	if err != nil || h != (pageHeader{kind: dictionaryPage, uncompressed: 100, compressed: 40, values: 9, length: 14}) {
		t.Errorf("%+v, %v", h, err)
	}
	if err := checkFirstPage([]byte("\x15\x04\x15\x0a\x15\x0a\x4c\x15\xfe\xff\xff\xff\x0f\x15\x00\x00\x00")); err == nil {
		t.Error("a dictionary of 5 bytes and two billion values passed")
	}
}

// FuzzCompact walks anything, and nothing that it lets pass may be longer than its bytes.
func FuzzCompact(f *testing.F) {
	f.Add([]byte("\x15\x04\x15\xc8\x01\x15\x50\x4c\x15\x12\x15\x00\x00\x00"))
	f.Add([]byte("\x19\x2c\x16\x08\x15\x14\x16\x00\x00\x16\x1c\x15\x14\x16\x64\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &thriftWalk{b: b}
		if err := w.structure(0, nil, nil); err == nil && w.at > len(b) {
			t.Errorf("walked to %d of %d bytes", w.at, len(b))
		}
		if h, err := parsePageHeader(b); err == nil && h.length > len(b) {
			t.Errorf("a header of %d bytes in %d", h.length, len(b))
		}
		if n := len(parsePlaces(b)); n > len(b) {
			t.Errorf("%d pages in %d bytes", n, len(b))
		}
	})
}
