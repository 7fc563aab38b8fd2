package builtin

// services has the kinds in the group "" through which pods are reached.
func services() []row { return nil }
