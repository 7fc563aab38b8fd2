package rule

// Repeats returns a function that reports whether it has been called with the same value before. To
// look for each element of a list in those before it costs the square of a list that a client
// sends.
func Repeats[V comparable]() func(V) bool {
	seen := map[V]struct{}{}
	return func(v V) bool {
		before := len(seen)
		seen[v] = struct{}{}
		return len(seen) == before
	}
}
