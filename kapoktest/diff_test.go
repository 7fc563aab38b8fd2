package kapoktest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"
)

const podText = `apiVersion: v1
kind: Pod
metadata:
  generation: 1
  name: p
spec:
  containers:
  - args:
    - --one
    - --two
    - --three
    - --four
    - --five
    image: i
    imagePullPolicy: Always
    name: first
    terminationMessagePath: /dev/termination-log
  - args:
    - --one
    - --two
    - --three
    - --four
    - --five
    env:
    - name: COLOR
      value: red
    image: i
    imagePullPolicy: Always
    name: second
  dnsPolicy: ClusterFirst
status:
  conditions:
  - lastTransitionTime: "2000-01-01T00:00:00Z"
    message: ""
    observedGeneration: 1
    reason: Why
    status: "False"
    type: Ready
  - status: "True"
    type: PodScheduled`

func TestLineDiff(t *testing.T) {
	for _, tc := range []struct {
		name, before, after, want string
		replace                   []string
	}{
		{name: "nothing", want: ""},
		{name: "condition", replace: []string{"2000-01-01T", "2000-01-02T"}, want: `@@ status.conditions[Ready]
    dnsPolicy: ClusterFirst
  status:
    conditions:
-   - lastTransitionTime: "2000-01-01T00:00:00Z"
+   - lastTransitionTime: "2000-01-02T00:00:00Z"
      message: ""
      observedGeneration: 1
      reason: Why
`},
		{name: "containers near each other", replace: []string{"/dev/termination-log\n  - args:\n    - --one", "/other\n  - args:\n    - --none"},
			want: `@@ spec.containers[first]
      image: i
      imagePullPolicy: Always
      name: first
-     terminationMessagePath: /dev/termination-log
+     terminationMessagePath: /other
    - args:
@@ spec.containers[second].args
-     - --one
+     - --none
      - --two
      - --three
      - --four
`},
		{name: "variable", replace: []string{"value: red", "value: green"}, want: `@@ spec.containers[second].env[COLOR]
      - --five
      env:
      - name: COLOR
-       value: red
+       value: green
      image: i
      imagePullPolicy: Always
      name: second
`},
		{name: "top", replace: []string{"kind: Pod\n", ""}, want: `@@
  apiVersion: v1
- kind: Pod
  metadata:
    generation: 1
    name: p
`},
		{name: "far from each other", replace: []string{"generation: 1\n  name", "generation: 2\n  name", `"True"`, `"Unknown"`}, want: `@@ metadata
  apiVersion: v1
  kind: Pod
  metadata:
-   generation: 1
+   generation: 2
    name: p
  spec:
    containers:
@@ status.conditions[PodScheduled]
      reason: Why
      status: "False"
      type: Ready
-   - status: "True"
+   - status: "Unknown"
      type: PodScheduled
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after := strings.NewReplacer(tc.replace...).Replace(podText)
			if got := lineDiff(strings.Split(podText, "\n"), strings.Split(after, "\n")); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// TestRuns checks that the runs turn one text into the other, and that there are no more than
// necessary.
func TestRuns(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	text := func() []string {
		lines := make([]string, r.IntN(12))
		for i := range lines {
			lines[i] = strings.Repeat("  ", r.IntN(3)) + []string{"a:", "- b: c", "-", "- - x", "", "d"}[r.IntN(6)]
		}
		return lines
	}
	for range 5000 {
		before, after := text(), text()
		var made []string
		done, edits := 0, 0
		for _, run := range runs(before, after) {
			made = append(made, before[done:run.from]...)
			made = append(made, after[run.newFrom:run.newTo]...)
			done = run.to
			edits += run.to - run.from + run.newTo - run.newFrom
		}
		made = append(made, before[done:]...)
		if fewest := len(before) + len(after) - 2*common(before, after); fmt.Sprintf("%q", made) != fmt.Sprintf("%q", append([]string(nil), after...)) || edits != fewest {
			t.Fatalf("seed %d: %q to %q: got %q with %d edits, want %d", seed, before, after, made, edits, fewest)
		}
		lineDiff(before, after) // must not panic
	}
}

// common returns the length of the longest common subsequence.
func common(a, b []string) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return 0
	case a[0] == b[0]:
		return 1 + common(a[1:], b[1:])
	}
	return max(common(a[1:], b), common(a, b[1:]))
}

func TestLineDiffOfMany(t *testing.T) {
	before, after := make([]string, 20_000), make([]string, 20_000)
	for i := range before {
		before[i] = fmt.Sprint("a", i)
		after[i] = fmt.Sprint("b", i)
	}
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	text := lineDiff(before, after)
	runtime.ReadMemStats(&is)
	if n := strings.Count(text, "\n"); n != 40_001 {
		t.Errorf("%d lines", n)
	}
	if took := (is.TotalAlloc - was.TotalAlloc) >> 20; took > 100 {
		t.Errorf("took %d MB", took)
	}
}
