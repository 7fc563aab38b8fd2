// Package gates has the feature gates of Kubernetes 1.37.
//
// Kapok behaves as Kubernetes does with the default of each gate. A gate can be set to its default,
// so that settings of a kube-apiserver can be kept, and few gates can be set to the contrary:
// [Honoured] lists them. All others are rejected, because they would have no effect.
package gates

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Gate is a feature gate of kube-apiserver.
type Gate struct {
	Name string
	// Stage is ALPHA, BETA, DEPRECATED, or empty for a feature that is generally available.
	Stage string
	// Default reports whether the feature is on by default.
	Default bool
	// Locked reports whether kube-apiserver rejects another value than the default.
	Locked bool
}

// Gates that switch a part of the server.
const (
	Flagz   = "ComponentFlagz"
	Statusz = "ComponentStatusz"
)

// The gates that set all gates of a stage.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// list has a gate on each line: the name, the stage, on or off, and whether it is locked. The
// module test/oracle writes it.
//
//go:embed gates.txt
var list string

// All returns the gates in the order of their names. The caller must not change them.
var All = sync.OnceValue(func() []Gate {
	var all []Gate
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		all = append(all, Gate{
			Name: words[0], Stage: strings.TrimPrefix(words[1], "GA"), Default: words[2] == "on", Locked: len(words) > 3,
		})
	}
	return all
})

// Honoured returns the names of the gates that can have another value than their default.
func Honoured() []string { return []string{Flagz, Statusz} }

// Check returns an error for gates that do not exist, and for values that Kapok does not honour.
func Check(set map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := check(name, set[name]); err != nil {
			return err
		}
	}
	return nil
}

func check(name string, on bool) error {
	if name == allAlpha || name == allBeta {
		if name == allAlpha && !on { // as by default
			return nil
		}
		return fmt.Errorf("feature gate %s=%t changes gates that have only their default here: set single gates", name, on)
	}
	g, found := find(name)
	if !found {
		return fmt.Errorf("feature gate %q does not exist in Kubernetes 1.37", name)
	}
	if on == g.Default || slices.Contains(Honoured(), name) {
		return nil
	}
	return fmt.Errorf("feature gate %s=%t is not supported: it is always %t here, the default of Kubernetes 1.37", name, on, g.Default)
}

func find(name string) (Gate, bool) {
	at, found := slices.BinarySearchFunc(All(), name, func(g Gate, name string) int { return strings.Compare(g.Name, name) })
	if !found {
		return Gate{}, false
	}
	return All()[at], true
}

// Enabled reports whether a gate is on, by valid settings or its default.
func Enabled(set map[string]bool, name string) bool {
	if on, found := set[name]; found {
		return on
	}
	g, _ := find(name)
	return g.Default
}
