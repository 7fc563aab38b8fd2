package translations

import (
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	for args, want := range map[string]bool{
		"kubectl":                            true,
		"/opt/bin/kubectl get pods":          true,
		"KUBECTL.EXE get":                    true,
		"kapok kubectl get pods":             true,
		"/opt/bin/kapok help kubectl":        true,
		"kapok __complete kubectl get ":      true,
		"kapok":                              false,
		"kapok up --data-dir x":              false,
		"kapok up --in-memory --crd kubectl": false,
		"/opt/kubectl/kapok version":         false,
		"etcd":                               false,
		"":                                   false,
	} {
		if got := wanted(strings.Split(args, " ")); got != want {
			t.Errorf("%q: %t, want %t", args, got, want)
		}
	}
	if wanted(nil) {
		t.Error("no arguments at all")
	}
}
