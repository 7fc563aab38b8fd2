package corpus

import (
	"cmp"
	"slices"
	"strings"
)

// sortCauses sorts the causes of a Status, and their copy in its message, by field. A message that
// differs from its causes is not changed.
func sortCauses(v any) {
	status, _ := v.(map[string]any)
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	message, _ := status["message"].(string)
	if len(causes) < 2 {
		return
	}
	slices.SortStableFunc(causes, func(a, b any) int { return cmp.Compare(sentence(a), sentence(b)) })
	head, list, found := strings.Cut(message, ": [")
	list, closed := strings.CutSuffix(list, "]")
	if !found || !closed {
		return
	}
	sentences := make([]string, len(causes))
	rest := len(list)
	for i, cause := range causes {
		sentences[i] = sentence(cause)
		if !strings.Contains(list, sentences[i]) {
			return
		}
		rest -= len(sentences[i])
	}
	// Equal sentences occur once, whatever the number of their causes.
	sentences = slices.Compact(sentences)
	if len(sentences) == len(causes) && rest != len(", ")*(len(causes)-1) {
		return
	}
	status["message"] = head + ": [" + strings.Join(sentences, ", ") + "]"
}

// sentence returns the form of a cause in the message of its Status.
func sentence(cause any) string {
	c, _ := cause.(map[string]any)
	field, _ := c["field"].(string)
	text, _ := c["message"].(string)
	return field + ": " + text
}
