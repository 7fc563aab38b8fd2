package batch

import "testing"

func TestParseIndexes(t *testing.T) {
	for _, c := range []struct {
		text  string
		count int32
		err   string
	}{
		{"", 0, ""},
		{"0,2-4,9", 5, ""},
		{"1-2-3", 0, `the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'`},
		{"x", 0, `cannot convert string to integer for index: "x"`},
		{"-1", 0, `cannot convert string to integer for index: ""`},
		{"10", 0, `too large index: "10"`},
		{"2-2", 0, `non-increasing order, previous: 2, current: 2`},
		{"3,2", 0, `non-increasing order, previous: 3, current: 2`},
	} {
		set, err := parseIndexes(c.text, 10)
		if message := ""; err != nil {
			message = err.Error()
			if message != c.err {
				t.Errorf("%s: got %s, want %s", c.text, message, c.err)
			}
		} else if c.err != "" || set.count() != c.count {
			t.Errorf("%s: got %v, want %d %s", c.text, set, c.count, c.err)
		}
	}
	for _, c := range []struct {
		a, b  string
		index int32
		ok    bool
	}{{"1,3-5", "2,5", 5, true}, {"1,3", "2,4", 0, false}, {"", "1", 0, false}, {"0-9", "4-5", 4, true}} {
		a, _ := parseIndexes(c.a, 10)
		b, _ := parseIndexes(c.b, 10)
		if index, ok := a.overlap(b); index != c.index || ok != c.ok {
			t.Errorf("%s and %s: got %d %v, want %d %v", c.a, c.b, index, ok, c.index, c.ok)
		}
	}
}
