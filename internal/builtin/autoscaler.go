package builtin

// autoscaling has group autoscaling.
func autoscaling() []row { return nil }
