package main

import (
	"io"
	"path/filepath"
	"strings"
)

// program returns the main function for the name under which the binary is called: those of the
// links that kapok envtest creates, and of kubectl plugins. It returns nil for kapok itself.
func program(path string) func(args []string, stdout, stderr io.Writer) int {
	switch strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".exe") {
	case "kube-apiserver":
		return runAPIServer
	case "etcd":
		return runEtcd
	case "kubectl-convert":
		return runConvert
	case "kubectl":
		return func(args []string, _, _ io.Writer) int {
			kubectl(append([]string{path}, args...)) // it exits
			return exitFailure
		}
	}
	return nil
}
