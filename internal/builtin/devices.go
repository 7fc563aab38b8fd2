package builtin

// devices has group resource.k8s.io.
func devices() []row { return nil }
