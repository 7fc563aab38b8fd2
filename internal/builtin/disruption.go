package builtin

// policy has group policy.
func policy() []row { return nil }
