package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	conformancedata "k8s.io/kubernetes/test/conformance/testdata"
	"sigs.k8s.io/yaml"
)

// list is the file with the expected results.
const list = "testdata/specs.txt"

// A spec is a line of the list: a state, a name, and for states other than pass a reason after " #
// ".
type spec struct {
	state  string // pass, fail, or skip: the spec needs what Kapok does not have
	name   string
	reason string
}

func (s spec) String() string {
	line := s.state + " " + s.name
	if s.reason != "" {
		line += " # " + s.reason
	}
	return line
}

// serial reports whether the spec cannot run beside others.
func (s spec) serial() bool {
	return strings.Contains(s.name, "[Serial]") || strings.Contains(s.name, "[Disruptive]")
}

func parse(line string) (spec, error) {
	state, rest, _ := strings.Cut(line, " ")
	name, reason, _ := strings.Cut(rest, " # ")
	s := spec{state: state, name: name, reason: reason}
	switch state {
	case "pass":
		if reason != "" {
			return s, fmt.Errorf("a spec that passes needs no reason: %q", line)
		}
	case "fail", "skip":
		if reason == "" {
			return s, fmt.Errorf("a spec that does not pass needs a reason after \" # \": %q", line)
		}
	default:
		return s, fmt.Errorf("state %q: must be pass, fail or skip", state)
	}
	if name == "" {
		return s, fmt.Errorf("a line without the name of a spec: %q", line)
	}
	return s, nil
}

func read(t *testing.T) []spec {
	t.Helper()
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	var specs []spec
	for line := range strings.Lines(string(text)) {
		s, err := parse(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s:%d: %v", list, len(specs)+1, err)
		}
		specs = append(specs, s)
	}
	return specs
}

func write(t *testing.T, specs []spec) {
	t.Helper()
	slices.SortFunc(specs, func(a, b spec) int { return cmp.Compare(a.name, b.name) })
	var text bytes.Buffer
	for _, s := range specs {
		fmt.Fprintln(&text, s)
	}
	if err := os.WriteFile(list, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// published returns the names of the conformance tests of this release, in the order of the names.
func published(t *testing.T) []string {
	t.Helper()
	text, err := conformancedata.GetConformanceTestdataFS().ReadTestFile("test/conformance/testdata/conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		Codename string `json:"codename"`
	}
	if err := yaml.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(tests))
	for i, test := range tests {
		names[i] = test.Codename
	}
	slices.Sort(names)
	return names
}

// TestList compares the list with the conformance tests that Kubernetes publishes.
func TestList(t *testing.T) {
	want := published(t)
	var got []string
	for _, s := range read(t) {
		got = append(got, s.name)
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s lacks %s", list, name)
		}
	}
	for i, name := range got {
		switch {
		case !slices.Contains(want, name):
			t.Errorf("%s:%d: Kubernetes has no such conformance test: %s", list, i+1, name)
		case i > 0 && got[i-1] >= name:
			t.Errorf("%s:%d: repeated or not in the order of the names: %s", list, i+1, name)
		}
	}
}

// TestREADME compares the figures in documents with the list.
func TestREADME(t *testing.T) {
	count := map[string]int{}
	for _, s := range read(t) {
		count[s.state]++
	}
	passed, all := count["pass"], count["pass"]+count["fail"]
	share, chinese := fmt.Sprintf("all %d", all), "Kapok 全部通过"
	if passed < all {
		share, chinese = fmt.Sprintf("%d of the %d", passed, all), fmt.Sprintf("Kapok 通过 %d 项", passed)
	}
	for file, want := range map[string]string{
		"../../README.md":       fmt.Sprintf("Kapok passes %s [conformance tests](test/conformance/README.md) of Kubernetes that concern the API server alone", share),
		"../../README.zh-CN.md": fmt.Sprintf("也不需要控制器的有 %d 项，%s。", all, chinese),
		"README.md":             fmt.Sprintf("| `pass` | %d | | `fail` | %d | | `skip` | %d |", passed, count["fail"], count["skip"]),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("%s must contain %q, by %s", file, want, list)
		}
	}
}
