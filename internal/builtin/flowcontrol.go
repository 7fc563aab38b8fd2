package builtin

// flowcontrol has group flowcontrol.apiserver.k8s.io.
func flowcontrol() []row { return nil }
