package builtin

// scheduling has group scheduling.k8s.io.
func scheduling() []row { return nil }
