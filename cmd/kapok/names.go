package main

import (
	"io"
	"path/filepath"
	"strings"
)

// program returns what a binary does that is called by another name than its own, as the links that kapok envtest makes, and plugins
// of kubectl, call it; nil for kapok.
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
