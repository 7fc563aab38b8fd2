package rule

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled on first use: most processes need none of
// them.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
