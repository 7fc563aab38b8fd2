package corpus

import (
	"strings"
	"testing"
)

func TestParseDifferences(t *testing.T) {
	d, err := parseDifferences("# A page\n\nWith text: x.\n\n    list/limit: not yet\n    list/other: forever: really\n    \n    rule/a-b: never\n    rule/a-*: later\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"list/limit":    "not yet",
		"list/other":    "forever: really",
		"list/others":   "",
		"rule/a-thing":  "later",
		"rule/a-b":      "never",
		"rules/a-thing": "",
	} {
		file, name, _ := strings.Cut(name, "/")
		if got, found := d.of(file).find(name); got.reason != want || found != (want != "") {
			t.Errorf("%s: got %v", name, got)
		}
	}
	for text, want := range map[string]string{
		"    list/limit":                 "line 1",
		"    list: reason":               "line 1",
		"\n    list/limit: ":             "line 2",
		"    list/a: x\n    list/a: y\n": "twice",
		"    list/*: x\n    list/*: y\n": "twice",
		"    list/[: x\n":                "syntax error",
	} {
		if _, err := parseDifferences(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

func TestJudge(t *testing.T) {
	const one, pattern = "file/case: one", "file/c*: pattern"
	for name, tc := range map[string]struct {
		listed []string
		diffs  []string
		fails  bool // the case
		stale  int  // number of lines
	}{
		"equal":                           {},
		"different":                       {diffs: []string{"d"}, fails: true},
		"different as known":              {listed: []string{one}, diffs: []string{"d"}},
		"equal though known":              {listed: []string{one}, fails: true},
		"different by a pattern":          {listed: []string{pattern}, diffs: []string{"d"}},
		"equal by a pattern":              {listed: []string{pattern}, stale: 1},
		"different by both":               {listed: []string{pattern, one}, diffs: []string{"d"}},
		"equal by both":                   {listed: []string{pattern, one}, fails: true, stale: 1},
		"listed, and there is no case":    {listed: []string{"file/other: r"}, stale: 1},
		"different, and another is known": {listed: []string{"file/d*: r"}, diffs: []string{"d"}, fails: true, stale: 1},
		"different, and known elsewhere":  {listed: []string{"elsewhere/case: r"}, diffs: []string{"d"}, fails: true},
	} {
		all, err := parseDifferences(indent + strings.Join(tc.listed, "\n"+indent))
		if err != nil {
			t.Fatal(err)
		}
		listed, v := all.of("file"), &verdict{name: "case", diffs: tc.diffs}
		if got := v.failure(listed) != ""; got != tc.fails {
			t.Errorf("%s: fails is %v", name, got)
		}
		if got := listed.stale([]*verdict{v}); len(got) != tc.stale {
			t.Errorf("%s: stale is %q", name, got)
		}
	}
}
