package endpoint

import (
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/net"
)

// Limits of the text in the Warning headers of a response, in runes. If there is more than
// maxWarnings, each warning is truncated.
const (
	maxWarnings       = 4 * 1024
	maxWarningWhenCut = 256
)

// warnings are the warnings of a response, without duplicates.
type warnings struct {
	texts   []string
	written int
	cutting bool
}

// warn adds a Warning header. It must be called before the response is sent.
func (c *call) warn(text string) {
	if text == "" {
		return
	}
	w := &c.warnings
	if w.cutting && w.written >= maxWarnings {
		return
	}
	if slices.Contains(w.texts, text) {
		return
	}
	w.texts = append(w.texts, text)
	if !w.cutting && w.written+utf8.RuneCountInString(text) > maxWarnings {
		w.cutting, w.written = true, 0
		c.w.Header().Del("Warning")
		for _, earlier := range w.texts {
			c.addWarning(earlier)
		}
		return
	}
	c.addWarning(text)
}

func (c *call) addWarning(text string) {
	w := &c.warnings
	if runes := []rune(text); w.cutting && len(runes) > maxWarningWhenCut {
		text = string(runes[:maxWarningWhenCut])
	}
	header, err := net.NewWarningHeader(299, "", text)
	if err != nil {
		return // a header cannot contain the text
	}
	w.written += utf8.RuneCountInString(text)
	c.w.Header().Add("Warning", header)
}
