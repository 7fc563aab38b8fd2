package builtin

// storage has group storage.k8s.io.
func storage() []row { return nil }
