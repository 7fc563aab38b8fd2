package endpoint

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/net"
)

// How much text the Warning headers of an answer hold, in runes: if there is
// more, each warning is cut.
const (
	maxWarnings       = 4 * 1024
	maxWarningWhenCut = 256
)

// warnings are what a client is told beside the answer, once each.
type warnings struct {
	texts   []string
	written int
	cutting bool
}

// warn adds a Warning header. It must come before the answer.
func (c *call) warn(text string) {
	if text == "" {
		return
	}
	w := &c.warnings
	if w.cutting && w.written >= maxWarnings {
		return
	}
	for _, has := range w.texts {
		if has == text {
			return
		}
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
		return // text that no header can hold
	}
	w.written += utf8.RuneCountInString(text)
	c.w.Header().Add("Warning", header)
}
