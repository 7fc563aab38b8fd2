package validation

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when something is first matched with it: most programs need none of them.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
