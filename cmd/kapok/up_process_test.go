package main

import (
	"context"
	"strings"
	"testing"
)

func resolver(all ...string) func(context.Context, string) ([]string, error) {
	return func(context.Context, string) ([]string, error) { return all, nil }
}

// TestProcessNode checks when --node process is refused.
func TestProcessNode(t *testing.T) {
	for _, test := range []struct {
		listen string
		node   processNode
		err    string // "" for none
	}{
		{"127.0.0.1:6443", processNode{kind: "process"}, ""},
		{"[::1]:6443", processNode{kind: "process"}, ""},
		{"[::ffff:127.0.0.1]:6443", processNode{kind: "process"}, ""},
		{"localhost:6443", processNode{kind: "process", lookup: resolver("127.0.0.1", "::1")}, ""},
		{"localhost:6443", processNode{kind: "process", lookup: resolver("127.0.0.1", "192.0.2.1")}, "confirm with --node-process-any-listener"},
		{"localhost:6443", processNode{kind: "process", lookup: resolver()}, "confirm with --node-process-any-listener"},
		{"[::]:6443", processNode{kind: "process"}, "confirm with --node-process-any-listener"},
		{"0.0.0.0:6443", processNode{kind: "process"}, "confirm with --node-process-any-listener"},
		{":6443", processNode{kind: "process"}, "confirm with --node-process-any-listener"},
		{"192.0.2.1:6443", processNode{kind: "process"}, "confirm with --node-process-any-listener"},
		{"example.com:6443", processNode{kind: "process"}, "confirm with --node-process-any-listener"},
		{"0.0.0.0:6443", processNode{kind: "process", anyListener: true}, ""},
		{"127.0.0.1:6443", processNode{kind: "container"}, `--node "container": want process`},
		{"127.0.0.1:6443", processNode{images: []string{"a=b"}}, "no effect without --node process"},
		{"127.0.0.1:6443", processNode{isolate: true}, "no effect without --node process"},
		{"127.0.0.1:6443", processNode{kind: "process", images: []string{"nginx"}}, `--image "nginx": want IMAGE=PROGRAM`},
		{"127.0.0.1:6443", processNode{kind: "process", images: []string{"nginx=http://x"}}, "want a path"},
	} {
		node, err := test.node.complete(test.listen)
		switch {
		case test.err == "" && err != nil, test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("--listen %s, %+v: %v, want %q", test.listen, test.node, err, test.err)
		case test.err == "" && node == nil:
			t.Errorf("--listen %s, %+v: no node", test.listen, test.node)
		}
	}
}
