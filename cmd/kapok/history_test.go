package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHistory changes an object, lists and shows its revisions, and takes changes back.
func TestHistory(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	s := newShell(t, kubeconfig)
	p := launchIn(t, s, "up", "--in-memory", "--listen=127.0.0.1:0", "--kubeconfig", kubeconfig)
	p.ready(t, kubeconfig)
	must := func(args string) string {
		t.Helper()
		code, out, errs := s.kapok("", args)
		if code != 0 {
			t.Fatalf("kapok %s: %d: %s%s", args, code, out, errs)
		}
		return out
	}
	must("kubectl create configmap moods --from-literal=mood=calm")
	must("kubectl create configmap others --from-literal=a=b")
	must(`kubectl patch configmap moods --field-manager=painter --type=merge -p {"data":{"mood":"loud","hour":"9"}}`)
	must("kubectl label configmap moods seen=yes")
	out := must("history configmap/moods")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	for i, want := range []string{`^REVISION +AGE +MANAGER +CHANGE$`, `^\d+ +\d+\w+ +kubectl-create +created$`, `^\d+ +\d+\w+ +painter +data\.hour, data\.mood$`, `^\d+ +\d+\w+ +kubectl-label +metadata\.labels$`} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d is %q, want %s", i, lines[i], want)
		}
	}
	first, _, _ := strings.Cut(lines[1], " ")
	if out := must("history configmap/moods --revision " + first); !strings.Contains(out, "mood: calm") || strings.Contains(out, "hour") {
		t.Errorf("the first revision:\n%s", out)
	}
	if out := must("history cm/moods --diff"); !strings.Contains(out, "-  mood: calm\n") || !strings.Contains(out, "+  mood: loud\n") || !strings.Contains(out, "+    seen: \"yes\"\n") {
		t.Errorf("the differences:\n%s", out)
	}

	second, _, _ := strings.Cut(lines[2], " ")
	last, _, _ := strings.Cut(lines[3], " ")
	for args, want := range map[string]string{
		"diff configmap/moods":                                     "--- " + second + "\n+++ " + last + "\n",
		"diff configmap/moods --from " + first:                     "--- " + first + "\n+++ " + last + "\n",
		"diff configmap/moods --to " + first:                       "--- /dev/null\n+++ " + first + "\n",
		"diff cm/moods --from " + last + " --to " + first:          "-  hour: \"9\"\n-  mood: loud\n+  mood: calm\n",
		"diff configmap/moods --from " + last + " --to=" + last:    "",
		"diff configmap/moods --from " + first + " --to " + second: "-  mood: calm\n+  hour: \"9\"\n+  mood: loud\n",
	} {
		if out := must(args); !strings.Contains(out, want) || (want == "") != (out == "") {
			t.Errorf("kapok %s:\n%s, want %s", args, out, want)
		}
	}

	if out := must("undo configmap/moods --dry-run"); !strings.Contains(out, "-    seen:") || !strings.Contains(out, "+++ dry run") {
		t.Errorf("a dry run:\n%s", out)
	}
	if out := must("kubectl get configmap moods --show-labels"); !strings.Contains(out, "seen=yes") {
		t.Error("a dry run has changed the object")
	}
	must("undo configmap/moods")
	must("undo configmap/moods --to " + first)
	if out := must("kubectl get configmap moods -o yaml"); !strings.Contains(out, "mood: calm") || strings.Contains(out, "hour") || strings.Contains(out, "seen") {
		t.Errorf("after undo:\n%s", out)
	}
	// A manager that has only removed fields owns none, and is not in the managed fields.
	if out := must("history configmap/moods"); strings.Count(out, "kapok-undo") != 1 || strings.Count(out, "\n") != 6 {
		t.Errorf("the history after undo:\n%s", out)
	}

	for args, want := range map[string]string{
		"history configmap/moods --revision 7": "the server has no revision 7 of the object: the oldest is " + first,
		"diff configmap/moods --from 7":        "the server has no revision 7 of the object: the oldest is " + first,
		"diff configmap/none":                  `configmaps "none" not found`,
		"diff configmap/moods --from=":         "--from must not be empty",
		"undo configmap/others":                "the server has no other state of the object",
		"history configmap/none":               `configmaps "none" not found`,
		"history nothing/none":                 `the server has no kind "nothing"`,
		"undo configmap/moods --to=":           "--to must not be empty",
		"history moods":                        `"moods" is not KIND/NAME`,
		"history":                              "want one KIND/NAME",
	} {
		if code, _, errs := s.kapok("", args); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("kapok %s: %d: %s, want %s", args, code, errs, want)
		}
	}

	if out := must("kubectl explain revision.regarding"); !strings.Contains(out, "resourceVersion\t<string> -required-") || !strings.Contains(out, "such as deployments.apps") {
		t.Errorf("kubectl explain:\n%s", out)
	}

	// Of a new object with an old name, the old one is no state to return to.
	must("kubectl delete configmap moods")
	if out := must("history configmap/moods"); !strings.Contains(out, "deleted") || strings.Count(out, "created") != 1 {
		t.Errorf("the history of a deleted object:\n%s", out)
	}
	if out := must("undo configmap/moods --dry-run"); !strings.Contains(out, "--- /dev/null") || !strings.Contains(out, "+  mood: calm") {
		t.Errorf("a dry run for a deleted object:\n%s", out)
	}
	if code, out, _ := s.kapok("", "kubectl get configmap moods"); code == 0 {
		t.Errorf("a dry run has created the object: %s", out)
	}
	must("undo configmap/moods")
	if out := must("kubectl get configmap moods -o yaml"); !strings.Contains(out, "mood: calm") {
		t.Errorf("created again:\n%s", out)
	}
	must("kubectl delete configmap moods")
	must("kubectl create configmap moods --from-literal=mood=new")
	if out := must("history configmap/moods"); strings.Count(out, "deleted") != 2 || strings.Count(out, "created") != 3 {
		t.Errorf("the history of all objects:\n%s", out)
	}
	if code, _, errs := s.kapok("", "undo configmap/moods --to "+first); code == 0 || !strings.Contains(errs, "of an earlier object of this name") {
		t.Errorf("undo to an earlier object: %d: %s", code, errs)
	}
	if code, _, errs := s.kapok("", "undo configmap/moods"); code == 0 || !strings.Contains(errs, "no other state") {
		t.Errorf("undo of a new object: %d: %s", code, errs)
	}
}
