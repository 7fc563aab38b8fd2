package kind

// A Refusal is an error in Kubernetes' words, which start with a capital letter.
type Refusal string

// Error returns the text.
func (r Refusal) Error() string { return string(r) }
