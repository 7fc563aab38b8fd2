package kapoktest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSchedule checks that Explore prints a schedule, with which the scenario fails again with the
// same message.
func TestSchedule(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			found := kapoktest.Exploration(t, 30, s.faults, s.scenario(true))
			lines := strings.SplitAfter(found, "\n")
			n := 1
			for n < len(lines) && strings.HasPrefix(lines[n], "  ") {
				n++
			}
			text := strings.Join(lines[:n], "")
			runs := 0
			again := kapoktest.Exploration(t, 30, s.faults, func(t testing.TB, env *kapoktest.Env) {
				runs++
				s.scenario(true)(t, env)
			}, kapoktest.Schedule("    explore_test.go:12: "+text))
			enough := regexp.MustCompile(`of the \d+ faults`)
			if want := enough.ReplaceAllString(found, fmt.Sprintf("of the %d faults", n-1)); again != want || runs != 1 {
				t.Errorf("after %d runs it finds\n%s\nand not\n%s", runs, again, want)
			}
		})
	}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		for n := range 3 {
			_, err := clientOf(t, env.As("jane")).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			if apierrors.IsInternalError(err) != (n == 1) {
				t.Errorf("request %d: %v", n+1, err)
			}
		}
		if met := env.Faults(); len(met) != 1 {
			t.Errorf("it has met %v", met)
		}
	}, kapoktest.Schedule("seed 7\n ServerError: request 2 of kapoktest.test GET /api/v1/namespaces"))
}

// TestScheduleOfBadText checks that the error about an invalid schedule names the line and the
// expected form.
func TestScheduleOfBadText(t *testing.T) {
	const seed = "seed 1 (KAPOKTEST_SEED=1 runs it alone): 1 of the 4 faults is enough:\n"
	for text, want := range map[string]string{
		"":                                   "empty: want the output of Explore",
		" \n\t":                              "empty: want",
		"seed 1":                             "no fault below the seed",
		"ServerError: request 1 of a GET /x": `line 1: "ServerError: request 1 of a GET /x": want a line that begins with the seed`,
		"seed one\n":                         `line 1: "seed one": want a line that begins with the seed`,
		"seed 99999999999999999999":          "line 1: seed 99999999999999999999: want a number from 0 to 18446744073709551615",
		seed + "ServerErrors: request 1 of a GET /x":            `line 2: unknown fault "ServerErrors": want one of Conflict, ServerError, TooManyRequests, Lost,`,
		seed + "\nMaxDelay: request 1 of a GET /x":              `line 3: unknown fault "MaxDelay"`,
		seed + "ServerError: event 1 of a WATCH /x":             "line 2: ServerError applies to a request: write \"ServerError: request N of REQUEST\"",
		seed + "CutWatch: request 1 of a WATCH /x":              `line 2: CutWatch applies to an event of a watch: write "CutWatch: event N of REQUEST"`,
		seed + "Lost: request 0 of a PUT /x":                    "line 2: request 0: want a number of at least 1",
		seed + "Lost: request 99999999999999999999 of a PUT /x": "want a number of at least 1",
		seed + "Lost: request 1 of a PUT /x\n2 jobs for":        `line 3: "2 jobs for" is not a fault: want FAULT: request N of REQUEST`,
	} {
		said, _ := kapoktest.ExplorationSkipped(t, 3, kapoktest.Faults{}, func(t testing.TB, _ *kapoktest.Env) { t.Error("it runs") }, kapoktest.Schedule(text))
		if !strings.HasPrefix(said, "schedule: ") || !strings.Contains(said, want) || strings.Contains(said, "it runs") {
			t.Errorf("%q: it says %q", text, said)
		}
		if said := fails(t, func(tb testing.TB) { kapoktest.Start(tb, kapoktest.Schedule(text)) }); !strings.Contains(said, want) {
			t.Errorf("%q: Start says %q", text, said)
		}
	}
}
