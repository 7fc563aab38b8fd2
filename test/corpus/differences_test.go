package corpus

import (
	"strings"
	"testing"
)

func TestParseDifferences(t *testing.T) {
	d, err := parseDifferences("# A page\n\nWith text: x.\n\n    list/limit: not yet\n    list/other: for ever: really\n    \n")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.of("list"); len(got) != 2 || got["limit"] != "not yet" || got["other"] != "for ever: really" {
		t.Errorf("got %v", got)
	}
	if got := d.of("absent"); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	for text, want := range map[string]string{
		"    list/limit":                 "line 1",
		"    list: reason":               "line 1",
		"\n    list/limit: ":             "line 2",
		"    list/a: x\n    list/a: y\n": "twice",
	} {
		if _, err := parseDifferences(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		diffs  []string
		fails  bool
	}{
		"equal":                 {},
		"different":             {diffs: []string{"d"}, fails: true},
		"different as known":    {reason: "r", diffs: []string{"d"}},
		"equal though known":    {reason: "r", fails: true},
		"no diffs and no cause": {diffs: nil},
	} {
		v := verdict{name: name, diffs: tc.diffs}
		if got := v.failure(tc.reason) != ""; got != tc.fails {
			t.Errorf("%s: fails is %v", name, got)
		}
	}
}
