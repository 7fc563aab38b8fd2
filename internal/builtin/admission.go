package builtin

// admission has group admissionregistration.k8s.io.
func admission() []row { return nil }
