package rule

import (
	"regexp"
	"testing"
)

func TestPatternThatIsNone(t *testing.T) {
	pattern := Pattern(`a+`)
	if first, second := pattern(), pattern(); first != second {
		t.Error("a pattern is compiled more than once")
	}
	defer func() {
		if recover() == nil {
			t.Error("an invalid pattern compiles")
		}
	}()
	var _ *regexp.Regexp = Pattern(`(`)()
}
