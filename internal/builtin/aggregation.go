package builtin

// aggregation has group apiregistration.k8s.io.
func aggregation() []row { return nil }
