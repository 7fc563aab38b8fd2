// Package gates has the feature gates of Kubernetes, as they are in a release of it.
//
// Kapok behaves as Kubernetes does with the settings of the gates that [Followed] lists, and with
// the defaults of Kubernetes 1.37 of all others. Another gate can be set to its default, so that
// settings of a kube-apiserver can be kept; other values are rejected, because they would have no
// effect.
package gates

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/emulation"
)

// A Gate is a feature gate of kube-apiserver in one release.
type Gate struct {
	Name string
	// Stage is ALPHA, BETA, DEPRECATED, or empty for a feature that is generally available.
	Stage string
	// Default reports whether the feature is on by default.
	Default bool
	// Locked reports whether kube-apiserver rejects another value than the default.
	Locked bool
}

// The gates that set all gates of a stage.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// Settings are the values of the gates of a server.
type Settings struct {
	// Release is the release whose gates and defaults apply.
	Release emulation.Release
	// Set are the gates that do not have their default.
	Set map[string]bool
}

// list has a gate on each line: its name, and what it is from which release on, such as
// 1.36=BETA,on or 1.37=GA,on,locked. The module test/oracle writes it.
//
//go:embed gates.txt
var list string

// A row is a gate in all releases.
type row struct {
	name   string
	states []state // the oldest first
}

// A state is a gate from a release on.
type state struct {
	since      emulation.Release
	stage      string
	on, locked bool
}

// rows returns the gates in the order of their names. The caller must not change them.
var rows = sync.OnceValue(func() []row {
	all := make([]row, 0, strings.Count(list, "\n"))
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		r := row{name: words[0], states: make([]state, 0, len(words)-1)}
		for _, word := range words[1:] {
			version, what, _ := strings.Cut(word, "=")
			stage, value, _ := strings.Cut(what, ",")
			minor, _ := strconv.Atoi(strings.TrimPrefix(version, "1."))
			r.states = append(r.states, state{
				since: emulation.Release(minor), stage: strings.TrimPrefix(stage, "GA"),
				on: strings.HasPrefix(value, "on"), locked: strings.HasSuffix(value, ",locked"),
			})
		}
		all = append(all, r)
	}
	return all
})

// in returns the gate in a release, and false if the release does not have it.
func (r *row) in(release emulation.Release) (Gate, bool) {
	for _, s := range slices.Backward(r.states) {
		if s.since <= release {
			return Gate{Name: r.name, Stage: s.stage, Default: s.on, Locked: s.locked}, true
		}
	}
	return Gate{}, false
}

// All returns the gates of a release in the order of their names.
func All(release emulation.Release) []Gate {
	var all []Gate
	for _, r := range rows() {
		if g, found := r.in(release); found {
			all = append(all, g)
		}
	}
	return all
}

// find returns the gate of a release.
func find(release emulation.Release, name string) (Gate, bool) {
	all := rows()
	at, found := slices.BinarySearchFunc(all, name, func(r row, name string) int { return strings.Compare(r.name, name) })
	if !found {
		return Gate{}, false
	}
	return all[at].in(release)
}

// Check returns an error for gates that the release does not have, and for values that it does not
// permit or that would have no effect.
func (s Settings) Check() error {
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		if err := s.check(name, s.Set[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s Settings) check(name string, on bool) error {
	if name == allAlpha || name == allBeta {
		if name == allAlpha && !on { // as by default
			return nil
		}
		return fmt.Errorf("feature gate %s=%t changes gates that have only their default here: set single gates", name, on)
	}
	g, found := find(s.Release, name)
	switch {
	case !found:
		return fmt.Errorf("feature gate %q does not exist in Kubernetes %s", name, s.Release)
	case on == g.Default:
		return nil
	case g.Locked:
		return fmt.Errorf("feature gate %s=%t is not possible: Kubernetes %s has locked it to %t", name, on, s.Release, g.Default)
	case !slices.Contains(Followed(), name):
		return fmt.Errorf("feature gate %s=%t is not supported: it is always %t here, the default of Kubernetes %s", name, on, g.Default, s.Release)
	}
	return nil
}

// Enabled reports whether a gate is on, by valid settings or its default. One that the release does
// not have is off.
func (s Settings) Enabled(name string) bool {
	if on, found := s.Set[name]; found {
		return on
	}
	g, _ := find(s.Release, name)
	return g.Default
}
