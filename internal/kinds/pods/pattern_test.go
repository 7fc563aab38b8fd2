package pods

import (
	"regexp"
	"testing"
)

// TestPatterns compiles the patterns, which are otherwise compiled on first use.
func TestPatterns(t *testing.T) {
	for _, p := range []func() *regexp.Regexp{sysctlName, controlCharacters, netBIOSDomain, dnsDomain, dotsAndSpaces} {
		if again := p(); again != p() || again.String() == "" {
			t.Errorf("%s is compiled more than once", again)
		}
	}
}
