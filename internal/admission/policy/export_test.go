package policy

import (
	"fmt"
	"strings"
)

// Work updates the validating policies, and returns the work of the last step: objects read, and
// policies compiled.
func (p *Policies) Work() (read, compiled int) {
	w := p.validating.load().work
	return w.read, w.compiled
}

// Dump updates the validating policies, and returns those in effect, with their bindings.
func (p *Policies) Dump() string {
	set := p.validating.load()
	var out strings.Builder
	for p := range set.all() {
		fmt.Fprintln(&out, p.name, p.ignores)
		for b := range p.all() {
			fmt.Fprintln(&out, " ", b.name, b.policy, b.actions)
		}
	}
	fmt.Fprintln(&out, set.err, set.stored.Len(), set.bindings.Len(), set.bound.Len())
	return out.String()
}
