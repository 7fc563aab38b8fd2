package validation

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

// TestPatterns compiles what is otherwise compiled when it is first needed.
func TestPatterns(t *testing.T) {
	all := append(slices.Collect(maps.Values(iscsiNames)),
		celIdentifier, zonePart, nodeFeature, semver, sysctlName, controlCharacters, netBIOSDomain, dnsDomain, dotsAndSpaces)
	for _, p := range all {
		if again := p(); again != p() || again.String() == "" {
			t.Errorf("%s is compiled more than once", again)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a pattern that is none compiles")
		}
	}()
	var _ *regexp.Regexp = pattern(`(`)()
}
