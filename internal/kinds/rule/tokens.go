package rule

// The shortest and the longest lifetime of tokens, in seconds.
const (
	MinTokenSeconds = 10 * 60
	MaxTokenSeconds = 1 << 32
)
